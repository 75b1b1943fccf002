"""Tables as people have them: kinds found from the data, levels agreed on, gaps, and one sentence for what is wrong."""

from __future__ import annotations

import json
import pickle
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

N = 60
RNG = np.random.default_rng(0)
CITIES = np.array(["Rome", "Bonn", "Oslo"])[RNG.integers(0, 3, N)]
PEOPLE = pd.DataFrame(
    {
        "person": [f"p{i}" for i in range(N)],
        "height": RNG.normal(170, 8, N).round(1),
        "income": RNG.integers(10_000, 90_000, N),
        "children": RNG.integers(0, 5, N),
        "grade": RNG.integers(1, 6, N),
        "city": CITIES,
        "member": np.array(["no", "yes"])[RNG.integers(0, 2, N)],
        "born": pd.date_range("1990-01-01", periods=N, freq="97D").strftime("%Y-%m-%d"),
        "planet": "Earth",
        "customer_id": RNG.permutation(N) * 7 + 1000,
        "remark": [f"called again on day {2 * i // 3} of the week" for i in range(N)],
    }
)
PEOPLE.loc[3, "city"] = None
PEOPLE.loc[[4, 5], "height"] = np.nan
KINDS = {
    "height": "real", "income": "real", "children": "count", "grade": "category", "city": "category",
    "member": "binary", "born": "real",
}  # fmt: skip


def _csv(folder: Path, frame: pd.DataFrame = PEOPLE) -> Path:
    frame.to_csv(folder / "people.csv", index=False)
    return folder / "people.csv"


def _parquet(folder: Path, frame: pd.DataFrame = PEOPLE) -> Path:
    frame.to_parquet(folder / "people.parquet")
    return folder / "people.parquet"


def _parts(folder: Path, frame: pd.DataFrame = PEOPLE, *, groups: int = 7) -> Path:
    (folder / "parts").mkdir(exist_ok=True)
    for number, start in enumerate(range(0, len(frame), 25)):
        frame[start : start + 25].to_parquet(folder / "parts" / f"{number}.parquet", row_group_size=groups)
    return folder / "parts"


def _polars(folder: Path, frame: pd.DataFrame = PEOPLE) -> Any:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    return polars.DataFrame({name: [None if pd.isna(v) else v for v in frame[name].tolist()] for name in frame})


FORMS: dict[str, Callable[..., Any]] = {
    "csv": _csv,
    "parquet": _parquet,
    "parquet folder": _parts,
    "pandas": lambda folder, frame=PEOPLE: frame,
    "arrow": lambda folder, frame=PEOPLE: pyarrow.Table.from_pandas(frame),
    "polars": _polars,
}


def _kinds(source: Source) -> dict[str, str]:
    return {column.name: column.kind for column in source.kinds}


def _column(source: Source, name: str) -> Column:
    return next(column for column in source.kinds if column.name == name)


def _values(source: Source, name: str) -> np.ndarray:
    return source.load()[:, source.columns.index(name)]


# Kinds ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_same_kinds_and_codes(form: str, tmp_path: Path) -> None:
    source = open_source(FORMS[form](tmp_path))
    assert _kinds(source) == KINDS
    assert source.row_names == PEOPLE["person"].tolist()
    left_out = dict(source.left_out)
    assert set(left_out) == {"person", "planet", "customer_id", "remark"}
    assert left_out["planet"] == "it is 'Earth' in every row"
    assert "identifier" in left_out["customer_id"]
    assert "free text" in left_out["remark"]
    assert _column(source, "city").levels == ("Bonn", "Oslo", "Rome")
    assert _column(source, "city").missing == pytest.approx(1 / N)
    assert _column(source, "grade").levels == ("1", "2", "3", "4", "5")
    assert _column(source, "member").levels == ("no", "yes")
    assert all(column.reason for column in source.kinds)
    days = (pd.to_datetime(PEOPLE["born"]) - pd.Timestamp(0)) / pd.Timedelta(days=1)
    codes = PEOPLE["city"].map({"Bonn": 0.0, "Oslo": 1.0, "Rome": 2.0})
    expected = np.column_stack(
        [PEOPLE["height"], PEOPLE["income"], PEOPLE["children"], PEOPLE["grade"] - 1, codes, PEOPLE["member"] == "yes",
         days]
    )  # fmt: skip
    np.testing.assert_array_equal(source.load(), expected.astype(float))
    staged = source.staged(tmp_path / "staged")
    assert staged.kinds == source.kinds
    assert staged.left_out == source.left_out
    for start, stop in ((0, 10), (10, 33), (33, N)):
        np.testing.assert_array_equal(staged.read(start, stop), expected[start:stop].astype(float))
    known = Source.from_record(json.loads(json.dumps(staged.record())))
    assert known == staged
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(known)).read(20, 40), expected[20:40].astype(float))


def test_a_table_of_numbers_without_gaps_is_as_it_was(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": range(9), "one": 1, "few": [1, 2, 3] * 3, "bit": [True, False, True] * 3})
    for form in ("csv", "parquet", "pandas", "arrow"):
        source = open_source(FORMS[form](tmp_path, frame))
        assert source.columns == tuple(frame)
        assert source.left_out == ()
        np.testing.assert_array_equal(source.load(), frame.to_numpy(float))
        assert set(_kinds(source).values()) == {"real"}
    assert open_source(_parquet(tmp_path, frame[["id", "few"]])).dtype == "int64"  # not even the type changes


def test_arrays_have_no_kinds() -> None:
    assert open_source(np.ones((3, 2))).kinds == ()
    with pytest.raises(ValueError, match="an array of numbers, whose columns have no kinds"):
        open_source(np.ones((3, 2)), columns={"0": "category"})
    assert open_source(np.ones((3, 2)), columns={"0": "skip"}).shape == (3, 1)


def test_types_of_pandas() -> None:
    frame = pd.DataFrame(
        {
            "size": pd.Categorical(["S", "L", "M", "S", None, "M"], categories=["S", "M", "L", "XL"], ordered=True),
            "word": pd.Categorical(["nan", "x", "nan", "x", None, "x"]),
            "nullable": pd.array([1, None, 300, 1, 2, 5000], dtype="Int64"),
            "truth": pd.array([True, None, False, True, True, True], dtype="boolean"),
            "when": pd.to_datetime(["2020-01-01", None, "2020-01-02", "2020-01-03", "2020-01-05", "2020-01-05"]),
            "lists": [[1], [2], [3], [4], [5], [6]],
        }
    )
    source = open_source(frame)
    assert _kinds(source) == {
        "size": "category", "word": "category", "nullable": "real", "truth": "binary", "when": "real",
    }  # fmt: skip
    assert _column(source, "size").levels == ("S", "M", "L", "XL")  # their own order, the unused one too
    np.testing.assert_array_equal(_values(source, "size"), [0, 2, 1, 0, np.nan, 1])
    assert _column(source, "word").levels == ("nan", "x")  # a category called nan is a category
    np.testing.assert_array_equal(_values(source, "word"), [0, 1, 0, 1, np.nan, 1])
    np.testing.assert_array_equal(_values(source, "truth"), [1, np.nan, 0, 1, 1, 1])
    np.testing.assert_array_equal(_values(source, "when"), [18262, np.nan, 18263, 18264, 18266, 18266])
    assert "days" in _column(source, "when").reason
    assert dict(source.left_out) == {"lists": "it holds values of type list"}


def test_words_for_missing_and_hints_at_others(tmp_path: Path) -> None:
    lines = [
        "a,b,c,d",
        "1.5,Rome,-999,7",
        "NA,?,3.5,N/A",
        "2.5,Bonn,4,null",
        ", ? ,5,none",
        "3.5,Rome,6.5,8",
        "?,Bonn,7,9",
    ]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    source = open_source(tmp_path / "x.csv")
    gap = np.nan
    expected = [[1.5, 1, -999, 7], [gap, gap, 3.5, gap], [2.5, 0, 4, gap], [gap, gap, 5, gap], [3.5, 1, 6.5, 8],
                [gap, 0, 7, 9]]  # fmt: skip
    np.testing.assert_array_equal(source.load(), expected)
    assert "-999 is far from the rest" in _column(source, "c").reason
    assert "far from the rest" not in _column(source, "a").reason


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        ("yes no yes", ("no", "yes")),
        ("Y N Y", ("N", "Y")),
        ("TRUE FALSE TRUE", None),
        ("t f f", ("f", "t")),
        ("1 0 1", None),
    ],
)
def test_yes_and_no(values: str, levels: tuple[str, str] | None, tmp_path: Path) -> None:
    rows = [f"{word},{city}" for word, city in zip(values.split(), ("Rome", "Bonn", "Rome"))]
    (tmp_path / "x.csv").write_text("\n".join(["yes,city", *rows]))
    source = open_source(tmp_path / "x.csv")
    assert _kinds(source) == {"yes": "binary", "city": "category"}
    assert source.load()[:, 0].tolist() == [
        float(word.lower() in ("yes", "y", "true", "t", "1")) for word in values.split()
    ]
    assert levels is None or source.kinds[0].levels == levels


# Bad input -----------------------------------------------------------------------------------------------------------


def test_columns_that_say_nothing_are_left_out(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "x": np.arange(2000) * 0.5,
            "city": ["Rome", "Bonn"] * 1000,
            "one": 5,
            "none": np.nan,
            "codes": [f"k{i % 1500}" for i in range(2000)],
            "number": range(2000),
        }
    )
    for form in ("csv", "parquet", "pandas"):
        source = open_source(FORMS[form](tmp_path, frame))
        assert source.columns == ("x", "city")
        assert dict(source.left_out) == {
            "one": "it is 5 in every row",
            "none": "it has no value in any row",
            "codes": "text with 1,500 different values, and a category has at most 1,000 levels",
            "number": "it numbers the rows",
        }


def test_a_million_levels_are_left_out_or_refused_in_one_sentence() -> None:
    frame = pd.DataFrame({"x": np.arange(10**6) * 0.5, "level": pd.Series(np.arange(10**6)).astype(str) + "x"})
    frame = pd.concat([frame, frame[:1000]], ignore_index=True)
    source = open_source(frame)
    assert source.columns == ("x",)
    assert "far more than 1,000 different values" in dict(source.left_out)["level"]
    with pytest.raises(ValueError, match="the column 'level' has more than 1,000 levels, too many for a category"):
        open_source(frame, columns={"level": "category"})


SENTENCES: dict[str, tuple[str, dict[str, str] | None, str]] = {
    "mixed": ("a,b\n1,x\n2,x\noops,y\n", None, r"'a' holds text \('oops' in line 4\) among numbers; .*a=category"),
    "a comma": ("a;b\n1,5;x\n2,5;x\n", None, "with a point instead of a comma"),
    "twins": ("a,b,a\n1,2,x\n2,3,y\n", None, "has two columns called 'a'"),
    "only left out": ("a,b\nu v w,x\nx y z,x\n", None, "has no column to cluster by: all were left out"),
    "unknown name": ("a,b\n1,x\n2,y\n", {"c": "real"}, "has no column 'c'; it has 'a', 'b'"),
    "unknown kind": ("a,b\n1,x\n2,y\n", {"a": "ordinal"}, "the kinds are real, count, binary, category, and skip"),
    "text as real": ("a,b\n1,x\n2,y\n", {"b": "real"}, r"the column 'b' holds text \('x' in line 2\)"),
    "decimals as count": ("a,b\n1.5,x\n2,x\n", {"a": "count"}, "the column 'a' is no count"),
    "negative count": ("a,b\n-1,x\n2,x\n", {"a": "count"}, "the column 'a' is no count"),
    "three as binary": ("a,b\n1,x\n2,y\n3,x\n", {"a": "binary"}, "3 different values, so it is not binary"),
    "nothing as real": ("a,b\n1,\n2,\n3,\n", {"b": "real"}, "cannot be taken as real: it has no value in any row"),
}  # fmt: skip


@pytest.mark.parametrize("case", SENTENCES)
def test_one_sentence(case: str, tmp_path: Path) -> None:
    text, columns, sentence = SENTENCES[case]
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(ValueError, match=sentence) as caught:
        open_source(tmp_path / "x.csv", columns=columns)
    assert "\n" not in str(caught.value)


# Overruling ----------------------------------------------------------------------------------------------------------


def test_what_is_said_about_columns_holds(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("zip,grade,flag,id\n00202,1,a,7\n00043,5,b,8\n00202,3,a,9\n")
    said = {"zip": "category", "grade": "real", "flag": "binary", "id": "skip"}
    source = open_source(tmp_path / "x.csv", columns=said)
    assert _kinds(source) == {"zip": "category", "grade": "real", "flag": "binary"}
    assert source.kinds[0].levels == ("00043", "00202")  # as they are written
    assert source.load().tolist() == [[1, 1, 0], [0, 5, 1], [1, 3, 0]]
    assert source.left_out == (("id", "you said so"),)
    frame = pd.DataFrame({"a": [1.5, 2.0, 1.5]})
    assert open_source(frame, columns={"a": "category"}).kinds[0].levels == ("1.5", "2")


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
    for number, (form, data) in enumerate([("csv", _csv(tmp_path, frame)), ("parts", _parts(tmp_path, frame))]):
        source = open_rows(data, tmp_path / str(number), columns={"code": "category"})
        assert source.kinds[1].levels == ("1", "2", "3", "many"), form
        assert source.kinds[2].levels == ("Aachen", "Bonn", "Rome"), form
        np.testing.assert_array_equal(source.load(), whole.load())
    again = open_rows(_csv(tmp_path, frame[::-1]), tmp_path / "again", columns={"code": "category"})
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
    read = open_source(_parts(tmp_path, frame))
    monkeypatch.setattr(parquet_look, "_MOST_LOOKED_AT", 10)
    told = open_source(tmp_path / "parts")
    assert _kinds(told) == _kinds(read)
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
        np.testing.assert_array_equal(_values(source, "city"), [3, 2, np.nan, 0])  # 3: a level that the fit never saw
        np.testing.assert_array_equal(_values(source, "grade"), [0, 4, 5, np.nan])
        np.testing.assert_array_equal(_values(source, "member"), [1, 0, 1, 1])
        np.testing.assert_array_equal(_values(source, "income"), PEOPLE["income"][:4])
        np.testing.assert_array_equal(_values(source, "born"), _values(fitted, "born")[:4])
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
    record = json.loads(json.dumps(open_source(_parquet(tmp_path)).record()))
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
