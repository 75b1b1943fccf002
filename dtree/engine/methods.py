"""The methods that leave runs in steps, and where each lives: what resumes such a run and what opens it."""

from __future__ import annotations

import importlib
import os
from typing import Any

from dtree.engine.checks import check_folder

# Every module offers resume(path, client=None, progress=None) and open_run(path) -> the fitted estimator.
MODULES = {
    "bayes-kmeans": "dtree.engine.fit",
    "randomized": "dtree.engine.randomized",
    "chains": "dtree.engine.chains",
    "variational": "dtree.engine.variational",
    "diffusion": "dtree.engine.diffusion",
}


def method_of(run: str | os.PathLike[str]) -> str:
    """The method of a run made in steps, its folder checked, or one sentence why there is none."""
    found = check_folder(run)["method"]
    if found not in MODULES:
        raise ValueError(f"{run} was made by a method that this dtree does not know: {str(found)[:40]!r}")
    return found


def module_of(run: str | os.PathLike[str]) -> Any:
    """The module that knows how to resume and open a run."""
    return importlib.import_module(MODULES[method_of(run)])


def open_run(run: str | os.PathLike[str]) -> Any:
    """The fitted estimator of a finished run, whatever its method."""
    return module_of(run).open_run(run)
