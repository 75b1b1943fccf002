"""Small data to try things on, made on the spot or shipped with the package: no download.

`animals.npz`: 33 species by 102 yes-or-no features (Kemp & Tenenbaum 2008), from the repository
brendenlake/structural-sparsity (MIT licence). `newsgroups.npz`: 200 posts of each of four groups of the 20-newsgroups
collection by the presence of 50 words.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

_CREATURES = {"bird": ("owl", "gull", "finch"), "fish": ("eel", "carp", "tuna"), "mammal": ("bat", "cat", "seal")}
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
    # The orders differ widely in every measurement, their kinds less, and a kind's members least: 9 : 3 : 0.5.
    corners = 9.0 * np.array([[1.0, 0.0, -1.0, 1.0], [0.0, -1.0, 1.0, 0.0], [-1.0, 1.0, 0.0, -1.0]])
    offsets = 3.0 * np.array([[1.0, -0.6, 0.0, 0.2], [-0.3, 1.0, -0.2, -0.2], [-0.7, -0.4, 0.2, 0.0]])
    centres = np.array([corners[k // 3] + np.roll(offsets[k % 3], k // 3) for k in range(len(kinds))])
    member = np.arange(rows) % len(kinds)
    X = centres[member] + 0.5 * rng.standard_normal((rows, len(_MEASUREMENTS)))
    return NamedData(
        X=X,
        row_names=[f"{kinds[k][1]} {i // len(kinds) + 1}" for i, k in enumerate(member)],
        feature_names=list(_MEASUREMENTS),
        kind=np.array([kinds[k][1] for k in member]),
        order=np.array([kinds[k][0] for k in member]),
    )


def _shipped(name: str) -> dict[str, np.ndarray]:
    with np.load(Path(__file__).parent / f"{name}.npz", allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def animals() -> NamedData:
    """33 species of animal by 102 yes-or-no features such as "has wings"; `kind` and `order` are the species' names.

    >>> data = animals()
    >>> data.X.shape, data.row_names[:3], data.feature_names[0]
    ((33, 102), ['Elephant', 'Rhino', 'Horse'], 'has lungs')
    """
    found = _shipped("animals")
    names = found["row_names"]
    return NamedData(found["X"].astype(np.float64), names.tolist(), found["feature_names"].tolist(), names, names)


def newsgroups() -> NamedData:
    """800 posts to four newsgroups by the presence of 50 words; `kind` is the group, `order` its first name (rec, sci).

    >>> data = newsgroups()
    >>> data.X.shape, sorted(set(data.kind.tolist()))
    ((800, 50), ['rec.autos', 'rec.sport.baseball', 'rec.sport.hockey', 'sci.space'])
    """
    found = _shipped("newsgroups")
    group = found["group"]
    names = [f"{name.split('.')[-1]} {i + 1}" for i, name in enumerate(group.tolist())]
    first = np.array([name.split(".")[0] for name in group.tolist()])
    return NamedData(found["X"].astype(np.float64), names, found["feature_names"].tolist(), group, first)
