"""The tree of levels by brute force: lower the water threshold by threshold and see which islands are connected."""

import numpy as np


def joins_of(peaks: np.ndarray, depth: np.ndarray) -> np.ndarray:
    """Depth (m,) at which each component, as the highest of its island, joins a higher one; infinite for the highest.

    Two components are connected at a water level when a path of pairs, each meeting above it, leads from one to the
    other. A component ends at the highest level at which one of a higher peak is connected with it.
    """
    m = peaks.shape[0]
    meeting = np.minimum(peaks[:, None], peaks[None, :]) - depth
    out = np.full(m, np.inf)
    for water in np.unique(meeting[np.triu_indices(m, 1)])[::-1]:
        reach = (meeting >= water) | np.eye(m, dtype=bool)
        for _ in range(m):
            reach = (reach.astype(int) @ reach.astype(int)) > 0
        for own in range(m):
            higher = [j for j in range(m) if reach[own, j] and (peaks[j], -j) > (peaks[own], -own)]
            if higher and np.isinf(out[own]):
                out[own] = max(0.0, peaks[own] - water)
    return out
