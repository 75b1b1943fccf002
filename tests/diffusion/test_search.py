"""Structure search: the pool's running sums, detach and attach, building and improving, resuming."""

from __future__ import annotations

import numpy as np
import pytest

from dtree.diffusion import pool as pools
from dtree.diffusion import prior, regraft, search
from dtree.diffusion.belief import Leaves, leaves_from_data
from dtree.diffusion.laplace import log_evidence_laplace
from dtree.diffusion.objective import Hyper, log_joint_in_logit
from dtree.diffusion.tree import Columns, canonical, from_nested, rest_above, structure_key, validate
from tests.naive import diffusion as naive


def example(n: int, d: int, seed: int, missing: bool = False) -> tuple[Leaves, Columns]:
    rng = np.random.default_rng(seed)
    y, columns = prior.sample_data(n, d, noise=0.02, rng=rng)
    if missing:
        y[rng.random(y.shape) < 0.2] = np.nan
    return leaves_from_data(y, 0.02), columns


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("hyper", [Hyper(1.2, 0.9), Hyper()], ids=["fixed", "integrated"])
def test_local_sums_equal_full_recomputation(hyper: Hyper, missing: bool) -> None:
    leaves, columns = example(12, 3, 0, missing)
    pool = pools.pool_of(columns, leaves, hyper)
    rng = np.random.default_rng(1)
    for _ in range(40):
        b = int(rng.integers(23))
        if b == pool.meta[pools.ROOT]:
            continue
        j = pool.parent[b]
        regraft.detach(pool, b)
        nodes, values = np.empty(4, np.int64), np.empty(4)
        found = regraft.best_places(pool, b, 12, nodes, values)
        assert np.all(np.diff(values[:found]) <= 0)
        s = nodes[rng.integers(found)]
        above = rest_above(pool.parent, pool.rest, s)
        regraft.attach(pool, b, j, s, 0.5 * (above + max(pool.rest[s], pool.rest[b])))
        validate(pools.columns_of(pool))
        assert pools.total_density(pool) == pytest.approx(
            log_joint_in_logit(pools.columns_of(pool), leaves, hyper), abs=1e-8
        )
        before = pools.total_density(pool)
        pools.refine_path(pool, j, 3)
        assert pools.total_density(pool) >= before - 1e-9
        assert pools.total_density(pool) == pytest.approx(
            log_joint_in_logit(pools.columns_of(pool), leaves, hyper), abs=1e-8
        )
        key = int(pool.meta[pools.TREE_KEY])
        pools.refresh(pool)
        assert key == pool.meta[pools.TREE_KEY]


def test_place_values_equal_brute_force() -> None:
    """The value of a place is the joint density of the tree one gets there, maximised over the same grid of times."""
    leaves, columns = example(8, 2, 3)
    hyper = Hyper()
    pool = pools.pool_of(columns, leaves, hyper)
    b = 5
    j = pool.parent[b]
    regraft.detach(pool, b)
    nodes, values = np.empty(20, np.int64), np.empty(20)
    found = regraft.best_places(pool, b, 20, nodes, values)
    assert found == 2 * 7 - 1  # every branch of the remaining tree
    constant = None
    for s, value in zip(nodes[:found], values[:found]):
        above, low = rest_above(pool.parent, pool.rest, s), max(pool.rest[s], pool.rest[b])
        best = -np.inf
        for u in np.linspace(-5, 5, 5):
            trial = pools.Pool(*[a.copy() for a in pool])
            regraft.attach(trial, b, j, s, low + (above - low) / (1 + np.exp(-u)))
            best = max(best, log_joint_in_logit(pools.columns_of(trial), leaves, hyper))
        constant = best - value if constant is None else constant
        assert best - value == pytest.approx(constant, abs=1e-7)


def test_building_and_searching_improve() -> None:
    leaves, _ = example(60, 4, 4)
    hyper = Hyper()
    state = search.build(leaves, hyper, np.random.default_rng(0))
    validate(pools.columns_of(state.pool))
    scores = [pools.score(state.pool)]
    rng = np.random.default_rng(1)
    for _ in range(5):
        search.search(state, rng, 40)
        scores.append(pools.score(state.pool))
    assert np.all(np.diff(scores) > -0.1)  # curvature terms of untouched nodes are refreshed at the end of each call
    assert scores[-1] > scores[0] + 1.0
    ranked = search.best_columns([state])
    assert len({structure_key(columns) for _, columns in ranked}) == len(ranked) == 10
    assert [value for value, _ in ranked] == sorted((value for value, _ in ranked), reverse=True)


def test_search_finds_the_best_of_all_structures() -> None:
    """Five leaves have 105 structures: the search must end at the one with the highest evidence."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        y, _ = prior.sample_data(5, 4, noise=0.01, rng=rng)
        leaves, hyper = leaves_from_data(y, 0.01), Hyper(1.0, 1.0)
        evidence = {}
        for structure in naive.structures(tuple(range(5))):
            columns = from_nested(structure, [0.2, 0.4, 0.6, 0.8])
            evidence[structure_key(columns)] = log_evidence_laplace(columns, leaves, hyper).log_evidence
        state = search.search(search.build(leaves, hyper, rng), rng, 60)
        best = max(
            log_evidence_laplace(columns, leaves, hyper).log_evidence for _, columns in search.best_columns([state])
        )
        assert best == pytest.approx(max(evidence.values()), abs=1e-4)


def test_a_resumed_search_equals_an_uninterrupted_one() -> None:
    leaves, _ = example(30, 3, 5)
    rng = np.random.default_rng(7)
    state = search.build(leaves, Hyper(), rng)
    for _ in range(20):
        search.search_step(state, rng)
    copies = pools.Pool(*[a.copy() for a in state.pool]), search.BestTrees(*[a.copy() for a in state.best])
    saved, rng_state = search.SearchState(*copies), rng.bit_generator.state
    for _ in range(20):
        search.search_step(state, rng)
    again = np.random.default_rng()
    again.bit_generator.state = rng_state
    for _ in range(20):
        search.search_step(saved, again)
    for a, b in zip((*state.pool[:7], *state.best), (*saved.pool[:7], *saved.best)):
        assert np.array_equal(a, b)


def test_canonical_columns_do_not_depend_on_numbering() -> None:
    leaves, columns = example(10, 2, 6)
    state = search.start_from(columns, leaves, Hyper())
    tree = canonical(pools.columns_of(state.pool))
    assert np.all(np.diff(tree.rest[10:]) >= 0)
    assert structure_key(tree) == structure_key(columns)


def test_one_row_is_refused() -> None:
    with pytest.raises(ValueError, match="at least two rows"):
        search.build(leaves_from_data(np.zeros((1, 2))), Hyper(), np.random.default_rng(0))
