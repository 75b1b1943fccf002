"""How far two components overlap, for families whose rows have no place on a line: counts, categories, mixed tables.

The rows of a component that the mixture might as well give to another are their overlap (Hennig's misclassification
probability, here with soft shares). It is turned into the depth of a valley by asking how deep it would be between two
equal Gaussians with the same overlap: at a distance of 2 z deviations the share on the wrong side is Phi(-z), and the
density in the middle lies z^2 / 2 - log 2 nats below the peaks. So both kinds of families share one scale of levels.

A single category always parts its rows without overlap, which says nothing of groups: they are groups when the other
columns know of them too. So the overlap is taken with each category left out in turn, and the largest counts.

Rows with gaps are completed before they are counted (`methods.completed_rows`): they are in doubt for want of values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from dtree.core.levels import LevelTree
from dtree.core.tree import sums_below

_DOUBT = 0.5  # of a row: without any row in doubt, half a row might have been; so few rows show no deep valley


class Overlap(NamedTuple):
    """What rows add up to, twice: for the rows of even and of odd number."""

    shares: np.ndarray  # (2, c, k, k) sums over the rows of component i of their probability to belong to j, c views
    rows: np.ndarray  # (2, k) rows of each component

    def __add__(self, other: Overlap) -> Overlap:  # type: ignore[override]
        return Overlap(self.shares + other.shares, self.rows + other.rows)


def overlap_of(views: Iterable[np.ndarray], labels: np.ndarray, weight: np.ndarray, first_row: int) -> Overlap:
    """The sums of rows that belong to components `labels` (n,), numbered from first_row.

    views : probabilities (n, k) of the components, from all columns and without some of them.

    >>> views = [np.array([[0.9, 0.1], [0.0, 1.0]])]
    >>> overlap_of(views, np.array([0, 1]), np.ones(2), 0).shares.sum(axis=(0, 1)).tolist()
    [[0.9, 0.1], [0.0, 1.0]]
    """
    half, found = (first_row + np.arange(labels.shape[0])) % 2, []
    for shares in views:
        k = shares.shape[1]
        sums = np.zeros((2, k, k))
        np.add.at(sums, (half, labels), shares * weight[:, None])
        found.append(sums)
    rows = np.zeros((2, k))
    np.add.at(rows, (half, labels), weight)
    return Overlap(np.stack(found, axis=1), rows)


def overlap_depths(shares: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Depths (k, k) between components from shares (c, k, k) and rows (k,): of the view with the most overlap."""
    wrong = ((shares + _DOUBT) / (rows[:, None] + 1.0)).max(axis=0)
    return np.maximum(0.5 * ndtri(np.minimum(np.maximum(wrong, wrong.T), 0.5)) ** 2 - math.log(2.0), 0.0)


def overlap_tree(shares: np.ndarray, rows: np.ndarray, host: np.ndarray) -> LevelTree:
    """The tree of k components from shares (c, k, k) and rows (k,): the two that overlap most are joined first.

    What is joined counts as one from then on, its shares and rows added up: a chain of components, each a little like
    the next, does not join its ends, which are nothing alike. host : (k,) as for `level_tree`; joined before others.
    """
    k, shares, rows, size = rows.shape[0], shares.copy(), rows.copy(), np.rint(rows)
    node, alive, depth, joins = np.arange(k), np.ones(k, dtype=bool), [0.0], []

    def join(into: int, gone: int, at: float) -> None:
        shares[:, into] += shares[:, gone]
        shares[:, :, into] += shares[:, :, gone]
        rows[into] += rows[gone]
        joins.append(sorted((int(node[into]), int(node[gone]))))
        depth.append(max(at, depth[-1]))
        node[into], alive[gone] = k + len(joins) - 1, False

    for gone in np.flatnonzero(host != np.arange(k)):
        join(int(host[gone]), int(gone), 0.0)
    while len(joins) < k - 1:
        places = np.flatnonzero(alive)
        between = overlap_depths(shares[:, places[:, None], places], rows[places])
        between[np.tril_indices(places.shape[0])] = np.inf
        a, b = np.unravel_index(np.argmin(between), between.shape)
        join(int(places[a]), int(places[b]), float(between[a, b]))
    left, right = np.array(joins, dtype=np.int64).reshape(k - 1, 2).T
    return LevelTree(left, right, sums_below(left, right, size.astype(np.int64)), np.array(depth[1:]))
