"""Partitions as integer labels in canonical form: clusters are numbered by first appearance."""

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
