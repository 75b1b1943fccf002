"""What a run remembers beside its model: where it came from, and what its rows and features are called."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def opened(model_or_run: Any) -> tuple[Any, dict[str, Any], dict[str, list[str]]]:
    """The model, what its run remembers, and the names (n,) of its rows and (d,) of its features, where there are any."""
    if not isinstance(model_or_run, str | os.PathLike):
        return model_or_run, {}, {}
    from dtree.runs.saving import open as open_run
    from dtree.store.run import made_by_passes, read_provenance

    run = Path(model_or_run)
    names: dict[str, list[str]] = {}
    if made_by_passes(run):
        from dtree.engine.folder import RunFolder

        folder = RunFolder(run)
        if not folder.done:
            raise ValueError(f"{run} is not finished: 'dtree resume {run}' carries on")
        at = folder.attributes
        wanted = ("command", "data_fingerprint", "settings", "versions", "best_pass")
        notes = {name: at[name] for name in wanted if name in at}
        if isinstance(notes.get("command"), list):
            notes["command"] = " ".join(str(word) for word in notes["command"])
        if "settings" in notes:
            notes["settings of the run"] = notes.pop("settings")
        if "source" in at:
            notes["data"], notes["data_shape"] = folder.source.path, list(folder.source.shape)
            names = _names_of_source(folder.source)
        names |= {key: [str(name) for name in at[key]] for key in ("row_names", "feature_names") if isinstance(at.get(key), list)}  # fmt: skip
    else:
        notes = read_provenance(run)
        if isinstance(notes.get("row_names"), list):
            names["row_names"] = [str(name) for name in notes["row_names"]]
    return open_run(run), {"run": str(run), **notes}, names


def _names_of_source(source: Any) -> dict[str, list[str]]:
    if source.columns:
        return {"feature_names": [str(name) for name in source.columns]}
    if not source.kind.startswith("zarr"):
        return {}
    import zarr

    try:
        attributes = dict(zarr.open(source.path, mode="r").attrs)
    except (OSError, ValueError, KeyError):  # the data may have been moved away since
        return {}
    found = {key: attributes.get(key) for key in ("row_names", "feature_names")}
    return {key: [str(name) for name in names] for key, names in found.items() if isinstance(names, list)}
