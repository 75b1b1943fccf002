"""Resampling the parameters of the mixing measure given the sizes of the clusters.

Under u ~ p(u | partition) both priors have simple conditionals ([LC15] uses the same hyperpriors):

- Dirichlet process: u / (1 + u) ~ Beta(n, alpha), then alpha ~ Gamma(a + k, b + log(1 + u)). This is the step of
  Escobar & West with u in the place of their Beta variable; u is drawn and dropped, for the partition does not depend
  on it.
- generalised gamma process: log u and sigma by slice sampling (sigma on (0, 1) under a Beta prior) with alpha
  integrated out, for alpha and u lie along a ridge on which single-variable steps creep; then alpha ~ Gamma(a + k, b
  + (1+u)^sigma - 1). At fixed alpha and sigma only log u moves, whose density is then log-concave.

Kernels move a vector of the prior's parameters (`resample_vector`), everyone else the prior itself (`resample`).
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from dtree.core.jit import kernel
from dtree.core.priors import DirichletProcess, GeneralizedGamma, Prior
from dtree.core.priors.base import CompiledKappa
from dtree.core.tables import counts_of_table
from dtree.core.verbs import implements, verb

ALPHA_SHAPE, ALPHA_RATE = 1.0, 1.0  # alpha ~ Gamma(1, 1)
SIGMA_A, SIGMA_B = 1.5, 1.5  # sigma ~ Beta(1.5, 1.5)
_SIGMA_EDGE = 1e-6  # sigma stays inside (0, 1), where its logs are finite
_ROUNDS = 2  # u and sigma lean on each other; a second round costs little
_LOG_U_STEP = 2.0  # first width of an interval; stepping out widens it where it is too short
_NOTHING, _ALPHA, _ALPHA_SIGMA_U, _ONLY_U = range(4)  # what moves
_LOG_U_LIMIT = 600.0  # exp of it is still a number


@kernel
def log_gamma_variate(shape, rng):
    """Log of a Gamma(shape, 1) variate, safe where the variate itself would underflow."""
    if shape >= 1.0:
        return math.log(rng.standard_gamma(shape))
    return math.log(rng.standard_gamma(shape + 1.0)) - rng.standard_exponential() / shape


@kernel
def resample_dirichlet_process(alpha, n, k, rng):
    """A new alpha given n rows in k clusters."""
    log_ratio = log_gamma_variate(n, rng) - log_gamma_variate(alpha, rng)  # log u
    log_tilt = log_one_plus_exp(log_ratio)
    return rng.standard_gamma(ALPHA_SHAPE + k) / (ALPHA_RATE + log_tilt)


@kernel
def log_one_plus_exp(x):
    """log(1 + e^x): log(1 + u) at x = log u."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@kernel
def log_mass_term(log_tilt, sigma, k, alpha):
    """What alpha adds: -psi(u) at a given alpha, or integrated over its Gamma prior and alpha^k when alpha < 0."""
    if alpha < 0.0:
        return -(ALPHA_SHAPE + k) * math.log(ALPHA_RATE + math.expm1(sigma * log_tilt))
    return -alpha * math.expm1(sigma * log_tilt)


@kernel
def log_density_of_log_u(x, alpha, sigma, n, k):
    """log p(log u = x | partition, sigma), up to a constant; alpha < 0 means integrated out."""
    log_tilt = log_one_plus_exp(x)
    return n * x - (n - sigma * k) * log_tilt + log_mass_term(log_tilt, sigma, k, alpha)


@kernel
def log_density_of_sigma(sigma, log_tilt, counts):
    """log p(sigma | partition, u), alpha integrated out, up to a constant."""
    if sigma <= _SIGMA_EDGE or sigma >= 1.0 - _SIGMA_EDGE:
        return -np.inf
    k = counts.shape[0]
    total = (SIGMA_A - 1.0) * math.log(sigma) + (SIGMA_B - 1.0) * math.log1p(-sigma)
    total += k * (math.log(sigma) - math.lgamma(1.0 - sigma) + sigma * log_tilt)
    total += log_mass_term(log_tilt, sigma, k, -1.0)
    for c in range(k):
        total += math.lgamma(counts[c] - sigma)
    return total


@kernel
def _slice_log_u(x, alpha, sigma, n, k, rng):
    """Stepping out and shrinkage (Neal 2003)."""
    level = log_density_of_log_u(x, alpha, sigma, n, k) - rng.standard_exponential()
    low = x - rng.random() * _LOG_U_STEP
    high = low + _LOG_U_STEP
    while log_density_of_log_u(low, alpha, sigma, n, k) > level:
        low -= _LOG_U_STEP
    while log_density_of_log_u(high, alpha, sigma, n, k) > level:
        high += _LOG_U_STEP
    while True:
        proposal = low + rng.random() * (high - low)
        if log_density_of_log_u(proposal, alpha, sigma, n, k) >= level:
            return proposal
        if proposal < x:
            low = proposal
        else:
            high = proposal


@kernel
def _slice_sigma(sigma, log_tilt, counts, rng):
    """Shrinkage from the whole of (0, 1)."""
    level = log_density_of_sigma(sigma, log_tilt, counts) - rng.standard_exponential()
    low, high = 0.0, 1.0
    while True:
        proposal = low + rng.random() * (high - low)
        if log_density_of_sigma(proposal, log_tilt, counts) >= level:
            return proposal
        if proposal < sigma:
            low = proposal
        else:
            high = proposal


@kernel
def resample_generalized_gamma(sigma, u, n, counts, rng):
    """New (alpha, sigma, u) given the clusters' counts (k,)."""
    k = counts.shape[0]
    x = math.log(u)
    for _ in range(_ROUNDS):
        x = min(max(_slice_log_u(x, -1.0, sigma, n, k, rng), -_LOG_U_LIMIT), _LOG_U_LIMIT)
        sigma = _slice_sigma(sigma, log_one_plus_exp(x), counts, rng)
    mass_rate = ALPHA_RATE + math.expm1(sigma * log_one_plus_exp(x))
    return rng.standard_gamma(ALPHA_SHAPE + k) / mass_rate, sigma, math.exp(x)


class Moving(NamedTuple):
    """Which numbers of a prior's vector move, and what its weights need of counts alone."""

    what: int
    log_gamma: np.ndarray  # log Gamma(count), by count


def moving_of(prior: Prior, largest: float, hyperparameters: bool = True) -> Moving:
    """What moves of a prior; its table of weights goes up to the largest count."""
    log_gamma = gammaln(counts_of_table(largest))
    if isinstance(prior, DirichletProcess):
        return Moving(_ALPHA if hyperparameters else _NOTHING, log_gamma)
    if isinstance(prior, GeneralizedGamma):
        return Moving(_ALPHA_SIGMA_U if hyperparameters else _ONLY_U, log_gamma)
    return Moving(_NOTHING, log_gamma)


@kernel
def resample_vector(moving, vector, counts, rng, out):
    """out (p,) = a new vector of the prior given the counts (k,) of the clusters."""
    n, k = counts.sum(), counts.shape[0]
    for p in range(out.shape[0]):
        out[p] = vector[p]
    if moving.what == _ALPHA:
        out[0] = resample_dirichlet_process(vector[0], n, k, rng)
    elif moving.what == _ALPHA_SIGMA_U:
        out[0], out[1], out[2] = resample_generalized_gamma(vector[1], vector[2], n, counts, rng)
    elif moving.what == _ONLY_U:
        out[2] = math.exp(_slice_log_u(math.log(vector[2]), vector[0], vector[1], n, k, rng))


@kernel
def _as_it_is(prior, moving, vector):
    return prior


@verb(_as_it_is)
def kappa_at(prior: Any, moving: Moving, vector: np.ndarray) -> Any:
    """A compiled prior at another vector, its table overwritten and as long as that of `moving`.

    One that never moves stays as it is.
    """


@implements(kappa_at, CompiledKappa)
@kernel
def _kappa_at(prior, moving, vector):
    if moving.what == _NOTHING:
        return prior
    table = prior.table[: moving.log_gamma.shape[0]]
    if moving.what == _ALPHA:
        log_front, sigma = math.log(vector[0]), 0.0
        log_tilt = 0.0 if math.isnan(vector[1]) else math.log1p(vector[1])
    else:
        sigma, log_tilt = vector[1], math.log1p(vector[2])
        log_front = math.log(vector[0] * sigma) - math.lgamma(1.0 - sigma)
    for count in range(1, table.shape[0]):
        log_gamma = moving.log_gamma[count] if sigma == 0.0 else math.lgamma(count - sigma)
        table[count] = log_front + log_gamma - (count - sigma) * log_tilt
    return CompiledKappa(log_front, sigma, log_tilt, table)


def resample(prior: Prior, counts: np.ndarray, rng: np.random.Generator, hyperparameters: bool = True) -> Prior:
    """A new prior given the counts (k,) of the clusters; a prior of another kind stays as it is.

    Without `hyperparameters` only u moves: it is part of the model's joint distribution, not a hyperparameter.

    >>> prior = resample(DirichletProcess(1.0), np.array([5.0, 3.0]), np.random.default_rng(0))
    >>> prior.alpha > 0
    True
    """
    moving, vector = moving_of(prior, 0.0, hyperparameters), parameter_vector(prior)
    if moving.what == _NOTHING:
        return prior
    resample_vector(moving, vector, np.ascontiguousarray(counts, dtype=np.float64), rng, vector)
    return from_parameter_vector(prior, vector)


def parameter_vector(prior: Prior) -> np.ndarray:
    """The prior's numbers as one array, NaN where it has none (for checkpoints and draws)."""
    return np.array([np.nan if value is None else float(value) for value in prior.parameters().values()])


def from_parameter_vector(prior: Prior, vector: np.ndarray) -> Prior:
    """The prior of the same type at another vector."""
    values = [None if np.isnan(value) else float(value) for value in vector]
    return type(prior)(**dict(zip(prior.parameters(), values)))
