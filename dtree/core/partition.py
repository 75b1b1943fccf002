"""Partitions as integer labels in canonical form: clusters are numbered by first appearance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


def canonical_labels(labels: Any) -> np.ndarray:
    """Renumber clusters 0, 1, ... in the order in which they first appear.

    >>> canonical_labels([7, 7, 2, 7, 5]).tolist()
    [0, 0, 1, 0, 2]
    """
    labels = np.asarray(labels)
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(first.shape[0], dtype=np.int64)
    rank[np.argsort(first)] = np.arange(first.shape[0])
    return rank[inverse]


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
