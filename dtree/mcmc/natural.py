"""Drawing a cluster's parameters from their posterior, as a vector that is linear in an atom's statistics.

All our families are exponential families, so log p(atom | parameters) = natural . statistics, constants included: for
the slice sampler a component is one row (s,) and an atom's likelihood is a dot product. `draw_natural(family,
statistics, rng, out)` dispatches on the compiled family's type; zero statistics draw from the prior.
"""

import math
from typing import Any

import numpy as np

from dtree.core.families.bernoulli import CompiledBernoulli
from dtree.core.families.column_kernels import real_posterior
from dtree.core.families.column_tables import (
    CONSTANT,
    COUNT,
    END,
    FIRST,
    PER_ROW,
    PLACE,
    RATE,
    SHIFT,
    SQUARE,
    SUM,
    CompiledColumns,
)
from dtree.core.families.gaussian_diag import CompiledDiagonalGaussian
from dtree.core.families.gaussian_kernels import CompiledGaussian
from dtree.core.families.multinomial import FIRST_WORD, CompiledMultinomial
from dtree.core.families.poisson import CompiledPoisson
from dtree.core.jit import kernel
from dtree.core.tree import log_add
from dtree.core.verbs import implements, verb
from dtree.mcmc.hyperparameters import log_gamma_variate

_LOG_2PI = math.log(2.0 * math.pi)


@verb()
def draw_natural(family: Any, statistics: Any, rng: Any, out: Any) -> None:
    """out (s,) = natural parameters drawn from the posterior given `statistics` (s,)."""


@implements(draw_natural, CompiledGaussian)
@kernel
def _gaussian(family, statistics, rng, out):
    """Precision ~ Wishart by Bartlett's decomposition, mean given precision."""
    d = family.pull.shape[0]
    count = statistics[0]
    kappa, dof = family.strength + count, family.dof + count
    mean = np.empty(d)
    scale = np.empty((d, d))
    for a in range(d):
        mean[a] = (statistics[1 + a] + family.pull[a]) / kappa
    position = 0
    for a in range(d):
        for b in range(a, d):
            value = family.scale_base[position] + statistics[1 + d + position] - kappa * mean[a] * mean[b]
            scale[a, b] = value
            scale[b, a] = value
            position += 1
    lower = np.linalg.cholesky(scale)
    bartlett = np.zeros((d, d))
    log_det = 0.0
    for a in range(d):
        bartlett[a, a] = math.sqrt(2.0 * rng.standard_gamma(0.5 * (dof - a)))
        log_det += 2.0 * (math.log(bartlett[a, a]) - math.log(lower[a, a]))
        for b in range(a):
            bartlett[a, b] = rng.standard_normal()
    root = np.linalg.solve(lower.T.copy(), bartlett)  # precision = root root'
    precision = root @ root.T.copy()
    noise = np.empty(d)
    for a in range(d):
        noise[a] = rng.standard_normal() / math.sqrt(kappa)
    mu = mean + lower @ np.linalg.solve(bartlett.T.copy(), noise)
    pushed = precision @ mu
    out[0] = 0.5 * (log_det - d * _LOG_2PI - np.dot(mu, pushed)) + family.log_jacobian
    position = 0
    for a in range(d):
        out[1 + a] = pushed[a]
        for b in range(a, d):
            out[1 + d + position] = -0.5 * precision[a, b] if a == b else -precision[a, b]
            position += 1


@implements(draw_natural, CompiledDiagonalGaussian)
@kernel
def _diagonal_gaussian(family, statistics, rng, out):
    d = family.shape.shape[0]
    count = statistics[0]
    kappa = family.strength + count
    out[0] = family.log_jacobian - 0.5 * d * _LOG_2PI
    for j in range(d):
        pulled = statistics[1 + j] + family.pull[j]
        rate = family.rate_base[j] + 0.5 * statistics[1 + d + j] - 0.5 * pulled * pulled / kappa
        precision = rng.standard_gamma(family.shape[j] + 0.5 * count) / rate
        mu = pulled / kappa + rng.standard_normal() / math.sqrt(kappa * precision)
        out[0] += 0.5 * (math.log(precision) - precision * mu * mu)
        out[1 + j] = precision * mu
        out[1 + d + j] = -0.5 * precision


@implements(draw_natural, CompiledBernoulli)
@kernel
def _bernoulli(family, statistics, rng, out):
    out[0] = 0.0
    for j in range(family.ones.shift.shape[0]):
        ones = statistics[1 + j]
        log_a = log_gamma_variate(family.ones.shift[j] + ones, rng)
        log_b = log_gamma_variate(family.zeros.shift[j] + statistics[0] - ones, rng)
        out[0] += log_b - log_add(log_a, log_b)
        out[1 + j] = log_a - log_b


@implements(draw_natural, CompiledMultinomial)
@kernel
def _multinomial(family, statistics, rng, out):
    out[0], out[1], out[2] = 0.0, 1.0, 0.0
    log_total = -np.inf
    for v in range(family.words.shift.shape[0]):
        draw = log_gamma_variate(family.words.shift[v] + statistics[FIRST_WORD + v], rng)
        out[FIRST_WORD + v] = draw
        log_total = log_add(log_total, draw)
    for v in range(family.words.shift.shape[0]):
        out[FIRST_WORD + v] -= log_total


@implements(draw_natural, CompiledPoisson)
@kernel
def _poisson(family, statistics, rng, out):
    out[0], out[1] = 0.0, 1.0
    for j in range(family.rate.shape[0]):
        log_rate = log_gamma_variate(family.sums.shift[j] + statistics[2 + j], rng)
        log_rate -= math.log(family.rate[j] + statistics[0])
        out[0] -= math.exp(log_rate)
        out[2 + j] = log_rate


@implements(draw_natural, CompiledColumns)
@kernel
def _columns(family, statistics, rng, out):
    """The same for columns that have counts of their own."""
    out[:] = 0.0
    at, real = family.real_at, family.real
    for j in range(at.shape[1]):
        count, strength, mean, rate = real_posterior(at, real, statistics, j)
        precision = rng.standard_gamma(real[SHIFT, j] + 0.5 * count) / rate
        mu = mean + rng.standard_normal() / math.sqrt(strength * precision)
        out[at[COUNT, j]] = 0.5 * (math.log(precision) - precision * mu * mu) + real[PER_ROW, j]
        out[at[SUM, j]] = precision * mu
        out[at[SQUARE, j]] = -0.5 * precision
    for c in range(family.column_at.shape[1]):
        log_total = -np.inf
        for v in range(family.column_at[FIRST, c], family.column_at[END, c]):
            place = family.cell_at[PLACE, v]
            out[place] = log_gamma_variate(family.cell[SHIFT, v] + statistics[place], rng)
            log_total = log_add(log_total, out[place])
        out[family.column_at[COUNT, c]] = -log_total
    at, values = family.poisson_at, family.poisson
    for j in range(at.shape[1]):
        log_rate = log_gamma_variate(values[SHIFT, j] + statistics[at[SUM, j]], rng)
        log_rate -= math.log(values[RATE, j] + statistics[at[COUNT, j]])
        out[at[COUNT, j]] = -math.exp(log_rate)
        out[at[SUM, j]] = log_rate
        out[at[CONSTANT, j]] = 1.0
