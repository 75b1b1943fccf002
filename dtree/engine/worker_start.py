"""Loaded by every local worker process when it starts (Dask calls it a preload)."""

import signal
from typing import Any


def dask_setup(worker: Any) -> None:
    """Leave Ctrl-C to the program that started the workers: it ends them itself, without a traceback from each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
