"""The greedy tree: golden values, the naive twin (ties included), properties, and a family defined right here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtree.core.families import FAMILIES, Family, Gaussian, moments_of
from dtree.core.jit import kernel
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess, GeneralizedGamma
from dtree.core.verbs import implements, log_marginal
from dtree.hierarchy.bhc import build_tree
from tests.core.test_families import family_for, rows_for
from tests.golden import golden, golden_family, golden_prior
from tests.naive.bhc import greedy_tree
from tests.naive.partitions import clusters_of

CASES = golden("bhc")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_golden_trees(case):
    model = Model(golden_family(case), DirichletProcess(case["alpha"]))
    tree = build_tree(model, model.atoms(np.array(case["X"])))
    tree.validate()
    assert tree.merges.tolist() == case["merges"]
    assert tree.log_phi_h == pytest.approx(case["log_phi_h"], abs=1e-8)
    assert tree.log_phi_t == pytest.approx(case["log_phi_t"], abs=1e-8)
    assert tree.log_d == pytest.approx(case["log_d"], abs=1e-8)
    assert tree.r[tree.n_leaves :] == pytest.approx(case["r"], abs=1e-8)
    assert np.exp(tree.log_omega) == pytest.approx(case["omega"], abs=1e-8)
    assert clusters_of(tree.cut()) == case["cut_0.5"]
    assert clusters_of(tree.map_partition()) == case["cut_map"]


def test_golden_trees_at_fixed_u():
    posterior = golden("nrm")["posterior"]
    for case in posterior["cases"]:
        for at in case["at_u"]:
            model = Model(golden_family(posterior), golden_prior(case, at["u"]))
            tree = build_tree(model, model.atoms(np.array(posterior["X"])))
            assert tree.merges.tolist() == at["merges"]
            assert tree.log_phi_t[-1] == pytest.approx(at["log_phi_t_root"], abs=1e-8)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("prior", [DirichletProcess(0.8), GeneralizedGamma(1.0, 0.4, 3.0)], ids=["dp", "nggp"])
def test_same_tree_as_the_naive_twin(name, prior):
    rng = np.random.default_rng(11)
    X = rows_for(name, rng, 35)
    model = Model(family_for(name, X), prior)
    for atoms in (model.atoms(X), model.atoms(X, rng.integers(1, 6, 35))):
        fast, slow = build_tree(model, atoms), greedy_tree(model, atoms)
        assert fast.merges.tolist() == slow.merges.tolist()
        assert fast.log_phi_t == pytest.approx(slow.log_phi_t, rel=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_ties_go_to_the_smallest_indices_as_in_the_naive_twin(seed):
    X = np.random.default_rng(seed).integers(0, 3, (40, 2)).astype(float)  # many duplicates and equal distances
    model = Model(Gaussian([1.0, 1.0], 0.1, 4.0, np.eye(2)), DirichletProcess(1.0))
    atoms = model.atoms(X)
    assert build_tree(model, atoms).merges.tolist() == greedy_tree(model, atoms).merges.tolist()


def test_coarsened_tree_equals_the_naive_twin():
    X = rows_for("gaussian", np.random.default_rng(12), 25)
    model = Model(family_for("gaussian", X), DirichletProcess(1.0), coarsening=0.4)
    atoms = model.atoms(X)
    fast, slow = build_tree(model, atoms), greedy_tree(model, atoms)
    assert fast.merges.tolist() == slow.merges.tolist()
    assert np.array_equal(fast.size[:25], np.ones(25))


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_do_not_change_the_tree(threads):
    X = rows_for("gaussian-diag", np.random.default_rng(13), 300)
    model = Model(family_for("gaussian-diag", X), DirichletProcess(1.0))
    one, many = build_tree(model, model.atoms(X), threads=1), build_tree(model, model.atoms(X), threads=threads)
    assert np.array_equal(one.merges, many.merges)
    assert np.array_equal(one.log_phi_t, many.log_phi_t)


def _leaf_sets(tree: Any, names: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(names[tree.leaves_below(k)].tolist()) for k in range(2 * tree.n_leaves - 1)}


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(2, 25))
def test_permuted_rows_give_the_same_tree(seed, n):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))  # continuous, so no ties
    model = Model(Gaussian([0.0, 0.0], 0.1, 4.0, np.eye(2)), DirichletProcess(1.0))
    order = rng.permutation(n)
    plain, permuted = build_tree(model, model.atoms(X)), build_tree(model, model.atoms(X[order]))
    assert _leaf_sets(plain, np.arange(n)) == _leaf_sets(permuted, order)
    assert plain.log_phi_t[-1] == pytest.approx(permuted.log_phi_t[-1], rel=1e-10)


def test_an_atom_is_worth_its_rows():
    X = np.array([[0.0], [0.0], [0.0], [4.0], [4.2]])
    model = Model(FAMILIES["poisson"].defaults(moments_of(X)), DirichletProcess(1.0))
    weighted = build_tree(model, model.atoms(X[[0, 3, 4]], [3, 1, 1]))
    assert weighted.size.tolist()[:3] == [3, 1, 1]
    assert weighted.log_phi_h[-1] == pytest.approx(build_tree(model, model.atoms(X)).log_phi_h[-1], abs=1e-10)


# A family of one's own: exponential waiting times with a gamma prior on the rate. Everything BHC needs is below.


class CompiledExponential(NamedTuple):
    shape: float
    rate: float


@implements(log_marginal, CompiledExponential)
@kernel
def _log_marginal_exponential(family, statistics):
    shape, rate = family.shape + statistics[0], family.rate + statistics[1]
    front = family.shape * math.log(family.rate) - math.lgamma(family.shape)
    return front + math.lgamma(shape) - shape * math.log(rate)


@dataclass(frozen=True, eq=False, repr=False)
class Exponential(Family):
    shape: float = 1.0
    rate: float = 1.0
    name = "exponential"

    @property
    def n_features(self) -> int:
        return 1

    def statistics(self, X: Any) -> np.ndarray:
        X = np.asarray(X, dtype=float)
        return np.hstack([np.ones((X.shape[0], 1)), X])

    def compile(self, total: np.ndarray, coarsening: float = 1.0) -> CompiledExponential:
        return CompiledExponential(self.shape, self.rate)

    def parameters(self) -> dict[str, Any]:
        return {"shape": self.shape, "rate": self.rate}


def test_a_family_defined_here_runs_through_bhc():
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.exponential(0.01, 30), rng.exponential(100.0, 30)])[:, None]
    model = Model(Exponential(0.5, 1.0), DirichletProcess(1.0))
    atoms = model.atoms(X)
    tree = build_tree(model, atoms)
    assert tree.merges.tolist() == greedy_tree(model, atoms).merges.tolist()
    labels = tree.cut(n_clusters=2)
    assert (labels[:30] == labels[0]).mean() > 0.9
    assert (labels[30:] != labels[0]).mean() > 0.9
