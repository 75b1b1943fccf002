"""`.csv`: text, which is parsed once: whole into memory, or in pieces into a zarr array."""

import csv
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dtree.core.columns import Column
from dtree.core.names import require_distinct
from dtree.data.cells import as_numbers, cells_of
from dtree.data.columns import column_index, left_out
from dtree.data.formats import zarr
from dtree.data.sentences import one_sentence
from dtree.data.source import Beside, Choice, Source
from dtree.data.summary import WORDS, Summary
from dtree.data.tables import Table, coded_frame, understood
from dtree.storage.places import Place, file_on_disk

BY_RANGES = False
PIECE_ROWS = 100_000  # parsed at a time; the first piece tells which columns are features


_LOOKED_AT = 1000  # rows in which a word of the first line is looked for, to tell a header from values


class Look(NamedTuple):
    """What a first walk through the file found."""

    delimiter: str
    has_header: bool
    n_rows: int
    header: list[str]


def opened(path: Place, choice: Choice) -> Source:
    """The shape of the table and what its columns are for."""
    look = look_at(path)
    if look.has_header:
        require_distinct([name for name in look.header if name.strip()], str(path))
    if look.n_rows == 0:
        raise ValueError(f"{path} is empty: it holds 0 rows of {len(look.header)} columns")
    names = look.header if look.has_header else [str(place) for place in range(len(look.header))]
    said = {column_index(names, name, str(path)): kind for name, kind in choice.columns}
    texts = {place for place, kind in said.items() if kind == "category"}
    summaries: dict[int, Summary] = {}

    def summary(place: int) -> Summary:
        if not summaries:  # all at once: the file is read for one as for all
            summaries.update(enumerate(_summaries(path, look, texts)))
        return summaries[place]

    found = understood(Table(names, summary, str(path), _line(look), look.has_header), choice)
    columns = tuple(column.name for column in found.kinds) if look.has_header else ()
    beside = Beside(found.labels, found.row_names, details=look, is_coded=found.is_coded)
    source = Source(
        "csv", str(path.resolve()), (look.n_rows, len(found.features)), "float64", columns=columns,
        picked=tuple(found.features), kinds=found.kinds, beside=beside, left_out=found.left_out, name=str(path),
    )  # fmt: skip
    if look.has_header or choice.known:
        return source
    dropped = left_out(names, choice.leave_out, by_number=True) - {found.labels}
    if not dropped or found.is_coded or any(summary(place).forms & WORDS for place in dropped):
        return source
    every = sorted({*found.features, *dropped})
    return replace(source, wider=replace(source, shape=(look.n_rows, len(every)), picked=tuple(every), kinds=()))


def _summaries(path: Place, look: Look, texts: set[int]) -> list[Summary]:
    """What is in every column; those in `texts` are read as they are written, and so are those that hold any text."""
    while True:
        found, words = [Summary() for _ in look.header], set(texts)
        for frame in _parse(path, look, chunksize=PIECE_ROWS, dtype=dict.fromkeys(texts, str)):
            for place, summary in enumerate(found):
                cells = cells_of(frame.iloc[:, place], from_text=True)
                cells = cells if place in texts else as_numbers(cells)
                summary.add(cells)
            words |= {place for place, summary in enumerate(found) if len(summary.forms) > 1}
            if words > texts:
                break
        if words == texts:
            _name_words_for_missing(path, look, found)
            return found
        texts = words  # numbers in one piece and words in another: all of it is text, and read so


def _name_words_for_missing(path: Place, look: Look, found: list[Summary]) -> None:
    """Note which words for "missing" stand among words: pandas takes NA, nan and None for gaps unseen."""
    places = [place for place, summary in enumerate(found) if summary.is_words and summary.missing]
    if not places:
        return
    for frame in _parse(path, look, usecols=places, chunksize=PIECE_ROWS, dtype=str, keep_default_na=False):
        for at, place in enumerate(places):
            found[place].gone |= set(cells_of(frame.iloc[:, at], from_text=True).gone)


def look_at(path: Place) -> Look:
    """Delimiter, header and number of rows; a ragged file is refused (pandas would fill it with NaN)."""
    with open(file_on_disk(path), encoding="utf-8-sig", newline="") as handle:
        first_line = next((line for line in handle if line.strip()), "")
        if not first_line:
            raise ValueError(f"{path} is empty")
        delimiter = max((",", ";", "\t"), key=first_line.count)
        handle.seek(0)
        top: list[list[str]] = []
        count, words, again = 0, set[int](), set[int]()
        reader = csv.reader(handle, delimiter=delimiter)
        for fields in reader:
            if not fields or (len(fields) == 1 and not fields[0].strip()):
                continue
            count += 1
            if len(top) < 2:
                top.append(fields)
                words = {place for place, field in enumerate(top[0]) if not _is_number(field)}
            if 1 < count <= _LOOKED_AT and fields != top[0] and len(fields) == len(top[0]):
                again |= {place for place in words if fields[place] == top[0][place]}
            if len(fields) != len(top[0]):
                line = f"line {reader.line_num} has {len(fields)} values"
                raise ValueError(f"{path} is ragged: {line} but the first line has {len(top[0])}")
    first, second = (*top, [], [])[:2]
    # Words of the first line that stand again below it are values, and not the names of their columns.
    names = 2 * len(again) <= len(words)
    has_header = bool(words and names) or (not words and _numbers_columns(first, second))
    return Look(delimiter, has_header, count - has_header, first)


def _numbers_columns(first: list[str], second: list[str]) -> bool:
    """Whether a line of numbers is a header after all: 0, 1, 2, ... (or from 1) above something else than integers."""
    names = [field.strip() for field in first]
    counting = any(names == [str(start + column) for column in range(len(names))] for start in (0, 1))
    return counting and any("." in field or "e" in field.lower() for field in second)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return not text.strip()
    return True


def _line(look: Look) -> int:
    """The line of the file that the first row stands in."""
    return 2 if look.has_header else 1


def _parse(path: Place, look: Look, **options: Any) -> Any:
    """The frame that pandas reads, or an iterator of frames."""
    import pandas

    if int(pandas.__version__.split(".")[0]) < 3:  # unless it is told, its numbers may be wrong in their last bit
        options["float_precision"] = "round_trip"
    return pandas.read_csv(
        file_on_disk(path), sep=look.delimiter, header=0 if look.has_header else None, encoding="utf-8-sig",
        skip_blank_lines=True, index_col=False, low_memory=False, **options,
    )  # fmt: skip


def _parse_features(source: Source, **options: Any) -> Any:
    """The columns of the features, in the order of the file; categories as they are written, 007 with its zeros."""
    texts = {place for place, kind in zip(source.picked, _kinds(source)) if kind.kind == "category"}
    usecols = sorted(source.picked)
    return _parse(source.place, source.beside.details, usecols=usecols, dtype=dict.fromkeys(texts, str), **options)


def _kinds(source: Source) -> Sequence[Column]:
    """What the columns hold; all numbers when nobody has looked."""
    return source.kinds or [Column(str(place), "real") for place in source.picked]


def _numbers(source: Source, frame: Any, done: int) -> np.ndarray:
    """The features in a frame that was read with their columns alone; `done` rows of the file stand before it."""
    used = sorted(source.picked)
    features = frame.iloc[:, [used.index(place) for place in source.picked]]
    return coded_frame(features, _kinds(source), source.name, _line(source.beside.details), done)


def load(source: Source) -> np.ndarray:
    """All rows (n, d)."""
    path = source.place
    with one_sentence(path):
        frame = _parse_features(source)
    return _numbers(source, frame, 0)


def column(source: Source, place: int) -> np.ndarray:
    """One column of the file."""
    path = source.place
    with one_sentence(path):
        return _parse(path, source.beside.details, usecols=[place]).iloc[:, 0].to_numpy()


def table(source: Source) -> tuple[Any, list[int]]:
    """The whole file as it is written, and where the features stand in it."""
    path, look = source.place, source.beside.details
    with one_sentence(path):
        frame = _parse(path, look, dtype=str, keep_default_na=False)
    frame.columns = look.header if look.has_header else [str(place) for place in range(len(look.header))]
    return frame, list(source.picked)


def row_names(source: Source) -> Any:
    """The column that names the rows."""
    return None if source.beside.row_names is None else column(source, source.beside.row_names)


def stage(source: Source, folder: Place) -> Source:
    """The text as a zarr array, which every pass can read quickly; only a piece at a time is in memory."""
    path, target, done = source.place, folder / "rows.zarr", 0
    array = zarr.new_rows(target, source.shape, np.dtype(np.float64), PIECE_ROWS)
    with one_sentence(path):
        frames = _parse_features(source, chunksize=PIECE_ROWS)
    while True:
        with one_sentence(path):
            frame = next(frames, None)
        if frame is None:
            break
        array[done : done + len(frame)] = _numbers(source, frame, done)
        done += len(frame)
    if done != source.shape[0]:
        raise ValueError(f"{source.name} has {done} rows instead of {source.shape[0]}: it was changed meanwhile")
    return replace(zarr.opened(target, Choice()), columns=source.columns)
