"""One server of every kind for all tests here; every test has a folder of its own in the bucket.

Tests are done with S3, and again with Azure and Google in slow tests; Azure's needs Azurite (see `other_servers`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.storage.other_servers import azurite, server_of
from tests.storage.server import Server

_NO_AZURITE = "Azurite is not installed: npm install --prefix .stores azurite, or name it in DTREE_AZURITE"
KINDS = [
    "s3",
    pytest.param("az", marks=[pytest.mark.slow, pytest.mark.skipif(azurite() is None, reason=_NO_AZURITE)]),
    pytest.param("gs", marks=pytest.mark.slow),
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every kind of server, unless a test says itself which."""
    said = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "server" in metafunc.fixturenames and "server" not in said:
        metafunc.parametrize("server", KINDS, indirect=True)


@pytest.fixture(scope="session")
def started_server() -> Iterator[Callable[[str], Any]]:
    """Starts a server when it is first asked for."""
    servers: dict[str, Any] = {}
    with ExitStack() as stack:

        def server(kind: str) -> Any:
            if kind not in servers:
                servers[kind] = stack.enter_context(server_of(kind))
            return servers[kind]

        yield server


@pytest.fixture
def server(request: pytest.FixtureRequest, started_server: Callable[[str], Any]) -> Iterator[Server]:
    found = started_server(getattr(request, "param", "s3"))
    found.quiet()
    found.proxy.seen.clear()
    yield found
    found.quiet()


@pytest.fixture
def folder(server: Server) -> str:
    return f"{server.scheme}://{server.bucket}/{uuid.uuid4().hex}"


@pytest.fixture
def in_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
