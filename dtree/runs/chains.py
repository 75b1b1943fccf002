"""Saved chains: how a fitted `DPMixtureMCMC` is taken apart into arrays and put together again.

(Chains that stream to disk while they run are another layout, `dtree.engine.chain_folder`.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dtree.store.encode import decode, encode
from dtree.store.run import Contents, Kind, register

_NUMBERS = ("prior", "log_joint", "n_clusters", "seconds")


def _take_apart(model: Any) -> Contents:
    arrays: dict[str, np.ndarray] = {
        "statistics/atoms": model.atoms_,
        "statistics/columns": model.columns_,
        "labels": model.labels_,
        "chains/labels": model.partitions_,
    }
    for name in _NUMBERS:
        arrays[f"chains/{name}"] = np.stack([getattr(draws, name) for draws in model._draws])
    scalars = []
    for chain, checkpoint in enumerate(model.checkpoints_):
        for name, value in checkpoint.items():
            arrays[f"checkpoints/{chain}/{name}"] = value.view(np.int64) if value.dtype == np.uint64 else value
            scalars += [name] if value.ndim == 0 and chain == 0 else []
    parameters = {
        name: None if isinstance(value, np.random.RandomState | np.random.Generator) else value
        for name, value in model.get_params(deep=False).items()
        if name not in ("client", "out")  # a connection, and where another run lies
    }
    fitted = {
        "family_": model.family_,
        "prior_": model.prior_,
        "n_features_in_": model.n_features_in_,
        "feature_names_in_": getattr(model, "feature_names_in_", None),
        "row_names_": getattr(model, "row_names_", None),
        "seed": model._seed,
        "warmup": model._warmup,
        "scalars": scalars,
    }
    return Contents(
        arrays,
        {"parameters": encode(parameters, "parameters", arrays), "fitted": encode(fitted, "fitted", arrays)},
    )


def _put_together(contents: Contents) -> Any:
    from dtree.core.model import Model
    from dtree.engine.chain_estimator import DPMixtureMCMC
    from dtree.mcmc.run import Draws

    arrays = contents.arrays
    parameters = decode(contents.settings.get("parameters"), arrays)
    fitted = decode(contents.settings.get("fitted"), arrays)
    if not isinstance(parameters, dict) or not isinstance(fitted, dict):
        raise ValueError("its settings are incomplete")
    _check(arrays, fitted)
    try:
        model = DPMixtureMCMC(**parameters)
        model._check_settings()
        model._start_from(Model(fitted["family_"], fitted["prior_"], model.coarsening), arrays["statistics/atoms"])
    except TypeError:
        raise ValueError("its parameters are not those of a DPMixtureMCMC of this dtree") from None
    chains = arrays["chains/labels"].shape[0]
    model._seed, model._warmup = fitted["seed"], fitted["warmup"]
    model.n_features_in_, model.columns_ = fitted["n_features_in_"], arrays["statistics/columns"]
    for name in ("feature_names_in_", "row_names_"):
        if fitted.get(name) is not None:
            setattr(model, name, np.asarray(fitted[name], dtype=object))
    results = []
    for chain in range(chains):
        draws = Draws(arrays["chains/labels"][chain], *(arrays[f"chains/{name}"][chain] for name in _NUMBERS))
        results.append((draws, _checkpoint(arrays, chain, fitted["scalars"])))
    model._finish(results)
    model.labels_ = arrays["labels"]  # rows of weight 0 are among them
    return model


def _checkpoint(arrays: Mapping[str, np.ndarray], chain: int, scalars: list[str]) -> dict[str, np.ndarray]:
    start = f"checkpoints/{chain}/"
    found = {name.removeprefix(start): value for name, value in arrays.items() if name.startswith(start)}
    if not {"generator", "sweep", "state_labels", "state_prior"} <= set(found):
        raise ValueError(f"chain {chain} has no complete checkpoint")
    found = {name: value.reshape(()) if name in scalars and value.size == 1 else value for name, value in found.items()}
    return {**found, "generator": found["generator"].view(np.uint64)}


def _check(arrays: Mapping[str, np.ndarray], fitted: Mapping[str, Any]) -> None:
    from dtree.core.families import Family
    from dtree.core.priors import Prior

    wanted = {"statistics/atoms", "statistics/columns", "labels", "chains/labels", *(f"chains/{n}" for n in _NUMBERS)}
    if not wanted <= set(arrays):
        raise ValueError(f"the array '{sorted(wanted - set(arrays))[0]}' is missing")
    expected = {"family_": Family, "prior_": Prior, "n_features_in_": int, "seed": int, "warmup": int, "scalars": list}
    for name, kind in expected.items():
        if not isinstance(fitted.get(name), kind):
            raise ValueError(f"its {name} is missing or not what it should be")
    atoms, partitions, family = arrays["statistics/atoms"], arrays["chains/labels"], fitted["family_"]
    width = family.statistics(np.zeros((1, family.n_features))).shape[1]
    if atoms.ndim != 2 or atoms.shape[1] != width or not np.all(np.isfinite(atoms)):
        raise ValueError(f"its statistics must be finite rows of {width} numbers")
    if partitions.ndim != 3 or partitions.shape[2] != atoms.shape[0] or 0 in partitions.shape:
        raise ValueError("its partitions are not labels by chain, draw and leaf")
    if partitions.dtype.kind not in "iu" or partitions.min() < 0 or partitions.max() >= atoms.shape[0]:
        raise ValueError("its partitions hold impossible labels")
    shape = partitions.shape[:2]
    if arrays["chains/prior"].shape != (*shape, len(fitted["prior_"].parameters())):
        raise ValueError("its draws of the prior's parameters do not fit its prior")
    for name in _NUMBERS[1:]:
        if arrays[f"chains/{name}"].shape != shape:
            raise ValueError(f"its draws of {name} are not one per partition")
    columns = arrays["statistics/columns"]
    if columns.shape != (family.n_features,) or columns.min() < 0 or columns.max() >= fitted["n_features_in_"]:
        raise ValueError("its columns are not one per feature of the family")


register("chains", Kind(write=_take_apart, read=_put_together))
