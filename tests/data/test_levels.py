"""Levels agreed on across pieces, files and new rows, and the records that keep them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest

from dtree.core.columns import Column
from dtree.data import Source, open_source
from dtree.data.formats import csv, parquet_look
from dtree.engine.rows import open_rows
from tests.data.people import (
    CITIES,
    FORMS,
    PEOPLE,
    RNG,
    N,
    as_csv,
    as_parquet,
    as_parts,
    kinds_of,
    values_of,
)

# Pieces and partitions -----------------------------------------------------------------------------------------------


def _late_levels() -> pd.DataFrame:
    frame = pd.DataFrame({"x": np.arange(60) * 0.5, "code": ["1", "2", "3"] * 20, "city": ["Rome", "Bonn"] * 30})
    frame.loc[58, ["code", "city"]] = ["many", "Aachen"]  # appears only at the end, and sorts first
    return frame


def test_a_level_of_the_last_piece_is_known_from_the_first_row_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = _late_levels()
    whole = open_source(frame, columns={"code": "category"})
    monkeypatch.setattr(csv, "PIECE_ROWS", 7)
    for number, (form, data) in enumerate([("csv", as_csv(tmp_path, frame)), ("parts", as_parts(tmp_path, frame))]):
        source = open_rows(data, tmp_path / str(number), columns={"code": "category"})
        assert source.kinds[1].levels == ("1", "2", "3", "many"), form
        assert source.kinds[2].levels == ("Aachen", "Bonn", "Rome"), form
        np.testing.assert_array_equal(source.load(), whole.load())
    again = open_rows(as_csv(tmp_path, frame[::-1]), tmp_path / "again", columns={"code": "category"})
    assert [column.levels for column in again.kinds] == [column.levels for column in whole.kinds]


def test_numbers_first_and_words_at_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "PIECE_ROWS", 5)
    lines = [
        "x,code,gap",
        *(f"{i}.5,0{i % 3},{i}" for i in range(5)),
        *(f"{i}.5,{'ab'[i % 2]},?" for i in range(5, 12)),
    ]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    source = open_rows(tmp_path / "x.csv", tmp_path / "staged")
    assert source.kinds[1].levels == ("00", "01", "02", "a", "b")
    assert np.isnan(source.load()[5:, 2]).all()


def test_files_of_one_folder_with_their_own_categories(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for number, words in enumerate((["b", "a", "b"], ["c", "c", "a"], [None, None, None])):
        values = [0.5 + number, 1.5, 2.5]
        column = pd.Categorical(words) if number < 2 else pd.Series(words, dtype=object)
        pd.DataFrame({"x": values, "word": column}).to_parquet(folder / f"{number}.parquet")
    source = open_source(folder)
    assert source.kinds[1].levels == ("a", "b", "c")
    gap = np.nan
    np.testing.assert_array_equal(source.load()[:, 1], [1, 0, 1, 2, 2, 0, gap, gap, gap])
    np.testing.assert_array_equal(source.read(2, 7)[:, 1], [1, 2, 2, 0, gap])


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        (
            pd.DataFrame({"x": ["a", "b"], "word": ["u", "v"]}),
            "the column 'x' holds numbers in 0.parquet but text in 1.parquet",
        ),
        (pd.DataFrame({"x": [1.0, 2.0]}), "1.parquet lacks the column 'word', which 0.parquet has"),
    ],
)
def test_files_that_do_not_fit_each_other(second: pd.DataFrame, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    pd.DataFrame({"x": [1.0, 2.0], "word": ["u", "u"]}).to_parquet(tmp_path / "parts" / "0.parquet")
    second.to_parquet(tmp_path / "parts" / "1.parquet")
    with pytest.raises(ValueError, match=sentence):
        open_source(tmp_path / "parts")


def test_dictionaries_in_parquet(tmp_path: Path) -> None:
    words = pyarrow.array(["b", "a", None, "b"]).dictionary_encode()
    table = pyarrow.table({"x": pyarrow.array([0.5, 1.5, 2.5, 3.5]), "word": words})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    source = open_source(tmp_path / "x.parquet")
    assert source.kinds[1].levels == ("a", "b")
    np.testing.assert_array_equal(source.load()[:, 1], [1, 0, np.nan, 1])


def test_footers_tell_of_many_rows_what_reading_tells_of_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame(
        {"x": RNG.normal(size=N), "amount": RNG.integers(0, 10**6, N), "grade": [1, 2, 3] * 20,
         "bit": [True, False] * 30,
         "city": CITIES, "one": 4.5}
    )  # fmt: skip
    read = open_source(as_parts(tmp_path, frame))
    monkeypatch.setattr(parquet_look, "_MOST_LOOKED_AT", 10)
    told = open_source(tmp_path / "parts")
    assert kinds_of(told) == kinds_of(read)
    assert [column.levels for column in told.kinds] == [column.levels for column in read.kinds]
    assert dict(told.left_out) == dict(read.left_out) == {"one": "it is 4.5 in every row"}
    np.testing.assert_array_equal(told.load(), read.load())


# New rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_new_rows_are_read_with_the_levels_of_the_fit(form: str, tmp_path: Path) -> None:
    fitted = open_source(PEOPLE)
    features = (fitted.columns, fitted.shape[1], fitted.kinds)
    new = PEOPLE.iloc[:4][list(PEOPLE)[::-1]].assign(
        city=["Lima", "Rome", None, "Bonn"], grade=["1", "5", "9", None], member=[True, False, True, True]
    )
    data = FORMS[form](tmp_path, new)
    for source in (
        open_source(data, known=fitted.kinds),
        open_source(data).with_columns_of(*features),
        open_source(data, known=fitted.kinds).with_columns_of(*features),
        open_rows(data, tmp_path / "staged", features=features),
    ):
        assert source.columns == fitted.columns
        assert source.kinds == fitted.kinds
        np.testing.assert_array_equal(values_of(source, "city"), [3, 2, np.nan, 0])  # 3: a level that the fit never saw
        np.testing.assert_array_equal(values_of(source, "grade"), [0, 4, 5, np.nan])
        np.testing.assert_array_equal(values_of(source, "member"), [1, 0, 1, 1])
        np.testing.assert_array_equal(values_of(source, "income"), PEOPLE["income"][:4])
        np.testing.assert_array_equal(values_of(source, "born"), values_of(fitted, "born")[:4])
    with pytest.raises(ValueError, match="the rows lack features that the run was fitted on: 'city', 'born'"):
        open_source(FORMS[form](tmp_path, new.drop(columns=["city", "born"])), known=fitted.kinds)


def test_an_array_does_not_say_which_level_is_meant() -> None:
    fitted = open_source(PEOPLE)
    with pytest.raises(
        ValueError, match=r"fitted on a table with categories \('grade', 'city'\): give new rows as a table"
    ):
        open_source(np.ones((3, 7))).with_columns_of(fitted.columns, 7, fitted.kinds)
    numbers = open_source(pd.DataFrame({"a": [1.0, 2.5], "b": [0.5, 1.0]}))
    assert open_source(np.ones((3, 2))).with_columns_of(numbers.columns, 2, numbers.kinds).shape == (3, 2)


def test_a_number_and_its_text_are_one_level() -> None:
    kinds = open_source(pd.DataFrame({"k": ["01", "2", "b", "2", "01"]}), columns={"k": "category"}).kinds
    for values in ([1, 2, 7], ["1", "2", "7"], [1.0, 2.0, 7.0], ["01", "2.0", "c"]):
        assert open_source(pd.DataFrame({"k": values}), known=kinds).load().ravel().tolist() == [0, 1, 3]


# Records -------------------------------------------------------------------------------------------------------------


BAD_RECORDS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "one too few": lambda kinds: kinds.pop(),
    "another name": lambda kinds: kinds[0].update(name="else"),
    "unknown kind": lambda kinds: kinds[0].update(kind="ordinal"),
    "levels that are numbers": lambda kinds: kinds[4].update(levels=[1, 2]),
    "equal levels": lambda kinds: kinds[4].update(levels=["a", "a"]),
    "no levels": lambda kinds: kinds[4].update(levels=[]),
    "too many levels": lambda kinds: kinds[4].update(levels=[str(i) for i in range(2000)]),
    "three for yes and no": lambda kinds: kinds[5].update(levels=["a", "b", "c"]),
    "impossible share": lambda kinds: kinds[0].update(missing=7.0),
    "more than is written": lambda kinds: kinds[0].update(code="import os"),
}


@pytest.mark.parametrize("case", BAD_RECORDS)
def test_hostile_records_are_refused(case: str, tmp_path: Path) -> None:
    record = json.loads(json.dumps(open_source(as_parquet(tmp_path)).record()))
    BAD_RECORDS[case](record["kinds"])
    with pytest.raises(ValueError, match="the columns of its source are not described"):
        Source.from_record(record)


def test_columns_travel_through_json() -> None:
    kinds = open_source(PEOPLE).kinds
    assert msgspec.json.decode(msgspec.json.encode(kinds), type=tuple[Column, ...]) == kinds


def test_new_tables_for_a_fit_to_an_array_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("b,a\n1,5\n1,\n1,7\n")
    source = open_source(tmp_path / "x.csv")
    assert source.columns == ("a",)  # of one value, beside gaps
    np.testing.assert_array_equal(source.with_columns_of(("a", "b"), 2).load(), [[5, 1], [np.nan, 1], [7, 1]])
    (tmp_path / "x.csv").write_text("b,a\n1,u\n2.5,v\n7,u\n")
    with pytest.raises(ValueError, match=r"fitted on an array of numbers, but .*x\.csv holds text \('a'\)"):
        open_source(tmp_path / "x.csv").with_columns_of((), 2)
    with pytest.raises(ValueError, match=r"the column 'a' holds text \('u' in line 2\)"):
        open_source(tmp_path / "x.csv").with_columns_of(("a", "b"), 2).load()


def test_a_table_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("5.1,red,a,7\n4.9,blue,b,7\n6.5,red,a,7\n6.1,red,b,7\n")
    source = open_source(tmp_path / "x.csv", labels_column="-2")
    assert source.shape == (4, 2)
    assert [column.name for column in source.kinds] == ["0", "1"]
    assert source.kinds[1].levels == ("blue", "red")
    assert source.labels is not None
    assert source.labels.tolist() == ["a", "b", "a", "b"]
    (tmp_path / "new.csv").write_text("6,red\n7,green\n8,red\n")
    (tmp_path / "all.csv").write_text("6,red,a,7\n7,green,a,7\n8,red,b,7\n")
    for name in ("new.csv", "all.csv"):
        new = open_source(tmp_path / name, leave_out=["-2"], known=source.kinds).with_columns_of((), 2, source.kinds)
        assert new.load().tolist() == [[6, 1], [7, 2], [8, 1]]
    (tmp_path / "spectra.csv").write_text("class,400.5,401.0\na,0.1,0.2\nb,0.3,0.5\na,0.3,0.4\n")
    assert open_source(tmp_path / "spectra.csv").columns == ("class", "400.5", "401.0")
