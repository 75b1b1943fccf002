"""How much an atom gains by joining a cluster: the inner loop of every sampler.

Clusters are kept as columns of statistics (s, capacity). What else is cached per cluster depends on the family, so the
cache is a NamedTuple on whose type these verbs dispatch (`dtree.core.verbs.verb`):

| verb | meaning |
| --- | --- |
| `shift_atom(cache, clusters, atoms, i, k, sign)` | add atom i to the statistics of cluster k, or take it away |
| `add_atoms(cache, clusters, atoms, labels)` | add all atoms to the statistics of their clusters |
| `refresh_slots(cache, family, clusters, start, stop)` | recompute what is cached about clusters |
| `put_atom(cache, family, clusters, atoms, i, k, sign)` | both: shift an atom and keep what is cached about k true |
| `join_gains(cache, family, clusters, atoms, i, start, stop, depth, out)` | out[k] = log p(c_k + x_i) - log p(c_k) |
| `leave_gain(cache, family, clusters, atoms, i, k)` | log p(c_k) - log p(c_k - x_i), for an atom that is in c_k |
| `block_gains(cache, family, clusters, block, stop, out)` | `join_gains` for a block of statistics (s,) and k < stop |
| `log_likelihood(cache, atoms, i, natural)` | log p(x_i) at natural parameters (s,), see `dtree.mcmc.natural` |

`depth`: a gain below -depth may come out as -inf (pass np.inf for exact values). Every family
works through `PlainCache`; a family with something better registers its `make_cache` and its kernels with
`implements`. A cache for which the plain form of a verb is as good needs no kernel of its own for it.
"""

from typing import Any, NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.verbs import log_marginal, log_marginal_merged, verb


class PlainCache(NamedTuple):
    """For any family: nothing is cached but the log marginals, which live with the clusters."""

    row: np.ndarray  # (s,) scratch


def _plain_cache(family: Any, atoms: np.ndarray, capacity: int) -> PlainCache:
    return PlainCache(np.empty(atoms.shape[1]))


@verb(_plain_cache)
def make_cache(family: Any, atoms: np.ndarray, capacity: int) -> Any:
    """The cache for a compiled family, atoms (m, s) and room for `capacity` clusters. No kernel: it is made once."""


@kernel
def _plain_shift(cache, clusters, atoms, i, k, sign):
    for s in range(atoms.shape[1]):
        clusters.columns[s, k] += sign * atoms[i, s]


@verb(_plain_shift)
def shift_atom(cache: Any, clusters: Any, atoms: Any, i: int, k: int, sign: float) -> None:
    """Add (sign 1) or take away (sign -1) atom i from the statistics of cluster k."""


@kernel
def _plain_add(cache, clusters, atoms, labels):
    # One cluster after the other in memory, then turned: an atom's sums then lie side by side.
    sums = np.zeros((labels.max() + 1, atoms.shape[1]))
    for i in range(atoms.shape[0]):
        k = labels[i]
        for s in range(atoms.shape[1]):
            sums[k, s] += atoms[i, s]
    for s in range(sums.shape[1]):
        for k in range(sums.shape[0]):
            clusters.columns[s, k] += sums[k, s]


@verb(_plain_add)
def add_atoms(cache: Any, clusters: Any, atoms: Any, labels: Any) -> None:
    """Add all atoms to the statistics of clusters labels (m,)."""


@kernel
def _plain_refresh(cache, family, clusters, start, stop):
    for k in range(start, stop):
        for s in range(cache.row.shape[0]):
            cache.row[s] = clusters.columns[s, k]
        clusters.log_marginal[k] = log_marginal(family, cache.row)


@verb(_plain_refresh)
def refresh_slots(cache: Any, family: Any, clusters: Any, start: int, stop: int) -> None:
    """Recompute what is cached about clusters start <= k < stop, their log marginals included."""


@kernel
def _plain_put(cache, family, clusters, atoms, i, k, sign):
    shift_atom(cache, clusters, atoms, i, k, sign)
    refresh_slots(cache, family, clusters, k, k + 1)


@verb(_plain_put)
def put_atom(cache: Any, family: Any, clusters: Any, atoms: Any, i: int, k: int, sign: float) -> None:
    """Add or take away atom i from cluster k, whose cached values stay true."""


@kernel
def gains_by_merging(family, clusters, row, start, stop, out):
    """out[k] = log p(c_k + row) - log p(c_k) for start <= k < stop, row (s,), from the family's merged marginals."""
    log_marginal_merged(family, clusters.columns, row, start, stop, out)
    for k in range(start, stop):
        out[k] -= clusters.log_marginal[k]


@kernel
def _plain_join(cache, family, clusters, atoms, i, start, stop, depth, out):
    # Not through `gains_by_merging`: one more call costs a tenth of a Gibbs move of a small problem.
    log_marginal_merged(family, clusters.columns, atoms[i], start, stop, out)
    for k in range(start, stop):
        out[k] -= clusters.log_marginal[k]


@verb(_plain_join)
def join_gains(
    cache: Any, family: Any, clusters: Any, atoms: Any, i: int, start: int, stop: int, depth: float, out: Any
) -> None:
    """out[k] = log p(c_k + x_i) - log p(c_k) for start <= k < stop."""


@kernel
def gain_from_statistics(cache, family, clusters, atoms, i, k):
    """`leave_gain` with the log marginal of what stays behind computed from its statistics."""
    for s in range(cache.row.shape[0]):
        cache.row[s] = clusters.columns[s, k] - atoms[i, s]
    return clusters.log_marginal[k] - log_marginal(family, cache.row)


@verb(gain_from_statistics)
def leave_gain(cache: Any, family: Any, clusters: Any, atoms: Any, i: int, k: int) -> float:
    """log p(c_k) - log p(c_k - x_i) of an atom that is in cluster k and not alone there."""
    raise NotImplementedError


@kernel
def _plain_block(cache, family, clusters, block, stop, out):
    gains_by_merging(family, clusters, block, 0, stop, out)


@verb(_plain_block)
def block_gains(cache: Any, family: Any, clusters: Any, block: Any, stop: int, out: Any) -> None:
    """out[k] = log p(c_k + block) - log p(c_k) for k < stop."""


@kernel
def _plain_likelihood(cache, atoms, i, natural):
    total = 0.0
    for s in range(natural.shape[0]):
        total += natural[s] * atoms[i, s]
    return total


@verb(_plain_likelihood)
def log_likelihood(cache: Any, atoms: Any, i: int, natural: Any) -> float:
    """log p(x_i) of an atom at natural parameters (s,)."""
    raise NotImplementedError
