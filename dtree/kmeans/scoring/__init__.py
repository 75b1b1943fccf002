"""Score a block of rows against frozen clusters, each family by its fastest kernel.

`Scorer(model, statistics)` prepares the tables of k clusters once; `assign` and `accumulate` then take any block of
rows, dense or sparse, and know nothing of where it came from: the same object runs in this process and on a worker.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dtree.core.families import Categorical, DiagonalGaussian, Gaussian, Mixed, PerColumn, has_holes
from dtree.core.families.mixed import with_holes
from dtree.core.families.some_columns import patterns
from dtree.core.model import Model
from dtree.hierarchy.statistics import add_by_label
from dtree.kmeans.predictive import log_weights
from dtree.kmeans.scoring.any_family import AtomTables, assign_atoms, atom_tables
from dtree.kmeans.scoring.counts import CountTables, add_count_rows, assign_counts, count_tables, is_count_family
from dtree.kmeans.scoring.gaussian import GaussianTables, assign_gaussian, gaussian_tables
from dtree.kmeans.scoring.gaussian_diag import DiagonalTables, assign_diagonal, diagonal_tables
from dtree.kmeans.scoring.mixed import add_mixed_rows, assign_mixed
from dtree.kmeans.scoring.mixed_tables import MixedTables, mixed_tables
from dtree.kmeans.scoring.rows import add_rows

_BYTES_PER_BLOCK = 8_000_000  # of dense float64 that may be made from narrower or sparse rows at a time


class Assignment(NamedTuple):
    """Where each row of a block gains most."""

    best: np.ndarray  # (n,) int64, the best existing cluster, -1 when there is none
    unexplained: np.ndarray  # (n,) bool, a new cluster would gain more


class Scorer:
    """Frozen clusters (k, s) of a model, ready to score rows.

    >>> from dtree.core.families import Poisson
    >>> from dtree.core.priors import DirichletProcess
    >>> model = Model(Poisson([1.0], [0.1]), DirichletProcess(1.0))
    >>> scorer = Scorer(model, model.atoms([[30], [2]]))
    >>> scorer.assign(np.array([[28], [3], [0]])).best.tolist()
    [0, 1, 1]
    """

    def __init__(self, model: Model, statistics: np.ndarray) -> None:
        statistics = np.ascontiguousarray(statistics, dtype=np.float64)
        self.model = model
        if type(model.family) is Categorical:  # the same statistics, as those of one block
            model = replace(model, family=Mixed([(model.family, np.arange(model.family.n_features))]))
        self.k, self.s = statistics.shape
        self.statistics = statistics
        self.tables: GaussianTables | DiagonalTables | CountTables | MixedTables | AtomTables
        exact = getattr(model.family, "step", None) is None  # the fast kernels know values as they were written down
        if type(model.family) is Gaussian and exact:
            self.tables = gaussian_tables(model, statistics)
        elif type(model.family) is DiagonalGaussian and exact:
            self.tables = diagonal_tables(model, statistics)
        elif type(model.family) is Mixed and not model.family.complete_columns.size:
            self.tables = mixed_tables(model, statistics)
        elif is_count_family(model.family):
            self.tables = count_tables(model, statistics)
        else:
            self.tables = atom_tables(model, statistics)

    def assign(self, X: Any, own: np.ndarray | None = None) -> Assignment:
        """The best cluster of every row of X (n, d); a row is first taken out of its `own` (n,) cluster."""
        if isinstance(self.model.family, PerColumn) and has_holes(X):  # a row to predict, of a fit to complete ones
            family, statistics = with_holes(self.model.family, self.statistics)
            return Scorer(replace(self.model, family=family), statistics).assign(X, own)
        if not self.model.family.takes_holes and has_holes(X):
            return self._assign_by_columns_held(X)
        n = X.shape[0]
        own = np.full(n, -1, dtype=np.int64) if own is None else np.ascontiguousarray(own, dtype=np.int64)
        result = Assignment(np.empty(n, dtype=np.int64), np.empty(n, dtype=np.bool_))
        for start, stop in self._blocks(X):
            part = (own[start:stop], result.best[start:stop], result.unexplained[start:stop])
            if isinstance(self.tables, CountTables):
                assign_counts(self.tables, *_csr_parts(X[start:stop]), *part)
            elif isinstance(self.tables, MixedTables):
                assign_mixed(self.tables, _dense(X[start:stop]), *part)
            elif isinstance(self.tables, AtomTables):
                assign_atoms(self.tables, self.model.atoms(X[start:stop]), *part)
            elif isinstance(self.tables, GaussianTables):
                assign_gaussian(self.tables, _dense(X[start:stop]), *part)
            else:
                assign_diagonal(self.tables, _dense(X[start:stop]), *part)
        return result

    def _assign_by_columns_held(self, X: np.ndarray) -> Assignment:
        """`assign` for rows to predict with gaps: a scorer of its own for the columns of each pattern of gaps."""
        result = Assignment(np.empty(X.shape[0], dtype=np.int64), np.empty(X.shape[0], dtype=np.bool_))
        for rows, columns in patterns(X):
            if columns.size:
                family, places = self.model.family.narrowed(columns)
                narrow = Scorer(replace(self.model, family=family), self.statistics[:, places])
                found = narrow.assign(X[np.ix_(rows, columns)])
                result.best[rows], result.unexplained[rows] = found
            else:  # rows of nothing go where most rows are
                joined, new = log_weights(self.model, self.statistics)
                result.best[rows], result.unexplained[rows] = np.argmax(joined), new > joined.max()
        return result

    def accumulate(self, X: Any, labels: np.ndarray, k: int) -> np.ndarray:
        """Coarsened statistics (k, s) of the rows of X by label, added in row order; label -1 is left out."""
        out = np.zeros((k, self.s))
        labels = np.ascontiguousarray(labels, dtype=np.int64)
        for start, stop in self._blocks(X):
            part = labels[start:stop]
            if isinstance(self.tables, CountTables):
                add_count_rows(self.tables, *_csr_parts(X[start:stop]), part, out)
            elif isinstance(self.tables, MixedTables):
                add_mixed_rows(self.tables, _dense(X[start:stop]), part, out)
            elif isinstance(self.tables, AtomTables):
                add_by_label(self.model.atoms(X[start:stop]), part, out)
            else:
                add_rows(self.tables.rows, isinstance(self.tables, GaussianTables), _dense(X[start:stop]), part, out)
        return out

    def _blocks(self, X: Any) -> list[tuple[int, int]]:
        """Row ranges whose dense float64 copies stay small; kernels take rows one by one, so they change no bits."""
        width = self.s if isinstance(self.tables, AtomTables) else X.shape[1]
        rows = max(1, _BYTES_PER_BLOCK // (8 * width))
        if sparse.issparse(X) and isinstance(self.tables, CountTables):
            rows = max(X.shape[0], 1)
        return [(start, min(start + rows, X.shape[0])) for start in range(0, X.shape[0], rows)]


def _dense(X: Any) -> np.ndarray:
    return np.ascontiguousarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def _csr_parts(X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = sparse.csr_array(X) if not sparse.issparse(X) else X.tocsr()
    indptr, indices = rows.indptr.astype(np.int64, copy=False), rows.indices.astype(np.int64, copy=False)
    return indptr, indices, rows.data.astype(np.float64, copy=False)
