"""Draws from a normal distribution cut off at zero."""

import math

import numpy as np

from dtree.core.jit import kernel


@kernel
def draw_positive(mean: float, deviation: float, rng: np.random.Generator) -> float:
    """One draw of N(mean, deviation^2) given that it is positive, however unlikely that is."""
    low = -mean / deviation
    if low < 0.5:
        while True:
            x = rng.standard_normal()
            if x > low:
                return mean + deviation * x
    rate = 0.5 * (low + math.sqrt(low * low + 4.0))  # of the exponential tail that is accepted most often
    while True:
        x = low - math.log(1.0 - rng.random()) / rate
        if x > low and rng.random() <= math.exp(-0.5 * (x - rate) ** 2):
            return mean + deviation * x
