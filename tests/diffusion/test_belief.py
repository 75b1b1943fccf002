"""Prior, belief propagation and time gradients against golden values and the dense covariance."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtree.diffusion import belief, mcmc, prior, tree
from dtree.diffusion.objective import Hyper
from tests.naive import diffusion as naive

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "ddt.json").read_text())
CASES = pytest.mark.parametrize("case", GOLDEN["cases"], ids=[c["name"] for c in GOLDEN["cases"]])


def golden_tree(case: dict) -> tree.Columns:
    return tree.from_nested(case["structure"], case["times_preorder"])


def golden_leaves(case: dict) -> belief.Leaves:
    return belief.leaves_from_data(np.array(case["y"]), case.get("noise", 0.0) / case["sigma2"])


def node_of(label: int | str, n: int) -> int:
    """Golden node labels: preorder number of an internal node, or 'leaf k'."""
    return int(label.split()[1]) if isinstance(label, str) else 2 * n - 2 - label


def log_prior_of_times(case: dict) -> float:
    """Log density of structure and times together: the joint density over times without that of the data."""
    columns, leaves = golden_tree(case), golden_leaves(case)
    joint = mcmc.log_joint(columns, leaves, Hyper(case["sigma2"], case["c"]))
    return joint - belief.log_marginal(columns, leaves, case["sigma2"])


@CASES
def test_prior_and_marginal(case: dict) -> None:
    columns, leaves = golden_tree(case), golden_leaves(case)
    tree.validate(columns)
    assert prior.log_structure_prior(columns) == pytest.approx(case["log_structure_prior"], abs=1e-8)
    assert log_prior_of_times(case) == pytest.approx(case["log_prior_structure_times"], abs=1e-8)
    assert belief.log_marginal(columns, leaves, case["sigma2"]) == pytest.approx(case["log_marginal"], abs=1e-8)
    assert naive.leaf_covariance(columns, case["sigma2"], case["noise"]) == pytest.approx(
        np.array(case["leaf_covariance"]), abs=1e-10
    )


def gradient_over_times(columns: tree.Columns, leaves: belief.Leaves, sigma2: float) -> np.ndarray:
    """Gradient of `log_marginal` over the times t of the internal nodes n..2n-2, by one sweep up and down."""
    grad_det, grad_quad = np.empty(columns.parent.shape[0]), np.empty(columns.parent.shape[0])
    belief.branch_gradients(belief.all_messages(columns, leaves), grad_det, grad_quad)
    by_length = -0.5 * (grad_det + grad_quad / sigma2)
    n = columns.n_leaves
    return by_length[n:] - by_length[columns.child[n:, 0]] - by_length[columns.child[n:, 1]]


@CASES
def test_gradient_and_segments(case: dict) -> None:
    columns, leaves = golden_tree(case), golden_leaves(case)
    gradient = gradient_over_times(columns, leaves, case["sigma2"])[::-1]
    assert gradient == pytest.approx(case["grad_times"], abs=1e-7)
    squares = belief.expected_squares(columns, leaves, case["sigma2"])
    for segment in case["segments"]:
        i = node_of(segment["child"], columns.n_leaves)
        assert squares[i] == pytest.approx(segment["expected_sq"], abs=1e-8)


@CASES
def test_joint(case: dict) -> None:
    if "log_joint" not in case:
        pytest.skip("no joint in this case")
    columns, location = golden_tree(case), np.concatenate([case["y"], case["x_internal"][::-1]])
    above = np.where((columns.parent >= 0)[:, None], location[columns.parent], 0.0)
    variance = case["sigma2"] * (columns.above - columns.rest)[:, None]
    log_steps = -0.5 * (np.log(2 * np.pi * variance) + (location - above) ** 2 / variance)
    value = log_prior_of_times(case) + log_steps.sum()
    assert value == pytest.approx(case["log_joint"], abs=1e-8)


def test_structure_prior_of_all_four_leaf_trees() -> None:
    total = 0.0
    for entry in GOLDEN["structure_prior_n4"]:
        columns = tree.from_nested(entry["structure"], [0.1, 0.2, 0.3])
        assert prior.log_structure_prior(columns) == pytest.approx(entry["log_prior"], abs=1e-8)
        total += np.exp(prior.log_structure_prior(columns))
    assert total == pytest.approx(1.0)
    assert len(list(naive.structures((0, 1, 2, 3)))) == 15


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 12),
    d=st.integers(1, 4),
    seed=st.integers(0, 10_000),
    sigma2=st.floats(0.1, 10),
    noise=st.sampled_from([0.0, 0.05, 1.0]),
    missing=st.booleans(),
)
def test_sweep_equals_dense_covariance(n: int, d: int, seed: int, sigma2: float, noise: float, missing: bool) -> None:
    rng = np.random.default_rng(seed)
    y, columns = prior.sample_data(n, d, c=1.5, sigma2=sigma2, noise=noise, rng=rng)
    if columns.rest[n:].min() < 1e-5:
        return  # the dense covariance itself is singular to working precision
    if missing:
        y[rng.random(y.shape) < 0.4] = np.nan
    leaves = belief.leaves_from_data(y, noise / sigma2)
    exact = naive.log_marginal(columns, y, sigma2, noise)
    assert belief.log_marginal(columns, leaves, sigma2) == pytest.approx(exact, rel=1e-6, abs=1e-6)

    gradient = gradient_over_times(columns, leaves, sigma2)
    i = int(rng.integers(n - 1))
    above = columns.rest[columns.parent[n + i]] if columns.parent[n + i] >= 0 else 1.0
    below = columns.rest[columns.child[n + i]].max()
    step = 1e-4 * min(above - columns.rest[n + i], columns.rest[n + i] - below)
    values = []
    for sign in (1, -1):
        rest = columns.rest.copy()
        rest[n + i] -= sign * step
        values.append(naive.log_marginal(columns._replace(rest=rest), y, sigma2, noise))
    numeric = (values[0] - values[1]) / (2 * step)
    assert gradient[i] == pytest.approx(numeric, rel=2e-3, abs=1e-3 * (1 + abs(exact)) / max(step * 1e4, 1e-3))


def test_posterior_locations_against_dense_regression() -> None:
    rng = np.random.default_rng(5)
    y, columns = prior.sample_data(6, 2, c=2.0, sigma2=2.0, noise=0.3, rng=rng)
    mean, var = belief.posterior_locations(columns, belief.leaves_from_data(y, 0.15), 2.0)
    n = 6
    cov = np.zeros((2 * n - 1, 2 * n - 1))
    for i in range(2 * n - 1):
        for j in range(2 * n - 1):
            a, path = i, []
            while a >= 0:
                path.append(a)
                a = columns.parent[a]
            b = j
            while b not in path:
                b = columns.parent[b]
            cov[i, j] = 2.0 * (1 - columns.rest[b])
    gain = cov[:, :n] @ np.linalg.inv(cov[:n, :n] + 0.3 * np.eye(n))
    assert mean == pytest.approx(gain @ y, abs=1e-9)
    assert var[:, 0] == pytest.approx(np.diag(cov - gain @ cov[:n]), abs=1e-9)


def test_sampled_structures_follow_the_prior() -> None:
    rng = np.random.default_rng(3)
    draws = 6000
    seen: dict = {}
    for _ in range(draws):
        key = tree.structure_key(prior.sample_tree(4, 0.7, rng))
        seen[key] = seen.get(key, 0) + 1
    for entry in GOLDEN["structure_prior_n4"]:
        key = tree.structure_key(tree.from_nested(entry["structure"], [0.1, 0.2, 0.3]))
        p = np.exp(entry["log_prior"])
        assert seen[key] / draws == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / draws))


def test_sampled_times_follow_beta() -> None:
    rng = np.random.default_rng(4)
    c, n = 1.3, 5
    log_w_root = [np.log(prior.sample_tree(n, c, rng).rest[-1]) for _ in range(4000)]
    # -log w is exponential with rate c H_{n-1}
    rate = c * float(prior.harmonic(n - 1))
    assert -np.mean(log_w_root) == pytest.approx(1 / rate, rel=0.06)


def test_sampled_data_have_the_stated_covariance() -> None:
    rng = np.random.default_rng(6)
    columns = tree.from_nested([[0, 1], 2], [0.3, 0.7])
    draws = prior.sample_locations(columns, 40_000, 1.5, rng)[:3]
    assert np.cov(draws) == pytest.approx(naive.leaf_covariance(columns, 1.5, 0.0), abs=0.05)


def test_validate_names_the_broken_rule() -> None:
    columns = tree.from_nested([[0, 1], 2], [0.7, 0.3])
    with pytest.raises(ValueError, match="Times must increase"):
        tree.validate(columns)
