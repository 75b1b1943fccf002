"""What every method does when something goes wrong: bad rows, damaged headers and states, full disks, lost data.

One suite over all methods, as `test_features` is of what they can do.
"""

from __future__ import annotations

import errno
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtree
from dtree.engine.drive import Given, Place, drive, resume
from dtree.methods import method_named
from dtree.methods.settings import checked
from dtree.runs.codec import encode, restore
from dtree.runs.run import Run
from tests.engine.test_features import CHUNK_BYTES, IN_PASSES, METHODS, SEED, Stop, bits, copied, fit, frame, stop


@pytest.mark.parametrize("name", METHODS)
def test_bad_rows_are_named_and_leave_nothing(name: str, tmp_path: Path, home: Any) -> None:
    rows = frame()
    rows.iloc[77, 1] = np.inf
    rows.to_csv(tmp_path / "rows.csv")
    with pytest.raises(ValueError, match="row 77"):
        fit(name, tmp_path / "rows.csv", Place(home / "run"))
    assert {*tmp_path.iterdir(), *home.iterdir()} == {tmp_path / "rows.csv"}


def edit(path: Any, change: Any) -> None:
    document = json.loads(path.read_bytes())
    change(document["attributes"]["dtree"])
    path.write_text(json.dumps(document))


HEADERS = {
    "format": (lambda header: header.update(format=99), "has format 99"),
    "older": (lambda header: header.update(format=1), "was written by dtree 0.1"),
    "method": (lambda header: header.update(method="__import__"), "method that this dtree does not know"),
    "run-id": (lambda header: header.update(run_id="../../etc"), "is damaged: its header is wrong"),
    "surprise": (lambda header: header.update(surprise=1), "is damaged: its header is wrong"),
    "rows": (lambda header: header.update(n_rows=-1), "is damaged: its header is wrong"),
    "results": (lambda header: header.update(results={"columns": 7}), "is damaged"),
    "arrays": (lambda header: header["arrays"].popitem(), "is damaged"),
}


@pytest.mark.parametrize("case", HEADERS)
@pytest.mark.parametrize("name", METHODS)
def test_a_bad_header_gets_one_sentence(name: str, case: str, finished: dict[str, Path], home: Any) -> None:
    run = copied(finished[name], home / "run")
    change, sentence = HEADERS[case]
    edit(run / "zarr.json", change)
    with pytest.raises(ValueError, match=sentence) as caught:
        dtree.open(run)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", METHODS)
def test_a_flipped_bit_is_noticed(name: str, finished: dict[str, Path], home: Any) -> None:
    run = copied(finished[name], home / "run")
    listed = sorted(Run.open(run).header.arrays, key=lambda array: -(finished[name] / array).stat().st_size)
    chunk = next(path for array in listed for path in (run / array / "c").rglob("*") if path.is_file())
    content = bytearray(chunk.read_bytes())
    content[0] ^= 1
    chunk.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="SHA-256 differs"):
        dtree.open(run)


# Arrays of a walk whose values do not matter, since they are written before they are read.
SCRATCH = tuple(f"pool/{name}" for name in ("path", "saved", "shift", "place", "meeting", "base"))

# A start may have any number of clusters, and a map of labels may know some that no row has.
ANY_LENGTH = ("first", "clusters/label_map")


def damaged_arrays(arrays: dict[str, np.ndarray]) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Every way to spoil one of the arrays: a row too few or too many, numbers that are none."""
    for place, values in arrays.items():
        if "family/" in place:  # families look at what they are made of
            continue
        if values.ndim and place not in ANY_LENGTH:
            if values.shape[0]:
                yield f"{place} too short", {**arrays, place: values[:-1]}
            longer = np.zeros((values.shape[0] + 1, *values.shape[1:]), dtype=values.dtype)
            longer[:-1] = values
            yield f"{place} too long", {**arrays, place: longer}
        worthless = place.endswith(SCRATCH) or values.size == 0 or not np.all(np.isfinite(values))
        if values.dtype.kind == "f" and not worthless:
            yield f"{place} with NaN", {**arrays, place: np.full_like(values, np.nan)}


@pytest.mark.parametrize("name", [*METHODS, "tgmcmc"])
def test_a_damaged_state_gets_one_sentence_on_resuming(name: str, data: Path, tmp_path: Path) -> None:
    out, method = tmp_path / "run", method_named("chains" if name == "tgmcmc" else name)
    given = Given(data, chunk_bytes=CHUNK_BYTES, random_state=3)
    few = METHODS["chains"] | {"sampler": "tgmcmc"} if name == "tgmcmc" else METHODS[name]
    with pytest.raises(Stop):
        drive(method, checked(method.Settings, few), given, Place(out), SEED, stop)
    store = Run.open(out).store
    newest = [(found, method.State) for found in store.names("checkpoints")[-1:]]
    newest += [(found, method.Part) for found in store.names("parts/0000")[-1:]]
    tried = 0
    for record, kind in [("prepared", method.Prepared), *newest]:
        arrays: dict[str, np.ndarray] = {}
        good = store.get(record, kind)
        stored = encode(good, "", arrays)
        for what, spoiled in damaged_arrays(arrays):
            try:
                wrong = restore(kind, stored, spoiled)
            except ValueError:
                continue  # a tree looks at what it is made of
            store.drop(record)  # what is there already would be kept
            store.put(record, wrong)
            with pytest.raises(ValueError, match="damaged") as caught:
                pytest.fail(f"{record}: {what} went through to {resume(out)}")
            assert "\n" not in str(caught.value)
            tried += 1
        store.drop(record)
        store.put(record, good)
    assert tried > 3
    resume(out)


@pytest.mark.parametrize("name", METHODS)
def test_a_full_disk_is_said_and_the_run_goes_on(
    name: str, data: Path, finished: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dtree.runs.folder as folder

    real, calls = folder.write_group, []

    def full(*arguments: Any) -> None:
        calls.append(1)
        if len(calls) > 4:  # the settings, what was prepared and the first checkpoints found room
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*arguments)

    out = tmp_path / "run"
    monkeypatch.setattr(folder, "write_group", full)
    if name in ("bhc", "incremental"):  # which commit too seldom to meet the full disk there
        monkeypatch.setattr(folder, "write_arrays", lambda *_: full(*_, *[None] * 5))
        calls.extend([1] * 4)
        monkeypatch.setattr(folder, "write_group", real)
    with pytest.raises(OSError, match="is full: free some space and resume the run, nothing is lost"):
        fit(name, data, Place(out))
    monkeypatch.undo()
    assert bits(resume(out)) == bits(Run.open(finished[name]))


@pytest.mark.parametrize("name", IN_PASSES)
def test_data_that_are_gone_or_changed_are_noticed_on_resuming(name: str, home: Any) -> None:
    rows = home / "x.npy"
    save(rows, frame().to_numpy())
    with pytest.raises(Stop):
        fit(name, str(rows), Place(home / "run"), stop)
    save(rows, frame().to_numpy()[:50])
    with pytest.raises(ValueError, match="the data were changed since the run began"):
        resume(home / "run")
    rows.unlink()
    with pytest.raises(ValueError, match="cannot be read"):
        resume(home / "run")
    save(rows, frame().to_numpy())
    resume(home / "run")


def save(place: Any, rows: np.ndarray) -> None:
    content = io.BytesIO()
    np.save(content, rows)
    place.write_bytes(content.getvalue())
