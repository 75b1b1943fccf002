"""One small cluster of two worker processes for all tests of a session."""

from __future__ import annotations

import pytest

from dtree.engine.cluster import cluster_client
from tests.storage.conftest import folder as folder
from tests.storage.conftest import server as server
from tests.storage.conftest import started_server as started_server


@pytest.fixture(scope="session")
def client():
    with cluster_client(n_workers=2, memory_limit="1.5GB", warm=False) as found:
        yield found


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What every method can do in a bucket is tried with one method at once, with the others in slow tests."""
    for item in items:
        given = getattr(getattr(item, "callspec", None), "params", {})
        if given.get("home") == "bucket" and given.get("name") != "bayes-kmeans":
            item.add_marker(pytest.mark.slow)
