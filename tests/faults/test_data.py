"""Data that are lost or changed while a run needs them: never read as something else without a word."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from scipy import sparse
from typer.testing import CliRunner

from dtree.cli.app import app
from dtree.data import Source, open_source
from dtree.data.formats.zarr import write_csr
from dtree.engine.drive import Place, changed_data, resume
from dtree.methods import method_named
from dtree.runs.run import Run
from tests.faults.methods import IN_PASSES, METHODS, bits, fit, frame, half_done, save_rows

CHANGED = "the data were changed since the run began"
CHANGED_TO_DO = f"{CHANGED}: restore them and resume the run, or start over with 'dtree resume --accept-changed-data'"


def change(path: Path, row: int = 100) -> None:
    """Other values in one row."""
    X = np.load(path)
    X[row] += 1e-9
    np.save(path, X)


def as_zarr(path: Path, X: np.ndarray, version: Any = 3, fill: float = 0.0) -> Path:
    """Eight chunks of 15 rows."""
    array = zarr.create_array(
        str(path), shape=X.shape, chunks=(15, 2), dtype=X.dtype, zarr_format=version, fill_value=fill
    )
    array[:] = X
    return path


@pytest.mark.parametrize("name", METHODS)
def test_data_changed_before_a_run_is_resumed(name: str, tmp_path: Path) -> None:
    """Refused by every method, whether it reads the rows again or has kept all it needs of them."""
    data = save_rows(tmp_path)
    half_done(name, data, tmp_path / "run")
    change(data)
    assert CHANGED in changed_data(tmp_path / "run")[0]
    with pytest.raises(ValueError, match=rf"rows \d+ to \d+ of .*x.npy are not what they were, {CHANGED}"):
        resume(tmp_path / "run")
    save_rows(tmp_path)
    assert bits(resume(tmp_path / "run")) == bits(fit(name, frame().to_numpy()))


@pytest.mark.parametrize("name", ["bayes-kmeans", "randomized"])
def test_data_changed_after_the_last_pass(name: str, tmp_path: Path) -> None:
    """What is left to do reads no rows any more; it is refused all the same."""
    data, run = save_rows(tmp_path), tmp_path / "run"
    passes = len(fit(name, data, Place(tmp_path / "alone")).fitted(method_named(name).Fitted).trace)
    half_done(name, data, run, passes)
    change(data)
    with pytest.raises(ValueError, match=CHANGED):
        resume(run)


def write_csv(path: Path, X: Any) -> None:
    X.to_csv(path, index_label="name")


@pytest.mark.parametrize("name", ["bhc", "bayes-kmeans-bhc"])
def test_a_file_that_was_copied_is_looked_at_too(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A csv cannot be read by ranges, so a run reads a copy; what the user changed is the file."""
    monkeypatch.chdir(tmp_path)
    write_csv(Path("x.csv"), frame())
    half_done(name, Path("x.csv"), Path("run"))
    changed = frame()
    changed.iloc[77, 0] += 1e-6
    write_csv(Path("x.csv"), changed)
    monkeypatch.chdir("/")  # wherever it is resumed from
    with pytest.raises(ValueError, match=rf"rows \d+ to \d+ of .*x.csv are not what they were, {CHANGED}"):
        resume(tmp_path / "run")
    run = resume(tmp_path / "run", progress=lambda event: None, accept_changed_data=True)
    assert bits(run) == bits(fit(name, changed))
    (tmp_path / "x.csv").unlink()
    assert changed_data(tmp_path / "run") == [
        f"{tmp_path}/x.csv cannot be read as it was (there is no file {tmp_path}/x.csv): {CHANGED_TO_DO}"
    ]


def test_a_copy_stands_for_a_file_that_is_gone(tmp_path: Path) -> None:
    write_csv(tmp_path / "x.csv", frame())
    half_done("bayes-kmeans", tmp_path / "x.csv", tmp_path / "run")
    (tmp_path / "x.csv").unlink()
    assert bits(resume(tmp_path / "run")) == bits(fit("bayes-kmeans", frame()))


@pytest.mark.parametrize("name", ["bhc", "bayes-kmeans"])
@pytest.mark.parametrize("ending", ["npy", "zarr", "csv"])
def test_rows_that_were_added_are_noticed(name: str, ending: str, tmp_path: Path) -> None:
    X, more = frame(), frame(130)
    more.iloc[:120] = X.to_numpy()
    data = tmp_path / f"x.{ending}"
    write = {
        "npy": lambda X: np.save(data, X.to_numpy()), "csv": lambda X: write_csv(data, X),
        "zarr": lambda X: as_zarr(data, X.to_numpy()),
    }[ending]  # fmt: skip
    write(X)
    half_done(name, data, tmp_path / "run")
    if ending == "zarr":
        shutil.rmtree(data)
    write(more)
    with pytest.raises(ValueError, match=rf"x.{ending} has 130 rows of 2 features and had 120 .*: {CHANGED}"):
        resume(tmp_path / "run")
    run = resume(tmp_path / "run", progress=lambda event: None, accept_changed_data=True)
    assert run.header.n_rows == 130


def test_what_was_said_of_columns_holds_when_a_run_starts_over(tmp_path: Path) -> None:
    table = frame().assign(site=np.arange(120) % 3, shift=np.arange(120) % 2)
    write_csv(tmp_path / "x.csv", table)
    words = ["fit", f"{tmp_path}/x.csv", "--column", "site=category", "--column", "shift=skip", "--out", f"{tmp_path}/run"]  # fmt: skip  # noqa: E501
    more = ["--method", "bayes-kmeans", "--time-limit", "0.0001s"]
    assert CliRunner().invoke(app, [*words, *more]).exit_code == 124
    table.iloc[7, 0] += 1.0
    write_csv(tmp_path / "x.csv", table)
    refused = CliRunner().invoke(app, ["resume", f"{tmp_path}/run"])
    assert refused.exit_code == 2
    assert "x.csv are not what they were" in refused.output
    done = CliRunner().invoke(app, ["resume", f"{tmp_path}/run", "--accept-changed-data"])
    assert done.exit_code == 0, done.output
    header = Run.open(tmp_path / "run").header
    assert [(column.name, column.kind) for column in header.kinds][-1] == ("site", "category")
    assert "shift" in dict(header.left_out)
    assert CliRunner().invoke(app, ["verify", f"{tmp_path}/run", "--data"]).exit_code == 0


@pytest.mark.parametrize("name", IN_PASSES)
def test_data_changed_between_passes(name: str, tmp_path: Path) -> None:
    data = save_rows(tmp_path)
    with pytest.raises(ValueError, match=CHANGED):
        fit(name, data, Place(tmp_path / "run"), lambda event: change(data))


@pytest.mark.parametrize(
    ("name", "ending"),
    [*((name, "npy") for name in METHODS if name not in IN_PASSES), *((name, "csv") for name in METHODS)],
)
def test_data_changed_after_they_were_read(name: str, ending: str, tmp_path: Path) -> None:
    """Who reads them no more has the answer of the rows as they were, and says at the end that they are others."""
    data, said = tmp_path / f"x.{ending}", []

    def write(table: Any) -> None:
        np.save(data, table.to_numpy()) if ending == "npy" else write_csv(data, table)

    def act(event: Any) -> None:
        said.append(event.line())
        write(frame() + 1e-3)

    write(frame())
    run = fit(name, data, Place(tmp_path / "run"), act)
    assert bits(run) == bits(fit(name, frame() if ending == "csv" else frame().to_numpy()))
    words = (
        f"{data} was changed after it was read: the answer is that of the rows as they were then; "
        f"'dtree verify {tmp_path}/run --data' says where"
    )
    assert words in said
    assert words in CliRunner().invoke(app, ["info", f"{tmp_path}/run"], env={"COLUMNS": "500"}).output
    assert CliRunner().invoke(app, ["verify", f"{tmp_path}/run", "--data"]).exit_code == 2


@pytest.mark.parametrize("name", METHODS)
def test_files_that_are_only_touched_are_no_others(name: str, tmp_path: Path) -> None:
    data, said = save_rows(tmp_path), []

    def act(event: Any) -> None:
        said.append(event.line())
        save_rows(tmp_path)

    fit(name, data, Place(tmp_path / "run"), act)
    assert [line for line in said if "was changed" in line] == []


@pytest.mark.parametrize("place", ["memory", "folder"])
@pytest.mark.parametrize("name", METHODS)
def test_data_changed_while_they_are_first_read(name: str, place: str, tmp_path: Path) -> None:
    """Some rows of before, some of after: no method takes them for data."""
    data = as_zarr(tmp_path / "x.zarr", frame().to_numpy())
    read, reads = Source.read, []

    def reading(source: Source, start: int, stop: int) -> Any:
        rows = read(source, start, stop)
        if not reads:
            reads.append(start)
            zarr.open_array(str(data), mode="r+")[:] = frame().to_numpy() + 1.0
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Source, "read", reading)
        with pytest.raises(ValueError, match=r"x.zarr was changed while it was read for the first time: fit again"):
            fit(name, str(data), Place(tmp_path / "run" if place == "folder" else None))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", METHODS)
def test_changed_data_are_accepted_when_asked_for(name: str, tmp_path: Path) -> None:
    data = save_rows(tmp_path)
    half_done(name, data, tmp_path / "run")
    np.save(data, frame().to_numpy()[:90] + 0.5)
    said: list[str] = []
    run = resume(tmp_path / "run", progress=lambda event: said.append(event.line()), accept_changed_data=True)
    assert "the data were changed since the run began: it starts over" in said
    assert run.header.n_rows == 90
    assert bits(run) == bits(fit(name, frame().to_numpy()[:90] + 0.5))
    assert changed_data(tmp_path / "run") == []


def test_data_that_did_not_change_cost_no_progress(tmp_path: Path) -> None:
    half_done("bayes-kmeans", save_rows(tmp_path), tmp_path / "run", 2)
    seen: list[Any] = []
    resume(tmp_path / "run", progress=seen.append, accept_changed_data=True)
    assert all(event.number > 2 for event in seen)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", IN_PASSES)
def test_a_lost_chunk_is_named(name: str, version: int, tmp_path: Path) -> None:
    data = as_zarr(tmp_path / "x.zarr", frame().to_numpy(), version)
    chunk = data / ("c/3/0" if version == 3 else "3.0")
    content, expected = chunk.read_bytes(), bits(fit(name, data, Place(tmp_path / "alone")))
    with pytest.raises(ValueError, match=rf"the chunk {chunk.relative_to(data)} of .*x.zarr is lost.*restore it"):
        fit(name, data, Place(tmp_path / "run"), lambda event: chunk.unlink())
    assert "is lost" in changed_data(tmp_path / "run")[0]
    chunk.write_bytes(content)
    assert bits(resume(tmp_path / "run")) == expected


@pytest.mark.parametrize("name", METHODS)
def test_a_chunk_that_was_never_written_is_legal_and_said(name: str, tmp_path: Path) -> None:
    X = frame().to_numpy().copy()
    X[45:60] = 0.0
    data = as_zarr(tmp_path / "x.zarr", X)
    assert not (data / "c/3/0").exists()  # zarr writes no chunk of nothing but its fill value
    said: list[str] = []
    run = fit(name, data, Place(tmp_path / "run"), lambda event: said.append(event.line()))
    assert "has 1 chunk fewer than its shape says (c/3/0)" in said[0]
    assert np.array_equal(run.row_array("labels")[45:60], np.repeat(run.row_array("labels")[45], 15))  # equal rows
    assert "c/3/0" in CliRunner().invoke(app, ["info", str(tmp_path / "run")]).output
    (data / "c/5/0").unlink()  # that one was there
    (sentence,) = {words.split(",")[0] for words in changed_data(tmp_path / "run")}
    assert sentence == f"the chunk c/5/0 of {data} is lost"


def test_a_lost_chunk_of_sparse_rows_is_named(tmp_path: Path) -> None:
    source = write_csr(tmp_path / "x.zarr", sparse.csr_array(np.arange(12.0).reshape(4, 3)))
    assert source.absent(0, 4) == []
    (tmp_path / "x.zarr" / "data" / "c" / "0").unlink()
    assert source.absent(0, 4) == ["data/c/0"]
    assert open_source(np.eye(2)).absent(0, 2) == []


@pytest.mark.parametrize("ending", ["npy", "csv", "zarr"])
def test_verify_names_what_changed_in_the_data(ending: str, tmp_path: Path) -> None:
    data, X = tmp_path / f"x.{ending}", frame()
    write = {
        "npy": lambda: np.save(data, X.to_numpy()), "csv": lambda: X.to_csv(data, index_label="name"),
        "zarr": lambda: as_zarr(data, X.to_numpy()),
    }[ending]  # fmt: skip
    write()
    fit("bayes-kmeans", data, Place(tmp_path / "run"))
    words = ["verify", str(tmp_path / "run"), "--data"]
    assert CliRunner().invoke(app, words).exit_code == 0
    X.iloc[7, 1] += 1.0
    if ending == "zarr":
        zarr.open_array(str(data), mode="r+")[:] = X.to_numpy()
    else:
        write()
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "rows 0 to" in done.output
    assert CHANGED in done.output
    assert len(done.output.splitlines()) == 1  # one chunk of several
