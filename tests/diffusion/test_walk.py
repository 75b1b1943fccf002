"""A walk cut into pieces, written down and read again is the walk in one go, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from dtree.diffusion.belief import leaves_from_data
from dtree.diffusion.first_tree import bhc_tree
from dtree.diffusion.objective import Hyper
from dtree.diffusion.prior import sample_data
from dtree.diffusion.search import best_columns
from dtree.diffusion.tree import structure_key, validate
from dtree.diffusion.walk import Plan, Walk, advance, drawn_trees, finish_walk, start_walk
from dtree.methods.diffusion import SWEEPS, Settings
from dtree.methods.incremental import generator_in, state_of
from dtree.runs.codec import encode, restore

LEAVES = leaves_from_data(sample_data(18, 3, noise=0.02, rng=np.random.default_rng(0))[0], 0.02)


@pytest.mark.parametrize("pieces", [[1] * 19, [5, 7, 7], [11, 1, 7], [100]])
@pytest.mark.parametrize("plan", [Plan(12, 7, 4), Plan(0, 19, 3), Plan(19, 0, 0)], ids=["both", "chain", "search"])
def test_pieces_do_not_matter(plan: Plan, pieces: list[int]) -> None:
    whole = finish_walk(LEAVES, Hyper(), 3, plan)
    rng_of_whole = np.random.default_rng(3)
    start = start_walk(LEAVES, Hyper(), plan, rng_of_whole)
    assert advance(start, LEAVES, Hyper(), plan, plan.length, rng_of_whole).done == whole.done
    rng = np.random.default_rng(3)
    walk = start_walk(LEAVES, Hyper(), plan, rng)
    for units in pieces:
        arrays: dict[str, np.ndarray] = {}
        written = encode(walk, "", arrays)
        walk = restore(Walk, written, {name: values.copy() for name, values in arrays.items()})
        rng = generator_in(state_of(rng))
        walk = advance(walk, LEAVES, Hyper(), plan, units, rng)
    assert walk.done == whole.done == plan.length
    assert rng.bit_generator.state == rng_of_whole.bit_generator.state
    expected: dict[str, np.ndarray] = {}
    found: dict[str, np.ndarray] = {}
    assert encode(whole, "", expected) == encode(walk, "", found)
    scratch = {f"state/pool/{name}" for name in ("place", "meeting", "base", "path", "saved", "shift")}
    for name in set(expected) - scratch:
        assert np.array_equal(expected[name], found[name], equal_nan=True), name
    for tree in drawn_trees(walk):
        validate(tree)


def test_plans() -> None:
    assert Settings().plan(10) == Plan(110, SWEEPS, SWEEPS // 2)
    assert Settings(inference="em", search_steps=7).plan(10) == Plan(7, 0, 0)
    assert Settings(likelihood="probit").plan(10).sweeps == 0
    assert Settings(inference="mcmc", mcmc_draws=5, mcmc_warmup=2).plan(10) == Plan(0, 7, 5)


def test_a_walk_may_start_from_the_tree_of_bhc() -> None:
    rows = sample_data(30, 2, noise=0.02, rng=np.random.default_rng(3))[0]
    leaves = leaves_from_data(rows, 0.02)
    start = start_walk(leaves, Hyper(), Plan(0, 0, 0, init="bhc"), np.random.default_rng(0))
    assert structure_key(best_columns([start.state])[0][1]) == structure_key(bhc_tree(leaves))
    assert finish_walk(leaves, Hyper(), 0, Plan(40, 0, 0, init="bhc")).log_score >= start.log_score
    rows[3, 0] = np.nan
    with pytest.raises(ValueError, match="init='bhc' needs complete rows"):
        start_walk(leaves_from_data(rows, 0.02), Hyper(), Plan(0, 0, 0, init="bhc"), np.random.default_rng(0))
