"""Models chosen by the evidence, for someone who sets nothing."""

from __future__ import annotations

import numpy as np
import pytest

import dtree
from dtree.core.families import FAMILIES, moments_of
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess, GeneralizedGamma
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.defaults import choose_model
from dtree.hierarchy.hyperparameters import bound_and_gradient, log_bound, prior_on_tree
from dtree.hierarchy.statistics import node_statistics

NOISE = [(n, d, seed) for n, d in [(20, 50), (30, 20), (60, 20)] for seed in range(3)]


@pytest.mark.parametrize(("n", "d", "seed"), [*NOISE, (20, 200, 0)])
def test_few_rows_of_one_gaussian_are_one_cluster(n, d, seed):
    X = np.random.default_rng(seed).normal(size=(n, d)) * np.linspace(1, 5, d)
    assert dtree.BHC("gaussian").fit(X).n_clusters_ == 1


@pytest.mark.parametrize(("family", "n", "d"), [("gaussian", 50, 5), ("gaussian", 50, 26), ("gaussian-diag", 50, 26)])
def test_noise_is_one_cluster_under_a_generalised_gamma_process_too(family, n, d):
    X = np.random.default_rng(0).normal(size=(n, d))
    assert dtree.BHC(family, prior="nggp").fit(X).n_clusters_ == 1


@pytest.mark.parametrize("seed", range(3))
def test_two_groups_are_found_where_rows_are_fewer_than_features(seed):
    X = np.random.default_rng(seed).normal(size=(20, 50))
    X[10:] += 4.0
    labels = dtree.BHC("gaussian").fit(X).labels_
    assert len(set(labels[:10]) | set(labels[10:])) == 2
    assert set(labels[:10]).isdisjoint(labels[10:])


def _tree(prior):
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(centre, 1.0, (25, 2)) for centre in (0, 4, 9)])
    family = FAMILIES["gaussian"].defaults(moments_of(X, True), 0.1)
    model = Model(family, prior)
    tree = build_tree(model, model.atoms(X))
    return model, tree, node_statistics(tree, model.atoms(X))


@pytest.mark.parametrize("start", [1e-2, 1.0, 20.0])
def test_alpha_learned_on_a_tree_is_the_best_of_a_fine_grid(start):
    model, tree, statistics = _tree(DirichletProcess(start))
    found = prior_on_tree(model, tree, statistics)

    def bound(alpha):
        moved = Model(model.family, DirichletProcess(alpha))
        log_hyperprior = moved.prior.log_hyperprior()[0]
        return log_bound(tree.with_potentials(moved.log_phi_h(statistics)), moved, 75.0) + log_hyperprior

    grid = max(bound(alpha) for alpha in np.exp(np.linspace(-5, 3, 400)))
    assert found.bound == pytest.approx(bound(found.model.prior.alpha), abs=1e-9)
    assert found.bound > grid - 1e-3


def test_a_prior_of_several_parameters_is_learned_too():
    model, tree, statistics = _tree(GeneralizedGamma(1.0, 0.5, 1.0))
    found = prior_on_tree(model, tree, statistics)
    before = bound_and_gradient(tree, model, statistics)[0] + model.prior.log_hyperprior()[0]
    assert found.bound >= before
    assert type(found.model.prior) is GeneralizedGamma


def test_the_choice_is_the_same_every_time():
    X = np.concatenate([np.random.default_rng(0).normal(c, 1.0, (200, 3)) for c in (0, 5)])
    one, two = choose_model(X), choose_model(X)
    assert np.array_equal(one.family.scale, two.family.scale)
    assert one.prior == two.prior
