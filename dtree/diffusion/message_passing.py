"""Full message passing over divergence times (EP) with mean-field hyperparameters (VMP), section 3.1 of the paper.

q(t) is a Gaussian built from one site per internal node (the time prior) and one site per branch (everything the data
and the constraint 0 < t_b - t_a < 1 say about its length). Gaussian belief propagation on the tree of times gives the
cavities.

- Time prior: the incoming Gaussian is mapped to the Beta of equal mean and variance, multiplied by (1-t)^(cJ-1), and
  mapped back; where no such Beta exists the moments come from quadrature.
- Branch: with the location messages at the mean times held fixed, the data depend on the branch length through prod_d
  N(gap_d; 0, sigma2 (delta + v_a + v_b)); its moments under the truncated Gaussian cavity are found by quadrature, so
  that constraint and normal factor are one factor here and no intermediate variance variable is needed. Lengths and
  times are bounded, so a cavity of negative precision is as good as any other.
- 1/sigma2 and c: Gamma mean-field factors. The paper gives sigma2 itself a Gaussian; a Gamma on the precision is its
  EM choice.

The evidence is the usual EP energy. EP need not converge; `converged` and `message` say so.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import betaln, digamma, gammaln, roots_jacobi

from dtree.diffusion.belief import Leaves, all_messages
from dtree.diffusion.em import mean_field_at_times
from dtree.diffusion.laplace import Evidence
from dtree.diffusion.objective import Hyper, Workspace
from dtree.diffusion.prior import log_structure_prior
from dtree.diffusion.time_messages import (
    NODES,
    BranchFactors,
    TimeMessages,
    TimeSites,
    all_branches,
    gaussian_times,
    marginals,
)
from dtree.diffusion.tree import Columns


def _log_gaussian(precision: float, shift: float) -> float:
    """log of the integral of exp(-precision/2 x^2 + shift x) over all x."""
    if not 0.0 < precision < math.inf:  # sites that run away: the caller sees that the energy is none
        return math.nan
    precision, shift = float(precision), float(shift)  # which overflow to infinity without a word
    return 0.5 * (math.log(2 * math.pi / precision) + shift * shift / precision)


@lru_cache(maxsize=4096)  # a node's power stays the same through all rounds
def _quadrature(power: float) -> tuple[np.ndarray, np.ndarray]:
    """Places t and log weights of the Gauss-Jacobi rule for (1-t)^power over 0 < t < 1."""
    places, weights = roots_jacobi(NODES.shape[0], power, 0.0)
    return 0.5 * (places + 1.0), np.log(weights) - (power + 1.0) * math.log(2.0)


def _node_moments(precision: float, shift: float, power: float) -> tuple[float, float, float] | None:
    """log integral, mean and variance over 0 < t < 1 of exp(-precision/2 t^2 + shift t) (1-t)^power.

    A Gaussian that fits into (0, 1) is mapped to the Beta of equal mean and variance, as in the paper; the others (too
    wide, outside, or of negative precision) are integrated by quadrature. None where the integral does not exist.
    """
    if precision > 0.0:
        mean, var = shift / precision, 1.0 / precision
        if 0.0 < mean < 1.0 and var < mean * (1.0 - mean):
            strength = mean * (1.0 - mean) / var - 1.0
            a, b = mean * strength, (1.0 - mean) * strength
            if b + power > 0.0:
                log_z = _log_gaussian(precision, shift) + float(betaln(a, b + power) - betaln(a, b))
                b += power
                return log_z, a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1.0))
    if power <= -1.0:
        return None
    t, log_weights = _quadrature(power)
    logs = log_weights + t * (shift - 0.5 * precision * t)
    log_z = float(np.logaddexp.reduce(logs))
    weight = np.exp(logs - log_z)
    mean = float(weight @ t)
    return log_z, mean, float(weight @ (t - mean) ** 2)


def _start(tree: Columns) -> TimeSites:
    """Sites that hold the times near the given ones, in their right order."""
    n = tree.n_leaves
    rest, above = tree.rest[n:], tree.above[n:]
    spread = 0.3 * np.minimum(above - rest, rest) + 1e-3
    precision = 1.0 / spread**2
    node = np.column_stack([precision, precision * (1.0 - rest)])
    return TimeSites(node, np.zeros((2 * n - 1, 2)))


def _set_times(tree: Columns, order: np.ndarray, mean: np.ndarray) -> None:
    """Mean times into the tree's rests, kept in order where q itself is not."""
    n = tree.n_leaves
    for i in order[::-1]:
        above = tree.rest[tree.parent[i]] if tree.parent[i] >= 0 else 1.0
        tree.rest[i] = min(max(1.0 - mean[i - n], 1e-6 * above), above * (1.0 - 1e-4))


class _Model(NamedTuple):
    """What the factors need at the current mean times: those of the branches, and c and J (n-1,) of the time prior."""

    branches: BranchFactors
    c: float
    jumps: np.ndarray


def _model_at(work: Workspace, leaves: Leaves, hyper: Hyper, c: float) -> tuple[_Model, float]:
    """Factors at the workspace's times, and the (bound on the) log marginal there with 1/sigma2 handled by mean
    field."""
    tree, n, jumps = work.tree, work.n, work.jumps()
    messages = all_messages(tree, leaves)
    d, q = messages.mean.shape[1], messages.var.shape[1]
    gap = ((messages.mean - messages.down_mean) ** 2).reshape(-1, q, d // q).sum(axis=2)
    field = mean_field_at_times(tree, leaves, hyper._replace(c=1.0))
    # take the time prior (at c = 1) out of the bound again: its factors are separate here
    log_rest = np.log(tree.rest[n:])
    bound = field.bound - float(((jumps - 1.0) * log_rest).sum()) + float(gammaln(n)) + log_structure_prior(tree)
    others = messages.var + messages.down_var
    branches = BranchFactors(others, gap, tree.above - tree.rest, d // q, field.mean_precision)
    return _Model(branches, c, jumps), bound


@np.errstate(over="ignore", invalid="ignore")  # messages that run away end in an energy that is none, which is said
def log_evidence_message_passing(
    tree: Columns, leaves: Leaves, hyper: Hyper, *, max_iter: int = 400, tol: float = 1e-5, damping: float = 0.5
) -> Evidence:
    """log p(y, structure) by message passing from the tree's times; the returned tree holds the posterior mean times.

    >>> from dtree.diffusion.tree import from_nested
    >>> from dtree.diffusion.belief import leaves_from_data
    >>> y = leaves_from_data(np.array([[0.855], [0.475]]))
    >>> fit = log_evidence_message_passing(from_nested([0, 1], [0.4]), y, Hyper(sigma2=1.0, c=1.0))
    >>> fit.converged, abs(fit.log_evidence + 2.01) < 0.4
    (True, True)
    """
    work = Workspace(tree, leaves, hyper)
    n, order, columns = work.n, work.frame.order, work.tree
    h = work.frame.table[work.frame.size - 1]
    sites = _start(columns)
    times = TimeMessages(np.zeros((2 * n - 1, 2)), np.zeros((2 * n - 1, 2)), np.empty((n - 1, 2)))
    a0, b0 = hyper.c_prior
    c_shape, c_rate = a0 + n - 1, b0 + float((h[n:]).sum())
    value, last, converged, iterations, skipped = -np.inf, -np.inf, False, 0, 0
    message = ""
    gaussian_times(columns, order, sites, times)
    while iterations < max_iter and not converged:
        iterations += 1
        marginals(columns, sites.branch, times)
        _set_times(columns, order, times.moments[:, 0])
        if hyper.c is None:
            # for ordered times the sum is -sum H log w >= 0; Gaussians that overlap can break that
            c_rate = b0 + max(-float((work.jumps() * _expected_log_rest(times.moments)).sum()), 0.0)
        c = hyper.c if hyper.c is not None else c_shape / c_rate
        model, bound = _model_at(work, leaves, hyper, c)
        wanted, skipped = _wanted_sites(sites, model, columns, times)
        step = 1.0 if iterations <= 2 and damping >= 0.5 else damping
        moved = _toward(sites, wanted, step)
        # sites of negative precision are allowed as long as q(t) stays a Gaussian: shorten the step until it is
        while not gaussian_times(columns, order, moved, times)[1] and step > 1e-4:
            step *= 0.5
            moved = _toward(sites, wanted, step)
        sites = moved
        energy = _energy(sites, model, work, times)
        if not math.isfinite(energy):
            message = "a message over times became improper"
            break
        value = energy + bound
        if hyper.c is None:
            log_mean = digamma(c_shape) - math.log(c_rate)
            value += (n - 1) * (log_mean - math.log(c)) + a0 * math.log(b0) - gammaln(a0) + (a0 - 1) * log_mean - b0 * c
            value += c_shape - math.log(c_rate) + gammaln(c_shape) + (1 - c_shape) * digamma(c_shape)
        close = abs(value - last) < tol * (1.0 + abs(value)) * step / damping  # a shortened step moves less by itself
        converged = bool(close and iterations > 3 and not skipped)
        last = value
    if not converged and damping > 0.1:  # too bold: start again with smaller steps
        return log_evidence_message_passing(tree, leaves, hyper, max_iter=max_iter, tol=tol, damping=0.4 * damping)
    if not converged and not message:
        message = f"message passing did not converge in {max_iter} iterations"
        message += f"; {skipped} messages had no proper update" if skipped else ""
    good = converged and bool(np.isfinite(value))
    return Evidence(float(value - gammaln(n)), columns, float(value), good, message or "converged", iterations)


def _expected_log_rest(moments: np.ndarray) -> np.ndarray:
    """E log(1 - t) with each Gaussian mapped to a Beta; a Gaussian that leaves (0, 1) counts by its mean."""
    mean = np.clip(moments[:, 0], 1e-6, 1 - 1e-6)
    room = mean * (1.0 - mean)
    strength = np.maximum(room / moments[:, 1] - 1.0, 1e-3)
    beta = digamma((1.0 - mean) * strength) - digamma(strength)
    return np.where(moments[:, 1] < room, beta, np.log1p(-mean))


def _toward(sites: TimeSites, wanted: TimeSites, step: float) -> TimeSites:
    return TimeSites(*(old + step * (new - old) for old, new in zip(sites, wanted, strict=True)))


def _wanted_sites(sites: TimeSites, model: _Model, tree: Columns, times: TimeMessages) -> tuple[TimeSites, int]:
    """Sites that match the moments of every factor in its cavity, and how many factors had none (left as they are)."""
    skipped = 0
    n = tree.n_leaves
    node, branch = sites.node.copy(), sites.branch.copy()
    cavities, lengths = all_branches(tree, times, model.branches)
    for i in range(2 * n - 1):
        _, mean, var = lengths[i]
        if not var > 0.0:
            skipped += 1
            continue
        branch[i] = 1.0 / var - cavities[i, 0], mean / var - cavities[i, 1]
    for i in range(n - 1):
        precision, shift = _node_cavity(times.moments[i], sites.node[i])
        found = _node_moments(precision, shift, model.c * model.jumps[i] - 1.0)
        if found is None or not found[2] > 0.0:
            # no proper cavity yet: the site that started the iteration is weakened until the branches speak
            node[i] = 0.7 * sites.node[i]
            skipped += 1
            continue
        node[i] = 1.0 / found[2] - precision, found[1] / found[2] - shift
    return TimeSites(node, branch), skipped


def _node_cavity(marginal: np.ndarray, site: np.ndarray) -> tuple[float, float]:
    """Natural parameters of a node's time without its own site.

    A marginal that has shrunk to a point says nothing that its site could be taken out of: then nothing is known.
    """
    if not marginal[1] > 0.0:
        return 0.0, 0.0
    return float(1.0 / marginal[1] - site[0]), float(marginal[0] / marginal[1] - site[1])


def _energy(sites: TimeSites, model: _Model, work: Workspace, times: TimeMessages) -> float:
    """EP energy of the times: log integral of the sites with the constants that match each factor's normaliser."""
    tree, n = work.tree, work.n
    total, proper = gaussian_times(tree, work.frame.order, sites, times)
    if not proper:
        return -math.inf
    marginals(tree, sites.branch, times)
    cavities, lengths = all_branches(tree, times, model.branches)
    for i in range(2 * n - 1):
        with_site, shift = cavities[i] + sites.branch[i]
        if with_site > 0.0:
            total += lengths[i, 0] - _log_gaussian(with_site, shift)
    for i in range(n - 1):
        mean, var = times.moments[i]
        if not var > 0.0:
            return -math.inf
        precision, shift = _node_cavity(times.moments[i], sites.node[i])
        found = _node_moments(precision, shift, model.c * model.jumps[i] - 1.0)
        if found is not None:
            total += math.log(model.c) + found[0]
            total -= _log_gaussian(1.0 / var, mean / var)
    return float(total)
