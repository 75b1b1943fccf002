"""A run on disk: what was fitted, to what, by what, and how to get it back.

One zarr v3 group per run, e.g. for `kind` "bhc": `statistics/atoms`, `tree/left ...`, `labels`, `model/...`, and one header
in the group's attributes: format, kind, settings (the fitted object without its arrays) and provenance. A run appears
complete or not at all (`commit`), is checked throughout when opened (`layout`) and holds no pickles (`encode`).

A new kind of run registers how it is taken apart and put together:

    register("my-kind", Kind(write=to_contents, read=from_contents))

`write(fitted)` returns `Contents`; `read(contents)` validates whatever the arrays must satisfy and raises ValueError with
one sentence. A kind that commits as it goes writes its generations (`gen-00000042`) with `commit.folder_in_place`.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dtree import __version__
from dtree.store.commit import check_place, folder_in_place
from dtree.store.layout import is_run, read_arrays, read_header, write_arrays

FORMAT = 1


@dataclass(frozen=True, eq=False)
class Contents:
    """A fitted object in storable pieces."""

    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


class Kind(NamedTuple):
    """How one kind of run is taken apart and put together."""

    write: Callable[[Any], Contents]
    read: Callable[[Contents], Any]


_KINDS: dict[str, Kind] = {}


def register(name: str, kind: Kind) -> None:
    """Make a kind of run known under a name that no other kind has."""
    if name in _KINDS:
        raise ValueError(f"the kind of run '{name}' is registered already")
    _KINDS[name] = kind


def made_by_passes(run: str | Path) -> bool:
    """Whether a folder is a run of the engine, finished or not; those keep the layout of `dtree.engine.runs`."""
    try:
        attributes = json.loads((Path(run) / "zarr.json").read_bytes())["attributes"]
        return isinstance(attributes["run_id"], str)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def check_output(run: str | Path, overwrite: bool = False) -> None:
    """Raise one clear sentence unless a run can be written there; cheap, so call it before a long computation."""
    run = Path(run)
    if run.exists() or run.is_symlink():
        if not overwrite:
            raise ValueError(
                f"{run} exists already; choose another name or overwrite it (overwrite=True, or --overwrite on the command line)"
            )
        if run.is_symlink() or not (is_run(run) or made_by_passes(run)):
            raise ValueError(f"{run} exists and is not a dtree run, so it is not replaced; choose another name")
    check_place(run)


def write_run(
    run: str | Path, kind: str, fitted: Any, provenance: Mapping[str, Any] | None = None, overwrite: bool = False
) -> None:
    """Write a fitted object as a run; the folder appears when it is complete."""
    run = Path(run)
    check_output(run, overwrite)
    contents = _kind(kind, run).write(fitted)
    header = {
        "format": FORMAT,
        "kind": kind,
        "provenance": {**versions(), "created": datetime.now(UTC).isoformat(timespec="seconds"), **(provenance or {})},
        "settings": dict(contents.settings),
    }
    try:
        with folder_in_place(run, "replace" if overwrite else "refuse") as partial:
            write_arrays(partial, contents.arrays, header)
    except OSError as error:
        raise OSError(f"cannot write {run}: {error.strerror or error}") from error


def read_run(run: str | Path) -> Any:
    """The fitted object in a run, every part of it checked."""
    run = Path(run)
    header = _checked_header(run)
    contents = Contents(read_arrays(run, header), header["settings"])
    try:
        return _kind(header["kind"], run).read(contents)
    except ValueError as error:
        raise ValueError(f"{run} cannot be opened: {error}") from None


def read_provenance(run: str | Path) -> dict[str, Any]:
    """Kind, provenance and settings of a run, without reading its arrays."""
    run = Path(run)
    header = _checked_header(run)
    shapes = {name: entry.get("shape") for name, entry in header.get("arrays", {}).items() if isinstance(entry, dict)}
    return {"kind": header["kind"], **header["provenance"], "settings": header["settings"], "shapes": shapes}


def _checked_header(run: Path) -> dict[str, Any]:
    header = read_header(run)
    found = header.get("format")
    if type(found) is not int or found < 1:
        raise ValueError(f"{run} is damaged: it does not say which format it has")
    if found > FORMAT:
        raise ValueError(f"{run} has format {found}, but this dtree reads formats up to {FORMAT}; use a newer dtree")
    if not isinstance(header.get("kind"), str):
        raise ValueError(f"{run} is damaged: it does not say what kind of run it is")
    for part in ("settings", "provenance", "arrays"):
        if not isinstance(header.get(part), dict):
            raise ValueError(f"{run} is damaged: its header has no {part}")
    return header


def _kind(name: str, run: Path) -> Kind:
    if name not in _KINDS:
        known = ", ".join(sorted(_KINDS)) or "none"
        raise ValueError(f"{run} is a run of the kind '{name[:40]}', which this dtree does not know (known: {known})")
    return _KINDS[name]


# Provenance ----------------------------------------------------------------------------------------------------------


def versions() -> dict[str, str]:
    """Versions of everything that may change a number."""
    found = {"python": platform.python_version(), "platform": f"{sys.platform} {platform.machine()}"}
    found["dtree"] = __version__
    for package in ("numpy", "scipy", "numba", "zarr"):
        found[package] = version(package)
    return found


def fingerprint(X: Any) -> str:
    """SHA-256 of the values of X (n, d), dense or SciPy sparse; the same for equal data of any type and memory layout.

    >>> fingerprint(np.eye(2)) == fingerprint(np.asfortranarray(np.eye(2, dtype=np.int32)))
    True
    """
    if hasattr(X, "tocsr"):
        X = X.tocsr().copy()
        X.sum_duplicates()
        X.eliminate_zeros()
        pieces: Iterable[np.ndarray] = [X.indptr.astype("<i8"), X.indices.astype("<i8"), X.data.astype("<f8")]
    else:
        X = np.asarray(X)
        pieces = (np.ascontiguousarray(X[start : start + 4096], dtype="<f8") for start in range(0, X.shape[0], 4096))
    digest = hashlib.sha256(repr(tuple(int(size) for size in X.shape)).encode())
    for piece in pieces:
        digest.update(piece.data if piece.size else b"")
    return digest.hexdigest()
