"""What every column of a table is for: a feature and of which kind, the labels, the names of the rows, or nothing."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dtree.core.columns import KINDS, Column
from dtree.core.names import require_distinct
from dtree.data.cells import cells_of
from dtree.data.coding import coded
from dtree.data.columns import column_index, left_out
from dtree.data.kinds import SKIP, Around, LeftOut, decided
from dtree.data.sentences import listed
from dtree.data.source import Choice
from dtree.data.summary import Summary

ROW_NAME_COLUMNS = {"", "id", "name", "names", "row", "row_name", "row_names", "unnamed: 0"}
NAMES_ROWS = "it names the rows"


class Understood(NamedTuple):
    """The columns of a table by what they are for; features, labels and row_names are places.

    is_coded : whether reading the features takes more than taking their numbers as they stand.
    """

    features: list[int]
    labels: int | None
    row_names: int | None
    kinds: tuple[Column, ...]
    left_out: tuple[tuple[str, str], ...]
    is_coded: bool


class Table(NamedTuple):
    """A table that is to be understood. summary(place) -> what is in a column, looked at when it is asked for.

    first_line : of a text file, where its first row stands; 0 for anything else.
    """

    names: Sequence[str]
    summary: Callable[[int], Summary]
    what: str
    first_line: int = 0
    has_header: bool = True


def as_choice(columns: Mapping[Any, str] | None) -> tuple[tuple[str, str], ...]:
    """What was said about columns, checked: `{"zip": "category", "id": "skip"}`."""
    if columns is None:
        return ()
    if not isinstance(columns, Mapping):
        raise ValueError(f"columns must say what columns are, such as {{'zip': 'category'}}, not {columns!r:.60}")
    for name, kind in columns.items():
        if kind not in (*KINDS, SKIP):
            raise ValueError(
                f"the column '{name}' cannot be taken as {kind!r}: the kinds are {', '.join(KINDS)}, and {SKIP} to "
                "leave it out"
            )
    return tuple((str(name), kind) for name, kind in columns.items())


def understood(table: Table, choice: Choice) -> Understood:
    """What the columns of a table are for, by what they hold or by what is `known` from a fit.

    Rows are named by a text column called id or name, else by a first text column that differs in every row, else by a
    first column without a name, which is the index that pandas writes unless told otherwise, and has no gaps.
    """
    names, what = table.names, table.what
    require_distinct([name for name in names if name.strip()], what)
    labels = None if choice.labels_column is None else column_index(names, choice.labels_column, what)
    unwanted = left_out(names, choice.leave_out, by_number=not table.has_header)
    unwanted |= set() if labels is None else {labels}
    if choice.known:
        features = _places_of(choice.known, table, unwanted)
        others = [place for place in range(len(names)) if place not in {*features, *unwanted}]
        row_names = _row_names(table, others, least=1)
        return Understood(features, labels, row_names, choice.known, (), True)
    said = {column_index(names, name, what): kind for name, kind in choice.columns}
    left = [place for place in range(len(names)) if place not in unwanted]
    row_names = _row_names(table, [place for place in left if place not in said], least=2)
    kinds, reasons = _kinds(table, [place for place in left if place != row_names], said)
    if row_names is not None:
        reasons = {row_names: NAMES_ROWS, **reasons}
    if not kinds and reasons and set(reasons) != {row_names}:
        why = "; ".join(f"'{names[place]}': {reason}" for place, reason in list(reasons.items())[:5])
        raise ValueError(f"{what} has no column to cluster by: all were left out ({why})")
    features = list(kinds)
    found = [table.summary(place) for place in features]
    is_coded = any(one.missing or not one.forms <= {"number", "truth"} for one in found)
    is_coded = is_coded or bool(set(reasons) - {row_names}) or any(kind.kind == "category" for kind in kinds.values())
    told = tuple((str(names[place]), reason) for place, reason in reasons.items())
    return Understood(features, labels, row_names, tuple(kinds.values()), told, is_coded)


def _row_names(table: Table, candidates: list[int], least: int) -> int | None:
    """The place of the column that names the rows, or None; a first one only where there are at least so many."""
    called = [place for place in candidates if table.names[place].strip().lower() in ROW_NAME_COLUMNS]
    for place in called:
        if table.summary(place).is_words:
            return place
    if len(candidates) < least:
        return None
    first = candidates[0]
    found = table.summary(first)
    if table.names[first].strip().lower() in ("", "unnamed: 0") and not found.missing:
        return first
    words = found.is_words and not found.declared and not found.missing
    return first if words and found.all_different and found.n_nearly <= found.present / 2 else None


def _kinds(table: Table, places: list[int], said: dict[int, str]) -> tuple[dict[int, Column], dict[int, str]]:
    """Kinds of the features and reasons why others are none, both by place."""
    found = {place: table.summary(place) for place in places}
    kept = [one for place, one in found.items() if said.get(place) != SKIP]
    plain = not said and all(one.forms <= {"number", "truth"} and not one.missing for one in kept)
    has_words = any(one.is_words for one in kept)
    around = Around(table.what, table.first_line, plain, has_words)
    kinds, reasons = {}, {}
    for place in places:
        answer = decided(str(table.names[place]), found[place], said.get(place), around)
        if isinstance(answer, LeftOut):
            reasons[place] = answer.reason
        else:
            kinds[place] = answer
    return kinds, reasons


def _places_of(known: Sequence[Column], table: Table, unwanted: set[int]) -> list[int]:
    """Where the columns that a fit knows stand in a table: by name; where columns have only numbers, as many."""
    names = list(table.names)
    if table.has_header:
        missing = [column.name for column in known if column.name not in names]
        if missing:
            raise ValueError(f"{table.what}: the rows lack features that the run was fitted on: {listed(missing)}")
        return [names.index(column.name) for column in known]
    left = [place for place in range(len(names)) if place not in unwanted]
    by_number = [names.index(column.name) for column in known if column.name in names]
    for places in (left, by_number, list(range(len(names)))):  # with a column of labels, with others left out, without
        if len(places) == len(known):
            return places
    raise ValueError(f"{table.what}: the rows have {len(left)} columns but the run was fitted on {len(known)}")


def coded_frame(frame: Any, kinds: Sequence[Column], what: str, first_line: int = 0, done: int = 0) -> np.ndarray:
    """The columns of a pandas frame, in the order of their kinds, as float64 (n, d); `done` rows stand before it."""
    rows = np.empty((len(frame), len(kinds)))
    around = Around(what, first_line, plain=False, has_words=True)
    for place, kind in enumerate(kinds):
        rows[:, place] = coded(cells_of(frame.iloc[:, place], first_line > 0), kind, around, done)
    return rows
