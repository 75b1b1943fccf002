"""Runs are tested with a disk that is waited for."""

import os

import pytest

from tests.conftest import fsync


@pytest.fixture(autouse=True)
def _waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", fsync)
