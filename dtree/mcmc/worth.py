"""What clusters are worth and what atoms gain by joining them, choosing among them by it, and the Gibbs sweep."""

import math

import numpy as np

from dtree.core.jit import kernel
from dtree.core.verbs import log_kappa
from dtree.mcmc.clusters import move_atom
from dtree.mcmc.scores import block_gains, join_gains, leave_gain

NEGLIGIBLE = 45.0  # a weight exp(-45) of the largest is below the rounding of their sum


@kernel
def true_count(work, k):
    """Number of rows in cluster k."""
    return work.clusters.columns[0, k] * work.model.per_count


@kernel
def log_worth(work, k):
    """log phi_h of cluster k."""
    return log_kappa(work.model.prior, true_count(work, k)) + work.clusters.log_marginal[k]


@kernel
def log_worth_of_all(work):
    """Sum of log phi_h over clusters."""
    total = 0.0
    for k in range(work.clusters.open[0]):
        total += log_worth(work, k)
    return total


@kernel
def log_sum(log_total, scores, size):
    """log(exp(log_total) + sum of exp(scores[:size]))."""
    best = log_total
    for k in range(size):
        best = max(best, scores[k])
    if best == -np.inf:
        return best
    total = math.exp(log_total - best)
    for k in range(size):
        if scores[k] - best > -NEGLIGIBLE:  # most are not worth their exponential
            total += math.exp(scores[k] - best)
    return best + math.log(total)


@kernel
def take_away(work, k, block, rest):
    """rest (s,) = the statistics of cluster k without a block (s,) of its atoms."""
    for s in range(rest.shape[0]):
        rest[s] = work.clusters.columns[s, k] - block[s]


@kernel
def score_block(work, block):
    """scores[c] = log phi_h(c u B) - log phi_h(c) of all clusters, for atoms B outside them with statistics `block`."""
    clusters, prior, per_count = work.clusters, work.model.prior, work.model.per_count
    columns, scores, k = clusters.columns, clusters.scores, clusters.open[0]
    weight = block[0] * per_count
    block_gains(work.cache, work.model.family, clusters, block, k, scores)
    for c in range(k):
        count = columns[0, c] * per_count
        scores[c] += log_kappa(prior, count + weight) - log_kappa(prior, count)


@kernel(inline=True)
def count_of_all(work):
    """Number of rows in all clusters."""
    total = 0.0
    for c in range(work.clusters.open[0]):
        total += work.clusters.columns[0, c]
    return total * work.model.per_count


@kernel
def score_places(work, i):
    """scores[c] = log J of cluster c for atom i, itself taken out; returns that of a new cluster.

    -inf for its own cluster when it is alone there, and for a cluster that is next to impossible beside staying.
    """
    clusters, prior, per_count = work.clusters, work.model.prior, work.model.per_count
    k, own = clusters.open[0], work.labels[i]
    weight = work.atoms[i, 0] * per_count
    alone = log_kappa(prior, weight) + work.log_alone[i]
    own_score, stay = -np.inf, alone
    if clusters.n_atoms[own] > 1:
        count = clusters.columns[0, own] * per_count
        gain = leave_gain(work.cache, work.model.family, clusters, work.atoms, i, own)
        own_score = gain + log_kappa(prior, count) - log_kappa(prior, count - weight)
        stay = own_score
    total = count_of_all(work)
    depth = NEGLIGIBLE + log_kappa(prior, total + weight) - log_kappa(prior, total) - stay  # see `gibbs_sweep`
    join_gains(work.cache, work.model.family, clusters, work.atoms, i, 0, k, depth, clusters.scores)
    for c in range(k):
        if clusters.scores[c] > -np.inf:
            count = clusters.columns[0, c] * per_count
            clusters.scores[c] += log_kappa(prior, count + weight) - log_kappa(prior, count)
    clusters.scores[own] = own_score
    return alone


@kernel
def log_sigmoid(x):
    """log(1 / (1 + e^-x))."""
    return min(x, 0.0) - math.log1p(math.exp(-abs(x)))


@kernel
def draw_index(scores, size, rng):
    """An index drawn in proportion to exp(scores[:size]); scores are overwritten."""
    best = -np.inf
    for k in range(size):
        best = max(best, scores[k])
    total = 0.0
    for k in range(size):
        gap = scores[k] - best
        if gap > -NEGLIGIBLE:
            total += math.exp(gap)
        scores[k] = total  # now cumulative
    target = rng.random() * total
    for k in range(size):
        if target < scores[k]:
            return k
    return size - 1


@kernel
def accept(acceptance, kind, log_ratio, log_uniform):
    """Whether to accept a proposal; it is counted, if that is wanted and it was possible at all."""
    accepted = log_uniform < log_ratio
    if acceptance.wanted[0] and math.isfinite(log_ratio):
        acceptance.tally[kind, 0] += 1.0
        acceptance.tally[kind, 1] += 1.0 if accepted else 0.0
        acceptance.tally[kind, 2] += log_ratio
    return accepted


@kernel
def gibbs_sweep(work, order, begin, rng):
    """Gibbs moves of the atoms order[begin:]; returns how many of `order` are done, fewer than all when out of room.

    The cluster of each atom is drawn given all others. Weights are gains of joining; for its own cluster the gain of
    having joined, so an atom that stays leaves no trace in the statistics. kappa(n) is the n-th moment of a measure, so
    log kappa is convex: no cluster gains more from the prior by an atom than one of all rows would, and a join gain far
    enough below what staying or being alone is worth is left out.
    """
    # Not through `score_places` and `has_room`: handing over all of `work` once more costs a fifth of the sweep.
    model, cache, clusters, atoms, labels = work.model, work.cache, work.clusters, work.atoms, work.labels
    family, prior, per_count = model.family, model.prior, model.per_count
    columns, scores, n_atoms, places = clusters.columns, clusters.scores, clusters.n_atoms, work.members
    total, last_weight, most_by_prior, alone_by_prior = count_of_all(work), -1.0, 0.0, 0.0
    for position in range(begin, order.shape[0]):
        k = clusters.open[0]
        if k + 3 > columns.shape[1]:
            return position
        i = order[position]
        own = labels[i]
        weight = atoms[i, 0] * per_count
        if weight != last_weight:  # mostly all are equal
            last_weight, alone_by_prior = weight, log_kappa(prior, weight)
            most_by_prior = log_kappa(prior, total + weight) - log_kappa(prior, total)
        alone = alone_by_prior + work.log_alone[i]
        stay, best = alone, alone
        if n_atoms[own] > 1:
            count = columns[0, own] * per_count
            gain = leave_gain(cache, family, clusters, atoms, i, own)
            stay = gain + log_kappa(prior, count) - log_kappa(prior, count - weight)
            best = max(stay, alone)
        join_gains(cache, family, clusters, atoms, i, 0, k, NEGLIGIBLE + most_by_prior - best, scores)
        size = 0  # places worth a draw, gathered at the front of `scores`; there are at most as many as atoms
        for slot in range(k):
            if slot == own:
                scores[size] = stay
            elif scores[slot] > -np.inf:
                count = columns[0, slot] * per_count
                scores[size] = scores[slot] + log_kappa(prior, count + weight) - log_kappa(prior, count)
            else:
                continue
            places[size] = slot
            size += 1
        if n_atoms[own] > 1:
            scores[size], places[size] = alone, k
            size += 1
        chosen = places[draw_index(scores, size, rng)]
        if chosen != own:
            move_atom(work, i, chosen)
    return order.shape[0]
