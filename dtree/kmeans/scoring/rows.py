"""What the Gaussian families share in assigning dense rows to frozen clusters, LANES rows at a time.

A family brings tables of its clusters, a NamedTuple whose `rows` are the `RowTables` below.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from dtree.core.families.standard_units import StandardUnits
from dtree.core.jit import kernel
from dtree.core.lanes import FUSED, LANES
from dtree.core.model import Model
from dtree.core.removal import log_marginal_without
from dtree.core.verbs import log_marginal
from dtree.kmeans.scoring.kappa import kappa_gains


class RowTables(NamedTuple):
    """What both families need to know of k clusters; the last entry of each column, k, is the empty cluster."""

    origin: np.ndarray  # (d,)
    inverse_unit: np.ndarray  # (d,)
    kappa_join: np.ndarray  # (k+1,) what joining adds to the log of the prior's weight
    kappa_leave: np.ndarray  # (k+1,) what leaving takes from it
    alone: np.ndarray  # (k+1,) the cluster holds one row only
    statistics: np.ndarray  # (k+1, s)
    family: Any  # compiled, without a table of counts: it scores few rows
    coarsening: float  # the weight of a row


def row_tables(model: Model, statistics: np.ndarray) -> RowTables:
    """The tables of clusters (k, s) of a family in standard units."""
    family = model.family
    assert isinstance(family, StandardUnits)
    padded = np.vstack([statistics, np.zeros((1, statistics.shape[1]))])
    compiled = family.compile(np.zeros(padded.shape[1]), model.coarsening)
    units = family.origin, 1.0 / family.unit
    return RowTables(*units, *kappa_gains(model, padded), padded, compiled, model.coarsening)


class Lanes(NamedTuple):
    """The rows that are scored together, one in each lane.

    A kernel makes the arrays itself: then the compiler knows that they do not overlap, which saves a tenth of the time.
    """

    z: np.ndarray  # (d, LANES) rows in standard units
    present: np.ndarray  # (LANES,) the cluster each row is in, or -1
    score: np.ndarray  # (LANES,) gains in the cluster at hand
    top: np.ndarray  # (LANES,) the largest gain so far in a cluster other than the present one
    where: np.ndarray  # (LANES,) in which cluster
    stay: np.ndarray  # (LANES,) gain in the present cluster, which is taken without the row


@kernel(fastmath=FUSED)
def load_rows(lanes, tables, X, own, start):
    """Put the rows of X (n, d) from `start` on into the lanes; `own` (n,) is the present cluster of each, or -1."""
    z, present, top, where = lanes.z, lanes.present, lanes.top, lanes.where
    origin, inverse_unit = tables.origin, tables.inverse_unit
    width = min(LANES, X.shape[0] - start)
    for i in range(width):
        for a in range(X.shape[1]):
            z[a, i] = (X[start + i, a] - origin[a]) * inverse_unit[a]
        present[i] = own[start + i]
    for i in range(width, LANES):
        present[i] = -1
    for i in range(LANES):
        top[i] = -np.inf
        where[i] = -1


@kernel
def keep_better(present, score, top, where, c):
    """Let cluster c be the best so far of the rows that gain more in it, other than its own (all arrays (LANES,))."""
    for i in range(LANES):
        better = present[i] != c and score[i] > top[i]
        top[i] = score[i] if better else top[i]
        where[i] = c if better else where[i]


@kernel
def settle_rows(lanes, alone, start, best, unexplained):
    """Write where the rows in the lanes gain most. lanes.score must hold the gain of standing alone.

    Ties go to the own cluster, then to the first.
    """
    present, score, top, where = lanes.present, lanes.score, lanes.top, lanes.where
    for i in range(min(LANES, best.shape[0] - start)):
        c = present[i]
        if c >= 0:
            stay = score[i] if alone[c] else lanes.stay[i]
            if stay >= top[i]:
                top[i] = stay
                where[i] = c
        best[start + i] = where[i]
        unexplained[start + i] = score[i] > top[i]


@kernel(fastmath=FUSED)
def add_rows(tables, all_products, X, labels, out):
    """Add the coarsened statistics of every row of X (n, d) with label c >= 0 to out[c] (k, s), in row order.

    Besides the sums they are the squares of the features, or the products of any two.
    """
    n, d = X.shape
    z = np.empty(d)
    origin, inverse_unit, weight = tables.origin, tables.inverse_unit, tables.coarsening
    for i in range(n):
        if labels[i] < 0:
            continue
        target = out[labels[i]]
        target[0] += weight
        for a in range(d):
            z[a] = (X[i, a] - origin[a]) * inverse_unit[a]
            target[1 + a] += weight * z[a]
        if not all_products:
            for a in range(d):
                target[1 + d + a] += weight * z[a] * z[a]
            continue
        position = 1 + d
        for a in range(d):
            scaled = weight * z[a]
            for b in range(a, d):
                target[position] += scaled * z[b]
                position += 1


@kernel
def stay_by_statistics(tables, all_products, X, i, c):
    """Gain of row i of X in its present cluster c, without the shortcut that may cancel (see `core.removal`).

    -inf where the statistics have lost what stays behind: then nothing speaks for staying.
    """
    cluster = tables.statistics[c]
    row = np.zeros((1, cluster.shape[0]))
    add_rows(tables, all_products, X[i : i + 1], np.zeros(1, dtype=np.int64), row)
    rest = np.empty(cluster.shape[0])
    gain = log_marginal(tables.family, cluster) - log_marginal_without(tables.family, cluster, row[0], rest)
    return -np.inf if math.isnan(gain) else tables.kappa_leave[c] + gain
