"""A fitted `BHC` as a run: its model, atoms, tree and labels, and back, with everything that follows made again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dtree.core.model import Model
from dtree.core.tree import Tree
from dtree.store.encode import decode, encode
from dtree.store.run import Contents, Kind, register

# Where a fitted attribute goes in the run; attributes not named here go to fitted/.
_PLACES = {"tree_": "tree", "labels_": "labels", "atoms_": "statistics/atoms", "family_": "model/family"}
_DERIVED = {"linkage_"}  # made again from the tree


def _take_apart(model: Any) -> Contents:
    arrays: dict[str, np.ndarray] = {}
    fitted = {
        name: encode(value, _PLACES.get(name, f"fitted/{name.rstrip('_')}"), arrays)
        for name, value in vars(model).items()
        if name.endswith("_") and not name.startswith("_") and name not in _DERIVED
    }
    parameters = {
        # A random generator has no state worth keeping once the fit is done.
        name: None if isinstance(value, np.random.RandomState | np.random.Generator) else value
        for name, value in model.get_params(deep=False).items()
    }
    return Contents(arrays, {"parameters": encode(parameters, "parameters", arrays), "fitted": fitted})


def _put_together_bhc(contents: Contents) -> Any:
    from dtree.estimators import BHC

    parameters = decode(contents.settings.get("parameters"), contents.arrays)
    fitted = decode(contents.settings.get("fitted"), contents.arrays)
    if not isinstance(parameters, dict) or not isinstance(fitted, dict):
        raise ValueError("its settings are incomplete")
    try:
        model = BHC(**parameters)
    except TypeError:
        raise ValueError("its parameters are not those of a BHC; it may come from another version of dtree") from None
    _check_bhc(fitted)
    # Everything that follows from model, tree and statistics is made again and must be what was stored.
    try:
        model.columns_, model.n_features_in_ = fitted["columns_"], fitted["n_features_in_"]
        model._set_tree(Model(fitted["family_"], fitted["prior_"], model.coarsening), fitted["tree_"], fitted["atoms_"])
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ValueError(f"its model and its tree do not belong together: {error}") from None
    if not np.isclose(model.log_evidence_bound_, fitted["log_evidence_bound_"], rtol=1e-9, atol=1e-9):
        raise ValueError("its evidence bound does not follow from its tree")
    if model.n_clusters_ != fitted["n_clusters_"]:
        raise ValueError(f"its tree has {model.n_clusters_} clusters but {fitted['n_clusters_']} are declared")
    if model.labels_.shape == fitted["labels_"].shape and not np.array_equal(model.labels_, fitted["labels_"]):
        raise ValueError("its labels do not follow from its tree")
    for name, value in fitted.items():
        setattr(model, name, value)
    return model


def _check_bhc(fitted: Mapping[str, Any]) -> None:
    from dtree.core.families import Family
    from dtree.core.priors import Prior

    expected: dict[str, Any] = {
        "tree_": Tree,
        "labels_": np.ndarray,
        "atoms_": np.ndarray,
        "columns_": np.ndarray,
        "family_": Family,
        "prior_": Prior,
        "n_clusters_": int,
        "n_features_in_": int,
        "log_evidence_bound_": float,
    }
    for name, kind in expected.items():
        if not isinstance(fitted.get(name), kind) or isinstance(fitted[name], bool):
            raise ValueError(f"its {name} is missing or not what it should be")
    if not all(name.endswith("_") and not name.startswith("_") and name.isidentifier() for name in fitted):
        raise ValueError("its fitted attributes have impossible names")
    tree, atoms, labels, columns = (fitted[name] for name in ("tree_", "atoms_", "labels_", "columns_"))
    family, d = fitted["family_"], fitted["n_features_in_"]
    width = family.statistics(np.zeros((1, family.n_features))).shape[1]
    if atoms.dtype != np.float64 or atoms.shape != (tree.n_leaves, width) or not np.all(np.isfinite(atoms)):
        raise ValueError(f"its statistics must be finite and of shape ({tree.n_leaves}, {width})")
    if labels.dtype != np.int64 or labels.ndim != 1 or labels.shape[0] < tree.n_leaves:
        raise ValueError("its labels are not one whole number per row")
    if not np.array_equal(np.unique(labels), np.arange(fitted["n_clusters_"])):
        raise ValueError(f"its labels do not number {fitted['n_clusters_']} clusters")
    if columns.dtype != np.int64 or columns.shape != (family.n_features,):
        raise ValueError("its columns are not one per feature of the family")
    if d < 1 or columns.min() < 0 or columns.max() >= d or np.unique(columns).size != columns.size:
        raise ValueError(f"its columns are not distinct numbers below {d}")
    names = fitted.get("feature_names_in_")
    if names is not None and (not isinstance(names, np.ndarray) or names.shape != (d,)):
        raise ValueError(f"it has {np.size(names)} feature names for {d} features")
    names = fitted.get("row_names_")
    if names is not None and (not isinstance(names, np.ndarray) or names.shape != labels.shape):
        raise ValueError(f"it has {np.size(names)} row names for {labels.shape[0]} rows")


register("bhc", Kind(write=_take_apart, read=_put_together_bhc))
