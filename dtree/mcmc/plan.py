"""What a sweep of tree-guided MCMC consists of."""

import math
from typing import NamedTuple

import numpy as np

FULL_SWEEP_ATOMS = 2000  # at most so many atoms are visited by full sweeps per sweep, on average


class Plan(NamedTuple):
    """How many moves of each kind a sweep makes."""

    split_merges: int
    subtree_moves: int
    births_and_deaths: int
    growths_and_losses: int
    visits: int  # Gibbs moves of restless atoms
    full_sweep_share: float  # of sweeps whose Gibbs moves visit all atoms instead


# As long as a chain is young most moves are splits and merges, which find the large clusters, and full Gibbs sweeps;
# later they are rarely accepted, and the others mix.
EAGER_SWEEPS = 200
YOUNG = Plan(20, 10, 50, 20, 200, 0.4)
PAPER_SIZE = Plan(20, 0, 0, 0, 100, 0.0)  # as much as [LC15] does in a sweep, to compare speeds


def later_plan(visit: np.ndarray) -> Plan:
    """The plan of a chain that is no longer young, for weights of visits (m,).

    Restless atoms are counted as the number of equal weights that would be as uneven, at most m. Half as many are
    visited, so that visits take no more than about half of a sweep (measured on 1,300 x 2 and 10,000 x 6 rows, where
    100 to 1,000 visits were tried). More proposals than atoms would only repeat themselves.
    """
    m = visit.shape[0]
    restless = visit.sum() ** 2 / (visit @ visit)
    return Plan(2, 4, min(50, m), min(50, m), math.ceil(0.5 * restless), 0.005)
