"""Learning the observation noise, and the diffusion variance when the noise is known in absolute units."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from dtree.diffusion.belief import Leaves, log_marginal
from dtree.diffusion.objective import LOGIT_LIMIT, Hyper, Workspace
from dtree.diffusion.tree import Columns

# log(noise / sigma2) ~ Normal: weak, and centred well below the spread of the data
LOG_NOISE_PRIOR = (math.log(0.01), 2.0)
LOG_NOISE_RANGE = (math.log(1e-8), math.log(10.0))


def scale_leaves(base: Leaves, noise: float) -> Leaves:
    """Leaves whose observation variance is `noise` times that of `base` (missing entries stay missing)."""
    return base._replace(var=base.var * noise)


def learn_noise(
    tree: Columns, base: Leaves, hyper: Hyper, start: float, *, max_iter: int = 200
) -> tuple[float, Columns, float, bool]:
    """Maximise the joint density over times and the noise ratio (noise / sigma2) together.

    `base` holds leaves with unit noise. Returns (noise, tree at its best times, log density with the noise's prior,
    converged). The derivative over the noise is the sum of the derivatives over the leaf branches, weighted by the
    base variances.

    >>> from dtree.diffusion.belief import leaves_from_data
    >>> from dtree.diffusion.prior import sample_data
    >>> y, tree = sample_data(30, 4, noise=0.1, rng=np.random.default_rng(0))
    >>> noise, *_ = learn_noise(tree, leaves_from_data(y, 1.0), Hyper(), 0.01)
    >>> 0.03 < noise < 0.3
    True
    """
    work = Workspace(tree, base, hyper)
    n = work.n
    base_var = base.var.copy()
    weight = np.where(np.isfinite(base_var), base_var, 0.0).max(axis=1)
    centre, spread = LOG_NOISE_PRIOR

    def negative(vector: np.ndarray) -> tuple[float, np.ndarray]:
        noise = math.exp(vector[-1])
        work.var[:n] = base_var * noise
        value = work.density(vector[:-1])
        shift = (vector[-1] - centre) / spread
        slope = noise * float((weight * work.by_length[:n]).sum()) - shift / spread
        return -(value - 0.5 * shift * shift), -np.append(work.grad, slope)

    first = np.append(work.logit(), math.log(start))
    bounds = [(-LOGIT_LIMIT, LOGIT_LIMIT)] * (n - 1) + [LOG_NOISE_RANGE]
    result = minimize(
        negative, first, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": max_iter, "maxcor": 20}
    )
    value, _ = negative(result.x)
    return math.exp(result.x[-1]), work.tree, -value, bool(result.success)


def learn_sigma2(tree: Columns, base: Leaves, precision_prior: tuple[float, float]) -> float:
    """The diffusion variance that fits best when the leaves' variances in `base` are absolute, times held fixed."""
    shape, rate = precision_prior

    def negative(log_sigma2: float) -> float:
        sigma2 = math.exp(log_sigma2)
        value = log_marginal(tree, base._replace(var=base.var / sigma2), sigma2)
        return -(value - shape * log_sigma2 - rate / sigma2)

    result = minimize_scalar(negative, bounds=(math.log(1e-4), math.log(1e4)), method="bounded")
    return math.exp(float(result.x))
