"""Gaussian clusters with full covariance: the normal-inverse-Wishart family.

x ~ N(mu, Sigma), mu | Sigma ~ N(mean, Sigma / strength), Sigma ~ InverseWishart(scale, dof), whose mean is
scale / (dof - d - 1). ([LC15] writes W(Lambda | Psi^-1, nu) for the precision; its Psi and nu are our scale and dof.)

Statistics of a row, with z = (x - origin) / unit: [1, z (d), z_a z_b for a <= b (d(d+1)/2)], see `standard_units` for
why. The compiled kernels are in `gaussian_kernels`.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular
from scipy.special import digamma, gammaln

from dtree.core.families.base import MOST_ROUNDING, require_positive
from dtree.core.families.gaussian_kernels import CompiledGaussian, log_multigamma
from dtree.core.families.moments import Moments
from dtree.core.families.per_column import has_holes
from dtree.core.families.some_columns import RowCells, by_columns_held, cells_of_gaussian
from dtree.core.families.standard_units import StandardUnits
from dtree.core.tables import counts_of_table

_LOG_PI = math.log(math.pi)
_LOG_2PI = math.log(2.0 * math.pi)
ONE_BLOB = 0.999  # a share of the variance within clusters from which on clusters are like the whole data
_WORTHLESS = 1e100  # a loss that is infinite, to a search that takes differences of losses
_KNOWN_COVARIANCE = 100.0  # rows per feature that the prior on the covariance is then worth, more than such data have


@dataclass(frozen=True, eq=False, repr=False)
class Gaussian(StandardUnits):
    """Normal-inverse-Wishart family, one full covariance matrix per cluster.

    Parameters
    ----------
    mean : (d,) prior mean of a cluster's centre.
    strength : how many rows that prior mean is worth.
    dof : degrees of freedom of the inverse Wishart, above d - 1.
    scale : (d, d) its scale matrix; a cluster's expected covariance is scale / (dof - d - 1).
    origin, unit : (d,) where statistics are taken about and in which units; they change rounding, never a value.
    step : (d,) the step to which the values were recorded, 0 where they are exact; see `standard_units`.

    >>> family = Gaussian(mean=[0.0, 0.0], strength=0.1, dof=8.0, scale=[[1.0, 0.2], [0.2, 0.5]])
    >>> round(family.log_marginal([[0.1, -0.2], [0.3, 0.2]]), 6)
    -2.684889
    """

    mean: Any
    strength: float
    dof: float
    scale: Any
    origin: Any = None
    unit: Any = None
    step: Any = None

    name: ClassVar[str] = "gaussian"
    needs_covariance: ClassVar[bool] = True
    predicts_holes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        scale = np.ascontiguousarray(np.atleast_2d(np.asarray(self.scale, dtype=np.float64)))
        d = scale.shape[0]
        if scale.ndim != 2 or scale.shape != (d, d):
            raise ValueError(f"scale must be a square matrix, not an array of shape {scale.shape}")
        require_positive(self.strength, "strength")
        require_positive(np.diag(scale), "the diagonal of scale")
        if not (math.isfinite(self.dof) and self.dof > d - 1):
            raise ValueError(f"dof must be above the number of features less one ({d - 1}), got {self.dof}")
        unit = np.sqrt(np.diag(scale) / max(self.dof - d - 1.0, 1.0))
        scale = 0.5 * (scale + scale.T)
        self._set(d, strength=float(self.strength), dof=float(self.dof), scale=scale, unit=unit)
        try:
            cholesky(self._scale_in_units())
        except np.linalg.LinAlgError:
            raise ValueError("scale must be positive definite; add a small multiple of the identity to it") from None

    def _scale_in_units(self) -> np.ndarray:
        return self.scale / np.outer(self.unit, self.unit)

    @classmethod
    def defaults(cls, moments: Moments, share: float = 0.1) -> Self:
        covariance = well_conditioned(moments)
        d = covariance.shape[0]
        # Where next to nothing is left between clusters, a cluster has the data's covariance and need not learn it:
        # with few rows for the features learning costs so much that every row would be a cluster of its own.
        dof = d + 1.0 + (d if share < ONE_BLOB else _KNOWN_COVARIANCE * d)
        unit = np.sqrt(np.diag(covariance))
        return cls(moments.mean, share / (1.0 - share), dof, share * (dof - d - 1.0) * covariance, moments.mean, unit)

    @classmethod
    def paper_prior(cls, X: Any) -> Self:
        """The prior of [LC15]: mean of the data, strength 0.1, dof d + 6, scale Sigma / (10 det Sigma)^(1/d).

        Its determinant is 1/10 in whatever unit the data come, so results change when the data are rescaled.

        >>> round(float(np.linalg.det(Gaussian.paper_prior([[0.0, 1.0], [2.0, 1.5], [1.0, 4.0]]).scale)), 6)
        0.1
        """
        X = np.asarray(X, dtype=np.float64)
        d = X.shape[1]
        covariance = np.atleast_2d(np.cov(X, rowvar=False))
        sign, log_det = np.linalg.slogdet(covariance)
        if sign <= 0:
            raise ValueError("the data's covariance is singular, so the paper's prior does not exist for them")
        return cls(X.mean(axis=0), 0.1, d + 6.0, covariance / math.exp((math.log(10.0) + log_det) / d))

    def _smallest_scale(self) -> float:
        return float(np.linalg.eigvalsh(self._scale_in_units())[0])

    def _squares(self, statistics: np.ndarray) -> np.ndarray:
        a, b = np.triu_indices(self.n_features)
        return statistics[:, 1 + self.n_features :][:, a == b]

    def compile(self, total: np.ndarray, coarsening: float = 1.0) -> CompiledGaussian:
        d = self.n_features
        mean, scale = self._mean_in_units(), self._scale_in_units()
        log_jacobian = float(-np.log(self.unit).sum())
        constant = 0.5 * self.dof * _log_det(scale) - log_multigamma(0.5 * self.dof, d)
        counts = counts_of_table(total[0], coarsening)
        terms = constant + 0.5 * d * np.log(self.strength / (self.strength + counts))
        half_dof = 0.5 * (self.dof + counts)
        terms += 0.25 * d * (d - 1) * _LOG_PI + sum(gammaln(half_dof - 0.5 * j) for j in range(d))
        terms += counts * (log_jacobian - 0.5 * d * _LOG_PI)
        upper = np.triu_indices(d)
        return CompiledGaussian(
            pull=self.strength * mean,
            scale_base=(scale + self.strength * np.outer(mean, mean))[upper],
            strength=self.strength,
            dof=self.dof,
            count_terms=terms,
            constant=constant,
            log_jacobian=log_jacobian,
            per_count=1.0 / coarsening,
            exact_points=self.step is None or not np.any(self.step),
        )

    def _second(self, statistics: np.ndarray) -> np.ndarray:
        """Sums of products (k, d, d) in statistics (k, s)."""
        d = self.n_features
        a, b = np.triu_indices(d)
        second = np.empty((statistics.shape[0], d, d))
        second[:, a, b] = second[:, b, a] = statistics[:, 1 + d :]
        return second

    def posterior(self, statistics: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """strength (k,), dof (k,), mean (k, d), scale (k, d, d) of each cluster, in standard units."""
        statistics = np.atleast_2d(statistics)
        d = self.n_features
        prior_mean = self._mean_in_units()
        strength = self.strength + statistics[:, 0]
        mean = (statistics[:, 1 : 1 + d] + self.strength * prior_mean) / strength[:, None]
        scale = self._scale_in_units() + self.strength * np.outer(prior_mean, prior_mean) + self._second(statistics)
        scale -= strength[:, None, None] * mean[:, :, None] * mean[:, None, :]
        return strength, self.dof + statistics[:, 0], mean, scale

    def log_predictive_of(self, X: Any, statistics: np.ndarray) -> np.ndarray:
        """Multivariate Student t densities (n, k), of a row with gaps those of the values that it holds."""
        if has_holes(X):
            return by_columns_held(self, X, np.atleast_2d(statistics), lambda one, *rest: one.log_predictive_of(*rest))
        strength, dof, mean, scale = self.posterior(statistics)
        d = self.n_features
        z = self.points(X)
        shrink = strength / (strength + 1.0)
        out = np.empty((z.shape[0], mean.shape[0]))
        for k in range(mean.shape[0]):
            factor = cholesky(scale[k], lower=True)
            whitened = solve_triangular(factor, (z - mean[k]).T, lower=True, overwrite_b=True, check_finite=False)
            distance = shrink[k] * np.einsum("ij,ij->j", whitened, whitened)
            constant = gammaln(0.5 * (dof[k] + 1.0)) - gammaln(0.5 * (dof[k] + 1.0 - d)) - np.log(self.unit).sum()
            constant += 0.5 * d * (math.log(shrink[k]) - _LOG_PI) - np.log(np.diag(factor)).sum()
            out[:, k] = constant - 0.5 * (dof[k] + 1.0) * np.log1p(distance)
        return out

    def narrowed(self, columns: np.ndarray) -> tuple[Any, np.ndarray]:
        d, (a, b) = self.n_features, np.triu_indices(self.n_features)
        held = np.isin(a, columns) & np.isin(b, columns)
        places = np.concatenate([[0], 1 + columns, 1 + d + np.flatnonzero(held)])
        scale, dof = self.scale[np.ix_(columns, columns)], self.dof - (d - columns.shape[0])
        step = None if self.step is None else self.step[columns]
        made = type(self)(self.mean[columns], self.strength, dof, scale, self.origin[columns], self.unit[columns], step)
        return made, places

    def cells(self, X: np.ndarray, statistics: np.ndarray) -> RowCells:
        """What one cluster (1, s) says of the values of rows X (n, d), which may hold NaN."""
        return cells_of_gaussian(self, X, statistics)

    def expected_log_density(self, statistics: np.ndarray) -> np.ndarray:
        strength, dof, mean, scale = self.posterior(statistics)
        d = self.n_features
        try:
            factor, inverse = np.linalg.cholesky(scale), np.linalg.inv(scale)
        except np.linalg.LinAlgError:
            raise ValueError(
                "a component's posterior scale matrix is not positive definite in double precision: the family's scale "
                "is too small for the spread of these data; give a larger one or rescale the features"
            ) from None
        log_det = 2.0 * np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        precision = dof[:, None, None] * inverse
        pushed = np.einsum("kab,kb->ka", precision, mean)
        log_det_precision = digamma(0.5 * (dof[:, None] - np.arange(d))).sum(axis=1) + d * math.log(2.0) - log_det
        constant = 0.5 * (log_det_precision - d * _LOG_2PI - d / strength - np.einsum("ka,ka->k", pushed, mean))
        a, b = np.triu_indices(d)
        quadratic = -0.5 * (precision[:, a, b] + precision[:, b, a]) * np.where(a == b, 0.5, 1.0)
        return np.hstack([(constant - np.log(self.unit).sum())[:, None], pushed, quadratic])

    def posterior_means(self, statistics: np.ndarray) -> dict[str, np.ndarray]:
        strength, dof, mean, scale = self.posterior(statistics)
        scale = scale * np.outer(self.unit, self.unit)
        above = dof - self.n_features - 1.0
        expected = scale / np.where(above > 0, above, np.nan)[:, None, None]  # the inverse Wishart has no mean there
        means = self.origin + self.unit * mean
        return {"means": means, "covariances": expected, "strengths": strength, "dofs": dof}

    def refined(self, statistics: np.ndarray, weights: np.ndarray) -> Self:
        """One step of expectation maximisation over mean, strength and scale, then dof by a line search.

        Cluster covariances are the latent variables; unlike a gradient step this commutes with every affine map of the
        data. The scale is kept above a small share of the data's covariance: on data with repeated values the evidence
        grows without bound as a cluster becomes flat.
        """
        d = self.n_features
        if not np.all(np.diag(self._covariance(statistics[-1])) > 0):
            return self  # (almost) nothing varies, so there is nothing to learn from
        likely = weights > 1e-8 * weights.sum()
        statistics, total, weights = statistics[likely], statistics[-1], weights[likely]
        strength, dof, mean, scale = self.posterior(statistics)
        precision = dof[:, None, None] * np.linalg.inv(scale)
        precision_sum = np.einsum("k,kab->ab", weights, precision)
        centre = np.linalg.solve(precision_sum, np.einsum("k,kab,kb->a", weights, precision, mean))
        spread = weights @ (np.einsum("ka,kab,kb->k", mean - centre, precision, mean - centre) + d / strength)
        best_scale = self.dof * weights.sum() * np.linalg.inv(precision_sum)
        new_scale = _above_share(best_scale, self._covariance(total), self.dof, float(total[0]))
        to_units = np.outer(self.unit, self.unit)

        def at(log_excess: float) -> Any:
            dof = d - 1.0 + math.exp(log_excess)
            rescaled = new_scale * (dof / self.dof) * to_units  # keeps the expected precision dof scale^-1
            centre_out = self.origin + self.unit * centre
            return type(self)(centre_out, d * weights.sum() / spread, dof, rescaled, self.origin, self.unit, self.step)

        def loss(log_excess: float) -> float:
            found = -float(weights @ at(log_excess).log_marginal_of(statistics))
            return min(found, _WORTHLESS)

        here = math.log(self.dof - d + 1.0)
        bounds, exact = (math.log(2.0), math.log(20.0 * d + 50.0)), {"maxiter": 12, "xatol": 0.05}  # of a logarithm
        from scipy.optimize import minimize_scalar  # slow to load, and only fits need it

        found = minimize_scalar(loss, bounds=bounds, method="bounded", options=exact)
        lowest, log_excess = min((float(found.fun), float(found.x)), (loss(here), here))
        return at(log_excess) if lowest < -float(weights @ self.log_marginal_of(statistics)) else self

    def _covariance(self, total: np.ndarray) -> np.ndarray:
        """Covariance (d, d) in standard units of all rows summed in `total` (s,)."""
        mean = total[1 : 1 + self.n_features] / total[0]
        return self._second(total[None])[0] / total[0] - np.outer(mean, mean)

    # Unconstrained parameters: mean in standard units (d), log strength, log(dof - d + 1), and the lower Cholesky
    # factor of the scale in standard units, row by row, its diagonal in logs (d(d+1)/2).

    def free_parameters(self) -> np.ndarray:
        d = self.n_features
        factor = cholesky(self._scale_in_units(), lower=True)
        factor[np.diag_indices(d)] = np.log(np.diag(factor))
        head = [*self._mean_in_units(), math.log(self.strength), math.log(self.dof - d + 1.0)]
        return np.concatenate([head, factor[np.tril_indices(d)]])

    def with_free_parameters(self, theta: np.ndarray) -> Self:
        d = self.n_features
        factor = np.zeros((d, d))
        factor[np.tril_indices(d)] = theta[d + 2 :]
        factor[np.diag_indices(d)] = np.exp(np.diag(factor))
        scale = (factor @ factor.T) * np.outer(self.unit, self.unit)
        mean = self.origin + self.unit * theta[:d]
        return type(self)(
            mean, math.exp(theta[d]), math.exp(theta[d + 1]) + d - 1.0, scale, self.origin, self.unit, self.step
        )

    def gradient(self, statistics: np.ndarray, weights: np.ndarray) -> np.ndarray:
        d = self.n_features
        strength, dof, mean, scale = self.posterior(statistics)
        inverse = np.linalg.inv(scale)
        off = self._mean_in_units() - mean
        pushed = np.einsum("kab,kb->ka", inverse, off)
        by_mean = -(weights * dof) @ pushed * self.strength
        by_strength = 0.5 * d * (weights @ (1.0 / self.strength - 1.0 / strength))
        by_strength -= 0.5 * (weights * dof) @ np.einsum("ka,ka->k", pushed, off)
        steps = 0.5 * np.arange(d)
        by_dof = 0.5 * (_log_det(self._scale_in_units()) - digamma(0.5 * self.dof - steps).sum()) * weights.sum()
        by_dof += 0.5 * weights @ (digamma(0.5 * dof[:, None] - steps).sum(axis=1) - np.linalg.slogdet(scale)[1])
        by_scale = 0.5 * weights.sum() * self.dof * np.linalg.inv(self._scale_in_units())
        by_scale -= 0.5 * np.einsum("k,kab->ab", weights * dof, inverse)
        factor = cholesky(self._scale_in_units(), lower=True)
        by_factor = 2.0 * by_scale @ factor
        by_factor[np.diag_indices(d)] *= np.diag(factor)
        head = [*by_mean, self.strength * by_strength, (self.dof - d + 1.0) * by_dof]
        return np.concatenate([head, by_factor[np.tril_indices(d)]])


def _above_share(scale: np.ndarray, covariance: np.ndarray, dof: float, rows: float, least: float = 1e-4) -> np.ndarray:
    """`scale` with its eigenvalues relative to the data's covariance kept above `least` per degree of freedom.

    Where the rows have no spread at all it stays above what rounding leaves of the sums of squares of so many rows.
    """
    rounding = np.finfo(np.float64).eps * rows / MOST_ROUNDING
    ridge = max(1e-9, rounding / (least * dof)) * np.trace(covariance) / covariance.shape[0]
    measure = covariance + ridge * np.eye(covariance.shape[0])
    values, vectors = eigh(scale, measure)
    if values[0] >= least * dof:
        return scale
    # What is missing is added: put together anew from all parts, the smallest would be rounding of the largest.
    back = measure @ vectors
    return scale + (back * np.maximum(least * dof - values, 0.0)) @ back.T


def _log_det(matrix: np.ndarray) -> float:
    return float(np.linalg.slogdet(matrix)[1])


def well_conditioned(moments: Moments) -> np.ndarray:
    """The data's covariance, shrunk towards its diagonal only where it is (nearly) singular.

    With enough rows nothing is done, so that defaults built on it are equivariant under every affine map. With few rows
    for the features, or collinear features, the sample covariance cannot be inverted; shrinking correlations keeps the
    answer equivariant under shifts and rescaling of each feature.
    """
    if moments.covariance is None:
        raise ValueError("the full Gaussian family needs the data's covariance")
    variance = np.where(moments.variance > 0, moments.variance, 1.0)
    unit = np.sqrt(variance)
    correlation = moments.covariance / np.outer(unit, unit)
    np.fill_diagonal(correlation, 1.0)
    d = variance.shape[0]
    smallest = np.linalg.eigvalsh(correlation)[0]
    shrinkage = min(1.0, d / moments.rows) if moments.rows <= 2 * d else 0.0
    if smallest < 1e-6:
        shrinkage = max(shrinkage, 1e-3)
    correlation = (1.0 - shrinkage) * correlation + shrinkage * np.eye(d)
    return correlation * np.outer(unit, unit)
