"""The small cluster that the tests of the engine have."""

from tests.engine.conftest import client

__all__ = ["client"]
