"""Where the page comes from: the model, its settings, the data, the versions, the time it took."""

from __future__ import annotations

import json
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
    pairs += [(name.replace("_", " "), _text(value)) for name, value in notes.items() if name != "versions"]
    seconds = _seconds(model)
    if seconds is not None and "seconds" not in notes:
        pairs.append(("seconds", f"{seconds:.2f}"))
    found = notes["versions"] if isinstance(notes.get("versions"), dict) else versions()
    pairs.append(("versions" if "versions" in notes else "versions of this page", ", ".join(f"{name} {value}" for name, value in found.items())))  # fmt: skip
    html = facts(pairs)
    if hasattr(model, "get_params"):
        settings = [(name, _text(value)) for name, value in sorted(model.get_params(deep=False).items())]
        html += details("All settings", facts(settings))
    return Section("provenance", "Where this comes from", html)


def _seconds(model: Any) -> float | None:
    """Time in passes or sweeps, where the model remembers it."""
    passes = getattr(model, "trace_", None)
    if passes and hasattr(passes[0], "seconds"):
        return float(sum(step.seconds for step in passes))
    draws = getattr(model, "_draws", None)
    if draws and all(hasattr(chain, "seconds") and chain.seconds.size for chain in draws):
        return float(sum(chain.seconds[-1] for chain in draws))
    return None


def _text(value: Any) -> str:
    if isinstance(value, str):
        text = value
    elif isinstance(value, np.ndarray):
        text = f"array of shape {value.shape}"
    elif isinstance(value, list | dict | tuple):
        text = json.dumps(value, default=str)
    else:
        text = str(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " …"
