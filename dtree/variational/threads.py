"""Threads of BLAS and OpenMP: how many there are, and blocks of code that take one.

The last bits of a product of matrices and of k-means depend on the number of threads, so code that promises the same
bits everywhere takes one.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_inside = 0
_limit: Any = None


@lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    import sklearn.cluster  # noqa: F401  the OpenMP of k-means is found only once it is loaded

    return ThreadpoolController()  # looking for libraries takes 10 ms, so it is done once


@lru_cache(maxsize=1)
def _loaded() -> ThreadpoolController:
    return ThreadpoolController()  # NumPy's BLAS among them; without what is slow to load


def available_threads() -> int:
    """How many threads a computation of ours may use: cores, or fewer when BLAS was told to use fewer."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    blas = [pool["num_threads"] for pool in _loaded().info() if pool["user_api"] == "blas"]
    return max(1, min([cores, *blas]))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """One thread of BLAS, and of OpenMP, until the last of possibly several threads has left such a block.

    >>> with one_blas_thread():
    ...     available_threads()
    1
    """
    global _inside, _limit
    with _lock:
        if _inside == 0:
            _limit = _libraries().limit(limits=1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limit.restore_original_limits()
