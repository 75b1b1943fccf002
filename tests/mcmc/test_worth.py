"""What places are worth to an atom: none that could be drawn may be left out, however the others compare."""

from __future__ import annotations

import numpy as np
import pytest

from dtree.core.families import Gaussian
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess
from dtree.mcmc.problem import Problem
from dtree.mcmc.scores import join_gains
from dtree.mcmc.worth import NEGLIGIBLE, gibbs_sweep, log_sum, score_places
from tests.naive.mcmc import log_phi_function

DIMENSIONS = 30


def stray_pair() -> tuple[Problem, np.ndarray]:
    """Row 0 shares a cluster with a row far away, while eight others are nearer.

    As if it were there twice it would be worth 76 nats more to its own cluster than to the eight; taken out, 17 less.
    """
    rng = np.random.default_rng(0)
    centre = 3.0 * rng.normal(size=DIMENSIONS)
    near = centre + 0.3 * rng.normal(size=(8, DIMENSIONS))
    stray, far = centre + 2.0 * rng.normal(size=DIMENSIONS), 3.0 * rng.normal(size=DIMENSIONS)
    family = Gaussian(np.zeros(DIMENSIONS), 1e-4, DIMENSIONS + 2.0, np.eye(DIMENSIONS))
    model = Model(family, DirichletProcess(1.0))
    problem = Problem(model, model.atoms(np.vstack([stray, far, near])), resample_hyperparameters=False)
    return problem, np.array([0, 0, *[1] * 8])


def test_a_row_in_wrong_company_is_weighed_by_all_places() -> None:
    problem, labels = stray_pair()
    log_phi = log_phi_function(problem.model, problem.atoms)
    work = problem.load(labels, problem.model.prior)
    alone = score_places(work, 0)
    own, other, all_eight = frozenset([1]), frozenset(range(2, 10)), frozenset([0, *range(2, 10)])
    assert work.clusters.scores[0] == pytest.approx(log_phi(own | {0}) - log_phi(own), abs=1e-6)
    assert work.clusters.scores[1] == pytest.approx(log_phi(all_eight) - log_phi(other), abs=1e-6)
    assert alone == pytest.approx(log_phi(frozenset([0])), abs=1e-6)
    assert work.clusters.scores[1] > max(work.clusters.scores[0], alone) + 10.0  # so it must move there
    work = problem.load(labels, problem.model.prior)
    assert gibbs_sweep(work, np.zeros(1, dtype=np.int64), 0, np.random.default_rng(0)) == 1
    np.testing.assert_array_equal(work.labels[[0, 2]], work.labels[2])


def test_log_sum() -> None:
    scores = np.array([-1000.0, 3.0, -np.inf, 2.0, -60.0, 99.0])
    assert log_sum(-np.inf, scores, 5) == pytest.approx(np.logaddexp(3.0, 2.0), abs=1e-14)
    assert log_sum(4.0, scores, 2) == pytest.approx(np.logaddexp(3.0, 4.0), abs=1e-14)
    assert log_sum(-np.inf, scores[2:], 1) == -np.inf
    assert np.exp(-NEGLIGIBLE) < np.finfo(float).eps


@pytest.mark.parametrize("d", [2, 12])
@pytest.mark.parametrize("apart", [0.1, 5.0])
def test_only_gains_below_the_depth_are_left_out(d: int, apart: float) -> None:
    """Close and distant clusters: in many dimensions all are looked at to the end, or a few."""
    rng = np.random.default_rng(1)
    labels = np.arange(120) % 40
    X = apart * rng.normal(size=(40, d))[labels] + rng.normal(size=(120, d))
    model = Model(Gaussian(np.zeros(d), 0.1, d + 2.0, np.eye(d)), DirichletProcess(1.0))
    problem = Problem(model, model.atoms(X))
    work = problem.load(labels, model.prior)
    exact, found, left_out = np.empty(40), np.empty(40), 0
    for i in range(0, 120, 7):
        join_gains(work.cache, problem.family, work.clusters, problem.atoms, i, 0, 40, np.inf, exact)
        for depth in np.quantile(-exact, [0.0, 0.1, 0.5, 1.0]):
            join_gains(work.cache, problem.family, work.clusters, problem.atoms, i, 0, 40, depth, found)
            kept = np.isfinite(found)
            np.testing.assert_allclose(found[kept], exact[kept], rtol=1e-11, atol=1e-9)
            assert np.all(exact[~kept] < -depth + 1e-9)
            left_out += np.count_nonzero(~kept)
    assert left_out > 300  # of 2,880
