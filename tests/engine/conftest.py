"""What tests of the engine share: two worker processes, places for runs, a finished run of every method."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dtree.engine.cluster import cluster_client
from dtree.storage import located, with_options
from tests.storage.conftest import folder as folder
from tests.storage.conftest import server as server
from tests.storage.conftest import started_server as started_server


@pytest.fixture(scope="session")
def client():
    with cluster_client(n_workers=2, memory_limit="1.5GB", warm=False) as found:
        yield found


@pytest.fixture(params=["disk", "bucket"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """An empty place for runs: a folder on disk, or one in a bucket of an S3 server.

    The bucket is tried with all methods in slow tests, and with one otherwise (see conftest).
    """
    if request.param == "disk":
        yield tmp_path
        return
    server: Any = request.getfixturevalue("server")
    with with_options(server.options):
        yield located(request.getfixturevalue("folder"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What every method can do in a bucket is tried with one method at once, with the others in slow tests."""
    for item in items:
        given = getattr(getattr(item, "callspec", None), "params", {})
        if given.get("home") == "bucket" and given.get("name") != "bayes-kmeans":
            item.add_marker(pytest.mark.slow)
