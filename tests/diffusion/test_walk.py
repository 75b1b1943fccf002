"""A walk cut into pieces, written down and read again is the walk in one go, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from dtree.diffusion.belief import leaves_from_data
from dtree.diffusion.first_tree import bhc_tree
from dtree.diffusion.objective import Hyper
from dtree.diffusion.prior import sample_data
from dtree.diffusion.search import best_columns
from dtree.diffusion.settings import SWEEPS, Settings
from dtree.diffusion.tree import structure_key, validate
from dtree.diffusion.walk import (
    Plan,
    advance,
    arrays_of_walk,
    drawn_trees,
    finish_walk,
    plan_of,
    start_walk,
    walk_from_arrays,
)

LEAVES = leaves_from_data(sample_data(18, 3, noise=0.02, rng=np.random.default_rng(0))[0], 0.02)


@pytest.mark.parametrize("pieces", [[1] * 19, [5, 7, 7], [11, 1, 7], [100]])
@pytest.mark.parametrize("plan", [Plan(12, 7, 4), Plan(0, 19, 3), Plan(19, 0, 0)], ids=["both", "chain", "search"])
def test_pieces_do_not_matter(plan: Plan, pieces: list[int]) -> None:
    whole = finish_walk(LEAVES, Hyper(), 3, plan)
    walk = start_walk(LEAVES, Hyper(), 3, plan)
    for units in pieces:
        arrays, attributes = arrays_of_walk(walk)
        walk = walk_from_arrays({name: values.copy() for name, values in arrays.items()}, attributes)
        walk = advance(walk, LEAVES, Hyper(), plan, units)
    assert walk.done == whole.done == plan.length
    expected, found = arrays_of_walk(whole), arrays_of_walk(walk)
    assert expected[1] == found[1]
    scratch = {"pool.place", "pool.gaps", "pool.base", "pool.path", "pool.saved", "pool.shift"}
    for name in set(expected[0]) - scratch:
        assert np.array_equal(expected[0][name], found[0][name], equal_nan=True), name
    for tree in drawn_trees(walk):
        validate(tree)


def test_plans() -> None:
    assert plan_of(Settings(), 10) == Plan(110, SWEEPS, SWEEPS // 2)
    assert plan_of(Settings(inference="em", search_steps=7), 10) == Plan(7, 0, 0)
    assert plan_of(Settings(likelihood="probit"), 10).sweeps == 0
    assert plan_of(Settings(inference="mcmc", mcmc_draws=5, mcmc_warmup=2), 10) == Plan(0, 7, 5)


def test_a_walk_may_start_from_the_tree_of_bhc() -> None:
    rows = sample_data(30, 2, noise=0.02, rng=np.random.default_rng(3))[0]
    leaves = leaves_from_data(rows, 0.02)
    start = start_walk(leaves, Hyper(), 0, Plan(0, 0, 0, init="bhc"))
    assert structure_key(best_columns([start.state])[0][1]) == structure_key(bhc_tree(leaves))
    assert finish_walk(leaves, Hyper(), 0, Plan(40, 0, 0, init="bhc")).log_score >= start.log_score
    rows[3, 0] = np.nan
    with pytest.raises(ValueError, match="init='bhc' needs complete rows"):
        start_walk(leaves_from_data(rows, 0.02), Hyper(), 0, Plan(0, 0, 0, init="bhc"))
