"""Which columns of an array are features, and which one holds labels; `tables` does it for columns with kinds."""

from collections.abc import Sequence
from dataclasses import replace

from dtree.data.kinds import SKIP
from dtree.data.sentences import listed
from dtree.data.source import Choice, Source


def column_index(names: Sequence[str], wanted: str, what: str) -> int:
    """Where the column called `wanted` stands; a number counts from 0, or from the end when negative."""
    if wanted in names:
        return list(names).index(wanted)
    if wanted.lstrip("-").isdigit() and -len(names) <= int(wanted) < len(names):
        return int(wanted) % len(names)
    raise ValueError(f"{what} has no column '{wanted}'; it has {listed(names)}")


def with_names(source: Source, names: Sequence[str] | None) -> Source:
    """The source with the names of its features, unless they are none, too few or not distinct."""
    proper = names is not None and len(names) == len(set(names)) == source.shape[1]
    return replace(source, columns=tuple(names or ())) if proper else source


def features_only(source: Source, choice: Choice, what: str) -> Source:
    """The source without the columns that are not features; it remembers where its labels are."""
    names = list(source.columns) or [str(column) for column in range(source.shape[1])]
    for name, kind in choice.columns:
        if kind != SKIP:
            raise ValueError(
                f"{what} is an array of numbers, whose columns have no kinds: take '{name}' as {kind} in a table (a "
                ".csv or .parquet file, or a data frame)"
            )
    skipped = {column_index(names, name, what) for name, _ in choice.columns}
    unwanted = skipped | left_out(names, choice.leave_out, by_number=not source.columns)
    by_number = bool(unwanted) and not source.columns
    if choice.labels_column is not None:
        labels = column_index(names, choice.labels_column, what)
        source = replace(source, beside=source.beside._replace(labels=labels))
        unwanted.add(labels)
    if len(unwanted) == len(names):
        raise ValueError(f"{what} is empty: it holds {source.shape[0]} rows of 0 features besides what was left out")
    if not unwanted:
        return source
    features = source.pick([column for column in range(len(names)) if column not in unwanted])
    return replace(features, wider=source) if by_number else features


def left_out(names: Sequence[str], leave_out: Sequence[str], by_number: bool) -> set[int]:
    """The places of the columns to leave out that are there; without names, "-1" is the last column."""
    places = {names.index(name) for name in leave_out if name in names}
    if by_number:
        counted = [int(name[1:]) for name in leave_out if name.startswith("-") and name[1:].isdigit()]
        places |= {len(names) - place for place in counted if 1 <= place <= len(names)}
    return places
