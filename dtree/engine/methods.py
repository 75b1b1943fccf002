"""The methods that leave runs in steps, and where each lives: what resumes such a run and what opens it."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from typing import Any

# Every module offers resume(path, client=None, progress=None) and open_run(path) -> the fitted estimator.
MODULES = {
    "bayes-kmeans": "dtree.engine.fit",
    "chains": "dtree.engine.chains",
    "variational": "dtree.engine.variational",
    "diffusion": "dtree.engine.diffusion",
}


def method_of(run: str | os.PathLike[str]) -> str:
    """The method of a run made in steps, or one sentence why there is none."""
    try:
        attributes = json.loads((Path(run) / "zarr.json").read_bytes())["attributes"]
        found = attributes["method"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"{run} is not the folder of a run") from None
    if found not in MODULES:
        raise ValueError(f"{run} was made by a method that this dtree does not know: {str(found)[:40]!r}")
    return found


def module_of(run: str | os.PathLike[str]) -> Any:
    """The module that knows how to resume and open a run."""
    return importlib.import_module(MODULES[method_of(run)])


def open_run(run: str | os.PathLike[str]) -> Any:
    """The fitted estimator of a finished run, whatever its method."""
    return module_of(run).open_run(run)
