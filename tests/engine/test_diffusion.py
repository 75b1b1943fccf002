"""Diffusion trees on workers: the same bits here and there, in one go and in pieces."""

from __future__ import annotations

import numpy as np
import pytest

import dtree
from dtree.diffusion.prior import sample_data
from dtree.engine import diffusion as engine
from dtree.engine.folder import RunFolder
from dtree.engine.methods import module_of

ROWS = sample_data(20, 2, noise=0.02, rng=np.random.default_rng(0))[0] * [1.0, 30.0] + [5.0, -100.0]
QUICK = {"n_permutations": 2, "search_steps": 12, "posterior_sweeps": 4, "n_trees": 4}
CHAINS = {"inference": "mcmc", "n_permutations": 2, "mcmc_draws": 3, "mcmc_warmup": 2}


def bits(model: dtree.DiffusionTree) -> list[bytes]:
    trees = [*model.trees_, *model.averaged_trees_]
    columns = [np.concatenate([tree.rest for tree in trees]), np.concatenate([tree.child for tree in trees])]
    found = [model.log_evidences_, model.weights_, model.log_joint_, model.labels_, model.score_samples(ROWS)]
    return [np.ascontiguousarray(values).tobytes() for values in [*columns, *found]]


@pytest.mark.parametrize("options", [QUICK, CHAINS], ids=["laplace", "mcmc"])
def test_a_run_equals_the_estimator_to_the_bit(options, tmp_path, client):
    expected = bits(dtree.DiffusionTree(**options, random_state=3).fit(ROWS))
    engine.fit_diffusion(ROWS, tmp_path / "here", seed=3, **options)
    engine.fit_diffusion(ROWS, tmp_path / "there", seed=3, client=client, **options)
    # a checkpoint after every single step
    engine.fit_diffusion(ROWS, tmp_path / "pieces", seed=3, checkpoint_seconds=0.0, **options)
    for name in ("here", "there", "pieces"):
        assert bits(dtree.open(tmp_path / name)) == expected, name
        assert not (tmp_path / name / "walks").exists()


def test_a_stopped_run_is_resumed(tmp_path):
    class Stop(Exception):
        pass

    def stop(step: engine.DiffusionProgress) -> None:
        seen.append(step)
        if step.done >= 10:
            raise Stop

    seen: list[engine.DiffusionProgress] = []
    run = tmp_path / "run"
    with pytest.raises(Stop):
        engine.fit_diffusion(ROWS, run, seed=3, checkpoint_seconds=0.0, progress=stop, **QUICK)
    done, length = engine.steps_done(run)
    assert 10 <= done < length == 2 * 16
    with pytest.raises(ValueError, match="not finished: resume it"):
        dtree.open(run)
    assert module_of(run) is engine
    result = engine.resume(run, progress=seen.append)
    expected = dtree.DiffusionTree(**QUICK, random_state=3).fit(ROWS)
    assert bits(dtree.open(run)) == bits(expected)
    assert result.log_evidence == expected.log_evidence_
    assert engine.resume(run) == result  # a finished run is returned as it is
    evidences = [step.log_score for step in seen]
    assert np.all(np.diff(evidences) >= 0.0)
    assert engine.steps_done(run) == (length, length)


def test_probit_run_and_missing_entries(tmp_path):
    binary = (ROWS.mean(axis=0) < ROWS).astype(float)
    binary[2, 1] = np.nan
    options = {"likelihood": "probit", "n_permutations": 1, "search_steps": 5}
    engine.fit_diffusion(binary, tmp_path / "run", seed=1, **options)
    again, model = dtree.open(tmp_path / "run"), dtree.DiffusionTree(**options, random_state=1).fit(binary)
    assert np.array_equal(again.score_samples(binary), model.score_samples(binary))
    assert np.array_equal(again.predict(binary), model.predict(binary))


def test_sampled_binary_rows_in_pieces_equal_the_estimator_to_the_bit(tmp_path):
    binary = (ROWS.mean(axis=0) < ROWS).astype(float)[:9]
    options = {"likelihood": "probit", "inference": "mcmc", "n_permutations": 1, "mcmc_draws": 2, "mcmc_warmup": 2}
    engine.fit_diffusion(binary, tmp_path / "run", seed=1, checkpoint_seconds=0.0, **options)
    again, model = dtree.open(tmp_path / "run"), dtree.DiffusionTree(**options, random_state=1).fit(binary)
    assert np.array_equal(again.log_joint_, model.log_joint_)
    assert np.array_equal(again.score_samples(binary), model.score_samples(binary))


def test_prediction_in_chunks(tmp_path, client, monkeypatch):
    monkeypatch.setattr(engine, "PREDICT_ROWS", 7)
    import zarr

    engine.fit_diffusion(ROWS, tmp_path / "run", **QUICK)
    assert engine.predict_diffusion(tmp_path / "run", ROWS, tmp_path / "out", client=client) == 20
    model, group = dtree.open(tmp_path / "run"), zarr.open_group(str(tmp_path / "out"), mode="r")
    assert np.array_equal(group["labels"][:], model.predict(ROWS))
    assert np.array_equal(group["log_density"][:], model.score_samples(ROWS))
    with pytest.raises(ValueError, match="3 columns but the run was fitted on 2"):
        engine.predict_diffusion(tmp_path / "run", np.ones((2, 3)), tmp_path / "other")


@pytest.mark.parametrize("family", ["gaussian", "gaussian-diag"])
def test_the_clusters_of_a_bayes_kmeans_run_as_leaves(family, tmp_path):
    from dtree.engine.fit import fit_dataset

    rng = np.random.default_rng(0)
    centres = np.array([[-4.0, 100.0], [0.0, 130.0], [5.0, 90.0], [9.0, 100.0]])
    rows = centres[np.arange(4000) % 4] + rng.normal(size=(4000, 2)) * [0.5, 3.0]
    k = fit_dataset(rows, tmp_path / "kmeans", family=family).n_clusters
    run = tmp_path / "tree"
    engine.fit_diffusion(str(tmp_path / "kmeans"), run, **QUICK)
    model = dtree.open(run)
    assert model.tree_.n_leaves == k
    assert model.prepared_.rows.sum() == 4000
    # rows behind each leaf, and the density of the four groups they came from
    assert np.unique(model.prepared_.rows).max() <= 4000
    gap = (rows[:, None] - centres) / [0.5, 3.0]
    truth = np.log(np.exp(-0.5 * (gap**2).sum(axis=2)).mean(axis=1) / (2 * np.pi * 1.5))
    assert model.score(rows) == pytest.approx(truth.mean(), abs=0.25)
    u = np.linspace(-3.2, 3.2, 151)
    grid = np.stack(np.meshgrid(np.sinh(u), np.sinh(u), indexing="ij"), axis=-1).reshape(-1, 2)
    weight = np.outer(np.cosh(u), np.cosh(u)).ravel() * (u[1] - u[0]) ** 2
    affine = model.prepared_.affine
    density = np.exp(model.score_samples(affine.outward(grid)) + np.log(affine.basis).sum())
    assert (density * weight).sum() == pytest.approx(1.0, abs=5e-3)


def test_other_runs_are_not_leaves(tmp_path):
    from dtree.engine.fit import fit_dataset

    counts = np.random.default_rng(0).poisson([[2.0], [30.0]], size=(2, 40)).reshape(-1, 1)
    fit_dataset(counts, tmp_path / "kmeans", family="poisson")
    with pytest.raises(ValueError, match="needs means and variances"):
        engine.fit_diffusion(str(tmp_path / "kmeans"), tmp_path / "tree", **QUICK)


@pytest.mark.slow
def test_a_hundred_thousand_rows(tmp_path):
    """Rows in memory summarised by atoms: the density stays normalised and comes close to the truth."""
    rng = np.random.default_rng(0)
    which = rng.integers(0, 3, 100_000)
    rows = (np.array([-4.0, 0.0, 5.0])[which] + np.array([0.5, 1.0, 0.3])[which] * rng.normal(size=100_000))[:, None]
    engine.fit_diffusion(rows, tmp_path / "run", max_leaves=300, n_permutations=1, search_steps=100)
    model = dtree.open(tmp_path / "run")
    assert model.labels_.size == model.prepared_.rows.sum() == 100_000
    grid, step = np.linspace(-12, 12, 12_001, retstep=True)
    assert np.exp(model.score_samples(grid[:, None])).sum() * step == pytest.approx(1.0, abs=1e-3)
    test = rows[:1000]
    gap = (test - [-4.0, 0.0, 5.0]) / [0.5, 1.0, 0.3]
    truth = np.log((np.exp(-0.5 * gap**2) / (np.sqrt(2 * np.pi) * np.array([0.5, 1.0, 0.3]))).mean(axis=1))
    assert model.score(test) == pytest.approx(truth.mean(), abs=0.05)


@pytest.mark.parametrize(
    ("options", "rows", "sentence"),
    [
        ({}, ROWS[:1], "at least two rows"),
        ({"magic": 1}, ROWS, "no setting 'magic'"),
        ({"inference": "magic"}, ROWS, "inference must be one of"),
        ({}, np.where(np.arange(40).reshape(20, 2) == 3, np.inf, ROWS), "row 1 holds an infinite value"),
        ({}, np.column_stack([ROWS, np.ones(20)]), "Column 2 is constant"),
    ],
)
def test_bad_input_leaves_nothing_behind(options, rows, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        engine.fit_diffusion(rows, tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_a_damaged_run_gets_one_sentence(tmp_path):
    run = tmp_path / "run"
    engine.fit_diffusion(ROWS, run, **QUICK)
    with pytest.raises(ValueError, match="already holds a run"):
        engine.fit_diffusion(ROWS, run, **QUICK)
    import shutil

    shutil.rmtree(run / "posterior")
    with pytest.raises(ValueError, match="damaged: its posterior is missing"):
        dtree.open(run)
    assert RunFolder(run).done


def test_the_estimator_works_on_a_client(client):
    from sklearn.base import clone

    options = {"n_permutations": 2, "search_steps": 6, "posterior_sweeps": 2, "random_state": 5}
    here = dtree.DiffusionTree(**options).fit(ROWS)
    there = clone(dtree.DiffusionTree(client=client, **options)).fit(ROWS)
    assert there.client is client
    assert np.array_equal(there.score_samples(ROWS), here.score_samples(ROWS))
    assert np.array_equal(there.log_evidences_, here.log_evidences_)
