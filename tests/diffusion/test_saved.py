"""A fitted diffusion tree on disk: what `dtree.open` gives back is what `dtree.save` was given."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dtree
from dtree.diffusion.prior import sample_data

ROWS = sample_data(15, 2, noise=0.02, rng=np.random.default_rng(0))[0]
QUICK = {"n_permutations": 1, "search_steps": 5, "posterior_sweeps": 2, "random_state": 0}


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({}, ROWS),
        ({"posterior_sweeps": 0, "scaling": "standardize"}, np.where(ROWS.max() == ROWS, np.nan, ROWS)),
        ({"inference": "mcmc", "mcmc_draws": 3, "mcmc_warmup": 1}, ROWS),
        ({"likelihood": "probit"}, (ROWS > 0).astype(float)),
        ({"max_leaves": 6}, ROWS),
    ],
    ids=["laplace", "missing", "mcmc", "probit", "atoms"],
)
def test_saved_and_opened(options, rows, tmp_path):
    model = dtree.DiffusionTree(**{**QUICK, **options}).fit(pd.DataFrame(rows, columns=["a", "b"]))
    dtree.save(model, tmp_path / "run.zarr")
    again = dtree.open(tmp_path / "run.zarr")
    frame = pd.DataFrame(rows, columns=["a", "b"])
    assert again.get_params() == model.get_params()
    assert again.feature_names_in_.tolist() == ["a", "b"]
    assert np.array_equal(again.score_samples(frame), model.score_samples(frame))
    assert np.array_equal(again.predict(frame), model.predict(frame))
    assert np.array_equal(again.labels_, model.labels_)
    assert np.array_equal(again.log_evidences_, model.log_evidences_, equal_nan=True)
    assert np.array_equal(again.sample(5, random_state=1), model.sample(5, random_state=1))


@pytest.mark.parametrize("n_trees", [1, 2])
def test_a_probit_tree_keeps_its_own_sites(n_trees, tmp_path):
    """The sites of a tree are those of its own times, also when it is the only one."""
    rows = (ROWS > 0).astype(float)
    model = dtree.DiffusionTree(likelihood="probit", n_trees=n_trees, **QUICK).fit(rows)
    dtree.save(model, tmp_path / "run.zarr")
    again = dtree.open(tmp_path / "run.zarr")
    assert np.array_equal(again.score_samples(rows), model.score_samples(rows))
    assert np.array_equal(again.predict(rows), model.predict(rows))
    for found, expected in zip(again.node_locations(), model.node_locations(), strict=True):
        assert np.array_equal(found, expected)


def test_columns_left_out_are_remembered(tmp_path):
    rows = np.insert(ROWS, 1, 7.0, axis=1)
    model = dtree.DiffusionTree(**QUICK).fit(rows)
    dtree.save(model, tmp_path / "run.zarr")
    again = dtree.open(tmp_path / "run.zarr")
    assert again.columns_.tolist() == [0, 2]
    assert again.n_features_in_ == 3
    assert np.array_equal(again.score_samples(rows), model.score_samples(rows))
    assert np.array_equal(again.sample(4, random_state=2), model.sample(4, random_state=2))


def test_what_is_not_fitted_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted yet"):
        dtree.save(dtree.DiffusionTree(), tmp_path / "run.zarr")


def test_a_changed_run_gets_one_sentence(tmp_path):
    import zarr

    dtree.save(dtree.DiffusionTree(**QUICK).fit(ROWS), tmp_path / "run.zarr")
    for name, value in (("best/parent", 10**6), ("weights", 7.0)):
        array = zarr.open_array(str(tmp_path / "run.zarr" / "kept" / name), mode="r+")
        kept = array[...]
        array[...] = np.full_like(kept, value)
        with pytest.raises(ValueError, match=r"cannot be opened|damaged"):
            dtree.open(tmp_path / "run.zarr")
        array[...] = kept
    assert dtree.open(tmp_path / "run.zarr").labels_.size == 15
