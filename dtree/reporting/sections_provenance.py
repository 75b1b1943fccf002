"""Where the page comes from: the model, its settings, the data, the versions, the time it took."""

from typing import Any

from markupsafe import Markup

from dtree.reporting.markup import Section, details, facts
from dtree.reporting.subject import Subject
from dtree.runs.header import versions_here

_LONGEST = 400  # characters of a value that are shown


def provenance_section(subject: Subject) -> Section:
    """Everything needed to do it again."""
    pairs: list[tuple[str, Any]] = [("method", subject.facts.title)]
    model = subject.facts.model
    if model is not None:
        for words, part in (("family", model.family), ("prior", model.prior)):
            pairs.append((words, Markup("<code>{}</code>").format(_text(repr(part)))))
    pairs += [(name, _text(value)) for name, value in subject.origin.items() if value not in (None, "")]
    here = ", ".join(f"{name} {value}" for name, value in versions_here().items())
    html = facts([*pairs, ("page made with", here)])
    if subject.settings:
        html += details("All settings", facts([(name, _text(value)) for name, value in subject.settings.items()]))
    return Section("provenance", "Where this comes from", html)


def _text(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " …"
