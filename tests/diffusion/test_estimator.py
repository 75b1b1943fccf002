"""The estimator: conventions, normalisation, bad input, missing entries, atoms."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from dtree import DiffusionTree
from dtree.diffusion.atoms import atoms_from_labels
from dtree.diffusion.prior import sample_data
from dtree.diffusion.tree import validate

ROWS = sample_data(25, 2, noise=0.02, rng=np.random.default_rng(0))[0] * [1.0, 30.0] + [5.0, -100.0]
QUICK = {"n_permutations": 1, "search_steps": 20, "random_state": 0}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks() -> None:
    for estimator, check in estimator_checks_generator(
        DiffusionTree(n_permutations=1, search_steps=2, posterior_sweeps=1, n_trees=2)
    ):
        check(estimator)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("inference", ["laplace", "em", "message-passing", "mcmc"])
def test_every_inference_gives_a_normalised_density(inference: str) -> None:
    rows = ROWS[:12, :1]
    model = DiffusionTree(inference=inference, mcmc_draws=10, mcmc_warmup=10, **QUICK).fit(rows)
    validate(model.tree_)
    centre, width = rows.mean(), rows.std()
    # heavy tails: integrate far out on a stretched grid
    u = np.linspace(-12, 12, 60_001)
    grid = centre + width * np.sinh(u)
    density = np.exp(model.score_samples(grid[:, None])) * width * np.cosh(u)
    assert density.sum() * (u[1] - u[0]) == pytest.approx(1.0, abs=2e-3)
    assert model.sample(7, random_state=1).shape == (7, 1)


def test_units_do_not_matter() -> None:
    a = DiffusionTree(**QUICK).fit(ROWS)
    b = DiffusionTree(**QUICK).fit(ROWS * 10.0)
    assert b.score_samples(ROWS * 10.0) == pytest.approx(a.score_samples(ROWS) - 2 * np.log(10.0), abs=1e-4)
    assert b.log_evidence_ == pytest.approx(a.log_evidence_ - ROWS.size * np.log(10.0), abs=1e-4)


def test_same_seed_same_answer() -> None:
    a, b = (DiffusionTree(**QUICK).fit(ROWS) for _ in range(2))
    assert np.array_equal(a.tree_.rest, b.tree_.rest)
    assert a.log_evidence_ == b.log_evidence_


def test_missing_entries() -> None:
    rows = ROWS.copy()
    rows[3, 0] = rows[7, 1] = np.nan
    model = DiffusionTree(**QUICK).fit(rows)
    assert np.isfinite(model.score_samples(rows)).all()
    mean, deviation = model.node_locations()
    assert mean.shape == deviation.shape == (2 * 25 - 1, 2)
    assert np.isfinite(mean).all()


def test_probit_with_missing_entries() -> None:
    binary = (ROWS.mean(axis=0) < ROWS).astype(float)
    binary[2, 1] = np.nan
    model = DiffusionTree(likelihood="probit", **QUICK).fit(binary)
    everything = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=float)
    assert np.exp(model.score_samples(everything)).sum() == pytest.approx(1.0, abs=1e-8)
    assert set(np.unique(model.sample(20, random_state=0))) <= {0.0, 1.0}


def test_many_rows_become_atoms() -> None:
    rng = np.random.default_rng(1)
    rows = np.concatenate([rng.normal(-3, 0.5, (1500, 1)), rng.normal(2, 1.0, (1500, 1))])
    model = DiffusionTree(max_leaves=60, **QUICK).fit(rows)
    assert model.tree_.n_leaves <= 60
    assert model.prepared_.rows.sum() == model.labels_.size == 3000
    grid, step = np.linspace(-40, 40, 40_001, retstep=True)
    assert np.exp(model.score_samples(grid[:, None])).sum() * step == pytest.approx(1.0, abs=1e-3)
    truth = np.logaddexp(-((rows + 3) ** 2) / 0.5 - np.log(0.5), -((rows - 2) ** 2) / 2) - np.log(
        2 * np.sqrt(2 * np.pi)
    )
    assert model.score(rows) == pytest.approx(truth.mean(), abs=0.1)
    assert model.sample(100, random_state=0).mean() == pytest.approx(rows.mean(), abs=0.8)


def test_atom_summaries() -> None:
    rng = np.random.default_rng(2)
    rows, labels = rng.normal(size=(50, 3)), np.arange(50) % 4
    atoms = atoms_from_labels(rows, labels)
    for k in range(4):
        assert atoms.mean[k] == pytest.approx(rows[labels == k].mean(axis=0))
    assert atoms.noise == pytest.approx(1.0, abs=0.5)


@pytest.mark.parametrize(
    ("change", "rows", "sentence"),
    [
        ({}, ROWS[:1], "minimum of 2"),
        ({"noise": 0.0}, ROWS[[0, 1, 1]], "identical.*noise='auto'"),
        ({}, np.ones((25, 2)), "Column 0 is constant.*remove it"),
        ({"c_prior": (2.0, 0.0)}, ROWS, "c_prior must be a pair of positive numbers"),
        ({"likelihood": "probit"}, ROWS, "binary entries"),
        ({"inference": "magic"}, ROWS, "inference must be one of"),
        ({"likelihood": "poisson"}, ROWS, "likelihood must be one of"),
        ({"noise": -1.0}, ROWS, "cannot be negative"),
        ({"c": 0.0}, ROWS, "c must be positive"),
        ({"start": 1.0}, ROWS, "start belongs to the probit likelihood"),
        ({"n_clusters": 40, "noise": 0.1}, ROWS, "25 leaves cannot be cut into 40 clusters"),
        ({}, np.where(np.arange(50).reshape(25, 2) < 2, np.nan, ROWS), "Row 0 has no observed entry"),
        ({"max_leaves": 5}, np.where(np.arange(50).reshape(25, 2) == 3, np.nan, ROWS), "summaries need complete rows"),
    ],
)
def test_bad_input_gets_one_sentence(change: dict, rows: np.ndarray, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        DiffusionTree(**change).fit(rows)


@pytest.mark.parametrize("scaling", ["auto", "standardize", "none"])
@pytest.mark.parametrize("change", [{}, {"max_leaves": 8}], ids=["rows", "atoms"])
def test_constant_columns_are_left_out(scaling: str, change: dict) -> None:
    rows = np.insert(ROWS / [1.0, 30.0], [0, 2], [3.5, -1.0], axis=1)
    rows[0, 3] = np.nan if not change else -1.0  # a missing entry does not make a column vary
    model = DiffusionTree(scaling=scaling, **change, **QUICK).fit(rows)
    plain = DiffusionTree(scaling=scaling, **change, **QUICK).fit(rows[:, 1:3])
    assert model.columns_.tolist() == [1, 2]
    assert plain.columns_.tolist() == [0, 1]
    assert model.n_features_in_ == 4
    assert model.log_evidence_ == plain.log_evidence_
    assert np.array_equal(model.score_samples(rows), plain.score_samples(rows[:, 1:3]))
    assert np.array_equal(model.predict(rows), plain.predict(rows[:, 1:3]))
    drawn = model.sample(6, random_state=1)
    assert np.array_equal(drawn[:, 1:3], plain.sample(6, random_state=1))
    assert (drawn[:, [0, 3]] == [3.5, -1.0]).all()
    mean, deviation = model.node_locations()
    assert mean.shape == deviation.shape == (model.tree_.parent.shape[0], 4)
    assert np.array_equal(mean[:, 1:3], plain.node_locations()[0])
    assert (mean[:, [0, 3]] == [3.5, -1.0]).all()
    assert (deviation[:, [0, 3]] == 0.0).all()
    with pytest.raises(ValueError, match="4 features"):
        model.score_samples(rows[:, 1:3])


def test_binary_columns_may_be_constant() -> None:
    binary = np.column_stack([ROWS.mean(axis=0) < ROWS, np.ones(25)]).astype(float)
    model = DiffusionTree(likelihood="probit", **QUICK).fit(binary)
    assert model.columns_.tolist() == [0, 1, 2]
    assert model.sample(3, random_state=0).shape == (3, 3)


def test_duplicates_are_fine_with_noise() -> None:
    model = DiffusionTree(**QUICK).fit(np.repeat(ROWS[:6], 2, axis=0))
    assert np.isfinite(model.log_evidence_)


def test_every_kind_of_rows_gives_the_same_tree(tmp_path) -> None:
    import dask.array
    import pandas
    from scipy import sparse

    frame = pandas.DataFrame(ROWS, columns=["width", "depth"], index=[f"row {i}" for i in range(25)])
    np.save(tmp_path / "rows.npy", ROWS)
    frame.to_csv(tmp_path / "rows.csv")
    plain = DiffusionTree(**QUICK).fit(ROWS)
    for rows in (
        frame,
        sparse.csr_array(ROWS),
        dask.array.from_array(ROWS, chunks=(10, 2)),
        tmp_path / "rows.npy",
        str(tmp_path / "rows.csv"),
    ):
        model = DiffusionTree(**QUICK).fit(rows)
        assert model.log_evidence_ == pytest.approx(plain.log_evidence_, abs=1e-9)
        assert model.score_samples(rows) == pytest.approx(plain.score_samples(ROWS), abs=1e-9)
        assert np.array_equal(model.predict(rows), plain.predict(ROWS))
    assert model.feature_names_in_.tolist() == ["width", "depth"]
    assert model.row_names_[:2].tolist() == ["row 0", "row 1"]
