"""Variational mixtures by passes: the same bits on any number of workers, after a death, and after a resumption."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import zarr
from scipy import sparse

import dtree
from dtree.core.families import Gaussian, moments_of
from dtree.engine.drive import Given, Place, drive, resume
from dtree.estimators.base import seed_of
from dtree.methods.settings import checked
from dtree.methods.variational import Fitted, Settings, Variational
from dtree.runs.run import Run
from dtree.variational.variants import VARIANTS


def rows(n=2500, d=3, k=7, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0, 5.0, size=(k, d))[rng.integers(0, k, n)] + rng.normal(size=(n, d))


def fit(data, out=None, seed=3, client=None, progress=None, chunk_bytes=None, **settings):
    """The finished run of a fit."""
    given, place = Given(data, chunk_bytes=chunk_bytes), Place(out, client=client)
    return drive(Variational(), checked(Settings, settings), given, place, seed, progress)


# A start from few rows and no tolerance, so that every one of the passes changes something.
OPTIONS = {
    "variant": "O-CTSB",
    "family": Gaussian.defaults(moments_of(rows()), share=0.05),
    "truncation": 10,
    "chunk_bytes": 2500 * 24 // 11,
    "sample_rows": 500,
    "seed": 3,
    "max_iter": 6,
    "tol": 0.0,
    "split_merge": 0,
    "init": "kmeans",
}


def bits(run):
    """Everything a finished run says, as bytes."""
    run = run if isinstance(run, Run) else Run.open(run)
    fitted, labels = run.fitted(Fitted), np.asarray(run.row_array("labels"))
    assert labels.dtype == np.int32
    sums = fitted.mixture
    arrays = (labels, sums.statistics, sums.gram, sums.log_zero, fitted.trace, fitted.shown, fitted.columns)
    return [array.tobytes() for array in arrays] + [sums.alpha, sums.entropy, fitted.n_clusters, fitted.converged]


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    np.save(folder / "x.npy", rows())
    fit(folder / "x.npy", folder / "run", **OPTIONS)
    return folder


def test_results_belong_together(reference):
    model, X = dtree.open(reference / "run"), rows()
    run = Run.open(reference / "run")
    assert np.array_equal(model.labels_, model.predict(X))
    assert np.array_equal(np.unique(model.labels_), np.arange(model.n_clusters_))
    assert model.n_clusters_ >= 5  # the other tests compare something worth comparing
    assert model.n_iter_ == 6
    assert len(model.elbo_trace_) == 6
    assert not model.elbo_is_bound_
    assert np.asarray(zarr.open_array(str(run.path / "trace"), mode="r")[...]).tolist() == list(model.elbo_trace_)
    assert [step.elbo for step in run.fitted(Fitted).steps] == list(model.elbo_trace_)
    assert not (run.path / "passes").exists()
    assert not (run.path / "staged").exists()
    assert run.header.method == "vb"
    assert resume(run.path).fitted(Fitted).trace[-1] == model.elbo_


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_fit_by_passes_is_the_fit_in_memory(tmp_path, variant):
    """A sample has 50 rows a component, here all rows: the passes start where the whole fit stops, and stay there."""
    X = rows(700, k=4)
    settings = {"truncation": 14, "tol": 1e-8}
    run = fit(X, tmp_path / "run", seed_of(0), chunk_bytes=700 * 24 // 5, variant=variant, sample_rows=2, **settings)
    assert run.fitted(Fitted).steps
    passes = dtree.open(tmp_path / "run")
    memory = dtree.DPMixtureVB(variant, random_state=0, **settings).fit(X)
    assert np.array_equal(passes.labels_, memory.labels_)
    # In memory a collapsed variant has an exact bound at so few rows; the passes' is the expansion.
    assert passes.elbo_ == pytest.approx(memory.elbo_, abs=0.5 if VARIANTS[variant].collapsed else 1e-3)
    assert passes.score_samples(X) == pytest.approx(memory.score_samples(X), abs=1e-2)
    assert passes.converged_
    if not VARIANTS[variant].collapsed:
        assert passes.elbo_is_bound_
        assert np.diff(passes.elbo_trace_).min() > -1e-8


@pytest.mark.parametrize("sample_rows", [500, 2500], ids=["passes", "whole"])
def test_one_answer_wherever_the_rows_and_the_workers_are(reference, tmp_path, client, sample_rows):
    """The number of rows decides how they are fitted, and not the place."""
    options = {**OPTIONS, "sample_rows": sample_rows}
    in_memory = fit(rows(), **options)
    assert bool(in_memory.fitted(Fitted).steps) is (sample_rows < 2500)
    assert bits(fit(rows(), tmp_path / "run", **options)) == bits(in_memory)
    assert bits(tmp_path / "run") == bits(in_memory)
    assert bits(fit(reference / "x.npy", **options)) == bits(in_memory)
    assert bits(fit(reference / "x.npy", client=client, **options)) == bits(in_memory)
    if sample_rows < 2500:
        assert bits(in_memory) == bits(reference / "run")


def test_the_seed_of_the_command_is_the_random_state(tmp_path):
    X, settings = rows(900, k=4), {"truncation": 6, "max_iter": 30, "split_merge": 1}
    for sample_rows in (300, 20_000):
        run = fit(X, seed=seed_of(3), sample_rows=sample_rows, **settings)
        model = dtree.DPMixtureVB(random_state=3, sample_rows=sample_rows, **settings).fit(X)
        assert bits(model._run) == bits(run)
        assert np.array_equal(model.elbo_trace_, run.fitted(Fitted).trace)


WHOLE = {
    "init": {"init": np.arange(400) % 5},
    "sequential": {"schedule": "sequential"},
    "exact": {"expectation": "exact", "max_iter": 3},
    "warm": {"warm_start": True},
}


@pytest.mark.parametrize("case", WHOLE)
def test_what_needs_all_rows_at_once_is_fitted_whole_whatever_their_number(tmp_path, case):
    X, settings = rows(400, k=3), {"truncation": 5, "max_iter": 20, "split_merge": 0, **WHOLE[case]}
    few, many = (fit(X, tmp_path / str(sample), sample_rows=sample, **settings) for sample in (100, 400))
    assert not few.fitted(Fitted).steps
    assert bits(few) == bits(many)


def test_same_bits_after_a_worker_is_killed(reference, tmp_path, client):
    victims = []

    def kill_one(step):
        if step.number in (1, 3):
            victims.append(next(worker.pid for worker in client.cluster.workers.values() if worker.pid))
            os.kill(victims[-1], signal.SIGKILL)

    fit(reference / "x.npy", tmp_path / "run", client=client, progress=kill_one, **OPTIONS)
    assert len(victims) == 2
    assert bits(tmp_path / "run") == bits(reference / "run")


def _stop_after(number):
    def stop(step):
        if step.number == number:
            raise KeyboardInterrupt

    return stop


@pytest.mark.parametrize("stop_after", [4, 6])  # the shared suite stops after the first
def test_same_bits_after_an_interruption(reference, tmp_path, stop_after):
    with pytest.raises(KeyboardInterrupt):
        fit(reference / "x.npy", tmp_path / "run", progress=_stop_after(stop_after), **OPTIONS)
    with pytest.raises(ValueError, match="is not finished: 'dtree resume"):
        dtree.open(tmp_path / "run")
    seen = []
    resume(tmp_path / "run", progress=lambda step: seen.append(step.number))
    assert seen == list(range(stop_after + 1, 7))
    assert bits(tmp_path / "run") == bits(reference / "run")


@pytest.mark.parametrize("variant", ["TSB", "CFSD"])
def test_learned_alpha_survives_a_resumption(tmp_path, variant):
    options = {**OPTIONS, "variant": variant, "learn_alpha": True, "alpha": 5.0}
    with pytest.raises(KeyboardInterrupt):
        fit(rows(), tmp_path / "stopped", progress=_stop_after(2), **options)
    fit(rows(), tmp_path / "whole", **options)
    again = resume(tmp_path / "stopped")
    assert bits(again) == bits(tmp_path / "whole")
    assert again.fitted(Fitted).mixture.alpha != 5.0


@pytest.mark.parametrize("sample_rows", [100, 20_000], ids=["passes", "whole"])
def test_sparse_counts(tmp_path, sample_rows):
    random = np.random.default_rng(1)
    y = random.integers(2, size=400)
    rates = np.array([[0.2] * 6 + [4.0] * 6, [4.0] * 6 + [0.2] * 6])
    X = sparse.csr_matrix(random.poisson(rates[y]).astype(float))
    fit(X, tmp_path / "run", variant="FSD", family="multinomial", truncation=6, sample_rows=sample_rows)
    model = dtree.open(tmp_path / "run")
    assert model.n_clusters_ == 2
    assert np.array_equal(model.labels_, model.predict(X))


@pytest.mark.parametrize("sample_rows", [100, 20_000], ids=["passes", "whole"])
def test_constant_columns_are_left_out(tmp_path, sample_rows):
    X = rows(400, k=3)
    wide = np.column_stack([X[:, 0], np.full(400, 7.0), X[:, 1:]])
    for name, data in (("plain", X), ("wide", wide)):
        fit(data, tmp_path / name, variant="O-TSB", truncation=6, sample_rows=sample_rows)
    plain, model = dtree.open(tmp_path / "plain"), dtree.open(tmp_path / "wide")
    assert model.columns_.tolist() == [0, 2, 3]
    assert np.array_equal(plain.labels_, model.labels_)
    assert np.array_equal(plain.score_samples(X), model.score_samples(wide))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"truncation": 1}, "truncation must be at least 2"),
        ({"truncation": 500}, "truncation 500 is above the number of rows 60"),
        ({"variant": "VB"}, "choose one of TSB, O-TSB, CTSB, O-CTSB, FSD, CFSD"),
        ({"family": "cauchy"}, "unknown family 'cauchy'"),
        ({"family": "poisson"}, "row 0 is not a whole number"),
        ({"alpha": -1.0}, "alpha must be a positive number"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1"),
        ({"split_merge": -1}, "split_merge must be a whole number of at least 0"),
        ({"tol": -1.0}, "tol must be a number of at least 0"),
        ({"sample_rows": 1}, "sample_rows must be at least 2"),
        ({"order": "guess"}, "unknown order 'guess': choose one of best, size"),
        ({"speed": 3}, "there is no setting 'speed'"),
    ],
)
def test_bad_settings_get_one_sentence_and_no_folder_that_blocks(tmp_path, settings, sentence):
    X = rows(60, k=3)
    with pytest.raises(ValueError, match=sentence):
        fit(X, tmp_path / "run", **settings)
    fit(X, tmp_path / "run", variant="FSD", truncation=5)


def test_facts(reference):
    run, X = Run.open(reference / "run"), rows()
    fitted = run.fitted(Fitted)
    labels = np.asarray(run.row_array("labels"))
    facts = Variational().facts(fitted, labels)
    k = fitted.n_clusters
    assert facts.n_clusters == k
    assert facts.headline == f"{k} clusters after 6 passes, approximate bound {fitted.trace[-1]:.6g}"
    assert facts.warnings == (
        "not converged: fit again with a larger --max-iter, --time-limit or --tol",
        "the variational bound is an expansion here and may lie above the evidence",
    )
    shape = facts.shape()
    assert facts.lines == {"variational mixture": "O-CTSB, truncation 10", "alpha": "1"}
    assert shape.size[-1] == X.shape[0]
    assert np.array_equal(np.bincount(labels)[labels], shape.size[facts.row_leaf])
    assert facts.statistics.shape[0] == facts.leaf_clusters.shape[0] == shape.n_leaves
    assert list(facts.clusters) == ["weight", "#0", "#1", "#2"]
    assert all(values.shape == (k,) for values in facts.clusters.values())
    assert Variational().facts(fitted, None).row_leaf is None
    whole = fit(rows(60, k=3), variant="FSD", truncation=5).fitted(Fitted)
    assert "log evidence at least" in Variational().facts(whole, None).headline
    assert fitted.steps[0].line().startswith("iteration 1: ELBO -")
