"""What a sweep of tree-guided MCMC consists of."""

from typing import NamedTuple

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
YOUNG, LATER = Plan(20, 10, 50, 20, 200, 0.4), Plan(2, 4, 50, 50, 100, 0.02)
PAPER_SIZE = Plan(20, 0, 0, 0, 100, 0.0)  # as much as [LC15] does in a sweep, to compare speeds
