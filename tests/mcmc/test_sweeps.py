"""Many sweeps in one call: room changes no draw, and the prior that kernels move is the one of its class."""

from __future__ import annotations

import numpy as np
import pytest

from dtree.core.families import Gaussian
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess, GeneralizedGamma, Prior
from dtree.mcmc.hyperparameters import kappa_at, moving_of, parameter_vector
from dtree.mcmc.plan import later_plan
from dtree.mcmc.problem import Problem
from dtree.mcmc.run import begin_chain, run_chain


@pytest.mark.parametrize("sampler", ["gibbs", "tgmcmc", "split-merge"])
def test_a_call_that_runs_out_of_room_draws_what_it_would_have_drawn(sampler: str) -> None:
    """Eighty atoms, begun as one cluster, mostly end alone: a workspace begins with 32 slots."""
    X = np.random.default_rng(0).normal(size=(80, 2))
    model = Model(Gaussian([0.0, 0.0], 0.3, 5.0, np.eye(2)), DirichletProcess(1000.0))

    def problem() -> Problem:
        return Problem(model, model.atoms(X), resample_hyperparameters=False)

    start = begin_chain(problem(), sampler, seed=0, start="one")
    tight, roomy = problem(), problem()
    roomy.work_for(200)
    draws, end = run_chain(tight, sampler, start, 30)
    there, other = run_chain(roomy, sampler, start, 30)
    assert draws.n_clusters.max() > 32
    for name in ("labels", "prior", "log_joint"):
        assert np.array_equal(getattr(draws, name), getattr(there, name), equal_nan=True), name
    assert np.array_equal(end["generator"], other["generator"])


@pytest.mark.parametrize(
    ("prior", "where"),
    [
        (DirichletProcess(1.0), DirichletProcess(2.5)),
        (DirichletProcess(1.0, 3.0), DirichletProcess(0.2, 3.0)),
        (GeneralizedGamma(1.0, 0.5, 1.0), GeneralizedGamma(0.3, 0.7, 40.0)),
    ],
)
def test_weights_at_a_moved_vector_are_those_of_the_prior_there(prior: Prior, where: Prior) -> None:
    compiled = prior.compile(50.0)
    moved = kappa_at(compiled, moving_of(prior, 50.0), parameter_vector(where))
    wanted = where.compile(50.0)
    np.testing.assert_allclose(moved.table[1:], wanted.table[1:], rtol=1e-12)
    np.testing.assert_allclose(moved[:3], wanted[:3], rtol=1e-14)


def test_a_prior_that_nothing_moves_stays_as_it_is() -> None:
    prior = DirichletProcess(2.0)
    moved = kappa_at(prior.compile(9.0), moving_of(prior, 9.0, hyperparameters=False), np.array([7.0, np.nan]))
    np.testing.assert_array_equal(moved.table, prior.compile(9.0).table)


def test_as_many_visits_as_half_the_restless_atoms() -> None:
    assert later_plan(np.ones(10)).visits == 5
    few = np.full(1000, 1e-9)
    few[:60] = 1.0
    assert later_plan(few).visits == 31  # a little above 30
    assert later_plan(np.ones(3)).births_and_deaths == 3
