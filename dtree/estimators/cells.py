"""What estimators whose fit is a mixture say of single values and of columns."""

from typing import Any

import numpy as np

from dtree.data.source import dense
from dtree.estimators.base import Estimator
from dtree.estimators.memberships import Memberships
from dtree.methods import cells


class MixtureEstimator(Memberships, Estimator):
    """An estimator whose fit is a mixture: `impute` and `surprisal`."""

    def _cell_mixture(self) -> cells.Mixture:
        """The mixture that new rows are drawn from."""
        raise NotImplementedError

    def _clusters(self) -> tuple[Any, np.ndarray]:
        """The model, and the statistics (k, s) of the clusters."""
        raise NotImplementedError

    def impute(self, X: Any, return_probability: bool = False) -> Any:
        """The rows of X (n, d) with missing values (NaN) filled in: the mean of a number or count given what the row
        holds, the code of the most probable category.

        With `return_probability` also the probabilities (n, d) of the categories that were filled in, NaN elsewhere.
        For every family but the multinomial; on a bent scale the middle of a component stands for its mean. Columns
        that the model does not use stay as they are.
        """
        found = self._imputed(self._rows(X))
        return tuple(found) if return_probability else found.values

    def _imputed(self, rows: Any) -> cells.Imputed:
        """The same of rows (n, d) that were read already."""
        values = np.array(dense(rows), dtype=np.float64)
        probability = np.full(values.shape, np.nan)
        found = cells.impute(self._cell_mixture(), values[:, self.columns_])
        values[:, self.columns_], probability[:, self.columns_] = found
        return cells.Imputed(values, probability)

    def surprisal(self, X: Any) -> np.ndarray:
        """-log p(x_j | the rest of the row) (n, d) of every value; NaN where it is missing or its column is not used.

        For every family but the multinomial. Large values stand where a value does not fit its row.
        """
        return self._surprisal(self._rows(X))

    def _surprisal(self, rows: Any) -> np.ndarray:
        """The same of rows (n, d) that were read already."""
        values = np.asarray(dense(rows), dtype=np.float64)
        out = np.full(values.shape, np.nan)
        out[:, self.columns_] = cells.surprisal(self._cell_mixture(), values[:, self.columns_])
        return out


def column_influence(model: Any) -> np.ndarray:
    """Nats per row that each column contributes to telling the clusters of a fitted estimator apart (d,).

    The sum over clusters of log p(column j of its rows), less log p(column j of all rows as one cluster), divided by
    the number of rows. Columns that the model does not use, or that are the same in all clusters, have 0 or less. In a
    full Gaussian every column is looked at alone. For every family but the multinomial.

    >>> import dtree
    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0, 0.0], [9.0, 0.0]], 30, axis=0)
    >>> column_influence(dtree.BHC("gaussian-diag").fit(X)).round(1).tolist()
    [1.5, -0.1]
    """
    fitted, clusters = model._clusters()
    out = np.zeros(model.n_features_in_)
    rows = float(fitted.counts(clusters).sum())
    out[model.columns_] = cells.column_influence(fitted.family, clusters, rows)
    return out
