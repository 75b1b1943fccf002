"""Incremental BHC as a method: stopped and resumed, saved and grown on, in blocks and at once: the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import dtree
from dtree import IncrementalBHC
from dtree.core.families import DiagonalGaussian
from dtree.core.priors import DirichletProcess
from dtree.engine.cluster import cluster_client
from dtree.engine.drive import Given, Place, drive, resume
from dtree.estimators.base import seed_of
from dtree.methods import incremental
from dtree.methods.incremental import IncrementalBHC as Method
from dtree.runs.run import Run

RNG = np.random.default_rng(5)
REAL = RNG.normal(size=(4, 2))[RNG.integers(4, size=300)] * 5 + RNG.normal(size=(300, 2))
COUNTS = RNG.poisson([[9, 1, 1, 4]] * 40 + [[1, 1, 9, 4]] * 40)


def answer(model: IncrementalBHC) -> list[bytes]:
    tree = model.tree_
    return [values.tobytes() for values in (model.labels_, tree.left, tree.right, tree.log_phi_h, tree.log_phi_t)]


def bits(run: Run) -> list[bytes]:
    tree = run.fitted(Method.Fitted).tree
    labels = np.asarray(run.row_array("labels")).astype(np.int64)
    return [values.tobytes() for values in (labels, tree.left, tree.right, tree.log_phi_h, tree.log_phi_t)]


REASONS = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a row of weight w is one atom, kept in one cluster; w copies of it may be parted"
    ),
}


@parametrize_with_checks([IncrementalBHC(random_state=0)], expected_failed_checks=lambda estimator: REASONS)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def test_constant_columns_are_left_out() -> None:
    wider = np.column_stack([REAL, np.full(300, 7.0)])
    estimator = IncrementalBHC("gaussian-diag", random_state=0).fit(REAL)
    narrow, scores, predicted = estimator.labels_, estimator.score_samples(REAL), estimator.predict(REAL)
    again = estimator.fit(wider)
    assert again.columns_.tolist() == [0, 1]
    assert np.array_equal(again.labels_, narrow)
    np.testing.assert_allclose(again.score_samples(wider), scores, rtol=1e-12)
    assert np.array_equal(again.predict(wider), predicted)


@pytest.mark.parametrize("wrong", [np.full(300, 0.5), np.full(300, -1), np.ones(7), np.zeros(300)])
def test_wrong_weights_are_refused(wrong: np.ndarray) -> None:
    with pytest.raises(ValueError, match="sample_weight"):
        IncrementalBHC().fit(REAL, sample_weight=wrong)


CASES: dict[str, tuple[dict[str, Any], np.ndarray]] = {
    "gaussian": ({}, REAL),
    "diagonal, coarsened": ({"family": "gaussian-diag", "coarsening": 0.7}, REAL),
    "noisy": ({"family": "gaussian-diag", "init": "noisy", "prior": "nggp"}, REAL),
    "counts": ({"family": "multinomial", "balanced": False}, COUNTS),
}


@pytest.mark.parametrize("case", CASES)
def test_a_saved_model_grows_on_as_if_it_had_never_been_saved(tmp_path: Path, case: str) -> None:
    settings, X = CASES[case]
    model = IncrementalBHC(**settings, random_state=3).fit(X[:50])
    for number, block in enumerate((X[50:60], X[60:])):
        dtree.save(model, tmp_path / f"run{number}")
        again = dtree.open(tmp_path / f"run{number}")
        assert answer(again) == answer(model)
        assert again.score_samples(X).tobytes() == model.score_samples(X).tobytes()
        assert again.n_trees_ == model.n_trees_
        assert again.get_params()["init"] == model.init
        again.partial_fit(block)
        model.partial_fit(block)
        assert answer(again) == answer(model)
    assert again.n_seen_ == X.shape[0]


def test_names_are_kept_while_all_blocks_have_them(tmp_path: Path) -> None:
    import pandas

    frame = pandas.DataFrame(REAL, columns=["a", "b"], index=[f"r{i}" for i in range(300)])
    model = IncrementalBHC("gaussian-diag", random_state=0).fit(frame[:200]).partial_fit(frame[200:])
    dtree.save(model, tmp_path / "run")
    again = dtree.open(tmp_path / "run")
    assert again.row_names_.tolist() == frame.index.tolist()
    assert again.feature_names_in_.tolist() == ["a", "b"]
    again.partial_fit(pandas.DataFrame(REAL[:5], columns=["a", "b"]))
    dtree.save(again, tmp_path / "more")
    assert not hasattr(dtree.open(tmp_path / "more"), "row_names_")


def test_atoms_can_be_saved(tmp_path: Path) -> None:
    family = DiagonalGaussian([0.0, 0.0], 0.1, 2.0, [0.7, 0.7])
    atoms = np.add.reduceat(family.statistics(REAL), np.arange(0, 300, 3))
    model = IncrementalBHC(family, DirichletProcess(1.0), random_state=0).partial_fit_atoms(atoms)
    with pytest.raises(ValueError, match="not fitted yet"):
        dtree.save(IncrementalBHC(), tmp_path / "run")
    dtree.save(model, tmp_path / "run")
    again = dtree.open(tmp_path / "run")
    assert answer(again) == answer(model)
    assert answer(again.partial_fit_atoms(atoms[:9])) == answer(model.partial_fit_atoms(atoms[:9]))


def test_the_same_answer_in_every_place(tmp_path: Path) -> None:
    dask_array = pytest.importorskip("dask.array")
    here = IncrementalBHC("gaussian-diag", random_state=3).fit(REAL)
    blocks = dask_array.from_array(REAL, chunks=(70, 1))
    np.save(tmp_path / "rows.npy", REAL)
    assert answer(IncrementalBHC("gaussian-diag", random_state=3).fit(blocks)) == answer(here)
    assert answer(IncrementalBHC("gaussian-diag", random_state=3, out=tmp_path / "run").fit(REAL)) == answer(here)
    assert answer(IncrementalBHC("gaussian-diag", random_state=3).fit(tmp_path / "rows.npy")) == answer(here)
    with cluster_client(n_workers=2, processes=False, warm=False) as client:
        there = IncrementalBHC("gaussian-diag", random_state=3, client=client).fit(REAL)
        assert answer(there) == answer(here)
        assert answer(there.partial_fit(blocks)) == answer(here.partial_fit(REAL))
    run = drive(Method(), Method.Settings("gaussian-diag"), Given(REAL), seed=seed_of(3))
    assert bits(run) == bits(Run.open(tmp_path / "run"))


def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Method.Settings("gaussian-diag")
    whole = drive(Method(), settings, Given(REAL), seed=1)
    monkeypatch.setattr(incremental, "_FEWEST_ROWS", 10)

    class Stop(Exception):
        pass

    events = []

    def stop_in_the_middle(event: Any) -> None:
        events.append(event)
        if len(events) == 7:
            raise Stop

    weight = np.ones(300)
    with pytest.raises(Stop):
        drive(Method(), settings, Given(REAL, weight=weight), Place(tmp_path / "run"), 1, stop_in_the_middle)
    assert events[-1].line().startswith("133 rows in ")
    assert bits(resume(tmp_path / "run")) == bits(whole)


def test_a_refused_row_leaves_the_forest_as_it_was() -> None:
    model, twin = (IncrementalBHC("gaussian-diag", random_state=0).fit(REAL[:100]) for _ in range(2))
    bad = REAL[100:110].copy()
    bad[7, 1] = np.nan
    for rows, weight in ((bad, None), (REAL[:5, :1], None), (REAL[:5], np.zeros(5)), (REAL[:5], [1, -1, 1, 1, 1])):
        with pytest.raises(ValueError):  # which sentence it is, others test
            model.partial_fit(rows, sample_weight=weight)
    assert model.n_seen_ == 100
    assert answer(model.partial_fit(REAL[100:])) == answer(twin.partial_fit(REAL[100:]))


def test_facts(tmp_path: Path) -> None:
    model = IncrementalBHC("gaussian-diag", random_state=3, out=tmp_path / "run").fit(REAL)
    facts = Method().facts(model._run.fitted(Method.Fitted), None)
    assert facts.n_clusters == model.n_clusters_
    assert facts.lines["trees in the forest"] == str(model.n_trees_)


def _pool(name: str, at: Any, value: Any) -> Any:
    def change(fitted: Any) -> Any:
        values = getattr(fitted.forest.pool, name).copy()
        values[at] = value
        pool = fitted.forest.pool._replace(**{name: values})
        return msgspec.structs.replace(fitted, forest=fitted.forest._replace(pool=pool))

    return change


def _loop(fitted: Any) -> Any:
    """A fork that is its own grandchild."""
    pool = fitted.forest.pool
    fork = next(n for n in range(pool.left.shape[0]) if pool.left[n] >= 0 and pool.left[pool.left[n]] >= 0)
    left, parent = pool.left.copy(), pool.parent.copy()
    left[pool.left[fork]] = fork
    parent[fork] = pool.left[fork]
    pool = pool._replace(left=left, parent=parent)
    return msgspec.structs.replace(fitted, forest=fitted.forest._replace(pool=pool))


FORGED: dict[str, tuple[Any, str]] = {
    "a child that is no node": (_pool("left", slice(None), 10**9), "do not hang together"),
    "a root that is no node": (_pool("root", 0, -7), "do not hang together"),
    "a parent elsewhere": (_pool("parent", slice(None), 3), "do not hang together"),
    "an atom twice": (_pool("atom", 0, 1), "do not hang together"),
    "a way round": (_loop, "do not hang together"),
    "a free list that never ends": (_pool("meta", 1, 0), "do not hang together"),
    "nodes that wait": (_pool("meta", 4, 2), "do not hang together"),
    "another number of leaves": (_pool("leaves", 0, 5), "do not hang together"),
    "NaN": (_pool("statistics", 0, np.nan), "holds NaN or infinity"),
    "other roots": (_pool("root_statistics", 0, 3.5), "are not those of its trees"),
    "a short column": (
        lambda fitted: msgspec.structs.replace(
            fitted, forest=fitted.forest._replace(pool=fitted.forest.pool._replace(slot=np.zeros(3, dtype=np.int64)))
        ),
        "'slot' of its forest has the wrong shape",
    ),
    "sums of another width": (
        lambda fitted: msgspec.structs.replace(fitted, forest=fitted.forest._replace(room=np.ones(3))),
        "sums of its forest",
    ),
    "no generator": (lambda fitted: msgspec.structs.replace(fitted, generator="[]"), "random generator"),
    "a generator that is text": (lambda fitted: msgspec.structs.replace(fitted, generator="x"), "random generator"),
    "another number of rows": (
        lambda fitted: msgspec.structs.replace(fitted, forest=fitted.forest._replace(n_atoms=7)),
        "7 leaves for 300 rows",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_forest_gets_one_sentence(tmp_path: Path, case: str) -> None:
    forge, sentence = FORGED[case]
    dtree.save(IncrementalBHC("gaussian-diag", random_state=0).fit(REAL), tmp_path / "run")
    run = Run.open(tmp_path / "run")
    results, arrays = run.store.put_results(forge(run.fitted(Method.Fitted)))
    run.store.write_header(msgspec.structs.replace(run.header, results=results, arrays=arrays))
    with pytest.raises(ValueError, match=sentence) as caught:
        dtree.open(tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "run") in str(caught.value)
