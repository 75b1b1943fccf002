"""What joining and leaving a cluster does to the prior's weight."""

import numpy as np

from dtree.core.model import Model


def kappa_gains(model: Model, statistics: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log kappa(n+1) - log kappa(n), log kappa(n) - log kappa(n-1) and whether n <= 1, each (k,).

    For an empty cluster the first is log kappa(1); where n <= 1 the second is 0, because the row would stand alone.
    """
    count = np.rint(model.counts(statistics))
    alone = count <= 1.0
    here = np.where(count > 0, model.prior.log_kappa(np.maximum(count, 1.0)), 0.0)
    join = model.prior.log_kappa(count + 1.0) - here
    leave = np.where(alone, 0.0, here - model.prior.log_kappa(np.maximum(count - 1.0, 1.0)))
    return join, leave, alone
