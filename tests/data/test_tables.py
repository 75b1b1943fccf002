"""Tables as people have them: kinds found from the data, gaps, and one sentence for what is wrong."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dtree.data import Source, open_source
from dtree.data.cells import numbers_in
from tests.data.people import (
    FORMS,
    KINDS,
    PEOPLE,
    N,
    as_parquet,
    column_of,
    kinds_of,
    values_of,
)

# Kinds ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_same_kinds_and_codes(form: str, tmp_path: Path) -> None:
    source = open_source(FORMS[form](tmp_path))
    assert kinds_of(source) == KINDS
    assert source.row_names == PEOPLE["person"].tolist()
    left_out = dict(source.left_out)
    assert set(left_out) == {"person", "planet", "customer_id", "remark"}
    assert left_out["planet"] == "it is 'Earth' in every row"
    assert "identifier" in left_out["customer_id"]
    assert "free text" in left_out["remark"]
    assert column_of(source, "city").levels == ("Bonn", "Oslo", "Rome")
    assert column_of(source, "city").missing == pytest.approx(1 / N)
    assert column_of(source, "grade").levels == ("1", "2", "3", "4", "5")
    assert column_of(source, "member").levels == ("no", "yes")
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
        assert set(kinds_of(source).values()) == {"real"}
    assert open_source(as_parquet(tmp_path, frame[["id", "few"]])).dtype == "int64"  # not even the type changes


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
    assert kinds_of(source) == {
        "size": "category", "word": "category", "nullable": "real", "truth": "binary", "when": "real",
    }  # fmt: skip
    assert column_of(source, "size").levels == ("S", "M", "L", "XL")  # their own order, the unused one too
    np.testing.assert_array_equal(values_of(source, "size"), [0, 2, 1, 0, np.nan, 1])
    assert column_of(source, "word").levels == ("nan", "x")  # a category called nan is a category
    np.testing.assert_array_equal(values_of(source, "word"), [0, 1, 0, 1, np.nan, 1])
    np.testing.assert_array_equal(values_of(source, "truth"), [1, np.nan, 0, 1, 1, 1])
    np.testing.assert_array_equal(values_of(source, "when"), [18262, np.nan, 18263, 18264, 18266, 18266])
    assert "days" in column_of(source, "when").reason
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
    assert "-999 is far from the rest" in column_of(source, "c").reason
    assert "far from the rest" not in column_of(source, "a").reason
    assert "read as missing" not in column_of(source, "b").reason  # "?" means nothing else


@pytest.mark.parametrize("word", ["none", "nan", "NA", "None"])
def test_a_word_for_missing_that_may_be_a_level_is_named(word: str, tmp_path: Path) -> None:
    words = [word, "basic", "full", word, "basic", "full"]
    (tmp_path / "x.csv").write_text("\n".join(["a,plan", *(f"{i / 2},{word}" for i, word in enumerate(words))]))
    plan = column_of(open_source(tmp_path / "x.csv"), "plan")
    assert plan.levels == ("basic", "full")
    assert plan.reason == f"text, 2 values; '{word}' is read as missing"


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
    assert kinds_of(source) == {"yes": "binary", "city": "category"}
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
    assert kinds_of(source) == {"zip": "category", "grade": "real", "flag": "binary"}
    assert source.kinds[0].levels == ("00043", "00202")  # as they are written
    assert source.load().tolist() == [[1, 1, 0], [0, 5, 1], [1, 3, 0]]
    assert source.left_out == (("id", "you said so"),)
    frame = pd.DataFrame({"a": [1.5, 2.0, 1.5]})
    assert open_source(frame, columns={"a": "category"}).kinds[0].levels == ("1.5", "2")


def test_numbers_among_words_keep_every_bit() -> None:
    """pandas 2 rounds the last one of a third of them."""
    values = np.random.default_rng(0).normal(size=300)
    found = numbers_in([*map(repr, values.tolist()), "none"])
    np.testing.assert_array_equal(found, [*values, np.nan])


def test_a_column_without_a_name_that_has_gaps_names_no_rows(tmp_path: Path) -> None:
    frame = pd.DataFrame({"": [0.5, np.nan, 2.5, 3.5], "x": [1.0, 2.0, 3.0, 5.0]})
    frame.to_csv(tmp_path / "gaps.csv", index=False)
    source = open_source(tmp_path / "gaps.csv")
    assert source.row_names is None
    assert source.shape == (4, 2)
    frame.fillna(1.5).to_csv(tmp_path / "whole.csv", index=False)
    assert open_source(tmp_path / "whole.csv").row_names == ["0.5", "1.5", "2.5", "3.5"]
