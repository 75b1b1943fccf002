"""The verbs that every compiled method speaks, chosen by the type of a family or a prior.

Inside a kernel `log_marginal(family, statistics)` is a call of the implementation that is picked when the kernel is
compiled for that family's type, so a method written once runs for every family at full speed and still loads from the
on-disk cache (function arguments and closures would recompile in every process). With the JIT off the plain Python
function looks the same implementation up by type.

| verb | of | meaning |
| --- | --- | --- |
| `log_marginal(family, statistics)` | family, required | log p(X_c) of the rows summed in `statistics` (s,) |
| `log_marginal_merged(family, columns, row, start, stop, out)` | family, optional | the same, `row` merged with many |
| `log_marginal_joined(family, columns, log_own, row, ...)` | family, optional | the same, the columns' own given |
| `log_marginal_pair(family, a, log_a, b, scratch)` | family, optional | the same for two rows, the first's own given |
| `log_kappa(prior, count)` | prior, required | log weight of one cluster of `count` rows |

A room with verbs of its own (`dtree.mcmc.scores`) makes them with `verb` too.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from numba import types
from numba.core.typing.templates import AbstractTemplate, infer_global

from dtree.core.jit import kernel


def verb(plain: Any = None) -> Callable[[Callable[..., Any]], Any]:
    """Turn a function that only has a signature and a docstring into a verb.

    The type of its first argument, a NamedTuple, decides which registered kernel runs: see `implements`. A type without
    one gets `plain`, a kernel that works for all, or an error when there is none.
    """

    def make(declared: Callable[..., Any]) -> Any:
        implementations: dict[type, Any] = {}

        def implementation_for(compiled_type: type) -> Any:
            found = implementations.get(compiled_type, plain)
            if found is None:
                raise TypeError(f"no kernel is registered for {declared.__name__} of {compiled_type.__name__}")
            return found

        @wraps(declared)
        def speak(subject: Any, *others: Any) -> Any:
            return implementation_for(type(subject))(subject, *others)

        speak.implementations = implementations  # type: ignore[attr-defined]

        # A call of the verb is compiled as a call of its implementation. With numba's `overload` a function in between
        # would be compiled for every combination of types, which took a tenth of a first run.
        class Call(AbstractTemplate):
            key = speak

            def generic(self, args: tuple, kws: dict) -> Any:
                # A tuple whose fields are all floats is a NamedUniTuple, any other a NamedTuple.
                if not args or not isinstance(args[0], types.NamedTuple | types.NamedUniTuple):
                    return None
                return types.Dispatcher(implementation_for(args[0].instance_class)).get_call_type(
                    self.context, args, kws
                )

            def get_impl_key(self, signature: Any) -> Any:
                return implementation_for(signature.args[0].instance_class).get_overload(signature.args)

        infer_global(speak, types.Function(Call))

        return speak

    return make


def implements(verb: Any, compiled_type: type) -> Callable[[Any], Any]:
    """Register a kernel as the implementation of `verb` for one NamedTuple type.

    Use it above `@kernel`:  `@implements(log_marginal, MyFamilyKernel)`.
    """

    def add(implementation: Any) -> Any:
        verb.implementations[compiled_type] = implementation
        return implementation

    return add


@verb()
def log_marginal(family: Any, statistics: Any) -> float:
    """Log marginal likelihood of the rows summed in `statistics` (s,), column 0 their (coarsened) count."""
    raise NotImplementedError


@kernel
def _merged_one_by_one(family, columns, row, start, stop, out):
    merged = np.empty(row.shape[0])
    for j in range(start, stop):
        for s in range(row.shape[0]):
            merged[s] = row[s] + columns[s, j]
        out[j] = log_marginal(family, merged)


@verb(_merged_one_by_one)
def log_marginal_merged(family: Any, columns: Any, row: Any, start: int, stop: int, out: Any) -> None:
    """out[j] = log_marginal(row + columns[:, j]) for start <= j < stop.

    `columns` (s, capacity) holds one atom per column, so that loops over j run over contiguous memory and vectorise.
    A family without an implementation of its own gets one log_marginal per column.
    """


@kernel
def _joined_as_merged(family, columns, log_own, row, start, stop, out):
    log_marginal_merged(family, columns, row, start, stop, out)


@verb(_joined_as_merged)
def log_marginal_joined(family: Any, columns: Any, log_own: Any, row: Any, start: int, stop: int, out: Any) -> None:
    """`log_marginal_merged` for a caller who knows log_own[j] = log_marginal(columns[:, j]).

    A family whose rows are mostly zeros then needs to look only where `row` is not zero; others do what they do anyway.
    """


@kernel
def _marginal_of_sum(family, a, log_a, b, scratch):
    for s in range(scratch.shape[0]):
        scratch[s] = a[s] + b[s]
    return log_marginal(family, scratch)


@verb(_marginal_of_sum)
def log_marginal_pair(family: Any, a: Any, log_a: float, b: Any, scratch: Any) -> float:
    """log_marginal(a + b) of rows (s,) for a caller who knows log_a = log_marginal(a); `scratch` (s,) is overwritten.

    As in `log_marginal_joined`, a family whose rows are mostly zeros looks only where `b` is not zero.
    """
    raise NotImplementedError


@verb()
def log_kappa(prior: Any, count: float) -> float:
    """Log prior weight kappa of one cluster of `count` rows (the true count, never coarsened)."""
    raise NotImplementedError
