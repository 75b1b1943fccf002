"""Every sampler against the exact posterior by enumeration, one protocol for all of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dtree.core.families import (
    Bernoulli,
    Categorical,
    DiagonalGaussian,
    Family,
    Gaussian,
    Mixed,
    Multinomial,
    Poisson,
)
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess, GeneralizedGamma, Prior
from dtree.mcmc.problem import Problem
from dtree.mcmc.run import SAMPLERS, begin_chain, run_chain
from tests.families_of_ones_own import Waiting
from tests.hierarchy.test_bhc import Exponential
from tests.naive.mcmc import partition_posterior, partition_posterior_without_u
from tests.naive.partitions import all_partitions

GOLDEN = Path(__file__).parent.parent / "golden"
EXACT = [name for name in SAMPLERS if name != "tgmcmc-paper"]


def frequencies(labels: np.ndarray, batches: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Share of each partition and its standard error by batch means."""
    index = {tuple(p): k for k, p in enumerate(all_partitions(labels.shape[1]))}
    visited = np.array([index[tuple(row)] for row in labels])
    parts = np.array([np.bincount(part, minlength=len(index)) / len(part) for part in np.array_split(visited, batches)])
    return parts.mean(axis=0), parts.std(axis=0, ddof=1) / np.sqrt(batches)


def check_against(exact: np.ndarray, labels: np.ndarray) -> float:
    """Total variation, which must not exceed what the standard errors allow; returns it."""
    share, error = frequencies(labels)
    variation = 0.5 * np.abs(share - exact).sum()
    # E|Z| of a centred normal is 0.8 of its deviation: the expected total variation of a right sampler, with room.
    allowed = 0.5 * 0.8 * error.sum()
    assert variation < 2.0 * allowed + 2e-3, f"total variation {variation:.4f}, expected about {allowed:.4f}"
    assert np.all(np.abs(share - exact) < 5.5 * error + 3e-3)
    return float(variation)


def sample(problem: Problem, sampler: str, sweeps: int, seed: int = 0) -> np.ndarray:
    checkpoint = begin_chain(problem, sampler, seed, start="noisy")
    draws, _ = run_chain(problem, sampler, checkpoint, sweeps, warmup=sweeps // 20)
    return draws.labels


def points() -> np.ndarray:
    return np.array([[0.0, 0.3], [0.4, -0.2], [1.6, 1.2], [2.1, 0.4], [0.9, 0.8]])


def gaussian() -> Gaussian:
    return Gaussian([0.8, 0.5], 0.3, 5.0, [[1.0, 0.2], [0.2, 0.8]])


@pytest.mark.parametrize("sampler", EXACT)
def test_dirichlet_process_posterior_of_four_points(sampler: str) -> None:
    model = Model(gaussian(), DirichletProcess(1.0))
    problem = Problem(model, model.atoms(points()[:4]), resample_hyperparameters=False)
    check_against(partition_posterior(model, problem.atoms), sample(problem, sampler, 4000))


@pytest.mark.slow
@pytest.mark.parametrize("sampler", EXACT)
@pytest.mark.parametrize("prior", [DirichletProcess(1.3), GeneralizedGamma(1.0, 0.4, 1.0)], ids=["dp", "nggp"])
@pytest.mark.parametrize("n", [4, 5])
def test_posterior_with_u_resampled(sampler: str, prior: Prior, n: int) -> None:
    model = Model(gaussian(), prior)
    problem = Problem(model, model.atoms(points()[:n]), resample_hyperparameters=False)
    exact = (partition_posterior if prior.name == "dp" else partition_posterior_without_u)(model, problem.atoms)
    labels = sample(problem, sampler, 40_000, seed=n)
    variation = check_against(exact, labels)
    assert variation < 0.05


@pytest.mark.parametrize(
    "sampler", [s if s in ("tgmcmc", "gibbs") else pytest.param(s, marks=pytest.mark.slow) for s in EXACT]
)
def test_generalized_gamma_posterior_of_the_golden_file(sampler: str) -> None:
    golden = json.loads((GOLDEN / "nrm.json").read_text())["posterior"]
    case = next(c for c in golden["cases"] if c["measure"] == "nggp")
    p = golden["params"]
    model = Model(DiagonalGaussian(p["m"], p["k"], p["a"], p["b"]), GeneralizedGamma(**case["params"], u=1.0))
    problem = Problem(model, model.atoms(np.array(golden["X"])), resample_hyperparameters=False)
    exact = np.array(case["posterior"])
    np.testing.assert_allclose(partition_posterior_without_u(model, problem.atoms), exact, atol=1e-6)
    check_against(exact, sample(problem, sampler, 4000))


@pytest.mark.slow
@pytest.mark.parametrize("sampler", EXACT)
@pytest.mark.parametrize("number", range(5))
def test_all_golden_measures(sampler: str, number: int) -> None:
    golden = json.loads((GOLDEN / "nrm.json").read_text())["posterior"]
    case, p = golden["cases"][number], golden["params"]
    measure = DirichletProcess if case["measure"] == "dp" else GeneralizedGamma
    prior: Prior = measure(**case["params"])
    model = Model(DiagonalGaussian(p["m"], p["k"], p["a"], p["b"]), prior)
    problem = Problem(model, model.atoms(np.array(golden["X"])), resample_hyperparameters=False)
    check_against(np.array(case["posterior"]), sample(problem, sampler, 30_000, seed=number))


FAMILIES: list[tuple[Family, np.ndarray]] = [
    (Bernoulli([0.5, 0.5, 1.0], [0.5, 1.0, 1.0]), np.array([[1, 0, 1], [1, 0, 0], [0, 1, 1], [0, 1, 0]])),
    (Multinomial([0.5, 0.5, 0.5], True), np.array([[3, 0, 1], [2, 1, 0], [0, 2, 2], [0, 0, 0]])),
    (Poisson([1.0, 2.0], [0.5, 0.5]), np.array([[1, 4], [0, 5], [6, 2], [3, 3]])),
    (
        Mixed([(DiagonalGaussian([0.0], 0.3, 2.0, [1.0]), [0]), (Categorical([[0.5, 0.5, 0.5]]), [1])]),
        np.array([[0.1, 0.0], [np.nan, 0.0], [2.5, np.nan], [2.0, 2.0]]),
    ),
    (Waiting(0.7, 1.0), np.array([[0.1, 0.3], [0.2, 0.1], [4.0, 9.0], [1.0, 2.0]])),
]


# Compiling every sampler for every family takes minutes, so only these are tried every time; tests/test_support.py
# compiles the first for this family too.
IN_HASTE = [("tgmcmc", "waiting"), ("slice", "poisson")]


@pytest.mark.parametrize(
    ("sampler", "family", "X"),
    [
        pytest.param(sampler, *case, marks=[] if (sampler, case[0].name) in IN_HASTE else [pytest.mark.slow])
        for sampler in ("tgmcmc", "slice")
        for case in FAMILIES
        if (sampler, case[0].name) != ("slice", "waiting")  # which says nothing of its parameters
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "name", ""),
)
def test_other_families(sampler: str, family: Family, X: np.ndarray) -> None:
    model = Model(family, DirichletProcess(1.0))
    problem = Problem(model, model.atoms(X), resample_hyperparameters=False)
    check_against(partition_posterior(model, problem.atoms), sample(problem, sampler, 3000))


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["gibbs", "split-merge"])
@pytest.mark.parametrize(("family", "X"), FAMILIES, ids=[f.name for f, _ in FAMILIES])
def test_other_families_and_samplers(sampler: str, family: Family, X: np.ndarray) -> None:
    test_other_families(sampler, family, X)


@pytest.mark.slow
@pytest.mark.parametrize("as_mixed", [False, True], ids=["bernoulli", "mixed"])
def test_equal_rows_and_a_mixed_of_one_block(as_mixed: bool) -> None:
    """Equal rows tie in the guide tree, so a family and a Mixed of it draw differently; both from the posterior."""
    plain = Bernoulli([0.5, 0.5, 1.0], [0.5, 1.0, 1.0])
    X = np.array([[1, 0, 1], [1, 0, 1], [0, 1, 1], [0, 1, 1], [1, 0, 1]])
    prior = DirichletProcess(1.0)
    model = Model(Mixed([(plain, [0, 1, 2])]) if as_mixed else plain, prior)
    problem = Problem(model, model.atoms(X), resample_hyperparameters=False)
    exact = partition_posterior(Model(plain, prior), Model(plain, prior).atoms(X))
    np.testing.assert_allclose(partition_posterior(model, problem.atoms), exact, atol=1e-12)
    check_against(exact, sample(problem, "tgmcmc", 20_000))


# Five rows of all kinds of columns: one lacks everything, two share no column, and every column lacks something.
GAPS = np.array(
    [
        [0.1, 0.0, np.nan, 1.0],
        [np.nan, 0.0, 2.0, np.nan],
        [2.5, np.nan, 9.0, 0.0],
        [2.0, 2.0, np.nan, 0.0],
        [np.nan, np.nan, np.nan, np.nan],
    ]
)


def every_kind() -> Mixed:
    return Mixed(
        [
            (DiagonalGaussian([0.0], 0.3, 2.0, [1.0]), [0]),
            (Categorical([[0.5, 0.5, 0.5]]), [1]),
            (Poisson([1.0], [0.3]), [2]),
            (Bernoulli([0.7], [1.1]), [3]),
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("sampler", EXACT)
@pytest.mark.parametrize("prior", [DirichletProcess(1.0), GeneralizedGamma(1.0, 0.4, 1.0)], ids=["dp", "nggp"])
def test_gaps_in_columns_of_every_kind(sampler: str, prior: Prior) -> None:
    model = Model(every_kind(), prior)
    problem = Problem(model, model.atoms(GAPS), resample_hyperparameters=False)
    exact = (partition_posterior if prior.name == "dp" else partition_posterior_without_u)(model, problem.atoms)
    check_against(exact, sample(problem, sampler, 20_000))


def test_rows_with_missing_values_and_categories() -> None:
    test_other_families("gibbs", *next(case for case in FAMILIES if case[0].name == "mixed"))


@pytest.mark.parametrize("sampler", EXACT)
@pytest.mark.parametrize("coarsening", [1.0, 0.6])
def test_weighted_atoms_and_coarsening(sampler: str, coarsening: float) -> None:
    """Atoms of several rows, with and without a scatter of their own."""
    model = Model(gaussian(), GeneralizedGamma(1.0, 0.3, 2.0), coarsening)
    X = points()
    atoms = model.atoms(X, np.array([2, 1, 1, 3, 1]))
    atoms = np.vstack([atoms[0], atoms[1] + atoms[4], atoms[2], atoms[3]])
    problem = Problem(model, atoms, resample_hyperparameters=False)
    check_against(partition_posterior_without_u(model, atoms), sample(problem, sampler, 4000))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_stopped_and_resumed_is_bit_for_bit_the_same(sampler: str) -> None:
    rng = np.random.default_rng(8)
    X = np.concatenate([rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + 4])
    model = Model(gaussian(), GeneralizedGamma(1.0, 0.4, 1.0))
    whole = Problem(model, model.atoms(X))
    start = begin_chain(whole, sampler, seed=3)
    draws, end = run_chain(whole, sampler, start, 24, warmup=8)
    parts, checkpoint = [], begin_chain(Problem(model, model.atoms(X)), sampler, seed=3)
    for sweeps in (5, 7, 12):
        part, checkpoint = run_chain(Problem(model, model.atoms(X)), sampler, checkpoint, sweeps, warmup=8)
        parts.append(part)
    for name in ("labels", "prior", "log_joint", "n_clusters"):
        assert np.array_equal(getattr(draws, name), np.concatenate([getattr(part, name) for part in parts]))
    for name, value in end.items():
        assert np.array_equal(value, checkpoint[name]), name


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_recorded_log_joint_is_that_of_the_partition(sampler: str) -> None:
    model = Model(gaussian(), GeneralizedGamma(1.0, 0.4, 1.0))
    problem = Problem(model, model.atoms(points()))
    draws, _ = run_chain(problem, sampler, begin_chain(problem, sampler, seed=1), 5)
    for labels, vector, log_joint in zip(draws.labels, draws.prior, draws.log_joint):
        prior = problem.prior_at(vector)
        at = Model(model.family, prior)
        stats = np.array([problem.atoms[labels == k].sum(axis=0) for k in range(labels.max() + 1)])
        assert log_joint == pytest.approx(prior.log_normaliser(5) + at.log_phi_h(stats).sum(), abs=1e-8)


def test_one_atom() -> None:
    model = Model(gaussian(), DirichletProcess(1.0))
    problem = Problem(model, model.atoms(points()[:1]))
    for sampler in SAMPLERS:
        draws, _ = run_chain(problem, sampler, begin_chain(problem, sampler, seed=1), 3)
        assert np.all(draws.labels == 0)


def test_unknown_sampler() -> None:
    model = Model(gaussian(), DirichletProcess(1.0))
    problem = Problem(model, model.atoms(points()))
    with pytest.raises(ValueError, match="unknown sampler 'metropolis'"):
        begin_chain(problem, "metropolis", seed=0)


def test_the_slice_sampler_names_a_family_that_it_cannot_draw() -> None:
    model = Model(Exponential(0.5, 1.0), DirichletProcess(1.0))
    problem = Problem(model, model.atoms(np.array([[1.0], [2.0], [50.0]])))
    with pytest.raises(ValueError, match="cannot draw the parameters of the family 'exponential'"):
        run_chain(problem, "slice", begin_chain(problem, "slice", seed=0), sweeps=1)
    assert run_chain(problem, "gibbs", begin_chain(problem, "gibbs", seed=0), sweeps=2)[0].labels.shape == (2, 3)
