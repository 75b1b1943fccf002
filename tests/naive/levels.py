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


def bounded_depth(
    upper: np.ndarray,
    lower: np.ndarray,
    counts: np.ndarray,
    ends: tuple[float, float],
    allowed: float,
    grid: np.ndarray,
) -> float:
    """The smallest depth of the valley between two groups that counts of rows in bins do not contradict.

    upper, lower : number, sum and sum of squares of the places of the rows of each; every s of the grid is tried.
    """
    bins = counts.shape[0]
    width = (ends[1] - ends[0]) / bins
    (a, spread_a), (b, spread_b) = (
        (m[1] / m[0], np.sqrt(max(m[2] / m[0] - (m[1] / m[0]) ** 2, 0))) for m in (upper, lower)
    )
    spread_a, spread_b = max(spread_a, width), max(spread_b, width)
    first, last = max(0, int((b - ends[0]) / width)), min(bins - 1, int((a - ends[0]) / width))
    if not a > b or last - first < 2:
        return 0.0
    places = np.clip(ends[0] + (np.arange(first, last + 1) + 0.5) * width, b, a)
    curve = np.logaddexp(
        np.log(upper[0] / spread_a) - 0.5 * ((places - a) / spread_a) ** 2,
        np.log(lower[0] / spread_b) - 0.5 * ((places - b) / spread_b) ** 2,
    )
    drop = np.minimum(np.maximum.accumulate(curve), np.maximum.accumulate(curve[::-1])[::-1]) - curve
    if drop.max() <= 1e-9:
        return 0.0
    inside = np.flatnonzero(drop > 0)
    kept = slice(max(inside[0] - 1, 0), inside[-1] + 2)
    counts, curve, deepest, drop = counts[first : last + 1][kept], curve[kept], drop.max(), drop[kept]
    filled = curve + (1.0 - grid[:, None]) * drop
    found = -grid * (counts @ drop) - counts.sum() * np.log(np.exp(filled).sum(axis=1))
    return float(deepest * grid[np.flatnonzero(found.max() - found <= allowed)[0]])
