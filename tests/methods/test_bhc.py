"""Fitted models come back from disk and give the same numbers bit for bit, or are refused with one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas
import pytest
from scipy import sparse

from dtree import BHC, save
from dtree import open as open_run
from dtree.core.families import DiagonalGaussian
from dtree.core.priors import DirichletProcess
from dtree.engine.cluster import cluster_client
from dtree.engine.drive import Given, drive
from dtree.estimators.base import seed_of
from dtree.methods.bhc import BHC as Method
from dtree.runs.folder import FolderStore
from dtree.runs.run import Run
from tests.sealing import seal_again

RNG = np.random.default_rng(5)
REAL = np.concatenate([RNG.normal(centre, 1.0, (12, 3)) for centre in (0.0, 8.0)])
COUNTS = RNG.poisson([[9, 1, 1, 4]] * 10 + [[1, 1, 9, 4]] * 10)
BITS = (COUNTS > 3).astype(int)
WEIGHT = np.tile([1, 2, 0, 3], 6)

FITS: dict[str, Callable[[], tuple[BHC, Any]]] = {
    "gaussian": lambda: (BHC().fit(REAL), REAL),
    "gaussian-diag": lambda: (BHC("gaussian-diag").fit(REAL), REAL),
    "bernoulli": lambda: (BHC("bernoulli").fit(BITS), BITS),
    "multinomial": lambda: (BHC("multinomial").fit(sparse.csr_array(COUNTS)), sparse.csr_array(COUNTS)),
    "poisson": lambda: (BHC("poisson", "nggp").fit(COUNTS), COUNTS),
    "coarsened": lambda: (BHC("gaussian-diag", coarsening=0.7, cut=0.3).fit(REAL), REAL),
    "learned": lambda: (BHC("gaussian-diag", optimize=True).fit(REAL), REAL),
    "weighted": lambda: (BHC("gaussian-diag").fit(REAL, sample_weight=WEIGHT), REAL),
    "a constant column": lambda: (BHC().fit(np.insert(REAL, 1, 7.0, axis=1)), np.insert(REAL, 1, 7.0, axis=1)),
    "objects": lambda: (
        BHC(DiagonalGaussian(np.zeros(3), 0.1, 2.0, np.ones(3)), DirichletProcess(1 / 3)).fit(REAL), REAL,
    ),
    "a generator": lambda: (
        BHC("gaussian-diag", method="randomized", random_state=np.random.RandomState(3)).fit(REAL), REAL,
    ),
    "two rows": lambda: (BHC("gaussian-diag").fit(REAL[:2]), REAL),
}  # fmt: skip


@pytest.mark.parametrize("case", FITS)
def test_models_give_the_same_numbers_again(tmp_path: Path, case: str) -> None:
    model, X = FITS[case]()
    save(model, tmp_path / "run.zarr")
    again = open_run(tmp_path / "run.zarr")
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.labels_, model.labels_)
    np.testing.assert_array_equal(again.linkage_, model.linkage_)
    np.testing.assert_array_equal(again.atoms_, model.atoms_)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))
    assert again.log_evidence_bound_ == model.log_evidence_bound_
    assert again.n_clusters_ == model.n_clusters_
    assert again.bound_trace_ == model.bound_trace_
    public = {name for name in vars(model) if not name.startswith("_")}
    assert {name for name in vars(again) if not name.startswith("_")} == public
    for name, value in model.get_params().items():
        if name not in ("family", "prior", "random_state"):
            assert again.get_params()[name] == value


def test_names_are_kept(tmp_path: Path) -> None:
    frame = pandas.DataFrame(REAL, columns=["a", "b", "ü"])
    save(BHC("gaussian-diag").fit(frame), tmp_path / "run.zarr", row_names=[f"row {i}" for i in range(len(frame))])
    again = open_run(tmp_path / "run.zarr")
    assert again.feature_names_in_.tolist() == ["a", "b", "ü"]
    assert again.predict(frame).shape == (len(frame),)
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame[["b", "a", "ü"]])
    assert again.row_names_[1] == "row 1"


def test_a_saved_model_can_be_saved_again(tmp_path: Path) -> None:
    save(BHC("gaussian-diag").fit(REAL), tmp_path / "a.zarr")
    save(open_run(tmp_path / "a.zarr"), tmp_path / "b.zarr")
    np.testing.assert_array_equal(
        open_run(tmp_path / "b.zarr").score_samples(REAL), open_run(tmp_path / "a.zarr").score_samples(REAL)
    )


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not fitted yet"):
        save(BHC(), tmp_path / "run.zarr")
    with pytest.raises(ValueError, match="of type dict cannot be saved"):
        save({}, tmp_path / "run.zarr")
    assert list(tmp_path.iterdir()) == []


def test_the_same_answer_in_every_place(tmp_path: Path) -> None:
    settings = {"family": "gaussian-diag", "method": "randomized", "subset": 8, "random_state": 3}
    for change in ({}, {"method": "exact"}):
        here = BHC(**(settings | change)).fit(REAL, sample_weight=WEIGHT)
        found = [BHC(**(settings | change), out=tmp_path / f"run{len(change)}").fit(REAL, sample_weight=WEIGHT)]
        with cluster_client(n_workers=2, processes=False, warm=False) as client:
            found.append(BHC(**(settings | change), client=client).fit(REAL, sample_weight=WEIGHT))
        for model in found:
            assert model.linkage_.tobytes() == here.linkage_.tobytes()
            assert model.labels_.tolist() == here.labels_.tolist()
            assert model.score_samples(REAL).tobytes() == here.score_samples(REAL).tobytes()
    driven = drive(Method(), Method.Settings("gaussian-diag"), Given(REAL, weight=WEIGHT), seed=seed_of(3))
    assert driven.fitted(Method.Fitted).tree.log_phi_t.tobytes() == here.tree_.log_phi_t.tobytes()
    assert driven.header.fingerprint == here._run.header.fingerprint


def test_a_stopped_run_keeps_its_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dtree.engine.drive import resume

    def stop(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Method, "step", stop)
        with pytest.raises(KeyboardInterrupt):
            BHC("gaussian-diag", out=tmp_path / "run").fit(REAL, sample_weight=WEIGHT)
    resume(tmp_path / "run")
    here, again = BHC("gaussian-diag").fit(REAL, sample_weight=WEIGHT), open_run(tmp_path / "run")
    assert again.linkage_.tobytes() == here.linkage_.tobytes()
    assert again.labels_.tolist() == here.labels_.tolist()


def test_facts() -> None:
    for weight, rows in ((None, np.arange(24)), (WEIGHT, None)):
        model = BHC("gaussian-diag", optimize=True).fit(REAL, sample_weight=weight)
        facts = Method().facts(model._run.fitted(Method.Fitted), model._run.row_array("leaves"))
        m = model.tree_.n_leaves
        assert facts.n_clusters == model.n_clusters_ == facts.leaf_clusters.max() + 1
        shape = facts.shape()
        assert shape.height.shape == (m - 1,)
        inner = shape.left >= m
        assert np.all(shape.height[shape.left[inner] - m] <= shape.height[inner])
        assert f"log evidence at least {model.log_evidence_bound_:.3f}" in facts.headline
        expected = rows if rows is not None else np.where(WEIGHT > 0, np.cumsum(WEIGHT > 0) - 1, -1)
        assert np.array_equal(facts.row_leaf, expected)


# Runs whose hashes are right but whose content is not -----------------------------------------------------------------


def _header(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def act(run: Path) -> None:
        document = json.loads((run / "zarr.json").read_text())
        change(document["attributes"]["dtree"])
        (run / "zarr.json").write_text(json.dumps(document))
        seal_again(run)

    return act


def _model_part(place: int, value: Any) -> Callable[[Path], None]:
    return _header(lambda at: at["results"]["model"]["$model"].__setitem__(place, value))


def _fitted(**change: Any) -> Callable[[Path], None]:
    def act(run: Path) -> None:
        opened = Run.open(run)
        results, arrays = opened.store.put_results(msgspec.structs.replace(opened.fitted(Method.Fitted), **change))
        opened.store.write_header(msgspec.structs.replace(opened.header, results=results, arrays=arrays))

    return act


def _labels(values: np.ndarray) -> Callable[[Path], None]:
    def act(run: Path) -> None:
        store = FolderStore(run)
        store.create_rows("labels", values.shape[0], values.shape[0], values.dtype, -1)
        store.write_rows("labels", 0, values)

    return act


def _settings(**change: Any) -> Callable[[Path], None]:
    def act(run: Path) -> None:
        document = json.loads((run / "settings" / "zarr.json").read_text())
        document["attributes"]["dtree"]["value"].update(change)
        (run / "settings" / "zarr.json").write_text(json.dumps(document))
        seal_again(run / "settings")

    return act


FORGED: dict[str, tuple[Callable[[Path], None], str]] = {
    "no tree": (_header(lambda at: at["results"].pop("tree")), "missing required field 'tree'"),
    "a number for a model": (_header(lambda at: at["results"].update(model=3)), "got 'int' in model"),
    "a truth value for a number": (_header(lambda at: at["results"].update(cut=True)), "Expected 'float', got 'bool'"),
    "a cut beyond one": (_header(lambda at: at["results"].update(cut=7.0)), "which is no probability"),
    "another cut": (_header(lambda at: at["results"].update(cut=0.0)), "labels do not follow from its tree"),
    "too few features": (_header(lambda at: at.update(n_features=2)), "not distinct numbers below 2"),
    "more leaves than rows": (_header(lambda at: at.update(n_rows=9)), "labels are not one for each of 9 rows"),
    "feature names of the wrong number": (_header(lambda at: at.update(feature_names=["a"])), "1 feature names for 3"),
    "row names of the wrong number": (_header(lambda at: at.update(row_names=["a"])), "1 row names for 24 rows"),
    "other labels": (_labels(np.arange(24, dtype=np.int32) % 2), "labels do not follow from its tree"),
    "labels of the wrong number": (_labels(np.arange(2, dtype=np.int32)), "labels are not one for each of 24"),
    "labels that are fractions": (_labels(np.full(24, 0.5)), "labels are not one for each of 24 rows"),
    "statistics of the wrong shape": (_fitted(atoms=np.ones((24, 2))), "have not 7 columns"),
    "statistics with NaN": (_fitted(atoms=np.full((24, 7), np.nan)), "hold NaN or infinity"),
    "statistics of other rows": (_fitted(atoms=BHC("gaussian-diag").fit(REAL).atoms_[::-1]), "do not belong together"),
    "a tree of fewer rows": (_fitted(tree=BHC("gaussian-diag").fit(REAL[1:]).tree_), "23 leaves for 24 statistics"),
    "columns out of range": (_fitted(columns=np.array([0, 1, 99])), "not distinct numbers below 3"),
    "columns twice": (_fitted(columns=np.array([0, 1, 1])), "not distinct numbers below 3"),
    "a coarsening that is text": (_settings(coarsening="much"), "Expected 'float', got 'str'"),
    "a model whose coarsening is text": (_model_part(2, "much"), "coarsening"),
    "a coarsening beyond one": (_model_part(2, 7.0), "coarsening"),
    "a family that is no family": (_model_part(0, {"$family": "os.system", "parameters": {}}), "does not know"),
}  # fmt: skip


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_run_gets_one_sentence(tmp_path: Path, case: str) -> None:
    forge, sentence = FORGED[case]
    save(BHC("gaussian-diag").fit(REAL), tmp_path / "run.zarr")
    forge(tmp_path / "run.zarr")
    with pytest.raises(ValueError, match=sentence) as caught:
        open_run(tmp_path / "run.zarr")
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "run.zarr") in str(caught.value)


def test_what_a_record_does_not_declare_is_not_believed(tmp_path: Path) -> None:
    save(BHC("gaussian-diag").fit(REAL), tmp_path / "run.zarr")
    _header(lambda at: at["results"].update(predict="x", _mixture=1.0))(tmp_path / "run.zarr")
    _settings(speed=3)(tmp_path / "run.zarr")
    again = open_run(tmp_path / "run.zarr")
    assert again.predict(REAL).shape == (24,)
    assert not hasattr(again, "speed")
