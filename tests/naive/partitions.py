"""All partitions of a few items, and the members of their clusters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dtree.core.partition import canonical_labels


def clusters_of(labels: Any) -> list[list[int]]:
    """The members of each cluster, clusters in the order in which they first appear.

    >>> clusters_of([0, 1, 0])
    [[0, 2], [1]]
    """
    labels = canonical_labels(labels)
    members: list[list[int]] = [[] for _ in range(int(labels.max(initial=-1)) + 1)]
    for row, label in enumerate(labels):
        members[label].append(row)
    return members


def all_partitions(n: int) -> Iterator[np.ndarray]:
    """Every partition of n items as restricted growth strings, in lexicographic order.

    >>> [p.tolist() for p in all_partitions(3)]
    [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 1, 2]]
    """
    labels = np.zeros(n, dtype=np.int64)
    while True:
        yield labels.copy()
        position = n - 1
        while position > 0 and labels[position] > labels[:position].max():
            position -= 1
        if position <= 0:
            return
        labels[position] += 1
        labels[position + 1 :] = 0
