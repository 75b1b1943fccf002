"""Random streams that do not depend on who draws from them, or when."""

import numpy as np


def stream(seed: int, method: int, iteration: int, chunk: int) -> np.random.Generator:
    """The random stream of one chunk (or chain) in one iteration of a method: the same whoever asks, in whatever order.

    >>> stream(1, 0, 2, 3).random() == stream(1, 0, 2, 3).random()
    True
    >>> stream(1, 0, 2, 3).random() == stream(1, 0, 3, 2).random()
    False
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(method, iteration, chunk)))
