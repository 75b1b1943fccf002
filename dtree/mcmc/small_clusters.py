"""Moves of single atoms where they matter: small clusters that grow and shrink, and Gibbs moves of restless atoms.

Besides its large clusters a partition has a few small ones, mostly any two or three atoms of one large cluster. A
Gibbs sweep visits all atoms to change them. Here a cluster c is drawn with probability proportional to 1/n_c and, by
a coin, grows by an atom x, or loses one of its atoms, drawn uniformly, to another cluster drawn by the weights J of a
Gibbs move. The atom to grow by is drawn with a probability q(x | c) that favours the blocks of a fixed partition
(that of the guide) in which the atoms of c lie. With A the state before and B after growth by x, S the sum of 1/n
over all clusters, and Z = the sum of J(x) over the clusters other than c,

    growth is accepted with min(1, J_c(x)/Z 1/(n_c(B) q(x | c)) (S_A n_c(A))/(S_B n_c(B))), a loss with the inverse.

An atom that is a cluster by itself neither joins (it dies in `births`) nor is made, so the number of clusters stays.
"""

import math
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.mcmc.clusters import GROWTH_AND_LOSS, move_atom
from dtree.mcmc.worth import accept, draw_index, log_sum, score_places

NEAR = 0.9  # share of growth within the blocks of a cluster's atoms; the rest is drawn from all atoms
STRETCH = 256  # long enough that taking a part of an array costs nothing beside counting it


class Blocks(NamedTuple):
    """A fixed partition of the atoms: atoms[start[b]:start[b + 1]] are those of block b."""

    of: np.ndarray  # (m,) block of each atom
    start: np.ndarray  # (b + 1,)
    atoms: np.ndarray  # (m,)


def blocks_of(labels: np.ndarray) -> Blocks:
    """The blocks of labels (m,).

    >>> blocks_of(np.array([0, 1, 0])).atoms.tolist()
    [0, 2, 1]
    """
    start = np.concatenate([[0], np.cumsum(np.bincount(labels))])
    return Blocks(labels.astype(np.int64), start.astype(np.int64), np.argsort(labels, kind="stable").astype(np.int64))


@kernel
def restlessness(work, out):
    """out (m,): how probable it is that a Gibbs move takes each atom elsewhere, by the partition that `work` holds."""
    for i in range(out.shape[0]):
        new = score_places(work, i)
        stay = work.clusters.scores[work.labels[i]]
        total = log_sum(new, work.clusters.scores, work.clusters.open[0])
        out[i] = max(0.0, 1.0 - math.exp((new if stay == -np.inf else stay) - total))


@kernel
def _draw_cluster(clusters, rng):
    """A cluster drawn in proportion to 1/n, and the sum of all 1/n."""
    total = 0.0
    for c in range(clusters.open[0]):
        total += 1.0 / clusters.n_atoms[c]
    target = rng.random() * total
    for c in range(clusters.open[0] - 1):
        target -= 1.0 / clusters.n_atoms[c]
        if target < 0.0:
            return c, total
    return clusters.open[0] - 1, total


@kernel
def _member(labels, c, number):
    """The atom with this number among those of cluster c: whole stretches are counted, which vectorises, then looked
    through."""
    start = 0
    while True:
        stretch, here = labels[start : start + STRETCH], 0
        for place in range(stretch.shape[0]):
            here += 1 if stretch[place] == c else 0
        if here > number:
            break
        number -= here
        start += STRETCH
    atom = start - 1
    while number >= 0:
        atom += 1
        if labels[atom] == c:
            number -= 1
    return atom


@kernel
def _chance_of_growth_by(blocks, labels, x, c, n_c):
    """q(x | c) for a cluster c of n_c atoms, x not counted among them."""
    block = blocks.of[x]
    near = 0
    for place in range(blocks.start[block], blocks.start[block + 1]):
        if labels[blocks.atoms[place]] == c and blocks.atoms[place] != x:
            near += 1
    size = blocks.start[block + 1] - blocks.start[block]
    return NEAR * near / (n_c * size) + (1.0 - NEAR) / labels.shape[0]


@kernel
def _log_growth_ratio(log_joining, log_z, chance, n_c, n_other, total):
    """Of growth from n_c atoms by one of a cluster of n_other atoms, when the sum of 1/n is `total` before it."""
    after = total - 1.0 / n_c - 1.0 / n_other + 1.0 / (n_c + 1) + 1.0 / (n_other - 1)
    odds = 1.0 / ((n_c + 1) * chance) * (total * n_c) / (after * (n_c + 1))
    return log_joining - log_z + math.log(odds)


@kernel
def grow_or_shrink(work, blocks, rng):
    """One proposal; returns whether it was accepted."""
    clusters, labels, n_atoms = work.clusters, work.labels, work.clusters.n_atoms
    m, k = labels.shape[0], clusters.open[0]
    log_uniform = math.log(rng.random())
    growing = rng.random() < 0.5
    c, total = _draw_cluster(clusters, rng)
    if k == 1 or (not growing and n_atoms[c] == 1):
        return False
    if growing:
        x = rng.integers(0, m)
        if rng.random() < NEAR:
            block = blocks.of[_member(labels, c, rng.integers(0, n_atoms[c]))]
            x = blocks.atoms[rng.integers(blocks.start[block], blocks.start[block + 1])]
        if labels[x] == c or n_atoms[labels[x]] == 1:
            return False
    else:
        x = _member(labels, c, rng.integers(0, n_atoms[c]))
    score_places(work, x)
    log_joining, clusters.scores[c] = clusters.scores[c], -np.inf
    log_z = log_sum(-np.inf, clusters.scores, k)
    if growing:
        target = c
        chance = _chance_of_growth_by(blocks, labels, x, c, n_atoms[c])
        ratio = _log_growth_ratio(log_joining, log_z, chance, n_atoms[c], n_atoms[labels[x]], total)
    else:
        target = draw_index(clusters.scores, k, rng)
        n_c, n_target = n_atoms[c], n_atoms[target]
        before = total - 1.0 / n_c - 1.0 / n_target + 1.0 / (n_c - 1) + 1.0 / (n_target + 1)
        chance = _chance_of_growth_by(blocks, labels, x, c, n_c - 1)
        ratio = -_log_growth_ratio(log_joining, log_z, chance, n_c - 1, n_target + 1, before)
    accepted = accept(work.acceptance, GROWTH_AND_LOSS, ratio, log_uniform)
    if accepted:
        move_atom(work, x, target)
    return accepted


@kernel
def growths_and_losses(work, blocks, count, rng):
    """So many proposals; none of them opens a cluster."""
    for _ in range(count):
        grow_or_shrink(work, blocks, rng)
