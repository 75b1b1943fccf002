"""Which numbers of an AnnData are clustered, and how they are read: in memory, from HDF5 by ranges, or by Dask."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from dtree.core.families import expected
from dtree.core.memory import require_memory
from dtree.core.names import Named
from dtree.data import open_source
from dtree.data.chunks import chunk_bounds, rows_per_chunk
from dtree.data.on_disk import RowsOnDisk, is_on_disk
from dtree.data.sentences import listed

PCA, COUNTS, MATRIX = "X_pca", "counts", "X"
_COUNT_KINDS = ("count",)


class Rows(NamedTuple):
    """Rows (n, d) of an AnnData: as an estimator takes them, and what they are called."""

    given: Any  # `Named` rows in memory or in Dask blocks, or a `Source` of rows on disk
    what: str  # e.g. obsm['X_pca']
    feature_names: np.ndarray | None

    def blocks(self) -> Iterator[tuple[int, Any]]:
        """The rows piece by piece, each with the place of its first row."""
        X = getattr(self.given, "X", None)
        if X is not None and hasattr(X, "dask"):
            start, whole_rows = 0, X.rechunk({1: -1})
            for number in range(whole_rows.numblocks[0]):
                block = whole_rows.blocks[number].compute()
                yield start, block
                start += block.shape[0]
            return
        n, d = self.given.shape if X is None else X.shape
        for start, stop in chunk_bounds(n, rows_per_chunk(d)):
            yield start, self.given.read(start, stop) if X is None else X[start:stop]


def chosen_rows(adata: Any, use_rep: str | None, layer: str | None, mask_var: Any, family: Any) -> Rows:
    """The rows that the arguments of `dtree.tl.tree_clustering` name."""
    if use_rep is not None and layer is not None:
        raise ValueError(f"give either use_rep ('{use_rep}') or layer ('{layer}'), not both")
    kind = expected(family)
    if use_rep is None and layer is None:
        if kind.value_kind not in _COUNT_KINDS:
            use_rep = PCA
        elif COUNTS in adata.layers:
            layer = COUNTS
        else:
            use_rep = MATRIX
    if layer is not None:
        X, what, named = _entry(adata.layers, layer, "layer"), f"layers['{layer}']", True
    elif use_rep == MATRIX:
        X, what, named = adata.X, MATRIX, True
        if X is None:
            raise ValueError("adata.X is empty: name a layer, or what in obsm is to be clustered (use_rep)")
    else:
        assert use_rep is not None
        hint = "; sc.pp.pca(adata) makes it, and use_rep='X' takes the matrix itself" if use_rep == PCA else ""
        X, what, named = _entry(adata.obsm, use_rep, "representation in obsm", hint), f"obsm['{use_rep}']", False
        if hasattr(X, "columns"):  # scanpy allows frames there
            X = np.asarray(X)
    names = np.array([str(name) for name in adata.var_names], dtype=object) if named else None
    if mask_var is not None and not named:
        raise ValueError(f"mask_var chooses genes, but {what} has none: give use_rep='X' or a layer with it")
    places = None if mask_var is None else _places(adata, mask_var)
    return _rows(X, what, names, places, kind.accepts_sparse, adata)


def _entry(shelf: Any, name: str, what: str, hint: str = "") -> Any:
    if name not in shelf:
        known = listed(sorted(shelf.keys())) if len(shelf) else "none"
        raise ValueError(f"the AnnData has no {what} called '{name}' (it has {known}){hint}")
    return shelf[name]


def _places(adata: Any, mask_var: Any) -> np.ndarray:
    """The genes (m,) that a boolean column of `var`, or a mask, picks."""
    if isinstance(mask_var, str) and mask_var not in adata.var:
        raise ValueError(f"mask_var: the AnnData has no column '{mask_var}' in var")
    mask = np.asarray(adata.var[mask_var] if isinstance(mask_var, str) else mask_var)
    if mask.dtype.kind != "b" or mask.shape != (adata.n_vars,):
        raise ValueError(f"mask_var must be true or false for each of the {adata.n_vars} genes")
    if not mask.any():
        raise ValueError("mask_var picks no genes")
    return np.flatnonzero(mask)


def _rows(X: Any, what: str, names: Any, places: Any, sparse: bool, adata: Any) -> Rows:
    if is_on_disk(X):
        source = open_source(Named(RowsOnDisk(X, dense=not sparse), None, names))
        source = source if places is None else source.pick(places.tolist())
        return Rows(source, what, names if places is None else names[places])
    if places is not None:
        X, names = X[:, places], names[places]
    if hasattr(X, "dask"):
        if hasattr(X._meta, "tocsr") and not sparse:
            X = X.map_blocks(lambda block: block.toarray(), meta=np.empty((0, 0), dtype=X.dtype))
        return Rows(Named(X, None, names), what, names)
    if hasattr(X, "tocsr"):
        if not sparse:
            require_memory(X.shape[0] * X.shape[1] * 8, f"{what} as a dense table")
        X = X.tocsr() if sparse else X.toarray()
    cells = np.array([str(name) for name in adata.obs_names], dtype=object)
    return Rows(Named(X, cells, names), what, names)
