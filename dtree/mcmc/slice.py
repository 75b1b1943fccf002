"""Slice sampling of the mixing measure itself (Griffin & Walker 2011, after Kalli et al. 2011 and Walker 2007).

Given the partition and u the random measure is drawn: a jump w_c ~ Gamma(n_c - sigma, 1 + u) and parameters for each
cluster, and a Poisson process of further jumps. A slice variable s_i ~ U(0, w_{z_i}) per atom makes only the jumps
above the smallest slice matter, so finitely many are drawn (by thinning); then every atom chooses among the jumps
above its slice by its likelihood. The measure is dropped after each sweep and u is drawn given the partition alone,
with the measure integrated out, so no jump below the slices is ever needed. The Dirichlet process is the case sigma =
0. An atom of several rows carries w to the power of its count, of which the slice takes one.

With sigma near 1 a singleton's jump can be so small that millions of unused jumps lie above its slice. Such a sweep
is skipped: whether it is depends on the slices alone and not on the labels, so the posterior stays invariant, but
mixing suffers. That is a weakness of the method; the marginal samplers do not have it.
"""

import math
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.priors import DirichletProcess, GeneralizedGamma
from dtree.core.verbs import implements
from dtree.mcmc.clusters import canonical, load_partition
from dtree.mcmc.gibbs import State, init
from dtree.mcmc.hyperparameters import log_gamma_variate, log_one_plus_exp
from dtree.mcmc.natural import draw_natural
from dtree.mcmc.problem import Problem
from dtree.mcmc.scores import log_likelihood
from dtree.mcmc.sweeps import make_moves, several
from dtree.mcmc.worth import draw_index

__all__ = ["State", "init", "step"]

_MOST_JUMPS = 50_000  # expected number above the lowest slice
_MOST_PARAMETERS = 25_000_000  # of all jumps together: 200 MB
_LEAST_LOG = -600.0  # exp of it is still a number


@kernel
def draw_jumps(log_lowest, log_front, sigma, rng):
    """Logs of the jumps v above exp(log_lowest) of a Poisson process with intensity front v^(-1-sigma) e^-v, rising.

    From a point t upwards the intensity lies below front t^(-1-sigma) e^-v, whose next point is a transformed
    exponential; it is kept with probability (t/v)^(1+sigma), and t moves up to it either way.
    """
    jumps = np.empty(64)
    count = 0
    log_t = max(log_lowest, _LEAST_LOG)
    while True:
        t = math.exp(log_t)
        log_mass = log_front - (1.0 + sigma) * log_t - t
        step = math.exp(math.log(rng.standard_exponential()) - log_mass)
        if step >= 1.0:
            return jumps[:count]
        v = t - math.log1p(-step)
        log_v = math.log(v)
        if rng.random() < math.exp((1.0 + sigma) * (log_t - log_v)):
            if count == jumps.shape[0]:
                jumps = np.concatenate((jumps, np.empty(count)))
            jumps[count] = log_v
            count += 1
        log_t = max(log_v, log_t + 1e-15)


class Measure(NamedTuple):
    """The mixing measure whose jumps are drawn."""

    log_front: float  # log of the constant of its Levy density
    sigma: float
    log_rate: float  # log(1 + u)


@implements(make_moves, Measure)
@kernel
def slice_sweep(measure, number, work, rng):
    """Draw the measure and all labels; nothing changes when the sweep is skipped."""
    log_front, sigma, log_rate = measure
    clusters, atoms, labels = work.clusters, work.atoms, work.labels
    m, s = atoms.shape
    k = clusters.open[0]
    per_count = work.model.per_count
    log_occupied = np.empty(k)  # jumps in units of 1 / (1 + u)
    for slot in range(k):
        log_occupied[slot] = log_gamma_variate(clusters.columns[0, slot] * per_count - sigma, rng)
    log_slice = np.empty(m)
    for i in range(m):
        log_slice[i] = log_occupied[labels[i]] - rng.standard_exponential()
    lowest = log_slice.min()
    front = math.exp(log_front + sigma * log_rate)
    expected = front * (1.0 - lowest if sigma == 0.0 else 1.0 + math.expm1(min(-sigma * lowest, 700.0)) / sigma)
    if lowest < _LEAST_LOG or expected > min(_MOST_JUMPS, _MOST_PARAMETERS / s):
        return True
    log_new = draw_jumps(lowest, log_front + sigma * log_rate, sigma, rng)
    log_jump = np.concatenate((log_occupied, log_new[::-1]))  # largest first, so that an atom can stop at its slice
    total = log_jump.shape[0]
    natural, statistics = np.empty((total, s)), np.empty(s)
    for j in range(total):
        for column in range(s):
            statistics[column] = clusters.columns[column, j] if j < k else 0.0
        draw_natural(work.model.family, statistics, rng, natural[j])
    scores = np.empty(total)
    candidates = np.empty(total, dtype=np.int64)
    chosen = np.empty(m, dtype=np.int64)
    for i in range(m):
        size = 0
        more = atoms[i, 0] * per_count - 1.0
        for j in range(total):
            if log_jump[j] <= log_slice[i]:
                if j >= k:
                    break
                continue
            scores[size] = more * log_jump[j] + log_likelihood(work.cache, atoms, i, natural[j])
            candidates[size] = j
            size += 1
        chosen[i] = candidates[draw_index(scores, size, rng)]
    if chosen.max() + 3 > clusters.n_atoms.shape[0]:
        return False
    load_partition(work, canonical(chosen))
    return True


def step(problem: Problem, state: State, rng: np.random.Generator) -> State:
    """Draw the measure given the partition, the partition given the measure, then u and the hyperparameters."""
    if type(problem.family) not in draw_natural.implementations:
        raise ValueError(
            f"the slice sampler cannot draw the parameters of the family '{problem.model.family.name}'; "
            "use another sampler"
        )
    prior = problem.prior_at(state.prior)
    if isinstance(prior, DirichletProcess):
        log_u = log_gamma_variate(problem.n, rng) - log_gamma_variate(prior.alpha, rng)
        log_front, sigma, log_rate = math.log(prior.alpha), 0.0, log_one_plus_exp(log_u)
    elif isinstance(prior, GeneralizedGamma):
        log_front = math.log(prior.alpha * prior.sigma) - math.lgamma(1.0 - prior.sigma)
        sigma, log_rate = prior.sigma, math.log1p(prior.u)
    else:
        raise ValueError(f"the slice sampler knows no jumps of the prior '{prior.name}'; use another sampler")
    return several(problem, state, Measure(log_front, sigma, log_rate), 1, rng).state
