"""How many rows make a chunk, the piece of data that one task reads and works on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dtree.data.source import Source

CHUNK_BYTES = 32_000_000  # as float64: large enough that starting a task costs nothing, small enough for any worker
_LEAST_BYTES = 4_000_000  # a chunk is not cut into smaller ones than this: a task of a few milliseconds costs more
_ENOUGH_CHUNKS = 16  # for a few workers to have several each, so that none waits long for the last one


def rows_per_chunk(n_features: int) -> int:
    """Rows of a chunk of about 32 MB as float64, a multiple of 1024."""
    return max(1, CHUNK_BYTES // (8 * n_features) // 1024) * 1024


def chunk_bounds(n: int, rows: int) -> list[tuple[int, int]]:
    """Row ranges of the chunks.

    >>> chunk_bounds(5, 2)
    [(0, 2), (2, 4), (4, 5)]
    """
    return [(start, min(start + rows, n)) for start in range(0, n, rows)]


def chunk_rows_for(source: Source, worker_bytes: int | None = None, chunk_bytes: int | None = None) -> int:
    """Rows per chunk: at most about 32 MB as float64, less when workers are small, a multiple of the source's chunks.

    Data of less than 16 such chunks are cut into up to 16 even ones. It does not depend on the number of workers, so
    that neither do the results.
    """
    d = max(source.shape[1], 1)
    if source.is_sparse:
        per_row = 16 * source.n_stored // max(source.shape[0], 1) + 8  # a value and its column; a row pointer
        rows = max(1024, CHUNK_BYTES // per_row)
    else:
        per_row, rows = 8 * d, rows_per_chunk(d)
    if chunk_bytes is not None:
        rows = max(1, chunk_bytes // per_row)
    else:
        n = max(source.shape[0], 1)
        number = max(-(-n // rows), min(_ENOUGH_CHUNKS, n * per_row // _LEAST_BYTES))
        rows = -(-n // max(number, 1))
    if worker_bytes is not None:
        rows = max(1, min(rows, worker_bytes // 16 // per_row))
    if rows >= source.shape[0]:
        return -(-max(source.shape[0], 1) // source.step) * source.step  # all rows are one chunk, however they lie
    if source.step <= rows:
        return rows // source.step * source.step
    return rows if source.step > 4 * rows else source.step
