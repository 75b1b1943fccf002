"""Small data to try things on, made on the spot: no files, no download."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_CREATURES = {
    "bird": ("owl", "gull", "finch"),
    "fish": ("eel", "carp", "tuna"),
    "mammal": ("bat", "cat", "seal"),
}
_MEASUREMENTS = ("length", "weight", "speed", "lifespan")


@dataclass(frozen=True, eq=False)
class NamedData:
    """Rows with names and two levels of known groups."""

    X: np.ndarray  # (n, d)
    row_names: list[str]
    feature_names: list[str]
    kind: np.ndarray  # (n,) the fine group of each row: owl, gull, ...
    order: np.ndarray  # (n,) the coarse group of each row: bird, fish, mammal


def nested_creatures(rows: int = 90, seed: int = 0) -> NamedData:
    """Made-up measurements (in standard units) of nine kinds of creature in three orders, a hierarchy two levels deep.

    Parameters
    ----------
    rows : how many creatures, at least 9; kinds are as equally frequent as can be.
    seed : of the random numbers.

    >>> data = nested_creatures(rows=18)
    >>> data.X.shape, data.row_names[0], data.kind[:3].tolist()
    ((18, 4), 'owl 1', ['owl', 'gull', 'finch'])
    """
    kinds = [(order, kind) for order, members in _CREATURES.items() for kind in members]
    if rows < len(kinds):
        raise ValueError(f"rows must be at least {len(kinds)}, one of each kind; got {rows}")
    rng = np.random.default_rng(seed)
    d = len(_MEASUREMENTS)
    # The orders differ widely in every measurement, their kinds less, and a kind's members least: 9 : 3 : 0.5.
    corners = 9.0 * np.array([[1.0, 0.0, -1.0, 1.0], [0.0, -1.0, 1.0, 0.0], [-1.0, 1.0, 0.0, -1.0]])
    offsets = 3.0 * np.array([[1.0, -0.6, 0.0, 0.2], [-0.3, 1.0, -0.2, -0.2], [-0.7, -0.4, 0.2, 0.0]])
    centres = np.array([corners[k // 3] + np.roll(offsets[k % 3], k // 3) for k in range(len(kinds))])
    member = np.arange(rows) % len(kinds)
    X = centres[member] + 0.5 * rng.standard_normal((rows, d))
    return NamedData(
        X=X,
        row_names=[f"{kinds[k][1]} {i // len(kinds) + 1}" for i, k in enumerate(member)],
        feature_names=list(_MEASUREMENTS),
        kind=np.array([kinds[k][1] for k in member]),
        order=np.array([kinds[k][0] for k in member]),
    )
