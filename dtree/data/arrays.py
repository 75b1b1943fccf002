"""What the formats share that hold arrays: which array of several, and one column of it."""

from collections.abc import Sequence

import numpy as np

from dtree.data.chunks import chunk_bounds, rows_per_chunk
from dtree.data.sentences import listed
from dtree.data.source import Source
from dtree.storage.places import Place

DEFAULT_ARRAY = "X"


def choose_array(path: Place, known: Sequence[str], array: str | None) -> str:
    """The array that was asked for, else `X`, else the only one."""
    if array is not None:
        if array not in known:
            raise ValueError(f"{path} has no array '{array}'; it has {listed(known)}")
        return array
    if DEFAULT_ARRAY in known:
        return DEFAULT_ARRAY
    if len(known) == 1:
        return known[0]
    if not known:
        raise ValueError(f"{path} is empty: it holds no arrays")
    raise ValueError(f"{path} has no array '{DEFAULT_ARRAY}'; choose one of {listed(known)} as {path}:NAME")


def array_column(source: Source, place: int) -> np.ndarray:
    """One column of an array that can be read by ranges, chunk by chunk."""
    alone = Source(
        source.kind,
        source.path,
        (source.shape[0], 1),
        source.dtype,
        picked=(place,),
        beside=source.beside,
        options=source.options,
    )
    bounds = chunk_bounds(source.shape[0], rows_per_chunk(max(source.shape[1], place + 1)))
    parts = (alone.read(start, stop) for start, stop in bounds)
    return np.concatenate([(part.toarray() if hasattr(part, "toarray") else part).ravel() for part in parts])
