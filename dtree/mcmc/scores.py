"""How much an atom gains by joining a cluster: the inner loop of every sampler.

Clusters are kept as columns of statistics (s, capacity). What else is cached per cluster depends on the family, so the
cache is a NamedTuple on whose type these verbs dispatch (as in `dtree.core.verbs`):

| verb | meaning |
| --- | --- |
| `shift_atom(cache, clusters, atoms, i, k, sign)` | add atom i to the statistics of cluster k, or take it away |
| `refresh_slots(cache, family, clusters, start, stop)` | recompute what is cached about clusters from their statistics |
| `put_atom(cache, family, clusters, atoms, i, k, sign)` | both: shift an atom and keep what is cached about k true |
| `join_gains(cache, family, clusters, atoms, i, start, stop, slack, out)` | out[k] = log p(c_k + x_i) - log p(c_k) |
| `leave_gain(cache, family, clusters, atoms, i, k)` | log p(c_k) - log p(c_k - x_i), for an atom that is in c_k |
| `block_gains(cache, family, clusters, block, stop, out)` | out[k] = log p(c_k + block) - log p(c_k), a block of statistics (s,) |
| `log_likelihood(cache, atoms, i, natural)` | log p(x_i) at natural parameters (s,), see `dtree.mcmc.natural` |

`slack`: a gain more than that below the best one may come out as -inf (pass np.inf for exact values). Every family works
through `PlainCache`; a family with something better registers its cache with `caches` and the verbs with `speaks`. A cache
need not speak the verbs whose plain form is as good for it (`_PLAIN`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from dtree.core.jit import kernel
from dtree.core.verbs import log_marginal, log_marginal_merged

_IMPLEMENTATIONS: dict[tuple[str, type], Any] = {}
_CACHES: dict[type, Callable[[Any, np.ndarray, int], Any]] = {}


def speaks(verb: Callable[..., Any], cache_type: type) -> Callable[[Any], Any]:
    """Register a kernel as the implementation of a verb for one type of cache."""

    def add(implementation: Any) -> Any:
        _IMPLEMENTATIONS[verb.__name__, cache_type] = implementation
        return implementation

    return add


def caches(compiled_family: type) -> Callable[[Any], Any]:
    """Register `make(family, atoms, capacity)` as the maker of caches for one type of compiled family."""

    def add(make: Callable[[Any, np.ndarray, int], Any]) -> Callable[[Any, np.ndarray, int], Any]:
        _CACHES[compiled_family] = make
        return make

    return add


def make_cache(family: Any, atoms: np.ndarray, capacity: int) -> Any:
    """The cache for a compiled family, atoms (m, s) and room for `capacity` clusters."""
    # Imported here: the two modules register themselves with this one.
    from dtree.mcmc import scores_gaussian, scores_multinomial  # noqa: F401

    return _CACHES.get(type(family), _plain_cache)(family, atoms, capacity)


def shift_atom(cache: Any, clusters: Any, atoms: Any, i: int, k: int, sign: float) -> None:
    """Add (sign 1) or take away (sign -1) atom i from the statistics of cluster k."""
    _spoken("shift_atom", type(cache))(cache, clusters, atoms, i, k, sign)


def refresh_slots(cache: Any, family: Any, clusters: Any, start: int, stop: int) -> None:
    """Recompute what is cached about clusters start <= k < stop, their log marginals included."""
    _spoken("refresh_slots", type(cache))(cache, family, clusters, start, stop)


def put_atom(cache: Any, family: Any, clusters: Any, atoms: Any, i: int, k: int, sign: float) -> None:
    """Add or take away atom i from cluster k, whose cached values stay true."""
    _spoken("put_atom", type(cache))(cache, family, clusters, atoms, i, k, sign)


def join_gains(
    cache: Any, family: Any, clusters: Any, atoms: Any, i: int, start: int, stop: int, slack: float, out: Any
) -> None:
    """out[k] = log p(c_k + x_i) - log p(c_k) for start <= k < stop."""
    _spoken("join_gains", type(cache))(cache, family, clusters, atoms, i, start, stop, slack, out)


def leave_gain(cache: Any, family: Any, clusters: Any, atoms: Any, i: int, k: int) -> float:
    """log p(c_k) - log p(c_k - x_i) of an atom that is in cluster k and not alone there."""
    return _spoken("leave_gain", type(cache))(cache, family, clusters, atoms, i, k)


def block_gains(cache: Any, family: Any, clusters: Any, block: Any, stop: int, out: Any) -> None:
    """out[k] = log p(c_k + block) - log p(c_k) for k < stop."""
    _spoken("block_gains", type(cache))(cache, family, clusters, block, stop, out)


def log_likelihood(cache: Any, atoms: Any, i: int, natural: Any) -> float:
    """log p(x_i) of an atom at natural parameters (s,)."""
    return _spoken("log_likelihood", type(cache))(cache, atoms, i, natural)


def _spoken(verb: str, cache_type: type) -> Any:
    """What a verb means for a type of cache: its own word, or else the plain one."""
    return _IMPLEMENTATIONS.get((verb, cache_type)) or _PLAIN[verb]


def _implementation(verb: str, cache: Any) -> Any:
    if isinstance(cache, types.NamedTuple | types.NamedUniTuple):
        return _spoken(verb, cache.instance_class)
    return None


@overload(shift_atom)
def _overload_shift_atom(cache, clusters, atoms, i, k, sign):
    implementation = _implementation("shift_atom", cache)
    if implementation is None:
        return None
    return lambda cache, clusters, atoms, i, k, sign: implementation(cache, clusters, atoms, i, k, sign)


@overload(refresh_slots)
def _overload_refresh_slots(cache, family, clusters, start, stop):
    implementation = _implementation("refresh_slots", cache)
    if implementation is None:
        return None
    return lambda cache, family, clusters, start, stop: implementation(cache, family, clusters, start, stop)


@overload(put_atom)
def _overload_put_atom(cache, family, clusters, atoms, i, k, sign):
    implementation = _implementation("put_atom", cache)
    if implementation is None:
        return None
    return lambda cache, family, clusters, atoms, i, k, sign: implementation(cache, family, clusters, atoms, i, k, sign)


@overload(join_gains)
def _overload_join_gains(cache, family, clusters, atoms, i, start, stop, slack, out):
    implementation = _implementation("join_gains", cache)
    if implementation is None:
        return None

    def call(cache, family, clusters, atoms, i, start, stop, slack, out):
        implementation(cache, family, clusters, atoms, i, start, stop, slack, out)

    return call


@overload(leave_gain)
def _overload_leave_gain(cache, family, clusters, atoms, i, k):
    implementation = _implementation("leave_gain", cache)
    if implementation is None:
        return None
    return lambda cache, family, clusters, atoms, i, k: implementation(cache, family, clusters, atoms, i, k)


@overload(block_gains)
def _overload_block_gains(cache, family, clusters, block, stop, out):
    implementation = _implementation("block_gains", cache)
    if implementation is None:
        return None
    return lambda cache, family, clusters, block, stop, out: implementation(cache, family, clusters, block, stop, out)


@overload(log_likelihood)
def _overload_log_likelihood(cache, atoms, i, natural):
    implementation = _implementation("log_likelihood", cache)
    if implementation is None:
        return None
    return lambda cache, atoms, i, natural: implementation(cache, atoms, i, natural)


@kernel
def refresh_slot(cache, family, clusters, k):
    """Recompute what is cached about cluster k."""
    refresh_slots(cache, family, clusters, k, k + 1)


class PlainCache(NamedTuple):
    """For any family: nothing is cached but the log marginals, which live with the clusters."""

    row: np.ndarray  # (s,) scratch


def _plain_cache(family: Any, atoms: np.ndarray, capacity: int) -> PlainCache:
    return PlainCache(np.empty(atoms.shape[1]))


@kernel
def _plain_shift(cache, clusters, atoms, i, k, sign):
    for s in range(atoms.shape[1]):
        clusters.columns[s, k] += sign * atoms[i, s]


@kernel
def _plain_refresh(cache, family, clusters, start, stop):
    for k in range(start, stop):
        for s in range(cache.row.shape[0]):
            cache.row[s] = clusters.columns[s, k]
        clusters.log_marginal[k] = log_marginal(family, cache.row)


@kernel
def _plain_put(cache, family, clusters, atoms, i, k, sign):
    shift_atom(cache, clusters, atoms, i, k, sign)
    refresh_slots(cache, family, clusters, k, k + 1)


@kernel
def _plain_join(cache, family, clusters, atoms, i, start, stop, slack, out):
    log_marginal_merged(family, clusters.columns, atoms[i], start, stop, out)
    for k in range(start, stop):
        out[k] -= clusters.log_marginal[k]


@kernel
def _plain_leave(cache, family, clusters, atoms, i, k):
    for s in range(cache.row.shape[0]):
        cache.row[s] = clusters.columns[s, k] - atoms[i, s]
    return clusters.log_marginal[k] - log_marginal(family, cache.row)


@kernel
def _plain_block(cache, family, clusters, block, stop, out):
    log_marginal_merged(family, clusters.columns, block, 0, stop, out)
    for k in range(stop):
        out[k] -= clusters.log_marginal[k]


@kernel
def _plain_likelihood(cache, atoms, i, natural):
    total = 0.0
    for s in range(natural.shape[0]):
        total += natural[s] * atoms[i, s]
    return total


_PLAIN = {
    "shift_atom": _plain_shift,
    "refresh_slots": _plain_refresh,
    "put_atom": _plain_put,
    "join_gains": _plain_join,
    "leave_gain": _plain_leave,
    "block_gains": _plain_block,
    "log_likelihood": _plain_likelihood,
}
