"""Where the page comes from: the model, its settings, the data, the versions, the time it took."""

from typing import Any

from markupsafe import Markup

from dtree.core.columns import share, values_of
from dtree.reporting.markup import Section, details, facts, table
from dtree.reporting.subject import Subject
from dtree.runs.header import versions_here

_MOST_COLUMNS = 200  # of a table that are shown
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
    html += columns_table(subject)
    if subject.settings:
        html += details("All settings", facts([(name, _text(value)) for name, value in subject.settings.items()]))
    return Section("provenance", "Where this comes from", html)


def columns_table(subject: Subject) -> Markup:
    """What the columns of a table were taken for and why, those left out last; nothing for an array of numbers."""
    rows: list[tuple[str, ...]] = [
        (column.name, column.kind, values_of(column), share(column.missing), column.reason) for column in subject.kinds
    ]
    rows += [(name, "left out", "", "", reason) for name, reason in subject.left_out]
    if not rows:
        return Markup("")
    more = "" if len(rows) <= _MOST_COLUMNS else f"; {len(rows) - _MOST_COLUMNS} more are not shown"
    shown = [[_text(cell) for cell in row] for row in rows[:_MOST_COLUMNS]]
    return table(["column", "kind", "values", "missing", "why"], shown, f"What the columns were taken for{more}")


def _text(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " …"
