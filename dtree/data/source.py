"""`Source`: rows of a dataset, wherever they are, behind one verb: `read(start, stop)`.

A source on disk is a small picklable description; workers open the file themselves, so data never pass through the
client.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec
import numpy as np

from dtree.core.columns import Column, check_columns
from dtree.core.memory import require_memory
from dtree.data.sentences import MOST_COLUMNS, MOST_ROWS, listed, one_line
from dtree.storage.ahead import begin, taken
from dtree.storage.failures import StoreFailure
from dtree.storage.options import StorageOptions, current_options
from dtree.storage.places import Place, is_address, is_remote, located

RECORDED = ("kind", "path", "shape", "dtype", "step", "columns", "picked", "kinds")
_MOST_NAMES = 1_000_000  # names of more rows are read by nobody and would fill the header of a run


class Choice(NamedTuple):
    """What the caller wants of the data: an array of several, a column of labels, columns that are not features.

    columns : what some columns are, by name: a kind, or "skip". known : the features and levels of an earlier fit, by
        which these rows are to be read.
    """

    array: str | None = None
    labels_column: str | None = None
    leave_out: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    known: tuple[Column, ...] = ()


class Beside(NamedTuple):
    """Where the data hold what is not a feature, in the words of their format.

    labels, row_names : the place or name of a column, or another array. array : the one that holds the rows.
    details : what the format found out when it opened the data. table : a data frame that the rows were taken from.
    is_coded : whether text, dates or gaps became numbers, or columns were left out for what they hold.
    """

    labels: Any = None
    row_names: Any = None
    array: str | None = None
    details: Any = None
    table: Any = None
    is_coded: bool = False


@dataclass(frozen=True)
class Source:
    """Rows of a dataset; `dtree.data.open_source` makes one.

    kind : the format, "memory" for rows in memory. path : of the file, absolute, or its
        address. shape : (n, d). dtype : of the values.
    step : reading is cheapest in multiples of so many rows. columns : names (d,) of the features, () if there are none.
    picked : (d,) the columns of the file that are the features, in order; () for all of them.
    kinds : (d,) what the columns of a table hold, () when nothing is known. left_out : names of its columns that are no
        features, each with the reason.
    name : what to call the data, the path as it was given. is_sparse : whether `read` gives CSR rows.
    options : of the object store that the rows are in; workers get them, a run does not.
    opened : tells this opening of the file, also in other processes, from every other, before which the file may have
        been another.
    """

    kind: str
    path: str
    shape: tuple[int, int]
    dtype: str
    step: int = 1
    columns: tuple[str, ...] = ()
    picked: tuple[int, ...] = ()
    kinds: tuple[Column, ...] = ()
    # What follows is not written into a run's header.
    name: str = field(default="", compare=False, repr=False)
    is_sparse: bool = field(default=False, compare=False, repr=False)
    options: StorageOptions = field(default_factory=current_options, compare=False, repr=False)
    opened: str = field(default_factory=lambda: uuid.uuid4().hex, compare=False, repr=False)
    beside: Beside = field(default=Beside(), compare=False, repr=False)
    left_out: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    # The same rows with the columns that were left out by their number, what they were copied from, what was read once.
    wider: Source | None = field(default=None, compare=False, repr=False)
    original: Source | None = field(default=None, compare=False, repr=False)
    kept: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """What travels to other processes: the description, and not the data it was copied from."""
        return {**self.__dict__, "wider": None, "original": None, "kept": {}}

    @property
    def place(self) -> Place:
        """Where the file is."""
        return located(self.path, self.options)

    # Rows -----------------------------------------------------------------------------------------------------------

    def read(self, start: int, stop: int) -> Any:
        """Rows start..stop-1, dense (rows, d) or CSR. A file that cannot be read by ranges is read whole, once."""
        if not self._format.BY_RANGES:
            if self.picked not in self.kept:
                self.kept[self.picked] = self.load()
            return self.kept[self.picked][start:stop]
        return taken(self._what, self.read_now, start, stop)

    def ahead(self, start: int, stop: int) -> None:
        """Begin to read rows that will be asked for, where an answer takes its time."""
        if self._format.BY_RANGES and is_remote(self.path):
            begin(self._what, self.read_now, start, stop)

    @property
    def _what(self) -> Any:
        return self.opened, self.shape, self.columns, self.picked

    def read_now(self, start: int, stop: int) -> Any:
        """The same, read by the thread that asks, by ranges."""
        try:
            rows = self._format.read(self, start, stop)
            rows = rows[:, list(self.picked)] if self.picked else rows
        except (MemoryError, StoreFailure):
            raise
        except Exception as problem:
            raise ValueError(
                f"rows {start} to {stop - 1} of {self.path or self.name} cannot be read ({type(problem).__name__}: "
                f"{one_line(problem)}): the file is damaged or was changed; restore it and resume the run"
            ) from problem
        return self._checked(rows, start, stop)

    def load(self) -> Any:
        """All rows at once, in the type they are stored in; refused when they are more than this machine's memory."""
        n, d = self.shape
        if not self.is_sparse:
            require_memory(n * d * np.dtype(self.dtype).itemsize, self.name or self.path)
        return self.read(0, n) if self._format.BY_RANGES else self._checked(self._format.load(self), 0, n)

    def _checked(self, rows: Any, start: int, stop: int) -> Any:
        wanted = (stop - start, self.shape[1])
        if rows.shape != wanted:
            raise ValueError(
                f"rows {start} to {stop - 1} of {self.path or self.name} have shape {rows.shape} instead of {wanted}: "
                "the data were changed since the run began; restore them and resume"
            )
        # One layout for all formats: kernels add in the order of memory, and the last bit of a sum depends on it.
        return np.ascontiguousarray(rows) if isinstance(rows, np.ndarray) else rows

    def absent(self, start: int, stop: int) -> list[str]:
        """Chunks of the file that rows start..stop-1 are in and that are not there, which the format reads as fill."""
        return list(self._format.absent(self, start, stop)) if hasattr(self._format, "absent") else []

    @property
    def n_stored(self) -> int:
        """How many values sparse rows store."""
        return int(self._format.n_stored(self))

    @property
    def _format(self) -> Any:
        from dtree.data.formats import FORMATS  # the formats make sources themselves

        return FORMATS[self.kind.removesuffix("-csr")]

    # What is not a feature ------------------------------------------------------------------------------------------

    @property
    def labels(self) -> np.ndarray | None:
        """The column of labels (n,), numbers or text, or None."""
        if self.original is not None:
            return self.original.labels
        if "labels" not in self.kept:
            place = self.beside.labels
            self.kept["labels"] = None if place is None else self._labels_in(self._format.column(self, place))
        return self.kept["labels"]

    def _labels_in(self, values: np.ndarray) -> np.ndarray:
        if values.shape != self.shape[:1]:
            raise ValueError(
                f"{self.name}: '{self.beside.labels}' is not one label per row: it has {values.ndim} dimensions and "
                f"{values.size} values for {self.shape[0]} rows"
            )
        return plain_labels(values)

    @property
    def row_names(self) -> list[str] | None:
        """Names (n,) of the rows, where the data have them and there are at most a million."""
        if self.original is not None:
            return self.original.row_names
        if self.shape[0] > _MOST_NAMES:
            return None
        if "row_names" not in self.kept:
            names = self._format.row_names(self)
            self.kept["row_names"] = None if names is None else [str(name) for name in names]
        return self.kept["row_names"]

    def table(self) -> tuple[Any, list[int]]:
        """Every column of the data as it is written, as a pandas frame, and where the features (d,) stand in it."""
        import pandas

        if self.original is not None:
            return self.original.table()
        if hasattr(self._format, "table"):
            return self._format.table(self)
        rows, names = self.load(), list(self.columns) or [f"feature {place}" for place in range(self.shape[1])]
        return pandas.DataFrame(dense(rows), columns=names), list(range(self.shape[1]))

    # Features -------------------------------------------------------------------------------------------------------

    def pick(self, columns: Sequence[int]) -> Source:
        """The same rows with only the features in these places, in this order."""
        names = tuple(self.columns[place] for place in columns) if self.columns else ()
        kinds = tuple(self.kinds[place] for place in columns) if self.kinds else ()
        shape = (self.shape[0], len(columns))
        if self.kind == "parquet":  # which reads columns by name
            return replace(self, shape=shape, columns=names, kinds=kinds)
        picked = tuple(int(self.picked[place] if self.picked else place) for place in columns)
        return replace(self, shape=shape, columns=names, picked=picked, kinds=kinds)

    def with_columns_of(self, names: Sequence[str], n_features: int, kinds: Sequence[Column] = ()) -> Source:
        """The features in the order in which a model learned them: by name where both have names, else as many.

        kinds : (d,) of the columns that the model learned from; a table is then read with their levels.

        A column of labels that is known only by its number was left out when these rows were opened. If they have too
        few columns without it, they hold no labels and it is a feature after all.

        >>> new = Source("npy", "/new.npy", (9, 3), "float64", columns=("b", "kind", "a"))
        >>> new.with_columns_of(("a", "b"), 2).picked
        (2, 0)
        """
        same = tuple(kinds) == self.kinds
        return (self if same else self._read_as(tuple(kinds), names))._in_order(names, n_features)

    def _in_order(self, names: Sequence[str], n_features: int) -> Source:
        if self.columns and names:
            missing = [name for name in names if name not in self.columns]
            if missing:
                raise ValueError(f"the rows lack features that the run was fitted on: {listed(missing)}")
            if self.columns == tuple(names):
                return self
            return self.pick([self.columns.index(name) for name in names])
        if self.shape[1] < n_features and self.wider is not None:
            return self.wider._in_order(names, n_features)
        if self.shape[1] != n_features:
            raise ValueError(f"the rows have {self.shape[1]} columns but the run was fitted on {n_features}")
        return self

    def _read_as(self, kinds: tuple[Column, ...], names: Sequence[str]) -> Source:
        """The same rows read with the levels of a fit; where it learned from an array of numbers, as numbers."""
        if self.original is not None:
            return self.original._read_as(kinds, names)
        words = listed([column.name for column in kinds or self.kinds if column.kind == "category"])
        if not self.kinds:
            if any(column.kind == "category" for column in kinds):
                raise ValueError(
                    f"the run was fitted on a table with categories ({words}): give new rows as a table too, with the "
                    "same columns, since an array of numbers does not say which level is meant"
                )
            return self
        if not kinds:
            if not self.beside.is_coded:
                return self
            if not names and any(column.kind == "category" for column in self.kinds):
                raise ValueError(
                    f"the run was fitted on an array of numbers, but {self.name} holds text ({words}): leave it out"
                )
            if not names:
                return self
            kinds = tuple(Column(name, "real") for name in names)
        again = self._format.opened(self.beside.table if self.kind == "memory" else self.place, Choice(known=kinds))
        return replace(again, name=self.name, beside=again.beside._replace(labels=self.beside.labels))

    # On disk --------------------------------------------------------------------------------------------------------

    def staged(self, folder: Any) -> Source:
        """A source that any process can read by ranges: itself if it is one, else a copy written to `folder`."""
        if self._format.BY_RANGES and self.kind != "memory":
            return self
        folder = located(folder)
        folder.mkdir(parents=True, exist_ok=True)
        whole = self if self.wider is None else self.wider
        copy = self._format.stage(whole, folder)
        copy = replace(copy, name=self.name, original=self, kinds=whole.kinds, left_out=self.left_out)
        if whole is self:
            return copy
        places = [whole.picked.index(column) if whole.picked else column for column in self.picked]
        return replace(copy.pick(places), wider=copy)

    def record(self) -> dict[str, Any]:
        """A plain JSON description for the header of a run; only of rows that any process can read."""
        if self.kind not in _recorded_kinds():
            raise ValueError(f"{self.name or 'the data'} must be staged before a run can remember where they are")
        values = {name: getattr(self, name) for name in RECORDED}
        return msgspec.to_builtins({name: list(v) if isinstance(v, tuple) else v for name, v in values.items()})

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Source:
        """The inverse of `record`, which may come from anywhere: one sentence when it cannot be what it says.

        >>> source = Source("npy", "/data/rows.npy", (9, 3), "float64")
        >>> Source.from_record(source.record()) == source
        True
        """
        check_record(record)
        lists = {name: tuple(record.get(name, ())) for name in ("shape", "columns", "picked")}
        lists["kinds"] = msgspec.convert(record.get("kinds", ()), tuple[Column, ...])
        return cls(**{**record, **lists}, name=record["path"], is_sparse=record["kind"].endswith("-csr"))


def _recorded_kinds() -> tuple[str, ...]:
    from dtree.data.formats import FORMATS

    return tuple(kind for module in FORMATS.values() for kind in getattr(module, "RECORDED_KINDS", ()))


def check_record(record: Any) -> None:
    """Raise one sentence unless this describes rows: a known kind, a possible shape, a path that is named outright."""

    def require(holds: bool, what: str) -> None:
        if not holds:
            raise ValueError(what)

    require(isinstance(record, Mapping), "its source is not a description of rows")
    kind, shape, dtype = record.get("kind"), record.get("shape"), record.get("dtype")
    require(kind in _recorded_kinds(), f"its source is of the unknown kind {str(kind)[:40]!r}")
    possible = isinstance(shape, list) and len(shape) == 2
    possible = possible and _is_whole(shape[0], 1, MOST_ROWS) and _is_whole(shape[1], 1, MOST_COLUMNS)
    require(possible, f"its source has the impossible shape {str(shape)[:60]}")
    require(_is_number_type(dtype), f"its source has no numbers but {str(dtype)[:40]!r}")
    require(_is_whole(record.get("step", 1), 1, MOST_ROWS), "the step of its source is not a number of rows")
    columns, picked, place = record.get("columns"), record.get("picked", []), record.get("path")
    named = isinstance(columns, list) and all(isinstance(name, str) for name in columns)
    require(named, "the columns of its source are not names")
    places = isinstance(picked, list) and all(_is_whole(column, 0, MOST_COLUMNS) for column in picked)
    require(places and len(picked) in (0, shape[1]), "the columns picked from its source are not one a feature")
    try:
        check_columns(msgspec.convert(record.get("kinds", []), list[Column]), shape[1], columns)
    except (msgspec.ValidationError, ValueError) as problem:
        raise ValueError(f"the columns of its source are not described: {str(problem).replace('`', chr(39))}") from None
    require(set(record) <= set(RECORDED), "its source says more than dtree ever writes")
    require(
        isinstance(place, str) and "\0" not in place and _names_a_place(place),
        f"the path of its source, {str(place)[:80]!r}, is not one that names a place outright",
    )


def _names_a_place(path: str) -> bool:
    if is_address(path):
        return str(located(path)) == path
    return os.path.isabs(path) and os.path.normpath(path) == path


def _is_whole(value: Any, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _is_number_type(name: Any) -> bool:
    try:
        return isinstance(name, str) and np.dtype(name).kind in "biuf"
    except (TypeError, ValueError):
        return False


def dense(rows: Any) -> np.ndarray:
    """Rows (n, d), dense or CSR, as an array."""
    return rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)


def plain_labels(values: np.ndarray) -> np.ndarray:
    """Labels as numbers or text."""
    return values if values.dtype.kind in "biuf" else np.asarray([str(value) for value in values])
