"""Fitted models come back from disk and give the same numbers bit for bit, or are refused with one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from scipy import sparse

from dtree.core.families import DiagonalGaussian
from dtree.core.priors import DirichletProcess
from dtree.estimators import BHC
from dtree.runs.saving import open as open_run
from dtree.runs.saving import save
from dtree.store import run as run_module
from dtree.store.run import Contents, read_provenance, write_run

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
    assert read_provenance(tmp_path / "run.zarr")["row_names"][1] == "row 1"


def test_a_saved_model_can_be_saved_again(tmp_path: Path) -> None:
    save(BHC("gaussian-diag").fit(REAL), tmp_path / "a.zarr")
    save(open_run(tmp_path / "a.zarr"), tmp_path / "b.zarr")
    np.testing.assert_array_equal(
        open_run(tmp_path / "b.zarr").score_samples(REAL), open_run(tmp_path / "a.zarr").score_samples(REAL)
    )


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not fitted yet"):
        save(BHC(), tmp_path / "run.zarr")
    with pytest.raises(ValueError, match="a dict cannot be saved"):
        save({}, tmp_path / "run.zarr")
    assert list(tmp_path.iterdir()) == []


# Runs whose hashes are right but whose content is not ------------------------------------------------------------------


def _fitted(**change: Any) -> Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], None]:
    return lambda arrays, fitted, parameters: fitted.update(change)


def _arrays(**change: Any) -> Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], None]:
    return lambda arrays, fitted, parameters: arrays.update({name.replace("__", "/"): v for name, v in change.items()})


def _parameters(**change: Any) -> Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], None]:
    return lambda arrays, fitted, parameters: parameters.update(change)


FORGED: dict[str, tuple[Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], None], str]] = {
    "no tree": (lambda arrays, fitted, parameters: fitted.pop("tree_"), "its tree_ is missing"),
    "a number for a family": (_fitted(family_=3), "its family_ is missing or not what it should be"),
    "a truth value for a number": (_fitted(n_clusters_=True), "its n_clusters_ is missing or not"),
    "another number of clusters": (_fitted(n_clusters_=5), "do not number 5 clusters"),
    "a private attribute": (_fitted(_log_new=1.0), "impossible names"),
    "a method": (_fitted(predict="x"), "impossible names"),
    "another bound": (_fitted(log_evidence_bound_=-1.0), "evidence bound does not follow"),
    "too few features": (_fitted(n_features_in_=2), "not distinct numbers below 2"),
    "feature names of the wrong number": (_fitted(feature_names_in_={"$names": ["a"]}), "1 feature names for 3 features"),
    "other labels": (_arrays(labels=np.arange(24) % 2), "labels do not follow from its tree"),
    "labels of the wrong number": (_arrays(labels=np.arange(2)), "not one whole number per row"),
    "labels that are fractions": (_arrays(labels=np.zeros(24)), "not one whole number per row"),
    "statistics of the wrong shape": (_arrays(statistics__atoms=np.ones((24, 2))), r"of shape \(24, 7\)"),
    "statistics with NaN": (_arrays(statistics__atoms=np.full((24, 7), np.nan)), "must be finite"),
    "columns out of range": (_arrays(fitted__columns=np.array([0, 1, 99])), "not distinct numbers below 3"),
    "columns twice": (_arrays(fitted__columns=np.array([0, 1, 1])), "not distinct numbers below 3"),
    "an unknown parameter": (_parameters(speed=3), "not those of a BHC"),
    "a coarsening that is text": (_parameters(coarsening="much"), "do not belong together"),
    "a coarsening beyond one": (_parameters(coarsening=7.0), "do not belong together"),
    "a family that is no family": (_parameters(family={"$family": "os.system", "parameters": {}}), "does not know"),
}  # fmt: skip


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_run_gets_one_sentence(tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forge, sentence = FORGED[case]
    kind = run_module._KINDS["bhc"]

    def write(model: Any) -> Contents:
        contents = kind.write(model)
        arrays, fitted = dict(contents.arrays), dict(contents.settings["fitted"])
        parameters = dict(contents.settings["parameters"])
        forge(arrays, fitted, parameters)
        return Contents(arrays, {"fitted": fitted, "parameters": parameters})

    monkeypatch.setitem(run_module._KINDS, "bhc", kind._replace(write=write))
    write_run(tmp_path / "run.zarr", "bhc", BHC("gaussian-diag").fit(REAL))
    with pytest.raises(ValueError, match=sentence) as caught:
        open_run(tmp_path / "run.zarr")
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "run.zarr") in str(caught.value)
