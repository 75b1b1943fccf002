"""What all tests need of the process they run in."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

# Families made up by tests stay out of the cache of kernels that programs use. Compiling is a third of what the tests
# cost, and kernels are known by their sources alone, so all checkouts of a user share them.
CACHES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
os.environ.setdefault("DTREE_CACHE_DIR", str(CACHES / "dtree-tests"))

# A shell starts jobs in the background deaf to Ctrl-C, and their children inherit that; programs under test must hear
# it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """One room of the package to one process at a time: two processes would compile the same kernels side by side."""
    from xdist.scheduler import LoadScopeScheduling

    class ByRoom(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return room_of(nodeid)

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
