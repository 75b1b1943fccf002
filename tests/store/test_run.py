"""Runs: written whole or not at all, read back bit for bit, and refused with one sentence when anything is amiss."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from dtree.core.families import FAMILIES, Bernoulli, DiagonalGaussian, Gaussian, Multinomial, Poisson
from dtree.core.priors import DirichletProcess, GeneralizedGamma
from dtree.core.tree import Tree
from dtree.store import run as run_module
from dtree.store.commit import check_place, file_in_place, folder_in_place
from dtree.store.encode import decode, encode
from dtree.store.run import Contents, Kind, check_output, fingerprint, read_provenance, read_run, register, write_run


def _put_together(contents: Contents) -> dict[str, Any]:
    return decode(contents.settings["value"], contents.arrays)


def _take_apart(value: Any) -> Contents:
    arrays: dict[str, np.ndarray] = {}
    return Contents(settings={"value": encode(value, "value", arrays)}, arrays=arrays)


@pytest.fixture(autouse=True)
def _a_kind_for_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "_KINDS", {})
    register("test", Kind(_take_apart, _put_together))


def _tree() -> Tree:
    return Tree.from_merges([[0, 1], [2, 3]], size=[1, 1, 1], log_phi_h=np.log([0.5, 0.5, 0.5, 0.4, 0.05]))


VALUES: dict[str, Any] = {
    "numbers": {"a": 0.1 + 0.2, "b": -1, "c": None, "d": True, "e": "text", "f": float("inf"), "g": np.float64(1 / 3)},
    "arrays": {"a": np.arange(5), "b": np.random.default_rng(0).normal(size=(3, 4)), "empty": np.empty((0, 2))},
    "names": {"a": np.array(["x", "ü", ""], dtype=object)},
    "list": {"a": [1, [2.5, None]]},
    "truths": {"a": np.array([True, False])},
}


@pytest.mark.parametrize("case", VALUES)
def test_values_come_back_bit_for_bit(tmp_path: Path, case: str) -> None:
    write_run(tmp_path / "run.zarr", "test", VALUES[case])
    again = read_run(tmp_path / "run.zarr")
    assert list(again) == list(VALUES[case])
    for key, value in VALUES[case].items():
        if isinstance(value, np.ndarray):
            assert again[key].dtype == value.dtype
            np.testing.assert_array_equal(again[key], value)
        else:
            assert again[key] == value


FAMILY_EXAMPLES = [
    Gaussian([0.1, 1 / 3], 0.7, 4.5, [[1.0, 0.1], [0.1, 2 / 3]]),
    DiagonalGaussian([0.1, 1 / 3], 0.7, [2.0, 3.0], [1.0, 0.1]),
    Bernoulli([0.1, 0.2], [0.3, 1 / 7]),
    Multinomial([0.1, 1 / 3], coefficient=True),
    Poisson([0.1, 0.2], [0.3, 1 / 7]),
]


def test_there_is_an_example_of_every_family() -> None:
    assert {family.name for family in FAMILY_EXAMPLES} == set(FAMILIES)


@pytest.mark.parametrize("family", FAMILY_EXAMPLES, ids=lambda family: family.name)
def test_families_give_the_same_numbers_again(tmp_path: Path, family: Any) -> None:
    write_run(tmp_path / "run.zarr", "test", {"family": family, "again": [family]})
    again = read_run(tmp_path / "run.zarr")["family"]
    assert type(again) is type(family)
    X = np.array([[0, 1], [1, 1], [1, 0]])
    assert again.log_marginal(X) == family.log_marginal(X)


@pytest.mark.parametrize(
    "prior", [DirichletProcess(1 / 3), DirichletProcess(2.0, 0.7), GeneralizedGamma(0.3, 0.2, 1.7)]
)
def test_priors_come_back(tmp_path: Path, prior: Any) -> None:
    write_run(tmp_path / "run.zarr", "test", {"prior": prior})
    assert read_run(tmp_path / "run.zarr")["prior"] == prior


@pytest.mark.parametrize("leaves", [1, 3])
def test_trees_come_back(tmp_path: Path, leaves: int) -> None:
    tree = _tree() if leaves == 3 else Tree.from_merges([], size=[2], log_phi_h=[-1.0])
    write_run(tmp_path / "run.zarr", "test", {"tree": tree})
    again = read_run(tmp_path / "run.zarr")["tree"]
    for column in ("left", "right", "size", "log_phi_h", "log_phi_t"):
        np.testing.assert_array_equal(getattr(again, column), getattr(tree, column))


def test_a_run_is_a_plain_zarr_group_with_its_provenance(tmp_path: Path) -> None:
    write_run(tmp_path / "run.zarr", "test", {"tree": _tree()}, {"command": "dtree fit", "seed": 3})
    group = zarr.open_group(tmp_path / "run.zarr", mode="r")
    np.testing.assert_array_equal(group["value/tree/left"][...], [0, 2])
    notes = read_provenance(tmp_path / "run.zarr")
    assert notes["kind"] == "test"
    assert notes["seed"] == 3
    assert notes["numpy"] == np.__version__
    assert {"dtree", "numba", "zarr", "python", "created"} <= set(notes)


def test_large_arrays_are_chunked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dtree.store.layout._CHUNK_BYTES", 64)
    values = np.arange(70.0).reshape(35, 2)
    write_run(tmp_path / "run.zarr", "test", {"values": values})
    assert zarr.open_array(tmp_path / "run.zarr/value/values", mode="r").chunks == (4, 2)
    np.testing.assert_array_equal(read_run(tmp_path / "run.zarr")["values"], values)


# Whole or not at all -------------------------------------------------------------------------------------------------


def _visible_and_hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_existing_run_is_refused_and_stays(tmp_path: Path) -> None:
    write_run(tmp_path / "run.zarr", "test", {"a": 1})
    with pytest.raises(ValueError, match="exists already"):
        write_run(tmp_path / "run.zarr", "test", {"a": 2})
    assert read_run(tmp_path / "run.zarr") == {"a": 1}
    assert _visible_and_hidden(tmp_path) == ["run.zarr"]


def test_overwriting_replaces_a_run(tmp_path: Path) -> None:
    write_run(tmp_path / "run.zarr", "test", {"a": np.arange(3)})
    write_run(tmp_path / "run.zarr", "test", {"a": 2}, overwrite=True)
    assert read_run(tmp_path / "run.zarr") == {"a": 2}
    assert _visible_and_hidden(tmp_path) == ["run.zarr"]


def test_overwriting_without_an_exchange_of_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dtree.store.commit._exchange", lambda a, b: False)
    test_overwriting_replaces_a_run(tmp_path)


def test_the_old_run_stays_when_the_new_one_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "run.zarr", "test", {"a": 1})

    def full_disk(*_: Any) -> None:
        (tmp_path / "run.zarr").joinpath("zarr.json").read_bytes()  # the old one is still in its place
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dtree.store.commit.flush_to_disk", full_disk)
    with pytest.raises(OSError, match=r"cannot write .*run\.zarr: No space left on device"):
        write_run(tmp_path / "run.zarr", "test", {"a": 2}, overwrite=True)
    assert read_run(tmp_path / "run.zarr") == {"a": 1}
    assert _visible_and_hidden(tmp_path) == ["run.zarr"]


@pytest.mark.parametrize("content", ["folder", "file", "zarr", "link"])
def test_what_is_not_a_run_is_never_replaced(tmp_path: Path, content: str) -> None:
    place = tmp_path / "precious"
    if content == "folder":
        place.mkdir()
        (place / "thesis.tex").write_text("years of work")
    elif content == "file":
        place.write_text("years of work")
    elif content == "zarr":
        zarr.create_group(place)
    else:
        write_run(tmp_path / "elsewhere.zarr", "test", {"a": 1})
        place.symlink_to(tmp_path / "elsewhere.zarr")
    with pytest.raises(ValueError, match="is not a dtree run, so it is not replaced"):
        write_run(place, "test", {"a": 1}, overwrite=True)
    assert place.exists()


def test_places_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist; make it first"):
        check_output(tmp_path / "nowhere" / "run.zarr")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is not a folder"):
        check_output(tmp_path / "file" / "run.zarr")
    with pytest.raises(ValueError, match="is not a name for an output"):
        check_place(Path("/"))


def test_a_killed_writer_leaves_nothing_visible_and_the_next_one_sweeps(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from dtree.store.commit import folder_in_place\n"
        "with folder_in_place(Path(sys.argv[1])) as partial:\n"
        "    (partial / 'half').write_text('x'); print('writing', flush=True); time.sleep(60)\n"
    )
    root = Path(__file__).resolve().parents[2]
    writer = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "run.zarr")],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert writer.stdout is not None
    with writer:
        writer.stdout.readline()
        writer.kill()
    assert not (tmp_path / "run.zarr").exists()
    assert len(_visible_and_hidden(tmp_path)) == 1
    write_run(tmp_path / "run.zarr", "test", {"a": 1})
    assert _visible_and_hidden(tmp_path) == ["run.zarr"]


def test_a_twin_of_a_checkpoint_is_kept(tmp_path: Path) -> None:
    for text in ("first", "second"):
        with folder_in_place(tmp_path / "gen-00000042", existing="keep") as partial:
            (partial / "draws").write_text(text)
    assert (tmp_path / "gen-00000042" / "draws").read_text() == "first"
    assert _visible_and_hidden(tmp_path) == ["gen-00000042"]


def test_a_file_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("old")

    def fail_midway() -> None:
        with file_in_place(tmp_path / "labels.csv") as partial:
            partial.write_text("half")
            raise RuntimeError("midway")

    with pytest.raises(RuntimeError, match="midway"):
        fail_midway()
    assert (tmp_path / "labels.csv").read_text() == "old"
    assert _visible_and_hidden(tmp_path) == ["labels.csv"]


# Damage and malice ---------------------------------------------------------------------------------------------------


def _edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    metadata = json.loads(path.read_text())
    change(metadata)
    path.write_text(json.dumps(metadata))


def _header(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    return lambda run: _edit(run / "zarr.json", lambda metadata: change(metadata["attributes"]["dtree"]))


def _array(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    return lambda run: _edit(run / "value/tree/size/zarr.json", change)


def _truncate(run: Path) -> None:
    chunk = run / "value/tree/size/c/0"
    chunk.write_bytes(chunk.read_bytes()[:-1])


def _flip_a_bit(run: Path) -> None:
    chunk = run / "value/tree/log_phi_h/c/0"
    content = bytearray(chunk.read_bytes())
    content[0] ^= 1
    chunk.write_bytes(content)


def _huge(run: Path) -> None:
    _edit(run / "value/tree/size/zarr.json", lambda m: m.update(shape=[2**40]))
    _header(lambda h: h["arrays"]["value/tree/size"].update(shape=[2**40]))(run)


def _huge_with_huge_chunk(run: Path) -> None:
    _huge(run)
    _edit(run / "value/tree/size/zarr.json", lambda m: m["chunk_grid"]["configuration"].update(chunk_shape=[2**40]))


def _link(run: Path) -> None:
    chunk = run / "value/tree/size/c/0"
    target = run.parent / "target"
    chunk.rename(target)
    chunk.symlink_to(target)


def _pipe(run: Path) -> None:
    (run / "value/tree/size/c/0").unlink()
    os.mkfifo(run / "value/tree/size/c/0")


def _rewrite_tree(column: str, values: list[Any]) -> Callable[[Path], None]:
    """A consistent store that holds a wrong tree: hashes are right, the content is not."""

    def rewrite(run: Path) -> None:
        columns = {name: getattr(_tree(), name) for name in ("left", "right", "size", "log_phi_h", "log_phi_t")}
        columns[column] = np.array(values, dtype=columns[column].dtype)
        write_run(run, "test", {"tree": Tree(**columns)}, overwrite=True)

    return rewrite


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no header": (lambda run: (run / "zarr.json").unlink(), "has no zarr.json"),
    "header not JSON": (lambda run: (run / "zarr.json").write_text("{"), "not valid JSON"),
    "header not text": (lambda run: (run / "zarr.json").write_bytes(b"\xff\xfe"), "not valid JSON"),
    "header a list": (lambda run: (run / "zarr.json").write_text("[]"), "not a JSON object"),
    "header nested too deeply": (lambda run: (run / "zarr.json").write_text("[" * 100_000), "not valid JSON"),
    "header without dtree": (lambda run: _edit(run / "zarr.json", lambda m: m.update(attributes={})), "not a dtree run"),
    "a newer format": (_header(lambda h: h.update(format=99)), "has format 99"),
    "no format": (_header(lambda h: h.pop("format")), "does not say which format"),
    "an unknown kind": (_header(lambda h: h.update(kind="other")), "kind 'other', which this dtree does not know"),
    "no kind": (_header(lambda h: h.pop("kind")), "does not say what kind"),
    "no settings": (_header(lambda h: h.pop("settings")), "has no settings"),
    "settings nested too deeply": (
        _header(lambda h: h["settings"].update(value=json.loads('{"a":' * 50 + "1" + "}" * 50))), "nested too deeply",
    ),
    "no list of arrays": (_header(lambda h: h.pop("arrays")), "has no arrays"),
    "an array name that climbs": (_header(lambda h: h["arrays"].update({"../../etc": {}})), "is not a name for an array"),
    "an array that is not there": (
        _header(lambda h: h["arrays"].update({"more": h["arrays"]["value/tree/size"]})), "'more' is missing",
    ),
    "a setting without its array": (_header(lambda h: h["settings"].update(value={"$array": "x"})), "it has no array 'x'"),
    "a negative shape": (
        _header(lambda h: h["arrays"]["value/tree/size"].update(shape=[-5])), r"impossible shape \[-5\]",
    ),
    "an object type": (_header(lambda h: h["arrays"]["value/tree/size"].update(dtype="object")), "proper shape or type"),
    "another type in the array": (_array(lambda m: m.update(data_type="float32")), "not stored in the way"),
    "another codec": (_array(lambda m: m.update(codecs=[{"name": "gzip"}])), "not stored in the way"),
    "chunks of nothing": (
        _array(lambda m: m["chunk_grid"]["configuration"].update(chunk_shape=[0])), "impossible chunks",
    ),
    "a huge declared size": (_huge, "declares .* bytes but holds 40"),
    "a huge declared chunk": (_huge_with_huge_chunk, "declares .* bytes but holds 40"),
    "a missing chunk": (lambda run: (run / "value/tree/size/c/0").unlink(), "declares 40 bytes but holds 0"),
    "a truncated chunk": (_truncate, "declares 40 bytes but holds 39"),
    "a flipped bit": (_flip_a_bit, "SHA-256 differs"),
    "a link": (_link, "neither a file nor a folder"),
    "a pipe": (_pipe, "neither a file nor a folder"),
    "a tree with a cycle": (_rewrite_tree("left", [4, 2]), "children before parents"),
    "a tree with a child out of range": (_rewrite_tree("left", [-3, 2]), "children before parents"),
    "a tree with two parents": (_rewrite_tree("left", [0, 0]), "one parent each"),
    "a tree with NaN": (_rewrite_tree("log_phi_h", [0, 0, 0, 0, np.nan]), "potentials are finite"),
    "a tree with wrong sizes": (_rewrite_tree("size", [1, 1, 1, 2, 9]), "sizes add"),
    "a tree with a short column": (_rewrite_tree("log_phi_t", [0.0]), "shapes agree"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_or_hostile_run_gets_one_sentence(tmp_path: Path, case: str) -> None:
    run = tmp_path / "run.zarr"
    write_run(run, "test", {"tree": _tree()})
    spoil, sentence = DAMAGE[case]
    spoil(run)
    with pytest.raises(ValueError, match=sentence) as caught:
        read_run(run)
    assert "\n" not in str(caught.value)
    assert str(run) in str(caught.value)


@pytest.mark.parametrize("name", ["no-such-family", ["a"], None, "gaussian"])
def test_a_hostile_family_gets_one_sentence(tmp_path: Path, name: Any) -> None:
    run = tmp_path / "run.zarr"
    write_run(run, "test", {"tree": _tree()})
    stored = {"$family": name, "parameters": {"mean": 0.0, "__class__": 1}}
    _header(lambda h: h["settings"].update(value=stored))(run)
    with pytest.raises(ValueError, match="family"):
        read_run(run)


def test_words_of_the_language_are_kept_apart_from_keys(tmp_path: Path) -> None:
    value = {"tree": 1, "array": "x", "family": "gaussian", "parameters": {"list": 2}}
    write_run(tmp_path / "run.zarr", "test", value)
    assert read_run(tmp_path / "run.zarr") == value
    with pytest.raises(ValueError, match=r"start with \$"):
        write_run(tmp_path / "more.zarr", "test", {"$tree": 1})


def test_runs_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no run"):
        read_run(tmp_path / "run.zarr")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="a run is a folder"):
        read_run(tmp_path / "file")


def test_the_fingerprint_is_of_the_values() -> None:
    X = np.random.default_rng(0).poisson(0.5, size=(9000, 3)).astype(float)
    assert fingerprint(X) == fingerprint(np.asfortranarray(X.astype(np.int16)))
    assert fingerprint(X) != fingerprint(X.T)
    changed = X.copy()
    changed[-1, -1] += 1
    assert fingerprint(X) != fingerprint(changed)
