"""What all tests need of the process they run in."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import tests.kept_kernels  # noqa: F401  (says where, before anything is compiled)

# A shell starts jobs in the background deaf to Ctrl-C, and their children inherit that; programs under test must hear
# it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# What tests write need not outlive a power cut, and waiting for the disk was a twelfth of their time.
fsync = os.fsync
os.fsync = lambda handle: None


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows as a .csv file, for tests of every method."""
    from tests.engine.test_features import frame

    path = tmp_path_factory.mktemp("data") / "rows.csv"
    frame().to_csv(path, index_label="name")
    return path


@pytest.fixture(scope="session")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A finished run of every method; tests change copies only."""
    from dtree.engine.drive import Place
    from tests.engine.test_features import METHODS, fit

    folder = tmp_path_factory.mktemp("finished")
    for name in METHODS:
        fit(name, data, Place(folder / name))
    return {name: folder / name for name in METHODS}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """One room of the package to one process at a time: two processes would compile the same kernels side by side."""
    from xdist.scheduler import LoadScopeScheduling

    class ByRoom(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return room_of(nodeid)

        def _assign_work_unit(self, node):
            waiting = self.workqueue  # the most tests first
            if not any(room in waiting for room in ROOMS):
                for scope in reversed([scope for scope in LONG if scope in waiting]):
                    waiting.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

    return ByRoom(config, log)


def room_of(nodeid: str) -> str:
    """The room whose kernels a test needs most, from its file's name or its folder."""
    path = nodeid.split("::")[0]
    for room, words in ROOMS.items():
        if any(word in path for word in words):
            return room
    return "/".join(path.split("/")[:2])


ROOMS = {
    "mcmc": ("mcmc/", "chain", "cli_sample"),
    "variational": ("variational", "cli_vb", "saved_mixtures"),
    "diffusion": ("diffusion", "cli_ddt"),
    "hierarchy": ("hierarchy/", "core/", "test_estimators.py"),
    "engine": ("engine/", "faults/", "kmeans/", "deploy/"),
}
# Few tests that take long: they follow the rooms, or at the end one process would be at work and the other idle.
LONG = ("tests/notebooks", "tests/test_docs.py", "tests/test_reproduce_experiments.py", "dtree/estimators")
