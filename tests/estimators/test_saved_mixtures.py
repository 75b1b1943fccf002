"""A fitted DPMixtureVB comes back from disk and gives the same numbers bit for bit, or is refused with one sentence."""

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

import dtree
from dtree import DPMixtureVB
from dtree.core.families import DiagonalGaussian
from dtree.methods.variational import Fitted
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


def _in_mixture(**changes: Callable[[Any], Any]) -> Callable[[Fitted], Fitted]:
    """Damage to fields of the mixture."""

    def damage(fitted: Fitted) -> Fitted:
        new = {name: change(getattr(fitted.mixture, name)) for name, change in changes.items()}
        return msgspec.structs.replace(fitted, mixture=msgspec.structs.replace(fitted.mixture, **new))

    return damage


DAMAGE: dict[str, tuple[Callable[[Fitted], Fitted], str]] = {
    "statistics": (_in_mixture(statistics=lambda _: np.zeros((3, 2))), "its statistics must be"),
    "one component": (_in_mixture(statistics=lambda old: old[:1]), "not one row of numbers per component"),
    "not finite": (_in_mixture(gram=lambda old: old * np.nan), "its gram must be finite"),
    "counts": (_in_mixture(statistics=lambda old: 2.0 * old), "do not add up"),
    "order": (lambda fitted: msgspec.structs.replace(fitted, shown=0 * fitted.shown), "its order of components"),
    "clusters": (lambda fitted: msgspec.structs.replace(fitted, n_clusters=9), "its number of clusters 9"),
    "fewer clusters": (lambda fitted: msgspec.structs.replace(fitted, n_clusters=1), "labels do not number 1 clusters"),
    "columns": (lambda fitted: msgspec.structs.replace(fitted, columns=fitted.columns + 9), "numbers below"),
    "more columns": (lambda fitted: msgspec.structs.replace(fitted, columns=np.arange(4)), "one per feature"),
    "bounds": (lambda fitted: msgspec.structs.replace(fitted, trace=np.zeros(0)), "its bounds are not"),
    "variant": (_in_mixture(variant=lambda _: "none"), "is damaged.*'none'"),
    "alpha": (_in_mixture(alpha=lambda _: -1.0), "alpha"),
    "family": (_in_mixture(family=lambda _: None), "is damaged.*family"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_runs_are_refused(tmp_path: Path, case: str) -> None:
    model = DPMixtureVB("CTSB", **SETTINGS).fit(REAL)
    damage, sentence = DAMAGE[case]
    model._run.store.results = damage(model._run.store.results)
    dtree.save(model, tmp_path / "run.zarr")
    with pytest.raises(ValueError, match=sentence):
        dtree.open(tmp_path / "run.zarr")


@pytest.mark.parametrize("labels", [4, -1])
def test_labels_that_number_no_clusters_are_refused(tmp_path: Path, labels: int) -> None:
    model = DPMixtureVB("CTSB", **SETTINGS).fit(REAL)
    model._run.store.rows["labels"].fill(labels)
    dtree.save(model, tmp_path / "run.zarr")
    with pytest.raises(ValueError, match="do not number"):
        dtree.open(tmp_path / "run.zarr")


def test_settings_of_another_type_are_refused(tmp_path: Path) -> None:
    dtree.save(DPMixtureVB("CTSB", **SETTINGS).fit(REAL), tmp_path / "run.zarr")
    header = tmp_path / "run.zarr" / "settings" / "zarr.json"
    stored = json.loads(header.read_text())
    stored["attributes"]["dtree"]["value"]["truncation"] = "many"
    header.write_text(json.dumps(stored))
    with pytest.raises(ValueError, match=r"is damaged.*truncation"):
        dtree.open(tmp_path / "run.zarr")


def test_rows_of_a_batch_keep_their_names(tmp_path: Path) -> None:
    model = DPMixtureVB("FSD", **SETTINGS)
    for part in (0, 12):
        index = [f"row {part + i}" for i in range(12)]
        batch = pandas.DataFrame(REAL[part : part + 12], columns=["a", "b", "c"], index=index)
        model.partial_fit(batch)
    assert model.row_names_.tolist() == index
    dtree.save(model, tmp_path / "run.zarr")
    again = dtree.open(tmp_path / "run.zarr")
    assert again.row_names_.tolist() == index
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]
    assert again.partial_fit(batch).labels_.shape == (12,)
