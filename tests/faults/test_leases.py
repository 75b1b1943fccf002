"""Two who want to work on one run: one wins, the other is told who it is, and nobody's files are lost."""

from __future__ import annotations

import concurrent.futures
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import dtree.runs.lease as leases
from dtree.engine.drive import Place, resume
from dtree.methods.contract import Notice
from dtree.runs.folder import LEASE, FolderStore
from dtree.runs.lease import Held, Lease, leased
from dtree.runs.run import Run
from tests.faults.methods import METHODS, bits, fit, half_done, save_rows


def dead(run: Path, **changes: Any) -> None:
    """A lease whose owner is no more."""
    lease = Lease(FolderStore(run))
    lease.take()
    lease._over.set()
    stored = json.loads((run / LEASE).read_bytes())
    (run / LEASE).write_text(json.dumps({**stored, "pid": 2**22 + 1, **changes}))  # more than processes are numbered


@pytest.mark.parametrize("name", METHODS)
def test_a_second_writer_is_told_and_the_first_ends_undisturbed(name: str, tmp_path: Path) -> None:
    data, told = save_rows(tmp_path), []
    fit(name, data, Place(tmp_path / "alone"))

    def second(event: Any) -> None:
        if not told:
            for another in (
                lambda: fit(name, data, Place(tmp_path / "run")),
                lambda: fit(name, data, Place(tmp_path / "run", overwrite=True)),
                lambda: resume(tmp_path / "run"),
            ):
                with pytest.raises(Held, match=rf"is being worked on by process {os.getpid()} of .* since ") as caught:
                    another()
                told.append(str(caught.value))

    run = fit(name, data, Place(tmp_path / "run"), second)
    assert len(told) == 3
    assert bits(run) == bits(Run.open(tmp_path / "alone"))
    assert not (tmp_path / "run" / LEASE).exists()


def test_many_begin_at_the_same_moment(tmp_path: Path) -> None:
    data, start = save_rows(tmp_path), threading.Barrier(6)
    expected = bits(fit("bhc", data))

    def begin(number: int) -> str:
        start.wait()
        try:
            fit("bhc", data, Place(tmp_path / "run"))
        except (Held, ValueError) as problem:
            return str(problem)
        return "won"

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        ends = list(pool.map(begin, range(6)))
    assert ends.count("won") == 1, ends
    assert all("is being worked on by" in end or "already holds a run" in end for end in ends if end != "won"), ends
    assert bits(Run.open(tmp_path / "run")) == expected


def test_many_take_over_one_dead_lease(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for _ in range(20):
        dead(tmp_path / "run")
        start = threading.Barrier(6)

        def take(number: int, start: threading.Barrier = start) -> Lease | None:
            lease = Lease(FolderStore(tmp_path / "run"))
            start.wait()
            try:
                lease.take()
            except Held:
                return None
            return lease

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            winners = [lease for lease in pool.map(take, range(6)) if lease is not None]
        assert len(winners) == 1
        winners[0].check()
        winners[0].release()
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.parametrize("name", ["bayes-kmeans-bhc", "chains"])
def test_the_lease_of_a_dead_owner_is_taken_over(name: str, tmp_path: Path) -> None:
    data = save_rows(tmp_path)
    half_done(name, data, tmp_path / "run")
    dead(tmp_path / "run")
    said: list[str] = []
    resume(tmp_path / "run", progress=lambda event: said.append(event.line()) if isinstance(event, Notice) else None)
    assert "taken over from process" in said[0]
    assert bits(Run.open(tmp_path / "run")) == bits(fit(name, data))


def test_a_lease_of_another_machine_counts_until_it_expires(tmp_path: Path) -> None:
    half_done("bhc", save_rows(tmp_path), tmp_path / "run")
    dead(tmp_path / "run", host="another")
    with pytest.raises(Held, match=r"on another since .*; if it is dead, try again 2 minutes after its last word"):
        resume(tmp_path / "run")
    dead_since = time.time() - leases.EXPIRES_AFTER - 1
    (tmp_path / "run" / LEASE).unlink()
    dead(tmp_path / "run", host="another", renewed=dead_since)
    resume(tmp_path / "run", progress=lambda event: None)


def test_an_owner_that_slept_too_long_stops_before_it_commits(tmp_path: Path) -> None:
    data = save_rows(tmp_path)

    def lose(event: Any) -> None:
        (tmp_path / "run" / LEASE).unlink(missing_ok=True)
        dead(tmp_path / "run", host="another")

    with pytest.raises(Held, match=r"was taken over by process .* on another"):
        fit("bayes-kmeans", data, Place(tmp_path / "run"), lose)
    assert Run.open(tmp_path / "run").checkpoints() == [0, 1]


def test_a_lease_is_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "RENEW_EVERY", 0.01)
    (tmp_path / "run").mkdir()
    with leased(FolderStore(tmp_path / "run")):
        first = json.loads((tmp_path / "run" / LEASE).read_bytes())["renewed"]
        limit = time.monotonic() + 30
        while json.loads((tmp_path / "run" / LEASE).read_bytes())["renewed"] == first:
            assert time.monotonic() < limit
    assert not (tmp_path / "run" / LEASE).exists()


def test_a_lease_that_is_just_renewed_is_given_back(tmp_path: Path) -> None:
    """The thread that renews a lease may put it anew between the look and the put of who gives it back."""
    store = FolderStore(tmp_path)
    lease, swap = Lease(store), store.swap_lease
    lease.take()
    renewed: list[bool] = []

    def late(old: bytes | None, new: bytes | None) -> bool:
        if new is None and not renewed:
            renewed.append(swap(old, leases._written(lease._renewed())))
        return swap(old, new)

    store.swap_lease = late  # type: ignore[method-assign]
    lease.release()
    assert renewed == [True]
    with leased(FolderStore(tmp_path)):
        pass


def test_what_a_dead_fit_left_before_its_first_checkpoint_is_cleared(tmp_path: Path) -> None:
    data = save_rows(tmp_path)
    (tmp_path / "run" / "staged").mkdir(parents=True)
    (tmp_path / "run" / "staged" / "rows.npy").write_text("half")
    with pytest.raises(ValueError, match=r"is not a dtree run|exists already"):
        fit("bhc", data, Place(tmp_path / "run"))  # whoever left that
    dead(tmp_path / "run")
    fit("bhc", data, Place(tmp_path / "run"))
    assert not (tmp_path / "run" / "staged").exists()
