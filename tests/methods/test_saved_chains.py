"""A fitted DPMixtureMCMC on disk: the same again, bit for bit, and able to go on."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest

import dtree
from dtree.core.families import DiagonalGaussian
from dtree.mcmc.run import SAMPLERS, Draws


def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.array([[0.0, 0.0], [8.0, 0.0]])[np.arange(30) % 2] + rng.normal(size=(30, 2))


def fitted(**changes) -> dtree.DPMixtureMCMC:
    family = DiagonalGaussian([4.0, 0.0], 0.05, 3.0, [3.0, 3.0])
    settings = {"family": family, "prior": "nggp", "chains": 2, "draws": 20, "warmup": 10, "random_state": 0}
    weight = np.ones(30)
    weight[3] = 0
    return dtree.DPMixtureMCMC(**{**settings, **changes}).fit(rows(), sample_weight=weight)


def test_opened_chains_are_the_same_and_go_on(tmp_path):
    model = fitted()
    dtree.save(model, tmp_path / "run.zarr")
    again = dtree.open(tmp_path / "run.zarr")
    assert again.get_params().keys() == model.get_params().keys()
    assert again.prior == "nggp"
    assert np.array_equal(again.partitions_, model.partitions_)
    assert again.partitions_.shape == (2, 20, 30)
    assert again._fitted.draws.labels.dtype == np.uint8  # as it is stored
    assert again.posterior_.equals(model.posterior_)
    assert np.array_equal(again.labels_, model.labels_)
    assert np.array_equal(again.score_samples(rows()), model.score_samples(rows()))
    more, twin = again.more_draws(5), model.more_draws(5)
    assert np.array_equal(more.partitions_, twin.partitions_)
    assert more.posterior_.equals(twin.posterior_)


def test_what_cannot_be_saved_or_opened_is_named(tmp_path):
    with pytest.raises(ValueError, match="not fitted yet"):
        dtree.save(dtree.DPMixtureMCMC(), tmp_path / "run.zarr")
    dtree.save(fitted(sampler="gibbs"), tmp_path / "run.zarr")
    header = tmp_path / "run.zarr" / "zarr.json"
    document = json.loads(header.read_text())
    document["attributes"]["dtree"]["results"].pop("model")
    header.write_text(json.dumps(document))
    with pytest.raises(ValueError, match="missing required field 'model'"):
        dtree.open(tmp_path / "run.zarr")


def test_names_and_labels_of_rows_that_do_not_count_stay(tmp_path):
    import pandas

    frame = pandas.DataFrame(rows(), columns=["width", "height"], index=[f"r{i}" for i in range(30)])
    model = dtree.DPMixtureMCMC("gibbs", "gaussian-diag", chains=1, draws=10, warmup=5, random_state=0)
    weight = np.ones(30)
    weight[3] = 0
    dtree.save(model.fit(frame, sample_weight=weight), tmp_path / "run.zarr")
    again = dtree.open(tmp_path / "run.zarr")
    assert again.row_names_.tolist() == list(frame.index)
    assert again.feature_names_in_.tolist() == ["width", "height"]
    assert again.labels_.shape == (30,)
    again.more_draws(3)
    assert again.row_names_.tolist() == [name for name in frame.index if name != "r3"]
    assert again.labels_.shape == (29,)
    dtree.save(again, tmp_path / "more.zarr")
    longer = dtree.open(tmp_path / "more.zarr")
    assert longer.partitions_.shape == (1, 13, 29)
    assert (longer.draws, longer.warmup) == (13, 5)


def test_what_was_found_is_not_looked_for_again(tmp_path, monkeypatch):
    model = fitted()
    dtree.save(model, tmp_path / "run.zarr")
    monkeypatch.setattr("dtree.methods.chains.best_partition", lambda *given: pytest.fail("the point estimate is kept"))
    assert np.array_equal(dtree.open(tmp_path / "run.zarr").labels_, model.labels_)


def test_other_programs_read_the_posterior_of_a_saved_model(tmp_path):
    import xarray

    model = fitted()
    dtree.save(model, tmp_path / "run.zarr")
    stored = xarray.open_datatree(str(tmp_path / "run.zarr" / "posterior"), engine="zarr", consolidated=False)
    assert np.array_equal(stored["posterior"]["log_joint"], model.posterior_["posterior"]["log_joint"])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"atoms": np.zeros((29, 2))}, "the statistics of its leaves have not 5 columns"),
        ({"leaf_clusters": np.full(29, 3)}, "its point estimate is not one cluster per leaf"),
        ({"columns": np.array([0, 2])}, "its columns are not distinct numbers below"),
        ({"stops": []}, "its chains have not each a checkpoint"),
        ({"sampler": "hmc"}, "unknown sampler 'hmc'"),
        ({"labels": np.zeros((2, 20, 3), np.uint8)}, "its partitions are not labels by chain, draw and leaf"),
        ({"labels": np.full((2, 20, 29), 29, np.uint8)}, "its partitions hold impossible labels"),
        ({"prior": np.zeros((2, 20, 7))}, "its draws of the prior's parameters do not fit its prior"),
        ({"seconds": np.zeros((2, 19))}, "its draws of seconds are not one per partition"),
        ({"generator": np.zeros(5, np.uint64)}, "the checkpoint of chain 1 does not fit its leaves"),
        ({"state_guide_left": np.full(28, 1 << 40)}, "the checkpoint of chain 1 does not fit its leaves"),
        ({"state_labels": None}, "chain 1 has no complete checkpoint"),
    ],
)
def test_records_whose_pieces_do_not_fit_are_named(changes, sentence):
    model = fitted()
    found, (name, value) = model._fitted, next(iter(changes.items()))
    if name in found.__struct_fields__:
        wrong = msgspec.structs.replace(found, **changes)
    elif name in Draws._fields:
        wrong = msgspec.structs.replace(found, draws=found.draws._replace(**changes))
    else:
        stop = {key: array for key, array in found.stops[1].items() if key != name}
        stop |= {} if value is None else {name: value}
        wrong = msgspec.structs.replace(found, stops=[found.stops[0], stop])
    model._method.check(found, model._run.header)
    with pytest.raises(ValueError, match=sentence):
        model._method.check(wrong, model._run.header)


@pytest.mark.parametrize("sampler", list(SAMPLERS))
def test_a_checkpoint_of_any_sampler_comes_back_as_it_was(tmp_path, sampler):
    model = dtree.DPMixtureMCMC(sampler, "gaussian-diag", chains=1, draws=5, warmup=5, random_state=0).fit(rows())
    dtree.save(model, tmp_path / "run.zarr")
    (found,), (there,) = dtree.open(tmp_path / "run.zarr").checkpoints_, model.checkpoints_
    assert found.keys() == there.keys()
    for name, value in there.items():
        assert found[name].dtype == value.dtype, name
        assert found[name].shape == value.shape, name
        assert np.array_equal(found[name], value, equal_nan=True), name
