"""The cluster of two worker processes that the tests of the engine use too."""

from tests.engine.conftest import client

__all__ = ["client"]
