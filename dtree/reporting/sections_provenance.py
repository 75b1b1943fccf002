"""Where the page comes from: the model, its settings, the data, the versions, the time it took."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup

from dtree.reporting.markup import Section, details, facts
from dtree.reporting.subject import Subject

_NOT_SHOWN = {"row_names", "feature_names", "settings", "shapes"}
_LONGEST = 400


def provenance_section(subject: Subject) -> Section:
    """Everything needed to do it again."""
    model = subject.model
    from dtree.store.run import versions

    pairs: list[tuple[str, Any]] = [("method", subject.method)]
    for name, words in (("family_", "family"), ("prior_", "prior")):
        if hasattr(model, name):
            pairs.append((words, Markup("<code>{}</code>").format(_text(repr(getattr(model, name))))))
    notes = {name: value for name, value in subject.notes.items() if name not in _NOT_SHOWN and value is not None}
    made_with = dict(notes.pop("versions", None) or {})
    here = versions()
    made_with |= {name: notes.pop(name) for name in here if name in notes}
    if isinstance(notes.get("data_shape"), list):
        notes["data_shape"] = " × ".join(f"{size:,}" for size in notes["data_shape"])
    pairs += [(name.replace("_", " "), _text(value)) for name, value in notes.items()]
    seconds = _seconds(model)
    if seconds is not None and "seconds" not in notes:
        pairs.append(seconds)
    if made_with:
        pairs.append(("fitted with", _listed(made_with)))
    pairs.append(("page made with", _listed(here)))
    html = facts(pairs)
    if hasattr(model, "get_params"):
        settings = [(name, _text(value)) for name, value in sorted(model.get_params(deep=False).items())]
        html += details("All settings", facts(settings))
    return Section("provenance", "Where this comes from", html)


def _listed(found: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in found.items())


def _seconds(model: Any) -> tuple[str, str] | None:
    """Time in passes or sweeps, where the model remembers it."""
    passes = getattr(model, "trace_", None)
    if passes and hasattr(passes[0], "seconds"):
        return "seconds in passes", f"{sum(step.seconds for step in passes):.2f}"
    draws = getattr(model, "_draws", None)
    if draws and all(hasattr(chain, "seconds") and chain.seconds.size for chain in draws):
        # The clock of a chain starts again whenever the chain is carried on.
        stops = [np.append(chain.seconds[:-1][np.diff(chain.seconds) < 0], chain.seconds[-1]) for chain in draws]
        return "seconds of sampling, at least", f"{sum(float(stop.sum()) for stop in stops):.2f}"
    return None


def _text(value: Any) -> str:
    if isinstance(value, str):
        text = value
    elif isinstance(value, np.ndarray):
        text = f"array of shape {value.shape}"
    elif isinstance(value, dict):
        text = ", ".join(
            f"{str(name).replace('_', ' ')} {_text(each)}" for name, each in value.items() if each is not None
        )
    elif isinstance(value, list | tuple):
        text = json.dumps(value, default=str)
    else:
        text = str(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " …"
