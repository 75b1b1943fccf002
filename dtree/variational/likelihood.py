"""Expected log likelihoods: every family's E log p(x | eta) is a product of the row's statistics with coefficients.

All families are conjugate exponential families, so with q(eta_k) fixed by soft statistics (k, s) the expected log likelihood
of a row is linear in its own statistics: `features(X) @ coefficients.T` (n, k) is the whole E-step's arithmetic, and
`responsibilities.T @ features(X)` (k, s) the whole M-step's. A family is registered with four functions; one that keeps rows
as `family.statistics(X)` needs only its coefficients:

    register(MyFamily, coefficients)

Taking q(eta) back into the bound, sum_n r_nk E log p(x_n | eta_k) - KL(q || p) is the log marginal likelihood of the soft
statistics, so bounds need no pass of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import digamma, gammaln

from dtree.core.families import Bernoulli, DiagonalGaussian, Family, Gaussian, Multinomial, Poisson
from dtree.core.jit import kernel
from dtree.core.verbs import log_marginal

_LOG_2PI = math.log(2.0 * math.pi)


class Expectation(NamedTuple):
    """What the variational steps ask of a family."""

    coefficients: Callable[[Any, np.ndarray], np.ndarray]  # family, soft statistics (k, s) -> (k, s)
    prepare: Callable[[Any, Any], Any]  # family, X -> rows kept between passes
    features: Callable[[Any, Any], Any]  # family, some prepared rows -> statistics (b, s), dense or CSR
    parameters: Callable[[Any, np.ndarray], dict[str, np.ndarray]]  # family, (k, s) -> named posterior means


_REGISTRY: dict[type[Family], Expectation] = {}


def register(
    family: type[Family],
    coefficients: Callable[[Any, np.ndarray], np.ndarray],
    prepare: Callable[[Any, Any], Any] | None = None,
    features: Callable[[Any, Any], Any] | None = None,
    parameters: Callable[[Any, np.ndarray], dict[str, np.ndarray]] | None = None,
) -> None:
    """Make a family usable by the variational mixtures."""
    _REGISTRY[family] = Expectation(
        coefficients, prepare or _prepared_statistics, features or _as_they_are, parameters or _no_parameters
    )


def expectation_of(family: Family) -> Expectation:
    """The registered functions of a family's type."""
    for base in type(family).__mro__:
        if base in _REGISTRY:
            return _REGISTRY[base]
    raise ValueError(f"{type(family).__name__} has no expected log likelihood: register one in dtree.variational")


def _prepared_statistics(family: Family, X: Any) -> np.ndarray:
    return np.ascontiguousarray(family.statistics(X))


def _as_they_are(family: Family, rows: Any) -> Any:
    return rows


def _no_parameters(family: Family, statistics: np.ndarray) -> dict[str, np.ndarray]:
    return {}


@kernel
def _log_marginals(compiled, statistics):
    out = np.empty(statistics.shape[0])
    for k in range(statistics.shape[0]):
        out[k] = log_marginal(compiled, statistics[k])
    return out


def soft_log_marginals(family: Family, statistics: np.ndarray) -> np.ndarray:
    """Log marginal likelihoods (k,) of soft statistics (k, s).

    The family is compiled without tables: they snap counts within 1e-9 of an integer to it, which is harmless for
    whole rows but makes a bound jump by as much when responsibilities creep towards 1.
    """
    return _log_marginals(family.compile(np.zeros(statistics.shape[1])), np.ascontiguousarray(statistics))


# Gaussian, full covariance -----------------------------------------------------------------------------------------


@kernel
def _gaussian_features(X, origin, unit):
    n, d = X.shape
    out = np.empty((n, 1 + d + d * (d + 1) // 2))
    for i in range(n):
        row = out[i]
        row[0] = 1.0
        for a in range(d):
            row[1 + a] = (X[i, a] - origin[a]) / unit[a]
        position = 1 + d
        for a in range(d):
            left = row[1 + a]
            for b in range(a, d):
                row[position] = left * row[1 + b]
                position += 1
    return out


def _gaussian_coefficients(family: Gaussian, statistics: np.ndarray) -> np.ndarray:
    strength, dof, mean, scale = family.posterior(statistics)
    d = family.n_features
    try:
        factor = np.linalg.cholesky(scale)
    except np.linalg.LinAlgError:
        raise ValueError(
            "a component's posterior scale matrix is not positive definite in double precision: the family's scale is "
            "too small for the spread of these data; give a larger one or rescale the features"
        ) from None
    log_det = 2.0 * np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
    precision = dof[:, None, None] * np.linalg.inv(scale)
    pushed = np.einsum("kab,kb->ka", precision, mean)
    log_det_precision = digamma(0.5 * (dof[:, None] - np.arange(d))).sum(axis=1) + d * math.log(2.0) - log_det
    constant = 0.5 * (log_det_precision - d * _LOG_2PI - d / strength - np.einsum("ka,ka->k", pushed, mean))
    a, b = np.triu_indices(d)
    quadratic = -0.5 * (precision[:, a, b] + precision[:, b, a]) * np.where(a == b, 0.5, 1.0)
    return np.hstack([(constant - np.log(family.unit).sum())[:, None], pushed, quadratic])


def _gaussian_parameters(family: Gaussian, statistics: np.ndarray) -> dict[str, np.ndarray]:
    strength, dof, mean, scale = family.posterior(statistics)
    unit = family.unit
    scale = scale * np.outer(unit, unit)
    above = dof - family.n_features - 1.0
    expected = scale / np.where(above > 0, above, np.nan)[:, None, None]  # the inverse Wishart has no mean there
    return {"means": family.origin + unit * mean, "covariances": expected, "strengths": strength, "dofs": dof}


def _dense(family: Family, X: Any) -> np.ndarray:
    return np.ascontiguousarray(X, dtype=np.float64)


register(
    Gaussian,
    _gaussian_coefficients,
    _dense,
    lambda family, rows: _gaussian_features(rows, family.origin, family.unit),
    _gaussian_parameters,
)


# Gaussian, diagonal ------------------------------------------------------------------------------------------------


@kernel
def _diagonal_features(X, origin, unit):
    n, d = X.shape
    out = np.empty((n, 1 + 2 * d))
    for i in range(n):
        out[i, 0] = 1.0
        for a in range(d):
            z = (X[i, a] - origin[a]) / unit[a]
            out[i, 1 + a] = z
            out[i, 1 + d + a] = z * z
    return out


def _diagonal_posterior(family: DiagonalGaussian, statistics: np.ndarray) -> tuple[np.ndarray, ...]:
    """strength (k, 1), mean, shape, rate (k, d) in standard units."""
    d = family.n_features
    prior_mean = (family.mean - family.origin) / family.unit
    strength = family.strength + statistics[:, :1]
    mean = (statistics[:, 1 : 1 + d] + family.strength * prior_mean) / strength
    within = statistics[:, 1 + d :] + family.strength * prior_mean**2 - strength * mean**2
    return strength, mean, family.shape + 0.5 * statistics[:, :1], family.rate / family.unit**2 + 0.5 * within


def _diagonal_coefficients(family: DiagonalGaussian, statistics: np.ndarray) -> np.ndarray:
    strength, mean, shape, rate = _diagonal_posterior(family, statistics)
    precision = shape / rate
    constant = 0.5 * (digamma(shape) - np.log(rate) - _LOG_2PI - 1.0 / strength - precision * mean**2)
    constant = (constant - np.log(family.unit)).sum(axis=1, keepdims=True)
    return np.hstack([constant, precision * mean, -0.5 * precision])


def _diagonal_parameters(family: DiagonalGaussian, statistics: np.ndarray) -> dict[str, np.ndarray]:
    strength, mean, shape, rate = _diagonal_posterior(family, statistics)
    variance = rate / np.where(shape > 1.0, shape - 1.0, np.nan) * family.unit**2
    return {"means": family.origin + family.unit * mean, "variances": variance, "strengths": strength[:, 0]}


register(
    DiagonalGaussian,
    _diagonal_coefficients,
    _dense,
    lambda family, rows: _diagonal_features(rows, family.origin, family.unit),
    _diagonal_parameters,
)


# Counts ------------------------------------------------------------------------------------------------------------


def _with_leading_columns(leading: list[np.ndarray], X: Any) -> sparse.csr_matrix:
    columns = sparse.csr_matrix(np.column_stack(leading))
    return sparse.csr_matrix(sparse.hstack([columns, X.tocsr().astype(np.float64)], format="csr"))


def _sum_over_entries(X: Any, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Row sums (n,) of a function that is zero at zero, for a CSR matrix."""
    filled = sparse.csr_matrix((function(X.data), X.indices, X.indptr), shape=X.shape)
    return np.asarray(filled.sum(axis=1)).ravel()


def _bernoulli_rows(family: Bernoulli, X: Any) -> Any:
    if sparse.issparse(X):
        return _with_leading_columns([np.ones(X.shape[0])], X)
    return _prepared_statistics(family, X)


def _bernoulli_coefficients(family: Bernoulli, statistics: np.ndarray) -> np.ndarray:
    count, ones = statistics[:, :1], statistics[:, 1:]
    log_zero = digamma(family.b + count - ones) - digamma(family.a + family.b + count)
    log_odds = digamma(family.a + ones) - digamma(family.b + count - ones)
    return np.hstack([log_zero.sum(axis=1, keepdims=True), log_odds])


register(
    Bernoulli,
    _bernoulli_coefficients,
    _bernoulli_rows,
    None,
    lambda family, statistics: {
        "probabilities": (family.a + statistics[:, 1:]) / (family.a + family.b + statistics[:, :1])
    },
)


def _multinomial_rows(family: Multinomial, X: Any) -> Any:
    if not sparse.issparse(X):
        return _prepared_statistics(family, X)
    X = X.tocsr().astype(np.float64)
    total = np.asarray(X.sum(axis=1)).ravel()
    log_coefficient = np.zeros(X.shape[0])
    if family.coefficient:
        log_coefficient = gammaln(total + 1.0) - _sum_over_entries(X, lambda x: gammaln(x + 1.0))
    return _with_leading_columns([np.ones(X.shape[0]), log_coefficient, total], X)


def _multinomial_coefficients(family: Multinomial, statistics: np.ndarray) -> np.ndarray:
    size = statistics.shape[0]
    fixed = np.tile([0.0, 1.0], (size, 1))
    log_total = digamma(family.concentration.sum() + statistics[:, 2:3])
    return np.hstack([fixed, -log_total, digamma(family.concentration + statistics[:, 3:])])


def _multinomial_parameters(family: Multinomial, statistics: np.ndarray) -> dict[str, np.ndarray]:
    weight = family.concentration + statistics[:, 3:]
    return {"probabilities": weight / weight.sum(axis=1, keepdims=True)}


register(Multinomial, _multinomial_coefficients, _multinomial_rows, None, _multinomial_parameters)


def _poisson_rows(family: Poisson, X: Any) -> Any:
    if not sparse.issparse(X):
        return _prepared_statistics(family, X)
    X = X.tocsr().astype(np.float64)
    return _with_leading_columns([np.ones(X.shape[0]), -_sum_over_entries(X, lambda x: gammaln(x + 1.0))], X)


def _poisson_coefficients(family: Poisson, statistics: np.ndarray) -> np.ndarray:
    shape, rate = family.shape + statistics[:, 2:], family.rate + statistics[:, :1]
    expected = -(shape / rate).sum(axis=1, keepdims=True)
    return np.hstack([expected, np.ones_like(expected), digamma(shape) - np.log(rate)])


register(
    Poisson,
    _poisson_coefficients,
    _poisson_rows,
    None,
    lambda family, statistics: {"intensities": (family.shape + statistics[:, 2:]) / (family.rate + statistics[:, :1])},
)
