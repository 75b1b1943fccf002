"""Rows that another library holds on disk: an HDF5 dataset, or the dense or sparse `X` of a backed AnnData."""

from typing import Any

import numpy as np


def is_on_disk(X: Any) -> bool:
    """Whether this is an array of h5py or zarr, or a sparse matrix on disk as anndata opens it."""
    kind = type(X)
    if isinstance(X, RowsOnDisk):
        return True
    named = kind.__name__ in ("Dataset", "Array") and kind.__module__.partition(".")[0] in ("h5py", "zarr")
    return named or (hasattr(X, "to_memory") and hasattr(X, "format"))


class RowsOnDisk:
    """Rows (n, d) that are read by ranges, dense or CSR, and are never in memory as a whole.

    X : what `is_on_disk` knows. dense : whether sparse rows are to come as arrays.

    >>> import numpy as np
    >>> rows = RowsOnDisk(np.eye(3))  # anything that is sliced by rows
    >>> rows[1:3].tolist(), rows.shape
    ([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], (3, 3))
    """

    def __init__(self, X: Any, dense: bool = False) -> None:
        if getattr(X, "format", "csr") != "csr":
            raise ValueError(
                "the sparse rows on disk are stored by columns (csc): write them as csr, or use to_memory()"
            )
        self._parts = X.group if hasattr(X, "to_memory") else None  # data, indices, indptr
        self._rows, self.is_sparse = X, self._parts is not None and not dense
        self.shape, self.dtype = tuple(int(size) for size in X.shape), np.dtype(X.dtype)

    def __getitem__(self, rows: slice) -> Any:
        if self._parts is None:
            return np.asarray(self._rows[rows])
        from scipy import sparse

        # The parts are read here, since what anndata makes of a slice depends on private parts of SciPy.
        start, stop, _ = rows.indices(self.shape[0])
        pointers = np.asarray(self._parts["indptr"][start : stop + 1]).astype(np.int64)
        data, indices = (np.asarray(self._parts[name][pointers[0] : pointers[-1]]) for name in ("data", "indices"))
        block = sparse.csr_array((data, indices, pointers - pointers[0]), shape=(stop - start, self.shape[1]))
        return block if self.is_sparse else block.toarray()

    @property
    def nnz(self) -> int:
        """How many values sparse rows store."""
        return 0 if self._parts is None else int(self._parts["data"].shape[0])
