"""`dtree.tl` and `dtree.pl` on real AnnData, with scanpy's own plots; `make test-scverse` has the environment."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

WHY = "anndata and scanpy are not installed here: make test-scverse makes an environment that has them"
anndata = pytest.importorskip("anndata", reason=WHY)
sc = pytest.importorskip("scanpy", reason=WHY)

import dask.array  # noqa: E402
import matplotlib  # noqa: E402
import pandas  # noqa: E402
from scipy import sparse  # noqa: E402
from sklearn.metrics import adjusted_rand_score  # noqa: E402

import dtree  # noqa: E402

matplotlib.use("agg")
# What other libraries say of one another is not ours to fix.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore:.*:{kind}")
    for kind in ("FutureWarning", "UserWarning", "PendingDeprecationWarning")
]


def cells(n: int = 400, genes: int = 60) -> Any:
    """Counts of three kinds of cells, 50%, 30% and 20%, the last two more alike; counts also as a layer."""
    rng = np.random.default_rng(0)
    rates = rng.gamma(4.0, 3.0, size=(3, genes))
    rates[2, genes // 3 :] = rates[1, genes // 3 :]
    kind = rng.choice(3, size=n, p=[0.5, 0.3, 0.2])
    X = sparse.csr_matrix(rng.poisson(rates[kind]).astype(np.float32))
    adata = anndata.AnnData(X, obs=pandas.DataFrame({"kind": kind.astype(str)}, index=[f"cell {i}" for i in range(n)]))
    adata.var_names = [f"gene {j}" for j in range(genes)]
    adata.layers["counts"] = X.copy()
    adata.var["highly_variable"] = np.arange(genes) < 30
    return adata


@pytest.fixture(scope="module")
def done() -> Any:
    """The flow of scanpy's tutorials, with dtree where leiden stands."""
    adata = cells()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sc.pp.normalize_total(adata)  # to the median, so that zeros and ones stay close on the log scale
        sc.pp.log1p(adata)
        sc.pp.pca(adata, n_comps=10)
        assert dtree.tl.tree_clustering(adata) is None
    return adata


def test_obs_holds_categories_from_the_largest(done: Any) -> None:
    clusters = done.obs["dtree"]
    assert list(clusters.cat.categories) == ["0", "1", "2"]
    assert clusters.value_counts().tolist() == clusters.value_counts().loc[["0", "1", "2"]].tolist()
    assert adjusted_rand_score(clusters, done.obs["kind"]) > 0.95
    assert np.all((done.obs["dtree_confidence"] > 0) & (done.obs["dtree_confidence"] <= 1))
    assert np.all(np.isfinite(done.obs["dtree_outlier_score"]))


def test_memberships_add_up_and_agree_with_the_clusters(done: Any) -> None:
    memberships = done.obsm["X_dtree"]
    assert memberships.shape == (400, 3)
    np.testing.assert_allclose(memberships.sum(axis=1), 1.0, atol=1e-5)
    held = memberships[np.arange(400), done.obs["dtree"].cat.codes]
    np.testing.assert_allclose(held, done.obs["dtree_confidence"], atol=1e-4)


def test_the_answer_is_that_of_the_estimator(done: Any) -> None:
    model = dtree.TreeClustering(random_state=0).fit(done.obsm["X_pca"])
    np.testing.assert_array_equal(model.labels_, done.obs["dtree"].cat.codes)


def test_scanpy_draws_the_tree(done: Any) -> None:
    from scipy.cluster.hierarchy import is_monotonic, is_valid_linkage

    dendrogram = done.uns["dendrogram_dtree"]
    assert is_valid_linkage(dendrogram["linkage"])
    assert is_monotonic(dendrogram["linkage"])
    theirs = done.copy()
    sc.tl.dendrogram(theirs, "dtree")
    assert set(theirs.uns["dendrogram_dtree"]) == set(dendrogram)
    assert sc.pl.dendrogram(done, "dtree", show=False) is not None
    genes = list(done.var_names[:4])
    drawn = sc.pl.dotplot(done, genes, groupby="dtree", dendrogram=True, show=False, return_fig=True)
    drawn.make_figure()
    drawn = sc.pl.matrixplot(done, genes, groupby="dtree", dendrogram=True, show=False, return_fig=True)
    drawn.make_figure()
    assert sc.pl.correlation_matrix(done, "dtree", show=False) is not None
    assert sc.pl.heatmap(done, genes, groupby="dtree", dendrogram=True, show=False) is not None


def test_a_file_keeps_everything(done: Any, tmp_path: Path) -> None:
    done.write_h5ad(tmp_path / "cells.h5ad")
    done.write_zarr(tmp_path / "cells.zarr")
    for again in (anndata.read_h5ad(tmp_path / "cells.h5ad"), anndata.read_zarr(tmp_path / "cells.zarr")):
        ax = dtree.pl.tree(again)
        assert "3 clusters" in ax.get_title(loc="left")
        assert sc.pl.dendrogram(again, "dtree", show=False) is not None
        assert again.uns["dtree"]["level_reason"] == done.uns["dtree"]["level_reason"]


def test_the_picture_has_scanpys_colours(done: Any) -> None:
    from matplotlib.colors import to_hex

    adata = done.copy()
    sc.pl.pca(adata, color="dtree", show=False)
    ax = dtree.pl.tree(adata)
    assert {to_hex(text.get_color()) for text in ax.get_yticklabels()} == {to_hex(c) for c in adata.uns["dtree_colors"]}
    assert all(text.get_text().endswith("cells") for text in ax.get_yticklabels())


@pytest.mark.parametrize("family", ["multinomial", "poisson"])
def test_counts_are_found_in_their_layer(done: Any, family: str) -> None:
    adata = done.copy()  # whose X is not counts any more
    dtree.tl.tree_clustering(adata, family=family, key_added="types")
    assert adata.uns["types"]["params"]["rows"] == "layers['counts']"
    assert adjusted_rand_score(adata.obs["types"], adata.obs["kind"]) > 0.95
    with pytest.raises(ValueError, match="counts"):
        dtree.tl.tree_clustering(adata, use_rep="X", family=family)


def test_genes_can_be_chosen(done: Any) -> None:
    copy = dtree.tl.tree_clustering(done, layer="counts", family="multinomial", mask_var="highly_variable", copy=True)
    assert copy.uns["dtree"]["params"]["rows"] == "layers['counts']"
    assert done.uns["dtree"]["params"]["rows"] == "obsm['X_pca']"
    model = dtree.TreeClustering(family="multinomial", random_state=0).fit(done.layers["counts"][:, :30])
    np.testing.assert_array_equal(copy.obs["dtree"].cat.codes, model.labels_)


@pytest.mark.parametrize("family", ["multinomial", "poisson", "auto"])
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_a_backed_anndata_is_read_by_ranges_to_the_same_answer(tmp_path: Path, kind: str, family: str) -> None:
    adata = cells(300, 20)
    if kind == "dense":
        adata.X = adata.X.toarray()
    del adata.layers["counts"]
    adata.write_h5ad(tmp_path / "cells.h5ad")
    whole = dtree.tl.tree_clustering(adata, use_rep="X", family=family, copy=True)
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    assert backed.isbacked
    dtree.tl.tree_clustering(backed, use_rep="X", family=family)
    assert backed.isbacked
    np.testing.assert_array_equal(backed.obs["dtree"].cat.codes, whole.obs["dtree"].cat.codes)
    np.testing.assert_allclose(backed.obsm["X_dtree"], whole.obsm["X_dtree"], atol=1e-6)
    run = tmp_path / "run.zarr"  # where workers read, it is copied piece by piece
    dtree.tl.tree_clustering(backed, use_rep="X", family=family, out=run)
    assert dtree.open(run).feature_names_in_.tolist() == adata.var_names.tolist()
    np.testing.assert_array_equal(dtree.open(run).labels_, whole.obs["dtree"].cat.codes)
    backed.file.close()


@pytest.mark.parametrize("family", ["multinomial", "poisson"])
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_a_dask_backed_anndata_is_read_in_passes_to_the_same_answer(kind: str, family: str) -> None:
    adata = cells(300, 20)
    blocks = dask.array.from_array(adata.X.toarray(), chunks=(70, 20))
    if kind == "dense":
        adata.X = adata.X.toarray()
    whole = dtree.tl.tree_clustering(adata, use_rep="X", family=family, copy=True)
    if kind == "sparse":
        blocks = blocks.map_blocks(
            sparse.csr_matrix, dtype=np.float32, meta=sparse.csr_matrix((0, 0), dtype=np.float32)
        )
    lazy = anndata.AnnData(blocks, obs=adata.obs.copy(), var=adata.var.copy())
    dtree.tl.tree_clustering(lazy, use_rep="X", family=family)
    assert isinstance(lazy.X, dask.array.Array)
    assert adjusted_rand_score(lazy.obs["dtree"], whole.obs["dtree"]) == 1.0
    np.testing.assert_allclose(lazy.obsm["X_dtree"], whole.obsm["X_dtree"], atol=1e-5)


def test_one_cluster_has_no_dendrogram() -> None:
    adata = anndata.AnnData(np.random.default_rng(0).normal(size=(80, 3)))
    dtree.tl.tree_clustering(adata, use_rep="X")
    assert list(adata.obs["dtree"].cat.categories) == ["0"]
    assert "dendrogram_dtree" not in adata.uns
    assert dtree.pl.tree(adata).get_title(loc="left") == "80 cells, 1 cluster"


def test_bad_input_gets_one_sentence(done: Any) -> None:
    tool = dtree.tl.tree_clustering
    with pytest.raises(ValueError, match=r"no representation in obsm called 'X_pca' \(it has none\); sc\.pp\.pca"):
        tool(anndata.AnnData(np.eye(3)))
    with pytest.raises(ValueError, match=r"no layer called 'spliced' .*counts"):
        tool(done, layer="spliced")
    with pytest.raises(ValueError, match="either use_rep"):
        tool(done, "X_pca", layer="counts")
    with pytest.raises(ValueError, match="no parameter 'resolution'"):
        tool(done, resolution=1.0)
    with pytest.raises(ValueError, match="mask_var chooses genes"):
        tool(done, mask_var="highly_variable")
    with pytest.raises(ValueError, match="no column 'marked'"):
        tool(done, "X", mask_var="marked")
    with pytest.raises(ValueError, match="needs an AnnData, not a ndarray"):
        tool(np.eye(3))
    with pytest.raises(ValueError, match="no clustering called 'types2'"):
        dtree.pl.tree(done, "types2")
    broken = done.copy()
    del broken.uns["dtree"]["tree"]
    with pytest.raises(ValueError, match="holds no tree of dtree"):
        dtree.pl.tree(broken)
