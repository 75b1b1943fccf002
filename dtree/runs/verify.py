"""Everything in the folder of a run, read and held against its checksums, without asking what it means."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from dtree.runs.arrays import HEADER, check_seal, read_arrays, read_metadata
from dtree.runs.checks import check_folder, check_row_array
from dtree.runs.folder import header_of

_ROWS_AT_ONCE = 4_000_000  # values of an array that are read together: any machine has room for them
_NOT_OURS = ("staged", "c")  # copies of the data, which have checksums of their own, and chunks


def damages(path: str | os.PathLike[str]) -> list[str]:
    """What is damaged in a run, one sentence each; nothing when every array is what was written.

    A header that cannot be read is a ValueError, as wherever a run is opened.
    """
    folder, found = Path(path), []
    header = header_of(folder, str(path))
    for check in _checks(folder, header):
        try:
            check()
        except ValueError as problem:
            found.append(" ".join(str(problem).split()))
    return found


def _checks(folder: Path, header: Any) -> Iterator[Callable[[], None]]:
    yield lambda: check_folder(folder)
    yield lambda: check_seal(folder, f"{folder} is damaged: its header")
    listing = msgspec.to_builtins(header)["arrays"]
    for name in listing:
        yield lambda name=name: _read(folder, {"arrays": {name: listing[name]}})  # type: ignore[misc]
    if header.done:
        for name in header.row_arrays:
            yield lambda name=name: check_row_array(folder, name, header.n_rows)  # type: ignore[misc]
    for place, folders, files in os.walk(folder):
        relative = os.path.relpath(place, folder)
        folders[:] = sorted(name for name in folders if name not in _NOT_OURS and not name.startswith("."))
        if relative == "." or "zarr.json" not in files or relative in listing:
            continue
        metadata = _metadata(folder, relative)
        if metadata.get("node_type") == "array":
            yield lambda name=relative: _read_values(folder, name)  # type: ignore[misc]
        elif HEADER in (metadata.get("attributes") or {}):
            folders[:] = []  # a record: its arrays are read with it
            yield lambda name=relative: _check_record(folder, name)  # type: ignore[misc]


def _read(folder: Path, header: Any) -> None:
    read_arrays(folder, header)


def _metadata(folder: Path, name: str) -> dict[str, Any]:
    try:
        return read_metadata(folder, name)
    except ValueError:  # which `check_folder` has said
        return {}


def _check_record(folder: Path, name: str) -> None:
    check_seal(folder / name, f"{folder} is damaged: '{name}'")
    read_arrays(folder / name, read_metadata(folder, name)["attributes"][HEADER])


def _read_values(folder: Path, name: str) -> None:
    """Read an array whose chunks carry checksums."""
    import zarr

    try:
        array: Any = zarr.open_array(str(folder / name), mode="r")
        for start in range(0, array.shape[0] if array.ndim else 0, _ROWS_AT_ONCE):
            array[start : start + _ROWS_AT_ONCE]
    except Exception as problem:  # whatever a decompressor makes of damage
        reason = " ".join(str(problem).split())[:200] or type(problem).__name__
        raise ValueError(f"{folder} is damaged: the array '{name}' cannot be read: {reason}") from None
