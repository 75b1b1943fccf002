"""Settings: one frozen record per method, which feeds the estimator's parameters, the command's options and the header.

    class Settings(MethodSettings, frozen=True):
        max_iter: Annotated[int, option("Most passes over the data.", ge=1)] = 50

`option` says in one place what the help of the command says and which values make sense; `checked` holds values against
it, with one sentence for a mistake.
"""

import types
import typing
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar, Union

import msgspec
import numpy as np

from dtree.core.families import AUTO as AUTO

Settings = TypeVar("Settings", bound=msgspec.Struct)


def option(help: str, *, ge: float | None = None, le: float | None = None, command: str | None = "") -> msgspec.Meta:
    """What a setting means, the values it may have, and its name on the command line (None: not there)."""
    return msgspec.Meta(description=help, extra_json_schema={"ge": ge, "le": le, "command": command})


# Settings that several methods have, each said once.
FAMILY = Annotated[
    Any,
    option(
        "What a cluster looks like: auto (gaussian for complete numbers, else mixed), gaussian, gaussian-diag, "
        "bernoulli, multinomial, poisson, categorical or mixed."
    ),
]
PRIOR = Annotated[Any, option("Prior over partitions: dp or nggp.")]
COARSENING = Annotated[
    float, option("Trust in the likelihood, above 0 and at most 1; less gives fewer, broader clusters.")
]
CUT = Annotated[float, option("Probability above which a node of the tree is one cluster.", ge=0.0, le=1.0)]


class Option(typing.NamedTuple):
    """A setting as the command line and the checks see it."""

    name: str
    type: Any  # without `Annotated` and `None`
    optional: bool
    default: Any
    help: str
    ge: float | None
    le: float | None
    command: str | None  # "" for the name itself
    choices: tuple[Any, ...]


@lru_cache  # reading the annotations takes milliseconds, longer than a small batch of rows
def options_of(settings: type[msgspec.Struct]) -> list[Option]:
    """The options of a record of settings, in order."""
    hints = typing.get_type_hints(settings, include_extras=True)
    found = []
    for field in msgspec.structs.fields(settings):
        hint, help = hints[field.name], ""
        meta: dict[str, Any] = {}
        if typing.get_origin(hint) is Annotated:
            hint, note = typing.get_args(hint)
            meta, help = note.extra_json_schema or {}, note.description or ""
        optional = typing.get_origin(hint) in (Union, types.UnionType) and type(None) in typing.get_args(hint)
        if optional:
            rest = [part for part in typing.get_args(hint) if part is not type(None)]
            hint = rest[0] if len(rest) == 1 else Any
        choices = typing.get_args(hint) if typing.get_origin(hint) is Literal else ()
        default = field.default if field.default is not msgspec.NODEFAULT else None
        limits = meta.get("ge"), meta.get("le")
        found.append(Option(field.name, hint, optional, default, help, *limits, meta.get("command"), choices))
    return found


def checked(settings: type[Settings], given: dict[str, Any]) -> Settings:
    """A record of settings, or one sentence (ValueError) about the first value that makes no sense.

    Values are converted where nothing is lost (NumPy's integers, whole floats).
    """
    values = {}
    for option in options_of(settings):
        if option.name not in given:
            continue
        value = given[option.name]
        values[option.name] = value if value is None and option.optional else _checked_value(option, value)
    unknown = set(given) - {option.name for option in options_of(settings)}
    if unknown:
        raise ValueError(f"there is no setting {min(unknown)!r}")
    record = settings(**values)
    if hasattr(record, "check"):
        record.check()
    return record


def _checked_value(option: Option, value: Any) -> Any:
    name = option.name
    if option.choices:
        if value not in option.choices:
            known = ", ".join(str(choice) for choice in option.choices)
            raise ValueError(f"unknown {name} {value!r}: choose one of {known}")
        return value
    if option.type in (int, float) and not isinstance(value, bool | np.bool_):
        if option.type is int and (not isinstance(value, int | np.integer | float) or value != int(value)):
            raise ValueError(f"{name} must be a whole number, got {value!r}")
        if not isinstance(value, int | float | np.integer | np.floating):
            raise ValueError(f"{name} must be a number, got {value!r}")
        value = option.type(value)
        if not (option.ge is None or value >= option.ge):
            raise ValueError(f"{name} must be at least {option.ge:g}, got {value}")
        if not (option.le is None or value <= option.le):
            raise ValueError(f"{name} must be at most {option.le:g}, got {value}")
        return value
    if option.type is bool:
        if not isinstance(value, bool | np.bool_ | int):
            raise ValueError(f"{name} must be True or False, got {value!r}")
        return bool(value)
    if option.type is tuple or typing.get_origin(option.type) is tuple:
        return tuple(value)
    return value
