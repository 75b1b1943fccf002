"""What other programs make of what dtree gives them: SciPy, phylogenetics, ArviZ, xarray, scikit-learn, AnnData."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import arviz_base
import arviz_stats
import numpy as np
import pandas
import pytest
import xarray
from scipy.cluster.hierarchy import dendrogram, fcluster, is_valid_linkage
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dtree
from dtree.core.partition import canonical_labels
from dtree.datasets import nested_creatures
from tests.newick import read_newick
from tests.tables import people_with_holes

DATA = nested_creatures(27)
FRAME = pandas.DataFrame(DATA.X, index=DATA.row_names, columns=DATA.feature_names)
# Names that a careless writer or reader would break.
HARD_NAMES = [f"it's {name}, (no; [1])" if i % 5 == 0 else name for i, name in enumerate(DATA.row_names)]


@pytest.fixture(scope="module")
def tree() -> Any:
    return dtree.BHC("gaussian-diag").fit(FRAME)


@pytest.fixture(scope="module")
def diffusion() -> Any:
    return dtree.DiffusionTree(random_state=0, n_permutations=1, search_steps=5, posterior_sweeps=0).fit(FRAME)


@pytest.fixture(scope="module")
def chains() -> Any:
    model = dtree.DPMixtureMCMC("gibbs", "gaussian-diag", chains=2, draws=30, warmup=10, random_state=0)
    return model.fit(FRAME.to_numpy())


def _clades(linkage: np.ndarray, names: list[str]) -> set[frozenset[str]]:
    """The names below every inner node of a linkage matrix."""
    below = [frozenset([name]) for name in names]
    for left, right in linkage[:, :2].astype(int):
        below.append(below[left] | below[right])
    return set(below[len(names) :])


# SciPy ----------------------------------------------------------------------------------------------------------------


def test_scipy_draws_and_cuts_the_same_tree(tree: Any) -> None:
    drawn = dendrogram(tree.linkage_, labels=tree.row_names_.tolist(), no_plot=True)
    assert sorted(drawn["ivl"]) == sorted(DATA.row_names)
    flat = fcluster(tree.linkage_, np.log(2.0) + 1e-9, "distance")
    assert np.array_equal(canonical_labels(flat), tree.labels_)


def test_scipy_takes_diffusion_trees(diffusion: Any) -> None:
    linkage = diffusion.tree_.to_linkage()
    assert is_valid_linkage(linkage)
    assert sorted(dendrogram(linkage, labels=DATA.row_names, no_plot=True)["ivl"]) == sorted(DATA.row_names)


# Newick ---------------------------------------------------------------------------------------------------------------


def _leaves(nested: Any) -> list[str]:
    return [nested] if isinstance(nested, str) else [name for part in nested for name in _leaves(part)]


def test_newick_read_back_is_the_same_tree(tree: Any) -> None:
    nested, depth = read_newick(tree.tree_.to_newick(HARD_NAMES))

    def groups(part: Any, found: set[frozenset[str]]) -> set[frozenset[str]]:
        if not isinstance(part, str):
            found.add(frozenset(_leaves(part)))
            for child in part:
                groups(child, found)
        return found

    assert groups(nested, set()) == _clades(tree.linkage_, HARD_NAMES)
    np.testing.assert_allclose(list(depth.values()), tree.linkage_[-1, 2], rtol=1e-4)


@pytest.mark.parametrize("kind", ["tree", "diffusion"])
def test_newick_read_by_a_phylogenetics_library(kind: str, request: pytest.FixtureRequest) -> None:
    dendropy = pytest.importorskip("dendropy", reason="DendroPy is not installed: pip install dendropy")
    found = request.getfixturevalue(kind).tree_
    read = dendropy.Tree.get(data=found.to_newick(HARD_NAMES), schema="newick", preserve_underscores=True)
    clades = {
        frozenset(leaf.taxon.label for leaf in node.leaf_iter()) for node in read.postorder_internal_node_iter()
    }  # fmt: skip
    assert clades == _clades(found.to_linkage(), HARD_NAMES)
    distances = read.calc_node_root_distances(return_leaf_distances_only=True)
    np.testing.assert_allclose(distances, distances[0], rtol=1e-3)  # all leaves stand at the same height


# ArviZ and xarray -----------------------------------------------------------------------------------------------------


def test_arviz_summarises_the_draws(chains: Any) -> None:
    summary = arviz_stats.summary(chains.posterior_, var_names=["n_clusters", "alpha"])
    assert list(summary.index) == ["n_clusters", "alpha"]
    assert np.isfinite(summary.loc["alpha", ["ess_bulk", "r_hat"]].to_numpy(dtype=float)).all()
    flat = arviz_base.extract(chains.posterior_, var_names=["alpha"])
    assert flat.sizes["sample"] == 60


def test_xarray_writes_and_reads_the_draws(chains: Any, tmp_path: Path) -> None:
    draws = chains.posterior_["posterior"]
    assert draws["n_clusters"].dims == ("chain", "draw")
    assert float(draws["n_clusters"].mean()) == pytest.approx(draws["n_clusters"].to_numpy().mean())
    chains.posterior_.to_zarr(tmp_path / "draws.zarr", zarr_format=3, consolidated=False)
    again = xarray.open_datatree(tmp_path / "draws.zarr", engine="zarr", consolidated=False)
    xarray.testing.assert_equal(again["posterior"].to_dataset(), draws.to_dataset())


def test_a_data_array_is_an_array(tree: Any) -> None:
    rows = xarray.DataArray(DATA.X, dims=("creature", "measurement"))
    assert np.array_equal(dtree.BHC("gaussian-diag").fit(rows).labels_, tree.labels_)


# scikit-learn ---------------------------------------------------------------------------------------------------------


def test_in_a_pipeline() -> None:
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), dtree.BHC("gaussian-diag"))
    labels = pipeline.fit_predict(FRAME)
    assert len(set(labels)) == 9
    assert pipeline[-1].feature_names_in_.tolist() == DATA.feature_names
    assert np.array_equal(pipeline.predict(FRAME), labels)


def test_in_a_grid_search_by_held_out_density() -> None:
    search = GridSearchCV(dtree.BHC(), {"family": ["gaussian-diag", "gaussian"], "cut": [0.5]}, cv=3)
    search.fit(DATA.X)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert search.best_estimator_.n_clusters_ >= 3


def test_mixtures_in_a_grid_search() -> None:
    grid = {"dpmixturevb__variant": ["TSB", "O-CTSB"], "dpmixturevb__truncation": [5, 12]}
    pipeline = make_pipeline(StandardScaler(), dtree.DPMixtureVB(family="gaussian-diag", max_iter=30, random_state=0))
    search = GridSearchCV(pipeline, grid, cv=2).fit(DATA.X)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    assert search.best_estimator_[-1].n_clusters_ >= 3


# AnnData --------------------------------------------------------------------------------------------------------------


def test_labels_and_tree_live_in_anndata(tree: Any, tmp_path: Path) -> None:
    anndata = pytest.importorskip("anndata", reason="anndata is not installed: pip install anndata")
    plain = {side: pandas.DataFrame(index=pandas.Index(names, dtype=object)) for side, names in (("obs", DATA.row_names), ("var", DATA.feature_names))}  # fmt: skip  # noqa: E501
    annotated = anndata.AnnData(DATA.X, **plain)
    model = dtree.BHC("gaussian-diag").fit(annotated)
    assert model.row_names_.tolist() == DATA.row_names
    assert model.feature_names_in_.tolist() == DATA.feature_names
    assert np.array_equal(model.labels_, tree.labels_)
    annotated.obs["cluster"] = pandas.Categorical(model.labels_)
    annotated.uns["tree"] = {"linkage": model.linkage_, "newick": model.tree_.to_newick(model.row_names_)}
    annotated.write_h5ad(tmp_path / "creatures.h5ad")
    again = anndata.read_h5ad(tmp_path / "creatures.h5ad")
    assert again.obs["cluster"].astype(int).tolist() == model.labels_.tolist()
    assert sorted(_leaves(read_newick(str(again.uns["tree"]["newick"]))[0])) == sorted(DATA.row_names)
    assert np.array_equal(again.uns["tree"]["linkage"], model.linkage_)


def test_obs_of_anndata_is_a_table() -> None:
    anndata = pytest.importorskip("anndata", reason="anndata is not installed: pip install anndata")
    frame = people_with_holes().set_index("name")
    frame["city"] = frame["city"].astype("category")
    annotated = anndata.AnnData(np.zeros((len(frame), 1)), obs=frame)
    model = dtree.BHC().fit(annotated.obs)
    kinds = {column.name: column.kind for column in model.kinds_}
    assert kinds == {"height": "real", "city": "category", "visits": "count", "member": "binary", "born": "real"}
    assert model.row_names_.tolist() == frame.index.tolist()
    assert np.array_equal(model.labels_, dtree.BHC().fit(frame).labels_)
    assert not np.isnan(model.impute(annotated.obs)).any()
