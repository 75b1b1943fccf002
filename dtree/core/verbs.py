"""The verbs that every compiled method speaks, chosen by the type of a family or a prior.

Inside a kernel `log_marginal(family, statistics)` is an `@overload` that picks its implementation when the kernel is
compiled for that family's type, so a method written once runs for every family at full speed and still loads from the
on-disk cache (function arguments and closures would recompile in every process). With the JIT off the plain Python
function looks the same implementation up by type.

| verb | of | meaning |
| --- | --- | --- |
| `log_marginal(family, statistics)` | family, required | log p(X_c) of the rows summed in `statistics` (s,) |
| `log_marginal_merged(family, columns, row, start, stop, out)` | family, optional | the same for `row` merged with many |
| `log_marginal_joined(family, columns, log_own, row, ...)` | family, optional | the same, the columns' own given |
| `log_marginal_pair(family, a, log_a, b, scratch)` | family, optional | the same for two rows, the first one's own given |
| `log_kappa(prior, count)` | prior, required | log weight of one cluster of `count` rows |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from dtree.core.jit import kernel

_LOG_MARGINAL: dict[type, Any] = {}
_LOG_MARGINAL_MERGED: dict[type, Any] = {}
_LOG_MARGINAL_JOINED: dict[type, Any] = {}
_LOG_MARGINAL_PAIR: dict[type, Any] = {}
_LOG_KAPPA: dict[type, Any] = {}


def implements(verb: Callable[..., Any], compiled_type: type) -> Callable[[Any], Any]:
    """Register a kernel as the implementation of `verb` for one NamedTuple type.

    Use it above `@kernel`:  `@implements(log_marginal, MyFamilyKernel)`.
    """
    table = {
        log_marginal: _LOG_MARGINAL,
        log_marginal_merged: _LOG_MARGINAL_MERGED,
        log_marginal_joined: _LOG_MARGINAL_JOINED,
        log_marginal_pair: _LOG_MARGINAL_PAIR,
        log_kappa: _LOG_KAPPA,
    }[verb]

    def add(implementation: Any) -> Any:
        table[compiled_type] = implementation
        return implementation

    return add


def _is_named_tuple(numba_type: Any) -> bool:
    # A tuple whose fields are all floats is a NamedUniTuple, any other a NamedTuple.
    return isinstance(numba_type, types.NamedTuple | types.NamedUniTuple)


def log_marginal(family: Any, statistics: Any) -> float:
    """Log marginal likelihood of the rows summed in `statistics` (s,), column 0 their (coarsened) count."""
    return _LOG_MARGINAL[type(family)](family, statistics)


@overload(log_marginal)
def _overload_log_marginal(family, statistics):
    if not _is_named_tuple(family):
        return None
    implementation = _LOG_MARGINAL[family.instance_class]
    return lambda family, statistics: implementation(family, statistics)


def log_marginal_merged(family: Any, columns: Any, row: Any, start: int, stop: int, out: Any) -> None:
    """out[j] = log_marginal(row + columns[:, j]) for start <= j < stop.

    `columns` (s, capacity) holds one atom per column, so that loops over j run over contiguous memory and vectorise.
    A family without an implementation of its own gets one log_marginal per column.
    """
    _LOG_MARGINAL_MERGED.get(type(family), _merged_one_by_one)(family, columns, row, start, stop, out)


@overload(log_marginal_merged)
def _overload_log_marginal_merged(family, columns, row, start, stop, out):
    if not _is_named_tuple(family):
        return None
    implementation = _LOG_MARGINAL_MERGED.get(family.instance_class, _merged_one_by_one)
    return lambda family, columns, row, start, stop, out: implementation(family, columns, row, start, stop, out)


@kernel
def _merged_one_by_one(family, columns, row, start, stop, out):
    merged = np.empty(row.shape[0])
    for j in range(start, stop):
        for s in range(row.shape[0]):
            merged[s] = row[s] + columns[s, j]
        out[j] = log_marginal(family, merged)


def log_marginal_joined(family: Any, columns: Any, log_own: Any, row: Any, start: int, stop: int, out: Any) -> None:
    """`log_marginal_merged` for a caller who knows log_own[j] = log_marginal(columns[:, j]).

    A family whose rows are mostly zeros then needs to look only where `row` is not zero; others do what they do anyway.
    """
    joined = _LOG_MARGINAL_JOINED.get(type(family))
    if joined is None:
        log_marginal_merged(family, columns, row, start, stop, out)
    else:
        joined(family, columns, log_own, row, start, stop, out)


@overload(log_marginal_joined)
def _overload_log_marginal_joined(family, columns, log_own, row, start, stop, out):
    if not _is_named_tuple(family):
        return None
    joined = _LOG_MARGINAL_JOINED.get(family.instance_class)
    if joined is None:
        return lambda family, columns, log_own, row, start, stop, out: log_marginal_merged(
            family, columns, row, start, stop, out
        )
    return lambda family, columns, log_own, row, start, stop, out: joined(
        family, columns, log_own, row, start, stop, out
    )


def log_marginal_pair(family: Any, a: Any, log_a: float, b: Any, scratch: Any) -> float:
    """log_marginal(a + b) of two rows (s,) for a caller who knows log_a = log_marginal(a); `scratch` (s,) may be overwritten.

    As in `log_marginal_joined`, a family whose rows are mostly zeros looks only where `b` is not zero.
    """
    return _LOG_MARGINAL_PAIR.get(type(family), _marginal_of_sum)(family, a, log_a, b, scratch)


@kernel
def _marginal_of_sum(family, a, log_a, b, scratch):
    for s in range(scratch.shape[0]):
        scratch[s] = a[s] + b[s]
    return log_marginal(family, scratch)


@overload(log_marginal_pair)
def _overload_log_marginal_pair(family, a, log_a, b, scratch):
    if not _is_named_tuple(family):
        return None
    implementation = _LOG_MARGINAL_PAIR.get(family.instance_class, _marginal_of_sum)
    return lambda family, a, log_a, b, scratch: implementation(family, a, log_a, b, scratch)


def log_kappa(prior: Any, count: float) -> float:
    """Log prior weight kappa of one cluster of `count` rows (the true count, never coarsened)."""
    return _LOG_KAPPA[type(prior)](prior, count)


@overload(log_kappa)
def _overload_log_kappa(prior, count):
    if not _is_named_tuple(prior):
        return None
    implementation = _LOG_KAPPA[prior.instance_class]
    return lambda prior, count: implementation(prior, count)
