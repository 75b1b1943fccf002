"""Learning the observation noise, and the diffusion variance when the noise is known in absolute units."""

import math

from scipy.optimize import minimize_scalar

from dtree.diffusion.belief import Leaves, log_marginal
from dtree.diffusion.laplace import Evidence, log_evidence_laplace
from dtree.diffusion.objective import Hyper
from dtree.diffusion.tree import Columns

# log(noise / sigma2) ~ Normal: weak, and centred well below the spread of the data
LOG_NOISE_PRIOR = (math.log(0.01), 3.0)
LOG_NOISE_RANGE = (math.log(1e-7), math.log(3.0))


def scale_leaves(base: Leaves, noise: float) -> Leaves:
    """Leaves whose observation variance is `noise` times that of `base` (missing entries stay missing)."""
    return base._replace(var=base.var * noise)


def learn_noise(
    tree: Columns, base: Leaves, hyper: Hyper, start: float, *, max_evaluations: int = 14
) -> tuple[float, Evidence]:
    """The noise ratio (noise / sigma2) of highest evidence for one tree, times integrated by Laplace at every trial.

    `base` holds leaves with unit noise. Returns the noise and the evidence there, its message naming a failure.
    Maximising over times and noise together would not do: leaf branches stretch to take the noise over.

    >>> import numpy as np
    >>> from dtree.diffusion.belief import leaves_from_data
    >>> from dtree.diffusion.prior import sample_data
    >>> y, tree = sample_data(30, 4, noise=0.1, rng=np.random.default_rng(0))
    >>> noise, _ = learn_noise(tree, leaves_from_data(y, 1.0), Hyper(), 0.01)
    >>> 0.03 < noise < 0.3
    True
    """
    centre, spread = LOG_NOISE_PRIOR
    fits: dict[float, Evidence] = {}
    latest = [log_evidence_laplace(tree, scale_leaves(base, start), hyper)]

    def negative(log_noise: float) -> float:
        fit = log_evidence_laplace(latest[0].tree, scale_leaves(base, math.exp(log_noise)), hyper)
        latest[0] = fits[float(log_noise)] = fit
        return -(fit.log_evidence - 0.5 * ((log_noise - centre) / spread) ** 2)

    options = {"maxiter": max_evaluations, "xatol": 0.05}
    result = minimize_scalar(negative, bounds=LOG_NOISE_RANGE, method="bounded", options=options)
    return math.exp(float(result.x)), fits[float(result.x)]


def learn_sigma2(tree: Columns, base: Leaves, precision_prior: tuple[float, float]) -> float:
    """The diffusion variance that fits best when the leaves' variances in `base` are absolute, times held fixed."""
    shape, rate = precision_prior

    def negative(log_sigma2: float) -> float:
        sigma2 = math.exp(log_sigma2)
        value = log_marginal(tree, base._replace(var=base.var / sigma2), sigma2)
        return -(value - shape * log_sigma2 - rate / sigma2)

    result = minimize_scalar(negative, bounds=(math.log(1e-4), math.log(1e4)), method="bounded")
    return math.exp(float(result.x))
