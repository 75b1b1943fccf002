"""Whatever is amiss with a finished run, there is one sentence that names it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtree.core.tree import Tree
from tests.runs.toy import read_run, small_tree, write_run

SIZE = "value/tree/size"  # one of the arrays of the run, 5 numbers of 8 bytes


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    metadata = json.loads(path.read_text())
    change(metadata)
    path.write_text(json.dumps(metadata))


def header(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    return lambda run: edit(run / "zarr.json", lambda metadata: change(metadata["attributes"]["dtree"]))


def array(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    return lambda run: edit(run / SIZE / "zarr.json", change)


def value(stored: Any) -> Callable[[Path], None]:
    """Another value in the results."""
    return header(lambda h: h["results"].update(value=stored))


def nested(depth: int) -> Any:
    return json.loads('{"a":' * depth + "1" + "}" * depth)


def truncate(run: Path) -> None:
    chunk = run / SIZE / "c/0"
    chunk.write_bytes(chunk.read_bytes()[:-1])


def flip_a_bit(run: Path) -> None:
    chunk = run / "value/tree/log_phi_h/c/0"
    content = bytearray(chunk.read_bytes())
    content[0] ^= 1
    chunk.write_bytes(content)


def huge(run: Path) -> None:
    array(lambda m: m.update(shape=[2**39]))(run)
    header(lambda h: h["arrays"][SIZE].update(shape=[2**39]))(run)


def huge_with_huge_chunk(run: Path) -> None:
    huge(run)
    array(lambda m: m["chunk_grid"]["configuration"].update(chunk_shape=[2**39]))(run)


def link(run: Path) -> None:
    chunk, target = run / SIZE / "c/0", run.parent / "target"
    chunk.rename(target)
    chunk.symlink_to(target)


def pipe(run: Path) -> None:
    (run / SIZE / "c/0").unlink()
    os.mkfifo(run / SIZE / "c/0")


def wrong_tree(column: str, values: list[Any]) -> Callable[[Path], None]:
    """A run in good order that holds a wrong tree: hashes are right, the content is not."""

    def rewrite(run: Path) -> None:
        columns = {name: getattr(small_tree(), name) for name in ("left", "right", "size", "log_phi_h", "log_phi_t")}
        columns[column] = np.array(values, dtype=columns[column].dtype)
        write_run(run, {"tree": Tree(**columns)}, overwrite=True)

    return rewrite


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no header": (lambda run: (run / "zarr.json").unlink(), "has no zarr.json"),
    "header not JSON": (lambda run: (run / "zarr.json").write_text("{"), "not valid JSON"),
    "header not text": (lambda run: (run / "zarr.json").write_bytes(b"\xff\xfe"), "not valid JSON"),
    "header a list": (lambda run: (run / "zarr.json").write_text("[]"), "not a JSON object"),
    "header nested too deeply": (lambda run: (run / "zarr.json").write_text("[" * 100_000), "not valid JSON"),
    "header without dtree": (lambda run: edit(run / "zarr.json", lambda m: m.update(attributes={})), "not a dtree run"),
    "an array for a group": (
        lambda run: edit(run / "zarr.json", lambda m: m.update(node_type="array")),
        "not a zarr group",
    ),
    "header of another type": (
        lambda run: edit(run / "zarr.json", lambda m: m["attributes"].update(dtree=[1])),
        "format",
    ),
    "a newer format": (header(lambda h: h.update(format=99)), "has format 99"),
    "an older format": (header(lambda h: h.update(format=1)), "was written by dtree 0.1"),
    "no format": (header(lambda h: h.pop("format")), "does not say which format"),
    "no method": (header(lambda h: h.pop("method")), "header is wrong: .*missing required field 'method'"),
    "no settings": (header(lambda h: h.pop("settings")), "header is wrong: .*missing required field 'settings'"),
    "settings of another type": (header(lambda h: h.update(settings="x")), "header is wrong: .*settings"),
    "no rows": (header(lambda h: h.update(n_rows=0)), "header is wrong: .*n_rows"),
    "more rows than there can be": (header(lambda h: h.update(n_rows=10**15)), "header is wrong: .*n_rows"),
    "an unknown status": (header(lambda h: h.update(status="maybe")), "header is wrong: .*status"),
    "a run_id that climbs": (header(lambda h: h.update(run_id="../../etc")), "header is wrong: .*run_id"),
    "something more": (header(lambda h: h.update(more=1)), "header is wrong: .*more"),
    "no results": (header(lambda h: h.pop("results")), "Expected 'object', got 'null'"),
    "results nested too deeply": (value(nested(50)), "nested too deeply"),
    "results nested far too deeply": (value(nested(900)), "nested too deeply"),
    "no list of arrays": (header(lambda h: h.pop("arrays")), "it has no array 'value/tree/left'"),
    "arrays that are no list": (header(lambda h: h.update(arrays=[1])), "header is wrong: .*arrays"),
    "an array that is no array": (header(lambda h: h["arrays"].update(more=1)), "header is wrong: .*arrays"),
    "an array name that climbs": (
        header(lambda h: h["arrays"].update({"../../etc": h["arrays"][SIZE]})), "is not a name for an array",
    ),
    "an array that is not there": (header(lambda h: h["arrays"].update(more=h["arrays"][SIZE])), "'more' is missing"),
    "a result without its array": (value({"$array": "x"}), "it has no array 'x'"),
    "a negative shape": (header(lambda h: h["arrays"][SIZE].update(shape=[-5])), r"impossible shape \[-5\]"),
    "an object type": (header(lambda h: h["arrays"][SIZE].update(dtype="object")), "proper shape or type"),
    "another type in the array": (array(lambda m: m.update(data_type="float32")), "not stored in the way"),
    "another codec": (array(lambda m: m.update(codecs=[{"name": "gzip"}])), "not stored in the way"),
    "a codec that runs code": (array(lambda m: m.update(codecs=[{"name": "numcodecs.pickle"}])), "numcodecs.pickle"),
    "a transformer": (array(lambda m: m.update(storage_transformers=[{"name": "x"}])), "not stored in the way"),
    "chunks of nothing": (
        array(lambda m: m["chunk_grid"]["configuration"].update(chunk_shape=[0])),
        r"impossible shape .* in chunks \[0\]",
    ),
    "chunks larger than the array": (
        array(lambda m: m["chunk_grid"]["configuration"].update(chunk_shape=[99])), r"impossible chunks \[99\]",
    ),
    "a huge declared size": (huge, "declares .* bytes but holds 40"),
    "a huge declared chunk": (huge_with_huge_chunk, "declares .* GB of data, more than this machine's memory"),
    "a missing chunk": (lambda run: (run / SIZE / "c/0").unlink(), "declares 40 bytes but holds 0"),
    "a truncated chunk": (truncate, "declares 40 bytes but holds 39"),
    "a flipped bit": (flip_a_bit, "SHA-256 differs"),
    "a link": (link, "neither a file nor a folder"),
    "a pipe": (pipe, "neither a file nor a folder"),
    "labels of other rows": (header(lambda h: h.update(n_rows=4)), "its labels are not one for each of 4 rows"),
    "labels that are lost": (lambda run: (run / "labels/c/0").unlink(), "some of its labels are missing"),
    "labels that are cut": (
        lambda run: (run / "labels/c/0").write_bytes(b"x"),
        "the array 'labels' of .* cannot be read",
    ),
    "a tree with a cycle": (wrong_tree("left", [4, 2]), "children before parents"),
    "a tree with a child out of range": (wrong_tree("left", [-3, 2]), "children before parents"),
    "a tree with two parents": (wrong_tree("left", [0, 0]), "one parent each"),
    "a tree with NaN": (wrong_tree("log_phi_h", [0, 0, 0, 0, np.nan]), "potentials are finite"),
    "a tree with wrong sizes": (wrong_tree("size", [1, 1, 1, 2, 9]), "sizes add"),
    "a tree with a short column": (wrong_tree("log_phi_t", [0.0]), "shapes agree"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_or_hostile_run_gets_one_sentence(tmp_path: Path, case: str) -> None:
    run = tmp_path / "run.zarr"
    write_run(run, {"tree": small_tree()})
    spoil, sentence = DAMAGE[case]
    spoil(run)
    with pytest.raises(ValueError, match=sentence) as caught:
        read_run(run)
    assert "\n" not in str(caught.value)
    assert str(run) in str(caught.value)


# Words of the codec's language, each used in a way that `encode` never does.
WORDS: dict[str, tuple[Any, str]] = {
    "a bare list": ([1], "a bare list"),
    "an unknown word": ({"$pickle": "x"}, r"unknown \['\$pickle'\]"),
    "a word among keys": ({"$array": SIZE, "more": 1}, "unknown"),
    "a tree by number": ({"$tree": 7}, "it has no array '7/left'"),
    "a tree elsewhere": ({"$tree": "../tree"}, "it has no array '../tree/left'"),
    "an array by list": ({"$array": [SIZE]}, "it has no array"),
    "five numbers as one": ({"$array": SIZE, "$as": "scalar"}, "reshape"),
    "a number that is none": ({"$float": "1e999"}, "a number is not a number"),
    "a number by list": ({"$float": ["nan"]}, "a number is not a number"),
    "names that are numbers": ({"$names": [1, 2]}, "a list of names holds something else"),
    "a list that is none": ({"$list": 3}, r"unknown \['\$list'\]"),
    "half a model": ({"$model": [1.0]}, r"unknown \['\$model'\]"),
    "a model of numbers": ({"$model": [1.0, 2.0, 3.0]}, "not a family, a prior and a coarsening"),
    "a prior without parameters": ({"$prior": "dp"}, "the parameters of its prior are missing"),
    "an unknown prior": (
        {"$prior": "os.system", "parameters": {}},
        "prior 'os.system', which this dtree does not know",
    ),
    "an impossible prior": ({"$prior": "dp", "parameters": {"alpha": -1.0}}, "its prior 'dp' cannot be made again"),
}  # fmt: skip


@pytest.mark.parametrize("case", WORDS)
def test_a_hostile_word_gets_one_sentence(tmp_path: Path, case: str) -> None:
    run = tmp_path / "run.zarr"
    write_run(run, {"tree": small_tree()})
    stored, sentence = WORDS[case]
    value(stored)(run)
    with pytest.raises(ValueError, match=sentence) as caught:
        read_run(run)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{run} is damaged: ")


@pytest.mark.parametrize("name", ["no-such-family", ["a"], None, "gaussian"])
def test_a_hostile_family_gets_one_sentence(tmp_path: Path, name: Any) -> None:
    run = tmp_path / "run.zarr"
    write_run(run, {"tree": small_tree()})
    value({"$family": name, "parameters": {"mean": 0.0, "__class__": 1}})(run)
    with pytest.raises(ValueError, match="family") as caught:
        read_run(run)
    assert "\n" not in str(caught.value)
