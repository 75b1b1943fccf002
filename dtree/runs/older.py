"""Finished runs of dtree 0.1, read into plain values; `dtree.methods.older` makes the records of today from them.

There were two formats. What `dtree.save` wrote has a header that lists every array with its hash, as today. What a fit
in passes or chains left has no hashes: its arrays are held against their own metadata, and its labels against its
statistics. Chains have the names of the first format here, whichever they were written in.
"""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dtree import __version__
from dtree.core.families import FAMILIES
from dtree.core.memory import require_memory
from dtree.core.model import Model
from dtree.core.priors import PRIORS
from dtree.runs.arrays import HEADER, read_arrays, read_metadata, read_unlisted
from dtree.runs.checks import check_folder, check_row_array
from dtree.runs.codec import decode
from dtree.runs.folder import FolderStore
from dtree.runs.header import CONVERTIBLE, command_of_older, written_by_an_older_dtree

_VERSIONS = ("dtree", "python", "platform", "numpy", "scipy", "numba", "zarr")
_GROUPS = ("statistics", "tree", "trace")  # of a run in passes; trees and statistics are those of clusters
_DRAWN = ("labels", "prior", "log_joint", "n_clusters", "seconds")  # of a block of a chain; the rest is its state
_ELSEWHERE = {"command", "created", "data", "data_sha256", "data_shape", "labels_column", "row_names", "seconds"}


class Values(dict[str, Any]):
    """Values by name, one sentence for a name that is not there."""

    def __missing__(self, name: str) -> Any:
        raise ValueError(f"its '{name}' is missing")


class Older(NamedTuple):
    """What an old run says."""

    location: str  # with its kind and the command that made it, for sentences
    kind: str  # as version 0.1 called it
    values: Values  # of a model that was saved: its settings; of a fit in passes: its attributes
    arrays: Values  # by name
    about: dict[str, Any]  # fields of the header of a run


def read_older(path: str | os.PathLike[str]) -> Older:
    """The finished run of version 0.1 in a folder, or one sentence (ValueError) why it cannot be converted."""
    folder = Path(path)
    if not folder.is_dir():
        raise ValueError(f"there is no run {path}")
    attributes = read_metadata(folder, "").get("attributes")
    header = attributes.get(HEADER, attributes) if isinstance(attributes, dict) else None
    if not isinstance(header, dict) or header.get("format") != 1 or not ({"kind", "run_id"} & set(header)):
        raise ValueError(f"{path} is not a run of dtree 0.1, so there is nothing to convert")
    kind = header.get("kind") or header.get("method")
    if kind not in CONVERTIBLE or header.get("status", "done") != "done":
        raise ValueError(written_by_an_older_dtree(path, header))
    check_folder(folder)
    made_by = " ".join(command_of_older(header))[:200]
    read = _read_saved if "kind" in header else _read_chains if kind == "chains" else _read_passes
    what = f"a run of dtree 0.1 of the kind '{kind}'" + (f", made by '{made_by}'" if made_by else "")
    try:
        return read(folder, f"{path} ({what})", Values(header))
    except (ArithmeticError, LookupError, TypeError, ValueError) as problem:
        reason = " ".join(str(problem).removeprefix(f"{folder} is damaged: ").split())[:200] or type(problem).__name__
        raise ValueError(f"{path} ({what}) is damaged: {reason}") from None


def _read_saved(folder: Path, location: str, header: Values) -> Older:
    """What `dtree.save` wrote, and `dtree fit` of few rows."""
    arrays, notes = Values(read_arrays(folder, header)), dict(header["provenance"])
    about = {
        "data": str(notes.get("data", "an array")),
        "fingerprint": str(notes.get("data_sha256", "")),
        "labels_column": notes.get("labels_column"),
        "row_names": notes.get("row_names"),
        "command": command_of_older(header),
        "versions": {name: str(notes[name]) for name in _VERSIONS if name in notes},
        "created": str(notes.get("created", "")),
        "seconds": float(notes.get("seconds", 0.0)),
        "notes": {
            **{name: note for name, note in notes.items() if name not in {*_ELSEWHERE, *_VERSIONS}},
            "converted": _converted(),
        },
    }
    values = Values({name: _named(decode(part, arrays)) for name, part in header["settings"].items()})
    return Older(location, header["kind"], values, arrays, about)


def _read_passes(folder: Path, location: str, attributes: Values) -> Older:
    """What a fit in passes left behind."""
    n, d = attributes["source"]["shape"]
    arrays, store = Values(), FolderStore(folder)
    for group in _GROUPS:
        arrays |= _read_group(folder, group) if (folder / group).is_dir() else {}
    for name in ("labels", "leaves"):
        if store.has_rows(name):
            check_row_array(folder, name, n)
            require_memory(4 * n, f"{folder}/{name}")
            arrays[name] = store.read_rows(name, 0, n)
    stops = store.names("checkpoints")
    values = Values({**attributes, "model": _model(folder), "n_features": d})
    if attributes["method"] == "variational":
        arrays |= {f"sums/{name.rpartition('/')[2]}": found for name, found in _read_group(folder, stops[-1]).items()}
        values["sums"] = Values(read_metadata(folder, stops[-1])["attributes"])
    columns, seconds = attributes["source"].get("columns"), float(arrays["trace/seconds"].sum())
    return Older(location, attributes["method"], values, arrays, _about(folder, attributes, columns, seconds))


def _read_chains(folder: Path, location: str, attributes: Values) -> Older:
    """What chains left behind: blocks of draws, each with where its chain stood after it."""
    said, model = Values(attributes["settings"]), _model(folder)
    arrays = Values(_read_group(folder, "statistics"))
    m, drawn, scalars = arrays["statistics/atoms"].shape[0], [], []
    check_row_array(folder, "labels", m)
    arrays["labels"] = FolderStore(folder).read_rows("labels", 0, m)
    for chain in range(said["chains"]):
        names = [f"chains/{chain:04d}/{path.name}" for path in sorted((folder / f"chains/{chain:04d}").glob("block-*"))]
        blocks = [{name.rpartition("/")[2]: found for name, found in _read_group(folder, at).items()} for at in names]
        draws = {name: np.concatenate([Values(block)[name] for block in blocks]) for name in _DRAWN}
        found = len(draws["log_joint"])
        if found != said["draws"]:
            raise ValueError(f"chain {chain} has {found} draws, not {said['draws']}")
        drawn.append(draws)
        scalars = read_metadata(folder, names[-1])["attributes"]["scalars"]
        arrays |= {f"checkpoints/{chain}/{name}": state for name, state in blocks[-1].items() if name not in _DRAWN}
    arrays |= {f"chains/{name}": np.stack([draws[name] for draws in drawn]) for name in _DRAWN}
    fitted = {"family_": model.family, "prior_": model.prior, "n_features_in_": attributes["n_features"]}
    fitted |= {"seed": attributes["seed"], "warmup": attributes["warmup"], "scalars": scalars}
    parameters = {"family": model.family, "prior": model.prior, **said, "coarsening": model.coarsening}
    values = Values({"parameters": Values(parameters), "fitted": Values(fitted)})
    seconds = float(arrays["chains/seconds"][:, -1].sum())
    about = _about(folder, attributes, attributes.get("feature_names"), seconds)
    return Older(location, "chains", values, arrays, about)


def _about(folder: Path, attributes: Values, columns: list[str] | None, seconds: float) -> dict[str, Any]:
    """The header of a run from the attributes of one that was no saved model."""
    written = datetime.fromtimestamp((folder / "zarr.json").stat().st_mtime, UTC)
    return {
        "data": str(attributes.get("data") or "an array"),
        "fingerprint": str(attributes.get("data_fingerprint", "")),
        "labels_column": attributes.get("labels_column"),
        "row_names": attributes.get("row_names"),
        "feature_names": list(columns or ()) or None,
        "command": command_of_older(attributes),
        "versions": {"dtree": "0.1.0", **{name: str(found) for name, found in attributes["versions"].items()}},
        "created": written.isoformat(timespec="seconds"),
        "seconds": seconds,
        "notes": {"converted": _converted()},
        "run_id": attributes["run_id"],
    }


def _named(value: Any) -> Any:
    return Values(value) if isinstance(value, dict) else value


def _converted() -> str:
    return f"from the format of dtree 0.1 by dtree {__version__}"


def _read_group(folder: Path, group: str) -> dict[str, np.ndarray]:
    names = sorted(path.name for path in (folder / group).iterdir() if path.is_dir() and not path.name.startswith("."))
    return {f"{group}/{name}": read_unlisted(folder, f"{group}/{name}") for name in names}


def _model(folder: Path) -> Model:
    """The model of a fit in passes: numbers among the attributes of its group, arrays beside them."""
    said = Values(read_metadata(folder, "model")["attributes"])
    found: dict[str, dict[str, Any]] = {"family": {}, "prior": {}}
    arrays = {name.partition("/")[2]: values for name, values in _read_group(folder, "model").items()}
    for name, value in {**said["scalars"], **arrays}.items():
        part, _, parameter = name.partition(".")
        found[part][parameter] = value
    family, prior = Values(FAMILIES)[said["family"]], Values(PRIORS)[said["prior"]]
    return Model(family(**found["family"]), prior(**found["prior"]), float(said["coarsening"]))
