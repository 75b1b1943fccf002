"""Records of today from what a finished run of dtree 0.1 says (see `dtree.runs.older`), a function for each kind."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from dtree.core.model import Model
from dtree.core.tree import Tree
from dtree.kmeans.passes import Progress
from dtree.mcmc.run import Draws
from dtree.methods import bayes_kmeans, bhc, chains, randomized, variational
from dtree.methods.chain_records import Fitted
from dtree.methods.contract import seed_of
from dtree.methods.settings import checked
from dtree.variational.mixture import Mixture

_NO_LEAF = -1
_MOST_LEVELS = 200  # of a tree that version 0.1 grew from the top down

Values = Mapping[str, Any]
Arrays = Mapping[str, np.ndarray]


class NotKept(Exception):
    """Version 0.1 did not keep what a run of today needs."""


class Converted(NamedTuple):
    """What a run of today is written from."""

    method: str
    settings: msgspec.Struct
    fitted: Any
    rows: dict[str, np.ndarray]  # results for every row
    seed: dict[str, int | None]  # the fields `seed` and `random_state` of the header
    features: dict[str, Any]  # the fields `n_features` and, where they are known, `feature_names`


def converted(kind: str, values: Values, arrays: Arrays) -> Converted:
    """The records of a run of a kind of version 0.1; ValueError unless its parts fit together."""
    return _KINDS[kind](values, arrays)


def _bhc(values: Values, arrays: Arrays) -> Converted:
    parameters, found = values["parameters"], values["fitted"]
    settings = _known(bhc.Settings, parameters)
    tree, labels = found["tree_"], found["labels_"]
    model = Model(found["family_"], found["prior_"], settings.coarsening)
    trace = [float(bound) for bound in found["bound_trace_"]]
    fitted = bhc.Fitted(found["columns_"], model, found["atoms_"], tree, settings.cut, trace)
    rows, leaf_clusters = {"labels": labels}, tree.cut(settings.cut)
    if labels.shape == leaf_clusters.shape:
        _require(np.array_equal(labels, leaf_clusters), "its labels do not follow from its tree")
    else:  # rows of weight 0 are no leaves, and which ones they were was not kept
        _require(labels.max() <= leaf_clusters.max(), "its labels do not follow from its tree")
        rows["leaves"] = np.full(labels.shape[0], _NO_LEAF)
    features = {"n_features": found["n_features_in_"], "feature_names": _names(found.get("feature_names_in_"))}
    return Converted("bhc", settings, fitted, rows, _seed(parameters.get("random_state")), features)


def _clusters(values: Values, arrays: Arrays) -> Converted:
    """Bayes K-means in passes with and without a tree, and trees from the top down."""
    model, said = values["model"], values["settings"]
    settings = {"family": model.family, "prior": model.prior, "coarsening": model.coarsening}
    tree, method, last = None, "bayes-kmeans", int(said["max_passes"])
    kind: type[msgspec.Struct] = bayes_kmeans.Settings
    if values["tree_wanted"]:
        tree = Tree(**{name: arrays[f"tree/{name}"] for name in ("left", "right", "size", "log_phi_h", "log_phi_t")})
        tree.validate()
        settings["cut"], method, kind = values["threshold"], "bayes-kmeans-bhc", bayes_kmeans.TreeSettings
    if values["method"] == "randomized":
        method, last, kind = "randomized", _MOST_LEVELS, randomized.Settings
        settings["subset"] = values["subset"]
    else:
        settings |= {"max_iter": last, "patience": said["patience"], "tol": said["tolerance"]}
    columns = [arrays[f"trace/{name}"].tolist() for name in Progress._fields]
    trace = [Progress(*step) for step in zip(*columns, strict=True)]
    clusters, leaf_clusters, leaves = (
        arrays[name] for name in ("statistics/clusters", "statistics/leaf_clusters", "leaves")
    )
    k = clusters.shape[0]
    _require(0 <= leaves.min() <= leaves.max() < k, "its leaves are not clusters")
    counted = np.array_equal(np.bincount(leaves, minlength=k), np.rint(model.counts(clusters)))
    _require(counted, "its leaves do not add up to its statistics")
    _require(np.array_equal(leaf_clusters[leaves], arrays["labels"]), "its labels do not follow from its leaves")
    fitted = bayes_kmeans.Fitted(
        np.arange(values["n_features"]), model, clusters, leaf_clusters, tree, values["log_joint"],
        values["best_pass"], trace, len(trace) < last or trace[-1].moved == 0,
    )  # fmt: skip
    rows = {name: arrays[name] for name in ("labels", "leaves")}
    seed = {"seed": int(said["seed"]), "random_state": None}
    return Converted(method, checked(kind, settings), fitted, rows, seed, {"n_features": values["n_features"]})


def _saved_mixture(values: Values, arrays: Arrays) -> Converted:
    mixture = _mixture(values, arrays, values["family"], float(values["alpha"]))
    trace = arrays["trace"]
    fitted = variational.Fitted(
        arrays["columns"], mixture, arrays["shown"], values["n_clusters"], trace, max(1, trace.shape[0] - 1), [],
        values["is_bound"], values["converged"], bool(values["parameters"]["learn_alpha"]),
    )  # fmt: skip
    features = {"n_features": values["n_features_in"], "feature_names": _names(values["feature_names"])}
    return _converted_mixture(values["parameters"], fitted, arrays["labels"], features)


def _mixture_of_passes(values: Values, arrays: Arrays) -> Converted:
    said, sums, family = values["settings"], values["sums"], values["model"].family
    rule = {"variant": said["variant"], "corrected": said["expectation"] != "taylor", "order": said["order"]}
    mixture = _mixture({**rule, **sums}, arrays, family, float(sums["alpha"]))
    steps = [variational.PassStep(*step) for step in sums["trace"]]
    shown = np.asarray(values["shown"], dtype=np.int64)
    fitted = variational.Fitted(
        np.asarray(values["columns"], dtype=np.int64), mixture, shown, values["n_clusters"],
        np.array([step.elbo for step in steps]), max(1, len(steps)), steps, sums["is_bound"], values["converged"],
        bool(said["learn_alpha"]),
    )  # fmt: skip
    parameters = {**said, "family": family}
    return _converted_mixture(parameters, fitted, arrays["labels"], {"n_features": values["n_features"]})


def _mixture(rule: Values, arrays: Arrays, family: Any, alpha: float) -> Mixture:
    return Mixture(
        family, rule["variant"], alpha, bool(rule["corrected"]), rule["order"], arrays["sums/statistics"],
        arrays["sums/gram"], arrays["sums/log_zero"], float(rule["entropy"]), float(rule["rows"]),
    )  # fmt: skip


def _converted_mixture(parameters: Values, fitted: Any, labels: np.ndarray, features: dict[str, Any]) -> Converted:
    numbered = np.array_equal(np.unique(labels), np.arange(fitted.n_clusters))
    _require(numbered, f"its labels do not number {fitted.n_clusters} clusters")
    settings, seed = _known(variational.Settings, parameters), _seed(parameters["random_state"])
    return Converted("vb", settings, fitted, {"labels": labels}, seed, features)


def _chains(values: Values, arrays: Arrays) -> Converted:
    said, found = values["parameters"], values["fitted"]
    draws = Draws(**{name: arrays[f"chains/{name}"] for name in Draws._fields})
    n_chains, n_draws, m = draws.labels.shape
    labels, atoms = arrays["labels"], arrays["statistics/atoms"]
    if labels.shape[0] > m:
        raise NotKept("has rows of weight 0, and which ones they were was not kept")
    _require(labels.shape[0] == m, "its labels are not one for each of its leaves")
    parameters = {**said, "chains": n_chains, "draws": n_draws, "warmup": found["warmup"]}
    settings = _known(chains.Settings, parameters)
    stops = [_checkpoint(arrays, chain, found["scalars"]) for chain in range(n_chains)]
    fitted = Fitted(
        arrays["statistics/columns"], Model(found["family_"], found["prior_"], settings.coarsening), settings.sampler,
        atoms, draws, stops, labels, found["warmup"],
    )  # fmt: skip
    features = {"n_features": found["n_features_in_"]}
    names = {"feature_names": found.get("feature_names_in_"), "row_names": found.get("row_names_")}
    features |= {name: _names(values) for name, values in names.items() if values is not None}
    seed = {**_seed(said.get("random_state")), "seed": found["seed"]}
    return Converted("chains", settings, fitted, {"labels": labels, "leaves": np.arange(m)}, seed, features)


def _checkpoint(arrays: Arrays, chain: int, scalars: list[str]) -> dict[str, np.ndarray]:
    """Where a chain stopped; numbers came back as arrays of one."""
    start = f"checkpoints/{chain}/"
    found = {name.removeprefix(start): value for name, value in arrays.items() if name.startswith(start)}
    found = {name: value.reshape(()) if name in scalars else value for name, value in found.items()}
    _require("generator" in found, f"chain {chain} has no complete checkpoint")
    return {**found, "generator": found["generator"].view(np.uint64)}


_KINDS: dict[str, Callable[[Values, Arrays], Converted]] = {
    "bhc": _bhc,
    "chains": _chains,
    "bayes-kmeans": _clusters,
    "randomized": _clusters,
    "dp-mixture-vb": _saved_mixture,
    "variational": _mixture_of_passes,
}


def _known(kind: Any, parameters: Values) -> Any:
    """The settings among the parameters of an estimator of version 0.1."""
    return checked(kind, {name: parameters[name] for name in kind.__struct_fields__ if name in parameters})


def _seed(random_state: Any) -> dict[str, int | None]:
    number = random_state if isinstance(random_state, int) else None
    return {"seed": 0 if number is None else seed_of(number), "random_state": number}  # what was drawn was not kept


def _names(found: Any) -> list[str] | None:
    return None if found is None else [str(name) for name in found]


def _require(holds: bool | np.bool_, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)
