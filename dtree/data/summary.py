"""What is found out about a column while its pieces go by; kinds are decided from it, whatever the pieces were."""

from typing import NamedTuple

import numpy as np

from dtree.data.cells import Cells, dates_in, numbers_in

NUMBERS = frozenset({"number", "truth", "date", "duration"})
WORDS = frozenset({"text", "category"})
SENTINELS = np.array([-1.0, -9.0, -99.0, -999.0, -9999.0, -99999.0, 99.0, 999.0, 9999.0, 99999.0])
_MOST_TRACKED = 100_000  # different values that are remembered: enough to tell names from categories


class Spoiler(NamedTuple):
    """The first text of a column that is not a number, and the row it stands in."""

    text: str
    row: int


class Summary:
    """One column: how many rows and gaps, the range, the different values as long as they are few.

    forms : of the pieces, without those that hold nothing. values : the different numbers or texts, None when they are
    too many. declared : levels in the order in which a categorical column declares them. gone : words that were taken
    to say that a value is missing.
    """

    def __init__(self) -> None:
        self.rows, self.missing = 0, 0
        self.forms: set[str] = set()
        self.low, self.high = np.inf, -np.inf
        self.inner_low, self.inner_high = np.inf, -np.inf  # of what is no usual word for "missing"
        self.whole, self.running, self.all_dates = True, True, True
        self.values: set[float] | set[str] | None = set()
        self.declared: dict[str, None] = {}
        self.gone: set[str] = set()
        # Texts that would be numbers but for a comma, and texts of several words.
        self.n_nearly, self.n_sentences = 0, 0
        self.spoiler: Spoiler | None = None
        self._last = np.nan

    @property
    def present(self) -> int:
        """Rows with a value."""
        return self.rows - self.missing

    @property
    def is_words(self) -> bool:
        """Whether it holds text, dates written as text not among it."""
        return bool(self.forms & WORDS) and not self.is_dates

    @property
    def is_dates(self) -> bool:
        """Whether all values are dates, in whatever way they are stored."""
        return self.forms == {"date"} or (self.forms == {"text"} and self.all_dates)

    @property
    def strange(self) -> str | None:
        """A type that is neither numbers nor text, if there is any."""
        return next(iter(sorted(self.forms - NUMBERS - WORDS)), None)

    @property
    def all_different(self) -> bool:
        """Whether no value occurs twice, as far as that is known."""
        return self.values is None or len(self.values) == self.present

    def add(self, cells: Cells) -> None:
        """The next piece."""
        gaps = np.isnan(cells.values)
        held = cells.values[~gaps]
        self.gone |= set(cells.gone)
        if cells.form in WORDS:
            self._add_words(cells, held, gaps)
        elif held.size and cells.form in NUMBERS:
            self._add_numbers(held)
        if held.size:
            self.forms.add(cells.form)
        if gaps.any():
            self.running = False
        self.rows += cells.values.shape[0]
        self.missing += int(gaps.sum())

    def _add_numbers(self, held: np.ndarray) -> None:
        self._stretch(held)
        self.whole = self.whole and bool(np.all(held == np.floor(held)))
        goes_on = np.isnan(self._last) or held[0] == self._last + 1.0
        self.running = self.running and goes_on and bool(np.all(held[1:] == held[:-1] + 1.0))
        self._last = float(held[-1])
        if self.values is not None:
            # A look at the start of many saves sorting all of them where they are no codes.
            self._remember(np.unique(held[: 2 * _MOST_TRACKED]).tolist())
        if self.values is not None:
            self._remember(np.unique(held[2 * _MOST_TRACKED :]).tolist())

    def _add_words(self, cells: Cells, held: np.ndarray, gaps: np.ndarray) -> None:
        if cells.form == "category":
            self.declared |= dict.fromkeys(cells.levels)
        if not held.size:
            return
        places, counts = np.unique(held.astype(np.int64), return_counts=True)
        texts = [cells.levels[place] for place in places]
        numbers = numbers_in(texts)
        is_number = ~np.isnan(numbers)
        if is_number.any():
            self._stretch(numbers[is_number])
        nearly = ~np.isnan(numbers_in([text.replace(",", ".", 1) for text in texts]))
        self.n_nearly += int(counts[nearly].sum())
        self.n_sentences += int(counts[[len(text.split()) > 2 for text in texts]].sum())
        if self.all_dates:
            days = dates_in(texts)
            self.all_dates = days is not None
            if days is not None:
                self._stretch(days)
        if self.spoiler is None and not is_number.all():
            row = int(np.flatnonzero(~gaps & np.isin(cells.values, places[~is_number]))[0])
            self.spoiler = Spoiler(cells.levels[int(cells.values[row])], self.rows + row)
        self._remember(texts)

    def _stretch(self, values: np.ndarray) -> None:
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
        inner = values[~np.isin(values, SENTINELS)]
        if inner.size:
            self.inner_low = min(self.inner_low, float(inner.min()))
            self.inner_high = max(self.inner_high, float(inner.max()))

    def _remember(self, values: list[float] | list[str]) -> None:
        if self.values is not None:
            self.values.update(values)  # type: ignore[arg-type]
            if len(self.values) > _MOST_TRACKED:
                self.values = None
