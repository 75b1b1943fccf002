"""Which kind a column of a table is, decided from what was found in it, with the reason in plain words.

| what the column holds | kind |
| --- | --- |
| numbers, dates (as days since 1970), durations (as days) | real |
| whole numbers from 0 on, up to 1,000 | count |
| 0 and 1, true and false, yes and no, y and n, t and f | binary |
| text that repeats; beside text also few whole numbers, which are then codes | category |
| names, identifiers, free text, one value only, no value at all, more than 1,000 levels | left out |

A table of numbers without gaps, about which nothing is said, is what an array is: all real, and nothing is left out.
"""

import re
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from dtree.core.columns import CODES, DATES, DECIMALS, MOST_LEVELS, Column
from dtree.data.cells import level_text, numbers_in
from dtree.data.summary import SENTINELS, Spoiler, Summary

SKIP = "skip"
NO_WORDS, YES_WORDS = ("0", "n", "no", "f", "false"), ("1", "y", "yes", "t", "true")
# A count of k events is within about sqrt(k) of what is expected; beyond this, 3 %, so that no two rows of an amount
# such as an income would ever count as alike. Larger whole numbers are amounts.
_LARGEST_COUNT = 1000
_NAME_OF_AN_ID = re.compile(r"(?:^|[^a-zA-Z])(?i:id|key|uuid|index)$|[a-z](?:Id|ID)$")


class Around(NamedTuple):
    """What a decision about one column has to know of its table.

    what : its name in sentences. first_line : of a text file, where its first row stands; 0 for anything else.
    plain : a table of numbers without gaps, about which nobody said anything. has_words : some column holds text.
    """

    what: str
    first_line: int
    plain: bool
    has_words: bool


class LeftOut(NamedTuple):
    """A column that is not a feature, and why."""

    reason: str


def decided(name: str, found: Summary, wanted: str | None, around: Around) -> Column | LeftOut:
    """The column with its kind, or why it is left out; one sentence (ValueError) when it cannot be what was wanted."""
    if wanted == SKIP:
        return LeftOut("you said so")
    if wanted is not None:
        return _as_wanted(name, found, wanted, around)
    if around.plain:
        column = _numbers(name, found, around)
        return msgspec.structs.replace(column, kind="real", levels=())
    unfit = _unfit(name, found)
    if unfit is not None:
        return LeftOut(unfit)
    return _words(name, found, around) if found.is_words else _numbers(name, found, around)


def binary_levels(levels: tuple[str, ...]) -> tuple[str, str] | None:
    """Two levels that mean no and yes, in this order, or None.

    >>> binary_levels(("Yes", "No")), binary_levels(("Bonn", "Rome"))
    (('No', 'Yes'), None)
    """
    if len(levels) != 2:
        return None
    for first, second in (levels, levels[::-1]):
        no, yes = first.casefold(), second.casefold()
        if no in NO_WORDS and NO_WORDS.index(no) == (YES_WORDS.index(yes) if yes in YES_WORDS else -1):
            return first, second
    return None


# Columns that are no features ----------------------------------------------------------------------------------------


def _unfit(name: str, found: Summary) -> str | None:
    """Why a column cannot help to tell clusters apart, or None."""
    if found.present == 0:
        return "it has no value in any row"
    if found.strange is not None:
        return f"it holds values of type {found.strange}"
    one = found.low == found.high if not found.is_words else found.values is not None and len(found.values) == 1
    if one:
        words = "in every row that has a value" if found.missing else "in every row"
        if found.is_dates:
            return f"it is the same date {words}"
        only = f"{found.low:g}" if not found.is_words else repr("".join(map(str, found.values or ()))[:40])
        return f"it is {only} {words}"
    if found.is_words and not found.declared:
        return _unfit_words(found)
    if not found.is_words and found.whole and found.all_different and not found.missing and not found.is_dates:
        if found.running and found.rows > 2:
            return "it numbers the rows"
        if _NAME_OF_AN_ID.search(name.strip()):
            return "whole numbers that differ in every row, under the name of an identifier"
    return None


def _unfit_words(found: Summary) -> str | None:
    if found.values is None:
        return f"text with far more than {MOST_LEVELS:,} different values: names, identifiers or free text"
    if found.all_different and (found.n_nearly <= found.present / 2 or len(found.values) > MOST_LEVELS):
        return "text that differs in every row: names or identifiers"
    if len(found.values) > MOST_LEVELS:
        return f"text with {len(found.values):,} different values, and a category has at most {MOST_LEVELS:,} levels"
    if found.n_sentences > found.present / 2 and len(found.values) > found.present / 2:
        return "free text: several words each, and they hardly repeat"
    return None


# Columns that are ----------------------------------------------------------------------------------------------------


def _words(name: str, found: Summary, around: Around) -> Column | LeftOut:
    spoiled = found.spoiler is not None and found.n_nearly > found.present / 2
    if spoiled and not found.declared:
        raise ValueError(text_sentence(name, found, around))
    levels = levels_of(found)
    if levels is None:
        return LeftOut(f"more than {MOST_LEVELS:,} levels")
    pair = binary_levels(levels)
    if pair is not None:
        return _column(name, "binary", f"yes or no, {pair[0]!r} is 0", found, around, pair)
    why = f"a category with {len(levels)} levels" if found.declared else f"text, {len(levels)} values"
    if found.spoiler is None and not found.declared:
        why += " that read as numbers"
    return _column(name, "category", why, found, around, levels)


def _numbers(name: str, found: Summary, around: Around) -> Column:
    if found.is_dates:
        return _column(name, "real", DATES, found, around)
    if found.forms == {"duration"}:
        return _column(name, "real", "durations, in days", found, around)
    if found.forms == {"truth"}:
        return _column(name, "binary", "true or false", found, around, ("False", "True"))
    few = None if found.values is None else len(found.values)
    if found.values == {0.0, 1.0}:
        return _column(name, "binary", "only 0 and 1", found, around, ("0", "1"))
    if not found.whole:
        hint = f", only {few} different ('category' if they are codes)" if _is_few(few, found) else ""
        return _column(name, "real", f"{DECIMALS}{hint}", found, around)
    if found.low == 0.0 and found.high <= _LARGEST_COUNT:
        return _column(name, "count", "whole numbers from 0 on", found, around)
    levels = levels_of(found)
    if around.has_words and levels is not None and _is_few(few, found):
        # A bell curve over few values that repeat becomes ever higher the narrower it is, so that such a column would
        # make clusters by itself; the probability of a code is at most 1.
        why = f"{few} {CODES}"
        return _column(name, "category", why, found, around, levels)
    kind: Literal["real", "count"] = "real"
    return _column(name, kind, "whole numbers", found, around)


def _is_few(few: int | None, found: Summary) -> bool:
    """Whether a value has, on average, at least as many rows as there are values: each is met again and again."""
    return few is not None and 1 < few <= MOST_LEVELS and few * few <= found.present


def levels_of(found: Summary) -> tuple[str, ...] | None:
    """The levels of a category: as declared, else sorted, numbers by their size; None when they are too many."""
    if found.declared:
        return tuple(found.declared) if len(found.declared) <= MOST_LEVELS else None
    if found.values is None or len(found.values) > MOST_LEVELS:
        return None
    texts = sorted({level_text(value) for value in found.values})
    numbers = numbers_in(texts)
    if np.isnan(numbers).any():
        return tuple(texts)
    return tuple(texts[place] for place in np.argsort(numbers, kind="stable"))


def _column(
    name: str, kind: Literal["real", "count", "binary", "category"], why: str, found: Summary, around: Around,
    levels: tuple[str, ...] = (),
) -> Column:  # fmt: skip
    missing = found.missing / found.rows if found.rows else 0.0
    if kind in ("real", "count"):
        why += _sentinel(found)
    elif kind in ("binary", "category"):
        why += _taken_as_missing(found)
    ends = [float(end) if np.isfinite(end) and kind != "category" else None for end in (found.low, found.high)]
    return Column(name, kind, levels, why, missing, *ends)


def _taken_as_missing(found: Summary) -> str:
    """A hint at words that a text file may mean as a level, as in none, basic, full."""
    words = sorted(word for word in found.gone if word.isalpha())  # "?" and "n/a" mean nothing else
    if not words:
        return ""
    return f"; {' and '.join(map(repr, words))} {'is' if len(words) == 1 else 'are'} read as missing"


def _sentinel(found: Summary) -> str:
    """A hint at a number far outside that people write for "missing"; what it means only they can say."""
    wide = found.inner_high - found.inner_low
    for end, gap in ((found.low, found.inner_low - found.low), (found.high, found.high - found.inner_high)):
        if end in SENTINELS and np.isfinite(wide) and gap > max(wide, 1.0):
            return f"; {end:g} is far from the rest: if it means missing, leave those fields empty"
    return ""


# Columns as someone wants them ---------------------------------------------------------------------------------------


def _as_wanted(name: str, found: Summary, wanted: str, around: Around) -> Column:
    what, why = around.what, "you said so"
    if found.present == 0 or found.strange is not None:
        raise ValueError(f"{what}: the column '{name}' cannot be taken as {wanted}: {_unfit(name, found)}")
    if wanted in ("real", "count"):
        if found.is_words and found.spoiler is not None:
            raise ValueError(text_sentence(name, found, around))
        # A column of truth values has no range of numbers; text that reads as numbers has.
        if wanted == "count" and (found.low < 0 or not (found.whole and not _has_decimals(found))):
            raise ValueError(
                f"{what}: the column '{name}' is no count: counts are whole numbers from 0 on, and it holds "
                f"{found.low if found.low < 0 else 'decimals'}; take it as real"
            )
        kind: Literal["real", "count"] = "real" if wanted == "real" else "count"
        return _column(name, kind, why, found, around)
    levels = ("False", "True") if found.forms == {"truth"} else levels_of(found)
    if levels is None:
        raise ValueError(
            f"{what}: the column '{name}' has more than {MOST_LEVELS:,} levels, too many for a {wanted}: "
            f"put rare ones together, or leave it out ({_how(name, SKIP, around)})"
        )
    if wanted == "binary":
        if len(levels) != 2:
            raise ValueError(
                f"{what}: the column '{name}' has {len(levels)} different values, so it is not binary: take it as a "
                f"category ({_how(name, 'category', around)})"
            )
        levels = binary_levels(levels) or levels
        return _column(name, "binary", f"{why}, {levels[0]!r} is 0", found, around, levels)
    return _column(name, "category", why, found, around, levels)


def _has_decimals(found: Summary) -> bool:
    if not found.is_words or found.values is None:
        return not found.whole
    numbers = numbers_in([str(value) for value in found.values])
    return bool(np.any(numbers != np.floor(numbers)))


def text_sentence(name: str, found: Summary, around: Around) -> str:
    """Which cell of a column is not a number, and what to do about it."""
    assert found.spoiler is not None
    return (
        f"{spoiled_sentence(name, found.spoiler, around)}, or say what the column is "
        f"({_how(name, 'category', around)}, or {SKIP})"
    )


def spoiled_sentence(name: str, spoiler: Spoiler, around: Around) -> str:
    """Which cell of a column is not a number, where the kind of the column is settled."""
    text, row = spoiler
    place = f"line {row + around.first_line}" if around.first_line else f"row {row}"
    comma = re.fullmatch(r"\s*[-+]?\d*,\d+\s*", text) is not None
    return (
        f"{around.what}: the column '{name}' holds text ('{text[:40]}' in {place}) among numbers; turn it into numbers"
        f"{', with a point instead of a comma' if comma else ''}, or empty the field if it is missing"
    )


def _how(name: str, kind: str, around: Around) -> str:
    """How to say what a column is: on the command line for files, in Python for what is in memory."""
    return f"columns={{'{name}': '{kind}'}}" if around.what.startswith("the data") else f"--column '{name}={kind}'"
