"""Diffusion trees as a method: the same bits here and there, in one go and in pieces; clusters of a run as leaves."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

import dtree
from dtree.diffusion.prior import sample_data
from dtree.engine.drive import Given, Place, drive, job_of, resume
from dtree.engine.predict import predict_into
from dtree.methods.diffusion import DiffusionTrees, Progress, Settings
from dtree.methods.settings import checked
from dtree.runs.run import Run

ROWS = sample_data(20, 2, noise=0.02, rng=np.random.default_rng(0))[0] * [1.0, 30.0] + [5.0, -100.0]
QUICK = {"n_permutations": 2, "search_steps": 12, "posterior_sweeps": 4, "n_trees": 4}
CHAINS = {"inference": "mcmc", "n_permutations": 2, "mcmc_draws": 3, "mcmc_warmup": 2}


METHOD = DiffusionTrees()


def fit(data, out, seed=0, client=None, progress=None, **options) -> Run:
    """A run made by the one loop that makes all runs."""
    return drive(METHOD, checked(Settings, options), Given(data), Place(out, client=client), seed, progress)


def steps_done(run) -> tuple[int, int]:
    return METHOD.steps_done(job_of(Run.open(run)))


def bits(model: dtree.DiffusionTree) -> list[bytes]:
    trees = [*model.trees_, *model.averaged_trees_]
    columns = [np.concatenate([tree.rest for tree in trees]), np.concatenate([tree.child for tree in trees])]
    found = [model.log_evidences_, model.weights_, model.log_joint_, model.labels_, model.score_samples(ROWS)]
    return [np.ascontiguousarray(values).tobytes() for values in [*columns, *found]]


@pytest.mark.parametrize("options", [QUICK, CHAINS], ids=["laplace", "mcmc"])
def test_a_run_equals_the_estimator_to_the_bit(options, tmp_path, client):
    expected = bits(dtree.DiffusionTree(**options, random_state=3).fit(ROWS))
    assert METHOD.seed_of(3) == 3
    fit(ROWS, tmp_path / "here", seed=3, **options)
    fit(ROWS, tmp_path / "there", seed=3, client=client, **options)
    # a checkpoint after every single step
    fit(ROWS, tmp_path / "pieces", seed=3, checkpoint_seconds=0.0, **options)
    for name in ("here", "there", "pieces"):
        assert bits(dtree.open(tmp_path / name)) == expected, name
        assert not (tmp_path / name / "parts").exists()
    model = dtree.DiffusionTree(**options, random_state=3, client=client, out=tmp_path / "estimator").fit(ROWS)
    assert bits(model) == bits(dtree.open(tmp_path / "estimator")) == expected
    in_memory = drive(METHOD, checked(Settings, {**options, "checkpoint_seconds": 0.0}), Given(ROWS), seed=3)
    assert bits(dtree.DiffusionTree.from_run(in_memory)) == expected


def test_a_stopped_run_is_resumed(tmp_path):
    class Stop(Exception):
        pass

    def stop(step: Progress) -> None:
        seen.append(step)
        if step.done >= 10:
            raise Stop

    seen: list[Progress] = []
    run = tmp_path / "run"
    with pytest.raises(Stop):
        fit(ROWS, run, seed=3, checkpoint_seconds=0.0, progress=stop, **QUICK)
    done, length = steps_done(run)
    assert 10 <= done < length == 2 * 16
    with pytest.raises(ValueError, match=r"not finished: .*resume"):
        dtree.open(run)
    assert Run.open(run).header.method == METHOD.name
    result = resume(run, progress=seen.append)
    expected = dtree.DiffusionTree(**QUICK, random_state=3).fit(ROWS)
    assert bits(dtree.open(run)) == bits(expected)
    assert result.fitted(METHOD.Fitted).log_evidences[0] == expected.log_evidence_
    again = resume(run)  # a finished run is returned as it is
    assert msgspec.to_builtins(again.header) == msgspec.to_builtins(result.header)
    for walk in range(2):
        evidences = [step.log_score for step in seen if step.walk == walk]
        assert np.all(np.diff(evidences) >= 0.0)
        assert [step.done for step in seen if step.walk == walk] == list(range(1, length // 2 + 1))
    assert seen[-1].line().startswith("walk 2: 16 of 16 steps, best log evidence -1")


def test_probit_run_and_missing_entries(tmp_path):
    binary = (ROWS.mean(axis=0) < ROWS).astype(float)
    binary[2, 1] = np.nan
    options = {"likelihood": "probit", "n_permutations": 1, "search_steps": 5}
    fit(binary, tmp_path / "run", seed=1, **options)
    again, model = dtree.open(tmp_path / "run"), dtree.DiffusionTree(**options, random_state=1).fit(binary)
    assert np.array_equal(again.score_samples(binary), model.score_samples(binary))
    assert np.array_equal(again.predict(binary), model.predict(binary))


def test_sampled_binary_rows_in_pieces_equal_the_estimator_to_the_bit(tmp_path):
    binary = (ROWS.mean(axis=0) < ROWS).astype(float)[:9]
    options = {"likelihood": "probit", "inference": "mcmc", "n_permutations": 1, "mcmc_draws": 2, "mcmc_warmup": 2}
    fit(binary, tmp_path / "run", seed=1, checkpoint_seconds=0.0, **options)
    again, model = dtree.open(tmp_path / "run"), dtree.DiffusionTree(**options, random_state=1).fit(binary)
    assert np.array_equal(again.log_joint_, model.log_joint_)
    assert np.array_equal(again.score_samples(binary), model.score_samples(binary))


def test_prediction_in_chunks(tmp_path, client, monkeypatch):
    monkeypatch.setattr(DiffusionTrees, "predict_rows", 7)
    import zarr

    fit(ROWS, tmp_path / "run", **QUICK)
    assert predict_into(tmp_path / "run", ROWS, tmp_path / "out", client=client) == 20
    model, group = dtree.open(tmp_path / "run"), zarr.open_group(str(tmp_path / "out"), mode="r")
    assert np.array_equal(group["labels"][:], model.predict(ROWS))
    assert np.array_equal(group["log_density"][:], model.score_samples(ROWS))
    with pytest.raises(ValueError, match="3 columns but the run was fitted on 2"):
        predict_into(tmp_path / "run", np.ones((2, 3)), tmp_path / "other")


@pytest.mark.parametrize("family", ["gaussian", "gaussian-diag"])
def test_the_clusters_of_a_bayes_kmeans_run_as_leaves(family, tmp_path):
    rng = np.random.default_rng(0)
    centres = np.array([[-4.0, 100.0], [0.0, 130.0], [5.0, 90.0], [9.0, 100.0]])
    rows = centres[np.arange(4000) % 4] + rng.normal(size=(4000, 2)) * [0.5, 3.0]
    k = dtree.BayesKMeans(family, random_state=0, out=tmp_path / "kmeans").fit(rows).n_clusters_
    run = tmp_path / "tree"
    fit(str(tmp_path / "kmeans"), run, **QUICK)
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
    counts = np.random.default_rng(0).poisson([[2.0], [30.0]], size=(2, 40)).reshape(-1, 1)
    dtree.BayesKMeans("poisson", random_state=0, out=tmp_path / "kmeans").fit(counts)
    with pytest.raises(ValueError, match="needs means and variances"):
        fit(str(tmp_path / "kmeans"), tmp_path / "tree", **QUICK)


@pytest.mark.slow
def test_a_hundred_thousand_rows(tmp_path):
    """Rows in memory summarised by atoms: the density stays normalised and comes close to the truth."""
    rng = np.random.default_rng(0)
    which = rng.integers(0, 3, 100_000)
    rows = (np.array([-4.0, 0.0, 5.0])[which] + np.array([0.5, 1.0, 0.3])[which] * rng.normal(size=100_000))[:, None]
    fit(rows, tmp_path / "run", max_leaves=300, n_permutations=1, search_steps=100)
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
        ({}, np.ones((20, 2)), "Column 0 is constant"),
    ],
)
def test_bad_input_leaves_nothing_behind(options, rows, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        fit(rows, tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_a_damaged_run_gets_one_sentence(tmp_path):
    run = tmp_path / "run"
    fit(ROWS, run, **QUICK)
    with pytest.raises(ValueError, match="already holds a run"):
        fit(ROWS, run, **QUICK)
    import shutil

    shutil.rmtree(run / "kept")
    with pytest.raises(ValueError, match=r"the array 'kept/.*' is missing"):
        dtree.open(run)
    assert Run.open(run).header.done


def test_the_estimator_works_on_a_client(client):
    from sklearn.base import clone

    options = {"n_permutations": 2, "search_steps": 6, "posterior_sweeps": 2, "random_state": 5}
    here = dtree.DiffusionTree(**options).fit(ROWS)
    there = clone(dtree.DiffusionTree(client=client, **options)).fit(ROWS)
    assert there.client is client
    assert np.array_equal(there.score_samples(ROWS), here.score_samples(ROWS))
    assert np.array_equal(there.log_evidences_, here.log_evidences_)


def test_facts(tmp_path):
    fitted = fit(ROWS, None, n_clusters=3, seed=3, **QUICK).fitted(METHOD.Fitted)
    facts = METHOD.facts(fitted, None)
    assert facts.n_clusters == 3
    assert facts.headline.startswith("3 clusters at the cut of a tree with 20 leaves, log evidence of the best tree -1")
    assert facts.lines["trees"] == "4 best, density over 4"
    assert set(facts.lines) == {"leaves", "trees", "sigma2", "c", "noise"}
    assert facts.evidence == {"log evidence of the best tree": fitted.log_evidences[0]}
    assert facts.warnings == ()
    assert facts.shape().size[-1] == 20
    assert np.array_equal(np.sort(facts.shape().height), np.sort(fitted.tree.rest[20:]))
    assert facts.leaf_clusters.shape == facts.row_leaf.shape == (20,)
    assert np.allclose(facts.profile.in_data_units(), fitted.node_locations()[0][:20])
    assert np.shape(facts.traces["log joint"][1]) == (2, 2)
    sampled = fit(ROWS, None, seed=3, **CHAINS).fitted(METHOD.Fitted)
    assert "highest log joint density" in METHOD.facts(sampled, None).headline
    bits = (ROWS.mean(axis=0) < ROWS).astype(float)
    probit = fit(bits, None, likelihood="probit", n_permutations=1, search_steps=2).fitted(METHOD.Fitted)
    assert "start of paths" in METHOD.facts(probit, None).lines


def test_a_column_that_the_clustering_left_out_is_left_out_here_too(tmp_path):
    rng = np.random.default_rng(0)
    rows = np.insert(np.repeat([[-4.0, 1.0], [5.0, 9.0]], 40, axis=0) + rng.normal(size=(80, 2)), 1, 7.0, axis=1)
    dtree.BayesKMeans("gaussian-diag", random_state=0, out=tmp_path / "kmeans").fit(rows)
    model = dtree.DiffusionTree(random_state=0, **QUICK).fit(tmp_path / "kmeans")
    assert model.columns_.tolist() == [0, 2]
    assert model.n_features_in_ == 3
    assert model.score_samples(rows).shape == model.predict(rows).shape == (80,)
    drawn = model.sample(5, random_state=0)
    assert np.isnan(drawn[:, 1]).all()  # the run of the clusters does not say what the value was
    assert np.isfinite(drawn[:, [0, 2]]).all()


def test_too_many_rows_are_refused_before_they_are_read(tmp_path, monkeypatch):
    from dtree.methods import diffusion

    monkeypatch.setattr(diffusion, "LARGEST_READ", 8 * ROWS.size - 1)
    with pytest.raises(ValueError, match=r"20 rows of 2 columns are too many to read at once: fit them by 'dtree fit"):
        fit(ROWS, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"columns": np.array([0, 7])}, "not columns of rows with 2 features"),
        ({"columns": np.array([0])}, "not columns of rows with 2 features"),
        ({"constants": np.zeros(3)}, "not columns of rows with 2 features"),
        ({"n_clusters": 10**12}, "not cut into 1000000000000 clusters"),
        ({"node_labels": np.zeros(3, dtype=np.int64)}, "not cut into"),
        ({"sigma2": -1.0}, "not positive"),
        ({"messages": []}, "trees of the run and their evidences differ in number"),
        ({"weights": 7.0}, "weights of the run's trees do not sum to one"),
        ({"parent": 10**6}, "name nodes that do not exist"),
        ({"leaf_mean": np.zeros((1, 3, 2))}, "leaves of the run's trees do not fit together"),
        ({"leaf_of_row": 99}, "leaves that it does not have"),
        ({"noise": np.zeros(3)}, "do not fit together"),
    ],
)
def test_parts_that_do_not_fit_together_get_one_sentence(change, sentence):
    run = fit(ROWS, None, **QUICK)
    fitted = run.fitted(METHOD.Fitted)
    METHOD.check(fitted, run.header)
    (name, value), *_ = change.items()
    if name in fitted.__struct_fields__:
        wrong = msgspec.structs.replace(fitted, **{name: value})
    else:
        prepared, kept = fitted.prepared_rows, fitted.kept
        record = next(part for part in (prepared, kept, kept.best) if name in part._fields)
        value = np.full_like(getattr(record, name), value) if np.ndim(value) == 0 else value
        changed = record._replace(**{name: value})
        if record is kept.best:
            changed = kept._replace(best=changed)
        wrong = msgspec.structs.replace(fitted, **{"prepared_rows" if record is prepared else "kept": changed})
    with pytest.raises(ValueError, match=sentence):
        METHOD.check(wrong, run.header)


def test_a_record_that_lacks_a_part_gets_one_sentence():
    from dtree.runs.codec import encode, restore

    arrays = {}
    stored = encode(fit(ROWS, None, **QUICK).fitted(METHOD.Fitted), "", arrays)
    for name in ("prepared_rows", "kept"):
        with pytest.raises(ValueError, match=f"damaged: .*missing required field '{name}'"):
            restore(METHOD.Fitted, {field: value for field, value in stored.items() if field != name}, arrays)
        with pytest.raises(ValueError, match="damaged: "):
            restore(METHOD.Fitted, stored | {name: {"$list": []}}, arrays)


def test_whole_numbers_among_the_settings_are_kept(tmp_path):
    options = {"noise": 1, "sigma2": 2, "c_prior": (2, 3)}
    dtree.DiffusionTree(random_state=4, out=tmp_path / "run", **options, **QUICK).fit(ROWS)
    again = dtree.open(tmp_path / "run")
    assert {name: getattr(again, name) for name in options} == options
    assert again.random_state == 4
