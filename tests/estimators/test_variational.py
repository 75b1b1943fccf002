"""`DPMixtureVB` on files, Dask collections and a cluster: one answer, to the bit, and names that survive."""

from __future__ import annotations

import dask.array
import dask.dataframe
import numpy as np
import pandas
import pytest
import zarr
from scipy import sparse

import dtree
from dtree.core.families import Gaussian, moments_of
from dtree.engine.cluster import cluster_client
from tests.methods.test_variational import rows

X = rows(800, k=5)
NAMES = ["length", "width", "height"]
FRAME = pandas.DataFrame(X, columns=NAMES, index=[f"leaf {i}" for i in range(len(X))])
SETTINGS = {
    "variant": "O-CTSB", "family": Gaussian.defaults(moments_of(X), share=0.05), "truncation": 8, "init": "kmeans",
    "split_merge": 0, "max_iter": 4, "tol": 0.0, "random_state": 3, "sample_rows": 600,
}  # fmt: skip


def _numbers(model):
    arrays = (model.labels_, model.weights_, model.statistics_, model.elbo_trace_, model.means_)
    return [array.tobytes() for array in arrays]


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """A fit by passes in this process (there are more rows than `sample_rows`), and the rows in files of every kind."""
    folder = tmp_path_factory.mktemp("files")
    np.save(folder / "x.npy", X)
    np.savez(folder / "x.npz", X=X, feature_names=NAMES)
    FRAME.to_csv(folder / "x.csv", index_label="name")
    FRAME.to_parquet(folder / "x.parquet")
    zarr.create_array(str(folder / "x.zarr"), data=X, chunks=(300, 3), attributes={"feature_names": NAMES})
    return folder, dtree.DPMixtureVB(**SETTINGS, out=folder / "run").fit(X)


@pytest.mark.parametrize("ending", ["npy", "npz", "csv", "parquet", "zarr"])
def test_files_of_every_kind(reference, ending):
    folder, expected = reference
    model = dtree.DPMixtureVB(**SETTINGS).fit(folder / f"x.{ending}")
    assert _numbers(model) == _numbers(expected)
    assert model.family is SETTINGS["family"]  # parameters stay as they were given
    for method in ("predict", "score_samples", "predict_proba"):
        assert np.array_equal(getattr(model, method)(str(folder / f"x.{ending}")), getattr(expected, method)(X))
    if ending != "npy":
        assert model.feature_names_in_.tolist() == NAMES
        assert list(model.component_frame().columns) == NAMES
        assert model.component_frame("covariances").loc[(0, "width"), "height"] == model.covariances_[0, 1, 2]
    if ending in ("csv", "parquet"):
        assert model.row_names_[:2].tolist() == ["leaf 0", "leaf 1"]


def test_dask_collections_frames_and_sparse_rows(reference):
    _, expected = reference
    framed = dask.dataframe.from_pandas(FRAME.reset_index(drop=True), npartitions=3)
    for data in (dask.array.from_array(X, chunks=(250, 2)), framed):
        model = dtree.DPMixtureVB(**SETTINGS).fit(data)
        assert _numbers(model) == _numbers(expected)
        assert np.array_equal(model.predict(data), expected.labels_)
    assert model.feature_names_in_.tolist() == NAMES
    counts = sparse.random(60, 12, 0.4, format="csr", random_state=0, data_rvs=lambda n: np.ones(n))
    settings = {**SETTINGS, "family": "multinomial", "truncation": 4}
    model = dtree.DPMixtureVB(**settings).fit(counts)
    assert np.array_equal(model.predict(counts), model.labels_)


def test_any_number_of_workers_gives_the_same_bits(reference, client):
    folder, expected = reference
    assert _numbers(dtree.DPMixtureVB(**SETTINGS, client=client).fit(FRAME)) == _numbers(expected)
    with cluster_client(n_workers=1, processes=False, warm=False) as one:
        assert _numbers(dtree.DPMixtureVB(**SETTINGS, client=one).fit(folder / "x.zarr")) == _numbers(expected)


def test_the_folder_asked_for_is_a_run_that_opens_with_its_names(reference, tmp_path):
    folder, expected = reference
    dtree.DPMixtureVB(**SETTINGS, out=tmp_path / "run").fit(folder / "x.csv")
    opened = dtree.open(tmp_path / "run")
    assert _numbers(opened) == _numbers(expected)
    assert opened.feature_names_in_.tolist() == NAMES
    assert opened.row_names_.tolist() == list(FRAME.index)
    dtree.save(opened, tmp_path / "saved.zarr")
    saved = dtree.open(tmp_path / "saved.zarr")
    assert _numbers(saved) == _numbers(expected)
    assert saved.feature_names_in_.tolist() == NAMES


def test_columns_are_found_by_name(tmp_path):
    FRAME[["height", "length", "width"]].to_csv(tmp_path / "turned.csv", index=False)
    model = dtree.DPMixtureVB(**SETTINGS).fit(FRAME)
    assert np.array_equal(model.predict(tmp_path / "turned.csv"), model.labels_)
    FRAME[["height"]].to_csv(tmp_path / "short.csv", index=False)
    with pytest.raises(ValueError, match="lack features that the run was fitted on: 'length', 'width'"):
        model.predict(tmp_path / "short.csv")


def test_batches_may_be_files(reference):
    folder, _ = reference
    settings = {**SETTINGS, "variant": "FSD"}
    model, same = dtree.DPMixtureVB(**settings), dtree.DPMixtureVB(**settings)
    for _ in range(2):
        model.partial_fit(folder / "x.csv", batch="a")
        same.partial_fit(FRAME, batch="a")
    assert model.elbo_ == same.elbo_
    assert model.elbo_trace_[1] >= model.elbo_trace_[0]


def test_a_second_fit_leaves_nothing_of_the_first(reference):
    folder, expected = reference
    model = dtree.DPMixtureVB(**SETTINGS).fit(folder / "x.csv")
    model.fit(folder / "x.npy")
    assert not hasattr(model, "feature_names_in_")
    assert not hasattr(model, "row_names_")
    assert _numbers(model) == _numbers(expected)


@pytest.mark.parametrize("name", ["sample_weight", "warm_start"])
def test_what_passes_cannot_do_is_said(reference, name):
    folder, _ = reference
    with pytest.raises(ValueError, match=f"{name} works for arrays in this process only"):
        dtree.DPMixtureVB(warm_start=name == "warm_start").fit(
            folder / "x.npy", sample_weight=np.ones(len(X)) if name == "sample_weight" else None
        )
