"""A checkpoint is damaged: the run goes on from the one before it by itself, says so, and ends in the same bits."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dtree.cli.app import app
from dtree.engine.drive import Given, Place, drive, resume
from dtree.methods import method_named
from dtree.methods.contract import Notice
from dtree.methods.settings import checked
from dtree.runs.run import Run
from tests.engine.test_features import METHODS as SETTINGS
from tests.engine.test_features import SEED
from tests.faults.methods import METHODS, Stop, bits, copied, fit, flip, half_done, largest_chunk, save_rows

IN_PARTS = ["chains", "ddt"]
STEPS = {"bhc": 1, "incremental": 1, "chains": 3, "ddt": 6}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """By name: a run that nothing disturbed, and, with -half, one that was stopped after a few steps."""
    folder = tmp_path_factory.mktemp("runs")
    data = save_rows(folder)
    for name in METHODS:
        fit(name, data, Place(folder / name))
        half_done(name, data, folder / f"{name}-half", STEPS.get(name, 2))
    return folder


def newest(run: Path) -> Path:
    """The newest checkpoint, or block of the first part that has two."""
    parts = [part for part in sorted((run / "parts").glob("*")) if len(list(part.glob("gen-*"))) > 1]
    return max((parts[0] if parts else run / "checkpoints").glob("gen-*"))


def some_values(record: Path) -> Path:
    return max((largest_chunk(c.parent) for c in record.rglob("c") if any(c.iterdir())), key=lambda p: p.stat().st_size)


DAMAGE: dict[str, Any] = {
    "exponent": lambda record: flip(some_values(record), at=1.0),
    "lost file": lambda record: some_values(record).unlink(),
    "digit": lambda record: change_a_digit(record / "zarr.json"),
    "half": lambda record: (record / "zarr.json").write_text((record / "zarr.json").read_text()[:100]),
}


def change_a_digit(path: Path) -> None:
    text = path.read_text()
    at = text.index('"number": ') + len('"number": ') if '"number": ' in text else text.index('"value"') + 40
    while not text[at].isdigit():
        at += 1
    path.write_text(text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :])


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", METHODS)
def test_the_older_generation_takes_over(name: str, damage: str, runs: Path, tmp_path: Path) -> None:
    run = copied(runs / f"{name}-half", tmp_path / "run")
    DAMAGE[damage](newest(run))
    said = notices_of_resuming(run)
    assert len(said) == 1
    assert "damaged" in said[0]
    assert "going on from the " in said[0]
    assert bits(Run.open(run)) == bits(Run.open(runs / name))


@pytest.mark.parametrize("name", ["bayes-kmeans", "randomized"])
@pytest.mark.parametrize("lose", [False, True], ids=["flipped", "lost"])
def test_damaged_labels_of_a_pass_send_it_back_too(name: str, lose: bool, runs: Path, tmp_path: Path) -> None:
    run = copied(runs / f"{name}-half", tmp_path / "run")
    chunk = largest_chunk(max((run / "passes").glob("labels-*")))
    chunk.unlink() if lose else flip(chunk)
    with pytest.warns(RuntimeWarning, match="labels.*going on from the checkpoint before it"):
        resume(run)
    assert bits(Run.open(run)) == bits(Run.open(runs / name))


@pytest.mark.parametrize("name", [name for name in METHODS if name not in IN_PARTS])
def test_without_a_generation_that_is_whole_there_is_one_sentence(name: str, runs: Path, tmp_path: Path) -> None:
    run = copied(runs / f"{name}-half", tmp_path / "run")
    for record in run.glob("checkpoints/gen-*"):
        flip(some_values(record))
    with pytest.raises(ValueError, match="is damaged") as caught, pytest.MonkeyPatch.context():
        resume(run, progress=lambda event: None)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", IN_PARTS)
def test_parts_without_a_state_that_is_whole_begin_again(name: str, runs: Path, tmp_path: Path) -> None:
    run = copied(runs / f"{name}-half", tmp_path / "run")
    parts = {record.parent.name for record in run.glob("parts/*/gen-*") if not flip(some_values(record))}
    said = notices_of_resuming(run)
    assert len(said) == len(parts)
    assert all("is damaged" in words and "begins again, to the same end" in words for words in said)
    assert bits(Run.open(run)) == bits(Run.open(runs / name))


# Older blocks of a chain ---------------------------------------------------------------------------------------------

BLOCKS = 12  # of one draw each


@pytest.fixture(scope="module")
def long_chains(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two chains that was stopped after some blocks, with a state kept at every fourth, and the whole one."""
    folder = tmp_path_factory.mktemp("long")
    data, method = save_rows(folder), method_named("chains")
    settings = checked(method.Settings, {**SETTINGS["chains"], "draws": BLOCKS, "warmup": 2, "block_draws": 1})
    seen: list[Any] = []

    def stop(event: Any) -> None:
        seen.append(event)
        if len(seen) >= 2 * (BLOCKS - 1):
            raise Stop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dtree.engine.parts.STATE_EVERY", 4)
        drive(method, settings, Given(data), Place(folder / "whole"), SEED)
        with pytest.raises(Stop):
            drive(method, settings, Given(data), Place(folder / "half"), SEED, stop)
    return folder


def notices_of_resuming(run: Path) -> list[str]:
    said: list[str] = []
    resume(run, progress=lambda event: said.append(event.line()) if isinstance(event, Notice) else None)
    return said


@pytest.mark.parametrize("how", ["flipped", "cut", "lost"])
@pytest.mark.parametrize(("block", "then"), [(3, "begins again"), (6, "on from block 4"), (5, "before it")])
def test_a_damaged_older_block_of_a_chain_is_drawn_again(
    block: int, then: str, how: str, long_chains: Path, tmp_path: Path
) -> None:
    run = copied(long_chains / "half", tmp_path / "run")
    kept = run / "parts" / "0000" / f"kept-{block:08d}"
    assert kept.exists()
    assert (run / "parts" / "0000" / "gen-00000004").exists()
    if how == "lost":
        shutil.rmtree(kept)
    elif how == "cut":
        DAMAGE["half"](kept)
    else:
        flip(some_values(kept))
    said = notices_of_resuming(run)
    assert len(said) == 1
    assert "damaged" in said[0]
    assert then in said[0]
    assert bits(Run.open(run)) == bits(Run.open(long_chains / "whole"))


def test_the_command_says_so(runs: Path, tmp_path: Path) -> None:
    for name in ("bayes-kmeans-bhc", "chains"):
        run = copied(runs / f"{name}-half", tmp_path / name)
        flip(some_values(newest(run)))
        done = CliRunner().invoke(app, ["resume", str(run)])
        assert done.exit_code == 0, done.output
        assert "going on from the" in done.output
