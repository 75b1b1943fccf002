"""A fitted `DPMixtureVB` as a run: sums and rule, from which everything else follows and is made again when opened."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtree.core.families import Family
from dtree.engine.variational_estimator import DPMixtureVB
from dtree.store.encode import decode, encode
from dtree.store.run import Contents, Kind, register
from dtree.variational.fitting import Fit
from dtree.variational.likelihood import expectation_of
from dtree.variational.steps import Rule, Sums
from dtree.variational.variants import VARIANTS

KIND = "dp-mixture-vb"
_SUMS = ("statistics", "gram", "log_zero")


def _take_apart(model: Any) -> Contents:
    fit = model.fit_
    arrays: dict[str, np.ndarray] = {f"sums/{name}": getattr(fit.sums, name) for name in _SUMS}
    arrays |= {"labels": model.labels_, "columns": model.columns_, "shown": model._shown}
    arrays["trace"] = np.asarray(fit.trace, dtype=np.float64)
    parameters = {
        # A random generator has no state worth keeping once the fit is done.
        name: None if isinstance(value, np.random.RandomState | np.random.Generator) else value
        for name, value in model.get_params(deep=False).items()
        if name not in ("client", "out")  # where it was fitted says nothing about what was found
    }
    names = getattr(model, "feature_names_in_", None)
    settings = {
        "parameters": encode(parameters, "parameters", arrays),
        "family": encode(fit.rule.family, "model/family", arrays),
        "feature_names": encode(names, "feature_names", arrays),
        "variant": fit.rule.variant.name,
        "corrected": fit.rule.corrected,
        "order": fit.rule.order,
        "n_features_in": int(model.n_features_in_),
        "n_clusters": int(model.n_clusters_),
        "converged": bool(fit.converged),
        "is_bound": bool(fit.is_bound),
    }
    numbers = {"alpha": fit.rule.alpha, "entropy": fit.sums.entropy, "rows": fit.sums.rows, "elbo": fit.elbo}
    settings |= {name: encode(value, name, arrays) for name, value in numbers.items()}
    return Contents(arrays, settings)


def _put_together(contents: Contents) -> Any:
    arrays, settings = contents.arrays, contents.settings
    try:
        decoded = {name: decode(value, arrays) for name, value in settings.items()}
        sums = Sums(
            arrays["sums/statistics"],
            float(decoded["entropy"]),
            arrays["sums/gram"],
            arrays["sums/log_zero"],
            float(decoded["rows"]),
        )
        variant = VARIANTS[decoded["variant"]]
        rule = Rule(decoded["family"], variant, float(decoded["alpha"]), bool(decoded["corrected"]), decoded["order"])
        labels, columns, shown = arrays["labels"], arrays["columns"], arrays["shown"]
        trace, d = arrays["trace"], int(decoded["n_features_in"])
        clusters, elbo = int(decoded["n_clusters"]), float(decoded["elbo"])
        flags = bool(decoded["is_bound"]), bool(decoded["converged"])
        parameters, names = decoded["parameters"], decoded["feature_names"]
    except (KeyError, TypeError) as error:
        raise ValueError(f"its settings are incomplete: {error}") from None
    _check(sums, rule, labels, columns, shown, clusters, d)
    try:
        model = DPMixtureVB(**parameters)
    except TypeError:
        raise ValueError("its parameters are not those of a DPMixtureVB of this version of dtree") from None
    model.n_features_in_, model.columns_ = d, columns
    if names is not None:
        if np.shape(names) != (d,):
            raise ValueError(f"it has {np.size(names)} feature names for {d} features")
        model.feature_names_in_ = names
    model._memory = None
    model._adopt(Fit(sums, rule, elbo, flags[0], trace.tolist(), flags[1]))
    model._present(shown)
    model.labels_, model.n_clusters_ = labels, clusters
    return model


def _check(
    sums: Sums, rule: Rule, labels: np.ndarray, columns: np.ndarray, shown: np.ndarray, clusters: int, d: int
) -> None:
    family, statistics = rule.family, sums.statistics
    if not isinstance(family, Family) or not rule.alpha > 0 or rule.order not in ("best", "size"):
        raise ValueError("its family, alpha or order of labels is not what it should be")
    if statistics.ndim != 2 or statistics.dtype != np.float64 or statistics.shape[0] < 2:
        raise ValueError("its statistics are not one row of numbers per component")
    size = statistics.shape[0]
    features = expectation_of(family)
    width = features.features(family, features.prepare(family, np.zeros((1, family.n_features)))).shape[1]
    expected = {
        "statistics": (size, width),
        "gram": (size, size) if rule.variant.collapsed else (0, 0),
        "log_zero": (size,) if rule.variant.collapsed and not rule.variant.sticks else (0,),
    }
    for name, shape in expected.items():
        values = getattr(sums, name)
        if values.dtype != np.float64 or values.shape != shape or not np.all(np.isfinite(values)):
            raise ValueError(f"its {name} must be finite numbers of shape {shape}")
    if not np.isclose(sums.counts.sum(), sums.rows, rtol=1e-6) or sums.counts.min() < 0:
        raise ValueError("its expected counts do not add up to its number of rows")
    if shown.dtype != np.int64 or not np.array_equal(np.sort(shown), np.arange(size)):
        raise ValueError("its order of components is not one")
    if labels.dtype != np.int64 or labels.ndim != 1 or not np.array_equal(np.unique(labels), np.arange(clusters)):
        raise ValueError(f"its labels do not number {clusters} clusters")
    used = family.n_features
    if columns.dtype != np.int64 or columns.shape != (used,) or np.unique(columns).size != used or d < used:
        raise ValueError("its columns are not one per feature of the family")
    if columns.min() < 0 or columns.max() >= d:
        raise ValueError(f"its columns are not numbers below {d}")


register(KIND, Kind(write=_take_apart, read=_put_together))
