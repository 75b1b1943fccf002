"""Whether clusters that were read from a checkpoint are some that a pass could leave.

Labels of later passes are looked up in the tables of a checkpoint, so every number in them is checked first.
"""

import math

import numpy as np

from dtree.kmeans.passes import ClusterState, Race


def check_pass(clusters: ClusterState, race: Race, n: int, n_chunks: int) -> None:
    """ValueError unless this is what a pass over n rows in `n_chunks` chunks could leave."""
    number, label_map = clusters.number, clusters.label_map
    what = f"of the checkpoint after pass {number}"
    _require(_are_numbers(label_map, -1, clusters.k), f"the label map {what} names clusters that are not there")
    for chunk, births in clusters.birth_maps.items():
        _require(0 <= chunk < n_chunks, f"the births {what} are those of no chunk")
        _require(_are_numbers(births, 0, label_map.shape[0]), f"the births {what} are not in its label map")
    _require(clusters.rows == n and 0 <= clusters.moved <= n, f"the rows {what} do not add up")
    known = number == 0 or math.isfinite(clusters.objective)  # before the first pass there is none
    _require(known and not math.isnan(race.best_objective), f"the objective {what} is not a number")
    _require(0 <= race.best_number <= number and race.stalled >= 0, f"the best pass {what} is impossible")


def _are_numbers(values: np.ndarray, low: int, high: int) -> bool:
    """Whether values are a list of whole numbers from low up to and without high."""
    if values.dtype != np.int64 or values.ndim != 1:
        return False
    return values.size == 0 or bool(low <= values.min() and values.max() < high)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)
