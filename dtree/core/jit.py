"""Compiled kernels: one decorator, one on-disk cache that can never serve stale machine code.

`kernel` is `numba.njit(cache=has_source_file, nogil=True)`; set `DTREE_CACHE_DIR` to choose where the machine code is
kept, and `NUMBA_DISABLE_JIT=1` to run the same code as plain Python. A second process with the same sources compiles
nothing; `dtree.core.kernel_sources` says what an edit compiles anew.
"""

import os
from collections.abc import Callable
from typing import Any

import numba
from numba.core import config as numba_config

from dtree.core.kernel_cache import cache_folder, keep

# isnan and == -inf must keep their meaning, so "nnan" and "ninf" are left out of the fast-math flags.
DOT_PRODUCT_MATH = {"reassoc", "contract", "nsz", "arcp"}


def kernel(
    function: Callable[..., Any] | None = None,
    *,
    fastmath: set[str] | bool = False,
    inline: bool = False,
    counted: bool = True,
) -> Any:
    """Compile `function` without the GIL and keep its machine code on disk.

    With `inline` its body is written into the kernels that call it: for small functions that take a record of many
    arrays, since handing such a record on counts the references of all of them, which may take longer than the work.

    A kernel that is not `counted` counts no references at all, nor does any kernel that it hands its arrays on to. It
    may make no array itself (compiling it would fail), so whoever calls it brings the scratch memory.

    Numba picks the cache folder when a function is decorated, so the folder is set just for that moment and the
    caller's own numba configuration stays as it was.

    >>> @kernel
    ... def double(x):
    ...     return 2 * x
    >>> double(3.0)
    6.0
    """

    def decorate(plain: Callable[..., Any]) -> Any:
        placed = "always" if inline else "never"
        given: dict[str, Any] = {"nogil": True, "fastmath": fastmath, "inline": placed, "_nrt": counted}
        file = plain.__code__.co_filename
        if not os.path.exists(file):  # at a prompt or in a doctest
            return numba.njit(**given)(plain)
        callers_folder = numba_config.CACHE_DIR
        folder = cache_folder(file)
        numba_config.CACHE_DIR = str(folder)
        try:
            compiled = numba.njit(cache=True, **given)(plain)
        finally:
            numba_config.CACHE_DIR = callers_folder
        keep(compiled, folder)
        return compiled

    return decorate(function) if function is not None else decorate
