"""The sequential reference against golden values and the naive twin."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dtree.core.families import Bernoulli, DiagonalGaussian, Gaussian, Multinomial, Poisson
from dtree.core.model import Model
from dtree.core.partition import canonical_labels
from dtree.core.priors import DirichletProcess, GeneralizedGamma
from dtree.hierarchy.bhc import build_tree
from dtree.kmeans.greedy import (
    compile_for,
    default_seeds,
    improved_kmeans,
    merge_clusters,
    move_in_order,
    sequential_kmeans,
    sum_by_label,
)
from tests.naive import kmeans as naive
from tests.naive.partitions import clusters_of

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "bhc.json").read_text())


def family_of(case):
    p = case["params"]
    return {
        "niw": lambda: Gaussian(p["m"], p["r"], p["nu"], p["Psi"]),
        "diag_nig": lambda: DiagonalGaussian(p["m"], p["k"], p["a"], p["b"]),
        "beta_bernoulli": lambda: Bernoulli(p["a"], p["b"]),
        "dirichlet_multinomial": lambda: Multinomial(p["beta"], p["coefficient"]),
        "gamma_poisson": lambda: Poisson(p["a"], p["b"]),
    }[case["family"]]()


def assigned_once(model, atoms, order, n_seeds):
    labels = np.full(len(atoms), -1)
    _, k = move_in_order(compile_for(model, atoms), atoms, order, n_seeds, labels, 0)
    assert k == labels.max() + 1
    return labels


def model_of(case):
    return Model(family_of(case), DirichletProcess(case["alpha"]))


@pytest.mark.parametrize("case", GOLDEN, ids=[case["name"] for case in GOLDEN])
def test_golden_kmeans(case):
    model, golden = model_of(case), case["bayes_kmeans"]
    atoms = model.atoms(np.array(case["X"]))
    order = np.array(golden["order"])
    assert default_seeds(len(order)) == golden["k"]
    labels = assigned_once(model, atoms, order, golden["k"])
    assert [np.flatnonzero(labels == c).tolist() for c in range(labels.max() + 1)] == golden["after_assignment"]
    merged = merge_clusters(model, sum_by_label(atoms, labels, labels.max() + 1))
    labels = merged.label_map[labels]
    assert [np.flatnonzero(labels == c).tolist() for c in range(labels.max() + 1)] == golden["after_merging"]
    result = sequential_kmeans(model, atoms, order)
    assert np.array_equal(result.labels, labels)
    tree = build_tree(model, result.statistics)
    assert tree.merges.tolist() == golden["coarse_merges"]
    bound = model.prior.log_normaliser(len(order)) + tree.log_phi_t[-1]
    assert abs(bound - golden["log_lower_bound_coarse"]) < 1e-8
    refined = naive.refine_tree(model, tree, atoms, result.labels)
    refined.validate()
    bound = model.prior.log_normaliser(len(order)) + refined.log_phi_t[-1]
    assert abs(bound - golden["log_lower_bound_refined"]) < 1e-8


@pytest.mark.parametrize("prior", [DirichletProcess(0.7), GeneralizedGamma(1.0, 0.4, 2.0)])
@pytest.mark.parametrize("coarsening", [1.0, 0.6])
def test_equals_naive_twin(prior, coarsening):
    rng = np.random.default_rng(4)
    X = np.vstack([rng.normal(size=(15, 3)), rng.normal(4.0, 0.5, size=(12, 3))])
    model = Model(DiagonalGaussian(np.zeros(3), 0.1, 2.0, np.ones(3)), prior, coarsening)
    atoms = model.atoms(X)
    order = rng.permutation(27)
    opened = naive.assign_once(model, atoms, order.tolist(), 6)
    labels = assigned_once(model, atoms, order, 6)
    assert clusters_of(labels) == sorted((sorted(c) for c in opened), key=lambda c: c[0])
    expected = naive.merge_while_rising(model, atoms, opened)
    result = sequential_kmeans(model, atoms, order)
    assert clusters_of(result.labels) == sorted((sorted(c) for c in expected), key=lambda c: c[0])
    objective = sum(naive.phi(model, atoms, c) for c in expected)
    assert abs(result.objective - objective) < 1e-8


@pytest.mark.parametrize("case", GOLDEN, ids=[case["name"] for case in GOLDEN])
def test_sweeps_never_lower_the_objective(case):
    model = model_of(case)
    atoms = model.atoms(np.array(case["X"]))
    order = np.random.default_rng(0).permutation(len(atoms))
    before, after = sequential_kmeans(model, atoms, order), improved_kmeans(model, atoms, order)
    assert after.objective >= before.objective - 1e-9
    assert np.array_equal(canonical_labels(after.labels).max() + 1, after.statistics.shape[0])
    rebuilt = sum_by_label(atoms, after.labels, after.statistics.shape[0])
    np.testing.assert_allclose(rebuilt, after.statistics, atol=1e-9)


def test_merge_with_ready_gains_and_empty_rows():
    model = Model(Poisson([1.0], [0.1]), DirichletProcess(1.0))
    statistics = np.vstack([model.atoms([[30], [1]]), np.zeros((1, 3)), model.atoms([[28], [2]])])
    merged = merge_clusters(model, statistics)
    assert merged.label_map.tolist() == [0, 1, -1, 0, 1]
    assert merge_clusters(model, np.zeros((0, 3))).statistics.shape == (0, 3)
