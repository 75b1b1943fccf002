"""Slow and obvious: posteriors by enumeration, and the guided moves of tgMCMC written down recursively."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
from scipy.integrate import quad_vec
from scipy.special import xlogy

from dtree.core.model import Model
from dtree.core.priors import DirichletProcess, GeneralizedGamma
from tests.naive.partitions import all_partitions, clusters_of


def log_phi_function(model: Model, atoms: np.ndarray) -> Callable[[frozenset[int]], float]:
    """log phi_h of a set of atoms, remembered."""

    @cache
    def log_phi(members: frozenset[int]) -> float:
        return float(model.log_phi_h(atoms[sorted(members)].sum(axis=0))[0])

    return log_phi


def partition_posterior(model: Model, atoms: np.ndarray) -> np.ndarray:
    """P(partition | X [, u]) over all partitions of the atoms, in lexicographic order."""
    log_phi = log_phi_function(model, atoms)
    partitions = all_partitions(atoms.shape[0])
    log_p = np.array([sum(log_phi(frozenset(c)) for c in clusters_of(p)) for p in partitions])
    p = np.exp(log_p - log_p.max())
    return p / p.sum()


def log_posterior_by_enumeration(model: Model, atoms: np.ndarray) -> tuple[list[np.ndarray], np.ndarray, float]:
    """Every partition of a few atoms, its log posterior probability, and the exact log evidence."""
    log_phi = log_phi_function(model, atoms)
    partitions = list(all_partitions(atoms.shape[0]))
    log_joint = np.array([sum(log_phi(frozenset(c)) for c in clusters_of(p)) for p in partitions])
    log_sum = float(np.logaddexp.reduce(log_joint))
    evidence = log_sum + model.prior.log_normaliser(float(model.counts(atoms).sum()))
    return partitions, log_joint - log_sum, evidence


def partition_distance(a: np.ndarray, b: np.ndarray, weight: np.ndarray, loss: str) -> float:
    """Distance of two labellings (n,): variation of information in nats, or the share of pairs that disagree."""
    cells = np.bincount(a * (int(b.max()) + 1) + b, weights=weight)
    rows, columns = np.bincount(a, weights=weight), np.bincount(b, weights=weight)
    n = weight.sum()
    if loss == "binder":
        return float((rows @ rows + columns @ columns - 2.0 * cells @ cells) / n**2)
    total = xlogy(rows, rows).sum() + xlogy(columns, columns).sum() - 2.0 * xlogy(cells, cells).sum()
    return max(0.0, float(total / n))


def partition_posterior_without_u(model: Model, atoms: np.ndarray) -> np.ndarray:
    """P(partition | X) under an NGGP at fixed alpha and sigma, u integrated out by quadrature over log u."""
    prior = model.prior
    assert isinstance(prior, GeneralizedGamma)
    partitions = [clusters_of(p) for p in all_partitions(atoms.shape[0])]
    flat = Model(model.family, DirichletProcess(1.0), model.coarsening)
    log_phi = log_phi_function(flat, atoms)
    counts = flat.counts(atoms)
    n = counts.sum()
    sizes = [[float(counts[c].sum()) for c in p] for p in partitions]
    log_marginal = np.array(
        [sum(log_phi(frozenset(c)) - math.lgamma(s) for c, s in zip(p, size)) for p, size in zip(partitions, sizes)]
    )
    log_marginal -= log_marginal.max()

    def integrand(x: float) -> np.ndarray:
        at = GeneralizedGamma(prior.alpha, prior.sigma, math.exp(x))
        log_kappa = np.array([at.log_kappa(size).sum() for size in sizes])
        return np.exp(log_marginal + log_kappa + at.log_normaliser(n) + x)

    value, _ = quad_vec(integrand, -20.0, 20.0, epsabs=1e-12, epsrel=1e-9)
    return value / value.sum()


# The guided moves -----------------------------------------------------------------------------------------------------


class NaiveGuide:
    """A tree as nested sets: `children[node]` = (left, right)."""

    def __init__(self, merges: np.ndarray) -> None:
        self.m = len(merges) + 1
        self.children = {self.m + k: (int(a), int(b)) for k, (a, b) in enumerate(merges)}
        self.parent = {child: node for node, pair in self.children.items() for child in pair}

    def leaves(self, node: int) -> frozenset[int]:
        if node < self.m:
            return frozenset([node])
        a, b = self.children[node]
        return self.leaves(a) | self.leaves(b)

    def path(self, start: int, end: int | None) -> Iterator[int]:
        """The subtrees that hang off the way from `start` up to `end`, nearest first."""
        while start != end and start in self.parent:
            a, b = self.children[self.parent[start]]
            yield b if a == start else a
            start = self.parent[start]

    def split(self, node: int, cluster: frozenset[int]) -> tuple[int, int]:
        """The two children of a subtree cut down to a cluster, chains of one child collapsed."""
        a, b = self.children[node]
        if not self.leaves(a) & cluster:
            return self.split(b, cluster)
        if not self.leaves(b) & cluster:
            return self.split(a, cluster)
        return a, b


def divisions(
    guide: NaiveGuide, cluster: frozenset[int], g: int, i: int, j: int, log_phi: Callable, floor: float = 1e-3
) -> dict[tuple[frozenset[int], frozenset[int]], float]:
    """Probability of every division (side of i, side of j) of a cluster under ALLOC."""
    blocks = [*guide.path(i, guide.children[g][0]), *guide.path(j, guide.children[g][1]), *guide.path(g, None)]
    blocks = [b for b in blocks if guide.leaves(b) & cluster]
    out: dict[tuple[frozenset[int], frozenset[int]], float] = {}

    def place(work: tuple, sides: tuple, q: float) -> None:
        # work: blocks to place, each (node, forbidden side); a tuple ("sibling", node) waits to learn what its twin did
        if not work:
            out[sides] = out.get(sides, 0.0) + q
            return
        (node, forbidden, twin), rest = work[0], work[1:]
        block = guide.leaves(node) & cluster
        whole = [math.exp(log_phi(side | block) - log_phi(side)) for side in sides]
        weights = [0.0 if forbidden == s else whole[s] for s in (0, 1)]
        opened = 0.0
        if len(block) > 1:
            a, b = guide.split(node, cluster)
            l, r = guide.leaves(a) & cluster, guide.leaves(b) & cluster
            both = log_phi(sides[0]) + log_phi(sides[1])
            opened = math.exp(log_phi(sides[0] | l) + log_phi(sides[1] | r) - both)
            opened += math.exp(log_phi(sides[0] | r) + log_phi(sides[1] | l) - both)
            opened = max(opened, floor * max(whole))
        total = sum(weights) + opened
        for s in (0, 1):
            if weights[s] > 0:
                following = rest
                if twin:
                    following = ((rest[0][0], s, rest[0][2]), *rest[1:])
                new = (sides[0] | block, sides[1]) if s == 0 else (sides[0], sides[1] | block)
                place(following, new, q * weights[s] / total)
        if opened > 0:
            place(((a, None, True), (b, None, False), *rest), sides, q * opened / total)

    place(tuple((b, None, False) for b in blocks), (frozenset([i]), frozenset([j])), 1.0)
    return out
