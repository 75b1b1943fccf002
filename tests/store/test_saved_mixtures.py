"""A fitted DPMixtureVB comes back from disk and gives the same numbers bit for bit, or is refused with one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from scipy import sparse

import dtree
from dtree.core.families import DiagonalGaussian
from dtree.engine.variational_estimator import DPMixtureVB
from dtree.runs_variational import KIND
from dtree.store import run as run_module
from dtree.store.run import Contents, write_run
from dtree.variational.variants import VARIANTS

RNG = np.random.default_rng(5)
REAL = np.concatenate([RNG.normal(centre, 1.0, (12, 3)) for centre in (0.0, 8.0)])
WIDE = np.insert(REAL, 1, 7.0, axis=1)
COUNTS = RNG.poisson([[9, 1, 1, 4]] * 10 + [[1, 1, 9, 4]] * 10).astype(float)
SETTINGS: dict[str, Any] = {"truncation": 5, "max_iter": 30, "split_merge": 1, "random_state": 0}

FITS: dict[str, Callable[[], tuple[DPMixtureVB, Any]]] = {
    **{name: (lambda name=name: (DPMixtureVB(name, **SETTINGS).fit(REAL), REAL)) for name in VARIANTS},  # type: ignore
    "a constant column": lambda: (DPMixtureVB(**SETTINGS).fit(WIDE), WIDE),
    "sparse": lambda: (DPMixtureVB("FSD", "multinomial", **SETTINGS).fit(sparse.csr_matrix(COUNTS)), COUNTS),
    "an object": lambda: (
        DPMixtureVB("TSB", DiagonalGaussian(np.zeros(3), 0.1, 2.0, np.ones(3)), **SETTINGS).fit(REAL), REAL,
    ),
    "learned alpha": lambda: (DPMixtureVB("CTSB", learn_alpha=True, **SETTINGS).fit(REAL), REAL),
    "labels as start": lambda: (DPMixtureVB("FSD", init=np.arange(24) // 12, **SETTINGS).fit(REAL), REAL),
    "batches": lambda: (DPMixtureVB("FSD", **SETTINGS).partial_fit(REAL), REAL),
}  # fmt: skip


@pytest.mark.parametrize("case", FITS)
def test_mixtures_give_the_same_numbers_again(tmp_path: Path, case: str) -> None:
    model, X = FITS[case]()
    dtree.save(model, tmp_path / "run.zarr")
    again = dtree.open(tmp_path / "run.zarr")
    assert type(again) is type(model)
    for name in ("labels_", "weights_", "statistics_", "elbo_trace_", "columns_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    for name in ("elbo_", "alpha_", "n_clusters_", "converged_", "elbo_is_bound_", "truncation_", "n_iter_"):
        assert getattr(again, name) == getattr(model, name)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))
    assert list(again.components_) == list(model.components_)
    again.fit(X)


def test_names_of_features_are_kept(tmp_path: Path) -> None:
    frame = pandas.DataFrame(REAL, columns=["a", "b", "c"])
    dtree.save(DPMixtureVB(**SETTINGS).fit(frame), tmp_path / "run.zarr")
    assert dtree.open(tmp_path / "run.zarr").feature_names_in_.tolist() == ["a", "b", "c"]


def test_what_is_not_fitted_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not fitted yet"):
        dtree.save(DPMixtureVB(), tmp_path / "run.zarr")


DAMAGE: dict[str, tuple[Callable[[dict[str, Any], dict[str, Any]], Any], str]] = {
    "statistics": (lambda arrays, _: arrays.update({"sums/statistics": np.zeros((3, 2))}), "its statistics must be"),
    "not finite": (lambda arrays, _: arrays["sums/gram"].fill(np.nan), "its gram must be finite"),
    "counts": (lambda arrays, _: arrays["sums/statistics"].__imul__(2.0), "do not add up"),
    "order": (lambda arrays, _: arrays["shown"].fill(0), "its order of components"),
    "labels": (lambda arrays, _: arrays["labels"].fill(4), "do not number"),
    "columns": (lambda arrays, _: arrays["columns"].__iadd__(9), "numbers below"),
    "variant": (lambda _, settings: settings.update(variant="none"), "incomplete"),
    "alpha": (lambda _, settings: settings.update(alpha=-1.0), "alpha"),
    "missing": (lambda _, settings: settings.pop("family"), "incomplete"),
    "parameters": (lambda _, settings: settings.update(parameters={"speed": 3}), "not those of a DPMixtureVB"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_runs_are_refused(tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = DPMixtureVB("CTSB", **SETTINGS).fit(REAL)
    good = run_module._KINDS[KIND].write(model)
    arrays = {name: np.array(values) for name, values in good.arrays.items()}
    settings = dict(good.settings)
    damage, sentence = DAMAGE[case]
    damage(arrays, settings)
    spoilt = run_module._KINDS[KIND]._replace(write=lambda _: Contents(arrays, settings))
    monkeypatch.setitem(run_module._KINDS, KIND, spoilt)
    write_run(tmp_path / "run.zarr", KIND, model)
    with pytest.raises(ValueError, match=sentence):
        dtree.open(tmp_path / "run.zarr")
