"""A run that holds any value and takes no time to make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dtree.core.tree import Tree
from dtree.methods.contract import Method
from dtree.runs.folder import FolderStore
from dtree.runs.header import Header
from dtree.runs.memory import MemoryStore
from dtree.runs.run import Run


class Settings(msgspec.Struct, frozen=True):
    rounds: int = 1


class Fitted(msgspec.Struct, frozen=True):
    value: Any


class Toy(Method):
    name = "toy"
    Settings, Fitted = Settings, Fitted


def write_run(path: Path, value: Any, overwrite: bool = False, **header: Any) -> None:
    """A finished run with a value as its results and one label per row."""
    about = {"method": "toy", "settings": {"rounds": 1}, "data": "an array", "n_rows": 3, "n_features": 2, "seed": 0}
    run = Run.create(MemoryStore(), Header(**{**about, "status": "done", **header}))
    run.store.put("settings", Settings())
    run.store.put_results(Fitted(value))
    run.store.create_rows("labels", 3, 3, np.int32, -1)
    run.store.write_rows("labels", 0, np.arange(3))
    run.copy_to(path, Toy(), overwrite)


def write_unfinished_run(path: Path) -> None:
    write_run(path, None)
    store = FolderStore(path)
    store.write_header(msgspec.structs.replace(store.read_header(), status="running", results=None))


def read_run(path: Path) -> Any:
    """The value in a run whose labels can be read."""
    run = Run.open(path)
    value = run.fitted(Fitted).value
    assert run.row_array("labels").tolist() == [0, 1, 2]
    return value


def small_tree() -> Tree:
    return Tree.from_merges([[0, 1], [2, 3]], size=[1, 1, 1], log_phi_h=np.log([0.5, 0.5, 0.5, 0.4, 0.05]))


def visible_and_hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
