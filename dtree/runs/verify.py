"""Everything in the folder of a run, read and held against its checksums, without asking what it means."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from dtree.runs.arrays import HEADER, check_seal, read_arrays, read_metadata
from dtree.runs.checks import check_folder, check_row_array, nodes
from dtree.runs.zarr_store import header_of
from dtree.storage.places import Place, located
from dtree.storage.zarr_places import until_no_chunk_is_left, zarr_at

_ROWS_AT_ONCE = 4_000_000  # values of an array that are read together: any machine has room for them


def damages(path: Any) -> list[str]:
    """What is damaged in a run, one sentence each; nothing when every array is what was written.

    A header that cannot be read is a ValueError, as wherever a run is opened.
    """
    folder, found = located(path), []
    header = header_of(folder, str(path))
    for check in _checks(folder, header):
        try:
            check()
        except ValueError as problem:
            found.append(" ".join(str(problem).split()))
    return found


def _checks(folder: Place, header: Any) -> Iterator[Callable[[], None]]:
    yield lambda: check_folder(folder)
    yield lambda: check_seal(folder, f"{folder} is damaged: its header")
    listing = msgspec.to_builtins(header)["arrays"]
    for name in listing:
        yield lambda name=name: _read(folder, {"arrays": {name: listing[name]}})  # type: ignore[misc]
    if header.done:
        for name in header.row_arrays:
            yield lambda name=name: check_row_array(folder, name, header.n_rows)  # type: ignore[misc]
    records: list[str] = []
    try:
        found = sorted(nodes(folder))
    except ValueError:  # which `check_folder` has said
        found = []
    for name in found:
        if name in listing or any(name.startswith(f"{record}/") for record in records[-1:]):
            continue  # the arrays of a record are read with it
        metadata = _metadata(folder, name)
        if metadata.get("node_type") == "array":
            yield lambda name=name: _read_values(folder, name)  # type: ignore[misc]
        elif HEADER in (metadata.get("attributes") or {}):
            records.append(name)
            yield lambda name=name: _check_record(folder, name)  # type: ignore[misc]


def _read(folder: Place, header: Any) -> None:
    read_arrays(folder, header)


def _metadata(folder: Place, name: str) -> dict[str, Any]:
    try:
        return read_metadata(folder, name)
    except ValueError:  # which `check_folder` has said
        return {}


def _check_record(folder: Place, name: str) -> None:
    check_seal(folder / name, f"{folder} is damaged: '{name}'")
    read_arrays(folder / name, read_metadata(folder, name)["attributes"][HEADER])


def _read_values(folder: Place, name: str) -> None:
    """Read an array whose chunks carry checksums."""
    import zarr

    try:
        array: Any = zarr.open_array(zarr_at(folder / name, True), mode="r")
        with until_no_chunk_is_left():
            for start in range(0, array.shape[0] if array.ndim else 0, _ROWS_AT_ONCE):
                array[start : start + _ROWS_AT_ONCE]
    except Exception as problem:  # whatever a decompressor makes of damage
        reason = " ".join(str(problem).split())[:200] or type(problem).__name__
        raise ValueError(f"{folder} is damaged: the array '{name}' cannot be read: {reason}") from None
