"""One S3 server for all tests here; every test has a folder of its own in the bucket."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.storage.server import Server, s3_server


@pytest.fixture(scope="session")
def started_server() -> Iterator[Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def server(started_server: Server) -> Iterator[Server]:
    started_server.quiet()
    started_server.proxy.seen.clear()
    yield started_server
    started_server.quiet()


@pytest.fixture
def folder(server: Server) -> str:
    return f"s3://{server.bucket}/{uuid.uuid4().hex}"


@pytest.fixture
def in_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
