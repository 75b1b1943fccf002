"""One small cluster of two worker processes for all tests of a session."""

from __future__ import annotations

import pytest

from dtree.engine.cluster import cluster_client


@pytest.fixture(scope="session")
def client():
    with cluster_client(n_workers=2, memory_limit="1.5GB", warm=False) as found:
        yield found
