"""Records as JSON and named arrays, and back; nothing is pickled.

A record is a `msgspec.Struct` or a NamedTuple whose fields are typed: settings, the state of a method, a fitted model.
`encode` turns one into JSON, numbers so that they read back bit for bit; arrays leave the JSON and go to the run's
arrays. `restore` reads it back into the same type and checks every field against the type's declaration. Besides plain
values the language knows families, priors, models and trees; its own words start with a dollar sign:

    {"$family": "gaussian", "parameters": {...}}   {"$prior": "dp", "parameters": {...}}
    {"$model": [family, prior, coarsening]}        {"$tree": "tree"}        {"$array": "labels"}
"""

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
import numpy as np

from dtree.core.families import RECORDED, Family
from dtree.core.model import Model
from dtree.core.priors import PRIORS, Prior
from dtree.core.tree import Tree

_MODEL_PARTS = ("family", "prior", "coarsening")
_TREE_COLUMNS = ("left", "right", "size", "log_phi_h", "log_phi_t")
_DEEPEST = 20  # records are at most a handful deep; more is damage or malice

Record = TypeVar("Record")


def encode(value: Any, place: str, arrays: dict[str, np.ndarray]) -> Any:
    """`value` as JSON; its arrays are added to `arrays` under names that start with `place`.

    >>> arrays = {}
    >>> encode({"alpha": 1.5, "mean": np.zeros(2)}, "model", arrays)
    {'alpha': 1.5, 'mean': {'$array': 'model/mean'}}
    >>> list(arrays)
    ['model/mean']
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, np.bool_ | np.integer):
        return value.item()
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else {"$float": str(float(value))}
    if isinstance(value, Family):
        return {"$family": value.name, "parameters": encode(value.parameters(), place, arrays)}
    if isinstance(value, Prior):
        return {"$prior": value.name, "parameters": encode(value.parameters(), place, arrays)}
    if isinstance(value, Model):
        return {"$model": [encode(getattr(value, part), f"{place}/{part}", arrays) for part in _MODEL_PARTS]}
    if isinstance(value, msgspec.Struct):
        return {name: encode(getattr(value, name), _join(place, name), arrays) for name in value.__struct_fields__}
    if isinstance(value, Tree):
        for column in _TREE_COLUMNS:
            arrays[f"{place}/{column}"] = getattr(value, column)
        return {"$tree": place}
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "OUST" and value.ndim == 1 and all(isinstance(item, str) for item in value.tolist()):
            return {"$names": value.tolist()}
        arrays[place] = value
        kind = "bool" if value.dtype.kind == "b" else "scalar" if value.ndim == 0 else None  # stored otherwise
        return {"$array": place} if kind is None else {"$array": place, "$as": kind}
    if isinstance(value, Mapping):
        if any(str(key).startswith("$") for key in value):
            raise ValueError(f"a run cannot hold {place}: keys that start with $ are taken")
        return {str(key): encode(item, _join(place, str(key)), arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        names = getattr(value, "_fields", range(len(value)))
        return {"$list": [encode(item, _join(place, str(name)), arrays) for name, item in zip(names, value)]}
    raise ValueError(f"a run cannot hold {place}: it is a {type(value).__name__}")


def _join(place: str, name: str) -> str:
    return f"{place}/{name}" if place else name


def restore(kind: type[Record], stored: Any, arrays: Mapping[str, np.ndarray]) -> Record:
    """The record of type `kind` that `encode` was given; one sentence unless every field is what the type declares.

    >>> class Point(msgspec.Struct):
    ...     name: str
    ...     place: np.ndarray
    >>> arrays = {}
    >>> stored = encode(Point("home", np.ones(2)), "", arrays)
    >>> restore(Point, stored, arrays)
    Point(name='home', place=array([1., 1.]))
    """
    try:
        return msgspec.convert(decode(stored, arrays), kind, dec_hook=_already, str_keys=True)
    except msgspec.ValidationError as error:
        raise ValueError(f"the run is damaged: {_in_words(str(error))}") from None


def _already(kind: type, value: Any) -> Any:
    """Arrays, families and trees have been made by `decode`; here only their type is asked for."""
    if not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
    return value


def _in_words(problem: str) -> str:
    """msgspec's `Expected `int`, got `str` - at `$.seed`` as part of a sentence."""
    reason, _, place = problem.replace("`", "'").partition(" - at ")
    return f"{reason} in {place.strip(chr(39)).removeprefix('$.')}" if place else reason


def decode(stored: Any, arrays: Mapping[str, np.ndarray], depth: int = 0) -> Any:
    """The value that `encode` was given."""
    if depth > _DEEPEST:
        raise ValueError("the run is damaged: its settings are nested too deeply")
    if not isinstance(stored, dict):
        if isinstance(stored, list):
            raise ValueError("the run is damaged: a bare list among its settings")
        return stored
    if "$family" in stored:
        return _build("family", RECORDED, stored, arrays, depth)
    if "$prior" in stored:
        return _build("prior", PRIORS, stored, arrays, depth)
    keys = set(stored)
    if keys == {"$float"}:
        return _float(stored["$float"])
    if keys == {"$model"} and isinstance(stored["$model"], list) and len(stored["$model"]) == len(_MODEL_PARTS):
        family, prior, coarsening = (decode(part, arrays, depth + 1) for part in stored["$model"])
        if not isinstance(family, Family) or not isinstance(prior, Prior) or not isinstance(coarsening, int | float):
            raise ValueError("the run is damaged: its model is not a family, a prior and a coarsening")
        return Model(family, prior, coarsening)
    if keys == {"$tree"}:
        return _tree(stored["$tree"], arrays)
    if keys in ({"$array"}, {"$array", "$as"}):
        values = _array(stored["$array"], arrays)
        kind = stored.get("$as")
        return values.astype(np.bool_) if kind == "bool" else values.reshape(()) if kind == "scalar" else values
    if keys == {"$names"}:
        return _names(stored["$names"])
    if keys == {"$list"} and isinstance(stored["$list"], list):
        return [decode(item, arrays, depth + 1) for item in stored["$list"]]
    if any(key.startswith("$") for key in stored):
        raise ValueError(f"the run is damaged: its settings hold an unknown {str(sorted(stored))[:80]}")
    return {key: decode(item, arrays, depth + 1) for key, item in stored.items()}


def _build(what: str, registry: Mapping[str, Any], stored: dict[str, Any], arrays: Mapping, depth: int) -> Any:
    name = stored[f"${what}"]
    if not isinstance(name, str) or name not in registry:
        raise ValueError(f"the run uses the {what} '{str(name)[:40]}', which this dtree does not know; it may be newer")
    parameters = decode(stored.get("parameters"), arrays, depth + 1)
    if not isinstance(parameters, dict):
        raise ValueError(f"the run is damaged: the parameters of its {what} are missing")
    try:
        return registry[name](**parameters)
    except (TypeError, ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        raise ValueError(f"the run is damaged: its {what} '{name}' cannot be made again: {error}") from None


def _tree(place: Any, arrays: Mapping[str, np.ndarray]) -> Tree:
    columns = {column: _array(f"{place}/{column}", arrays) for column in _TREE_COLUMNS}
    kinds = {"left": "i", "right": "i", "size": "i", "log_phi_h": "f", "log_phi_t": "f"}
    if any(values.ndim != 1 or values.dtype.kind != kinds[column] for column, values in columns.items()):
        raise ValueError("the run is damaged: the columns of its tree have the wrong shape or type")
    tree = Tree(**columns)
    tree.validate()
    return tree


def _array(name: Any, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    if not isinstance(name, str) or name not in arrays:
        raise ValueError(f"the run is damaged: it has no array '{str(name)[:80]}'")
    return arrays[name]


def _names(names: Any) -> np.ndarray:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("the run is damaged: a list of names holds something else")
    return np.array(names, dtype=object)


def _float(text: Any) -> float:
    if text not in ("nan", "inf", "-inf"):
        raise ValueError("the run is damaged: a number is not a number")
    return float(text)
