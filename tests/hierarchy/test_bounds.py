"""Bounds and exact evidence: golden values, order, and two independent sums over all partitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dtree
from dtree.core.families import FAMILIES
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess, GeneralizedGamma
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.bounds import tree_bounds
from dtree.hierarchy.exact import log_evidence_by_recursion
from tests.core.test_families import family_for, rows_for
from tests.golden import golden, golden_family, golden_prior
from tests.naive.mcmc import log_posterior_by_enumeration

GOLDEN_NAME = {
    "bhc": "bhc",
    "alternative": "alt_two_first",
    "alternative_best": "alt_two_best",
    "alternative_four": "alt_four",
    "cross_merge": "cross",
    "nested": "nested",
}
ORDER = ["bhc", "alternative", "alternative_best", "alternative_four", "cross_merge", "nested"]
CASES = golden("bhc") + golden("bounds_small")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.get("name", f"{case.get('set')}{len(case['X'])}"))
def test_golden_bounds_and_exact_evidence(case):
    model = Model(golden_family(case), DirichletProcess(case["alpha"]))
    atoms = model.atoms(np.array(case["X"]))
    tree = build_tree(model, atoms)
    assert tree.merges.tolist() == case["merges"]
    bounds = tree_bounds(tree, model, atoms)
    for ours, theirs in GOLDEN_NAME.items():
        assert bounds[ours] == pytest.approx(case["log_lower_bounds"][theirs], abs=1e-8)
    assert log_evidence_by_recursion(model, atoms) == pytest.approx(case["log_evidence_exact"], abs=1e-8)


def test_golden_bounds_and_posterior_at_fixed_u():
    posterior = golden("nrm")["posterior"]
    for case in posterior["cases"]:
        for at in case["at_u"]:
            model = Model(golden_family(posterior), golden_prior(case, at["u"]))
            atoms = model.atoms(np.array(posterior["X"]))
            bounds = tree_bounds(build_tree(model, atoms), model, atoms)
            for ours, theirs in GOLDEN_NAME.items():
                assert bounds[ours] == pytest.approx(at["log_lower_bounds_X_u"][theirs], abs=1e-8)
            partitions, log_posterior, log_joint = log_posterior_by_enumeration(model, atoms)
            assert [p.tolist() for p in partitions] == posterior["partitions"]
            assert np.exp(log_posterior) == pytest.approx(at["posterior"], abs=1e-8)
            assert log_joint == pytest.approx(at["log_joint_X_u"], abs=1e-8)


@settings(max_examples=30, deadline=None)
@given(
    name=st.sampled_from(sorted(FAMILIES)),
    seed=st.integers(0, 10_000),
    n=st.integers(1, 8),
    nggp=st.booleans(),
    coarsening=st.sampled_from([1.0, 0.5]),
)
def test_bounds_are_in_order_and_below_the_exact_evidence(name, seed, n, nggp, coarsening):
    X = rows_for(name, np.random.default_rng(seed), n)
    prior = GeneralizedGamma(1.0, 0.3, 2.0) if nggp else DirichletProcess(1.5)
    model = Model(family_for(name, X), prior, coarsening)
    atoms = model.atoms(X)
    bounds = tree_bounds(build_tree(model, atoms), model, atoms)
    exact = log_evidence_by_recursion(model, atoms)
    values = [bounds[key] for key in ORDER] + [exact]
    assert np.all(np.diff(values) >= -1e-9)
    assert exact == pytest.approx(log_posterior_by_enumeration(model, atoms)[2], abs=1e-9)
    if n <= 3:
        assert bounds["alternative"] == pytest.approx(exact, abs=1e-9)


def test_a_budget_keeps_the_bounds_valid_and_says_so():
    X = rows_for("gaussian", np.random.default_rng(1), 60)
    model = Model(family_for("gaussian", X), DirichletProcess(1.0))
    atoms = model.atoms(X)
    tree = build_tree(model, atoms)
    full = tree_bounds(tree, model, atoms)
    with pytest.warns(UserWarning, match="to stay within 500 pairs"):
        partial = tree_bounds(tree, model, atoms, budget=500)
    assert full["bhc"] <= partial["cross_merge"] <= full["cross_merge"] + 1e-9
    assert partial["cross_merge"] - 1e-9 <= partial["nested"] <= full["nested"] + 1e-9


def test_too_many_rows_for_the_exact_evidence_get_a_sentence():
    X = np.zeros((15, 1))
    model = Model(FAMILIES["poisson"](1.0, 1.0), DirichletProcess(1.0))
    with pytest.raises(ValueError, match="at most 14 rows, not 15"):
        log_evidence_by_recursion(model, model.atoms(X))


@pytest.mark.parametrize("seed", [0, 2, 4])
def test_bounds_are_in_order_where_rounding_is_coarse(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(27, 1)) @ rng.normal(size=(1, 3)) + 1e-9 * rng.normal(size=(27, 3))
    bounds = list(dtree.evidence_bounds(rows, "gaussian", "nggp").values())
    # Determinants of such matrices have seven digits less: only the same bits for the same pair keep the order.
    assert np.all(np.diff(bounds) >= -1e-9 * abs(bounds[0])), bounds
