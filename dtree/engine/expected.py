"""What a fit will cost, before anything is read: chunks, memory of a worker, passes and time, by a model of costs.

The constants are those of deploy/SCALING.md, measured by `benchmarks.scaling` on a virtual machine of two cores;
machines differ, so what comes out is right to a factor of two or three, no better.
"""

import math
from typing import Any, NamedTuple

from dtree.core.families import AUTO, expected
from dtree.data.chunks import chunk_rows_for
from dtree.methods.contract import Method
from dtree.methods.survey import kinds_of, statistics_per_row

_SECONDS_PER_NUMBER = 1.4e-10  # one row against one statistic of one cluster: 1.37 us for 64 clusters of 153
_BYTES_PER_SECOND = 2e8  # that a worker reads
_SCHEDULER_SECONDS, _WORKER_SECONDS = 0.0015, 0.0042  # of CPU for one task
_SECONDS_PER_PAIR = 1e-9  # and statistic, of an exact tree: 2.1 s for 10,000 rows of 10 features, diagonal
_PROCESS_BYTES = 230_000_000  # of a worker before it does anything
_CHUNKS_HELD = 6  # a worker of 32 MB chunks was measured at 416 MB
_CLUSTERS = 64  # where nobody knows yet how many there will be


class Expected(NamedTuple):
    """The plan of a fit; seconds are None where there is no model of them."""

    chunk_rows: int
    chunks: int
    tasks: int  # of one pass
    data_bytes: int  # as stored
    worker_bytes: int  # that a worker needs, or this process
    workers: int  # 0: this process does the work
    readings: tuple[int, int | None]  # of all rows, at least and at most
    clusters: int  # with which the time of a pass was reckoned
    statistics: int  # of a cluster
    pass_seconds: float
    seconds: tuple[float, float | None] | None  # at least and at most


def expected_cost(method: Method, settings: Any, source: Any, workers: int, worker_bytes: int | None) -> Expected:
    """What fitting `source` will take; `worker_bytes` is the memory of a worker, if it is known."""
    n, d = source.shape
    rows = min(chunk_rows_for(source, worker_bytes), n) if method.in_passes else n
    chunks = math.ceil(n / rows)
    family = getattr(settings, "family", None)
    family = AUTO if family is None else family
    s = statistics_per_row(family, d, expected(family, kinds_of(source), d)) if hasattr(settings, "family") else d
    k = getattr(settings, "truncation", None) or _CLUSTERS
    per_row = 16 * source.n_stored / n if source.is_sparse else 8 * d
    stored = per_row if source.is_sparse else d * _item_bytes(source.dtype)
    tasks = chunks + sum(math.ceil(chunks / 8**level) for level in range(1, 1 + math.ceil(math.log(max(chunks, 2), 8))))
    sharing = max(1, min(workers, chunks))
    each = rows * (k * s * _SECONDS_PER_NUMBER + stored / _BYTES_PER_SECOND) + (_WORKER_SECONDS if workers else 0.0)
    a_pass = max(math.ceil(chunks / sharing) * each, tasks * _SCHEDULER_SECONDS if workers else 0.0)
    least, most = method.readings(settings, n)
    seconds: tuple[float, float | None] | None = None
    if method.in_passes:
        seconds = least * a_pass, None if most is None else most * a_pass
    elif method.name == "bhc" and settings.method == "exact":
        seconds = (n * n * s * _SECONDS_PER_PAIR,) * 2
    held = int(_PROCESS_BYTES + _CHUNKS_HELD * rows * per_row + 2 * 8 * k * s)
    return Expected(
        rows, chunks, tasks, int(n * stored), held, workers, (least, most), k, s, a_pass, seconds
    )  # fmt: skip


def _item_bytes(dtype: str) -> int:
    import numpy as np

    return np.dtype(dtype).itemsize
