"""Runs in a bucket: the same bits as on a disk, whatever happens on the way."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import dtree
from dtree.engine.drive import Place, resume
from dtree.runs.kept import store_at
from dtree.runs.lease import Held
from dtree.runs.run import Run
from dtree.storage import located, with_options
from tests.engine.test_features import METHODS, Stop, bits, fit, frame, stop
from tests.storage.server import Server, error, now_and_then, once

QUICK = "bayes-kmeans"


class Point(msgspec.Struct):
    name: str
    values: np.ndarray


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.npy"
    np.save(path, np.ascontiguousarray(frame().to_numpy()))
    return path


@pytest.fixture(scope="module")
def expected(rows: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return bits(fit(QUICK, rows, Place(tmp_path_factory.mktemp("run") / "run")))


def files(folder: str) -> list[str]:
    return sorted(name for name, _ in located(folder).sizes())


@pytest.fixture
def stores(server: Server) -> Any:
    with with_options(server.options):
        yield server


def test_a_run_in_a_bucket_has_the_same_bits_and_leaves_nothing_else(
    stores: Server, folder: str, rows: Path, expected: dict[str, bytes]
) -> None:
    run = fit(QUICK, rows, Place(f"{folder}/run.zarr"))
    assert bits(run) == expected
    assert bits(Run.open(f"{folder}/run.zarr")) == expected
    model = dtree.open(f"{folder}/run.zarr")
    assert model.labels_.shape == (120,)
    left = {name.split("/")[1] for name in files(folder)}
    assert not left & {"checkpoints", "parts", "passes", "prepared", "staged"}
    assert located(f"{folder}/run.zarr/.lease").read_bytes() == b""
    import zarr

    from dtree.storage.zarr_places import zarr_at

    group: Any = zarr.open_group(zarr_at(located(f"{folder}/run.zarr")), mode="r")
    assert np.array_equal(group["labels"][...], model.labels_)


def test_records_are_there_whole_or_not_at_all(stores: Server, folder: str) -> None:
    store = store_at(f"{folder}/run.zarr")
    first, second = Point("first", np.arange(4.0)), Point("second", np.arange(5.0))
    stores.proxy.rules = [now_and_then(1, error(403, "AccessDenied"), "PUT", "gen-00000001/zarr.json")]
    with pytest.raises(PermissionError, match="access denied"):
        store.put("checkpoints/gen-00000001", first)
    stores.quiet()
    assert not store.has("checkpoints/gen-00000001")
    assert store.names("checkpoints") == []
    assert any("w_" in name for name in files(folder))  # what was sent in vain
    store.put("checkpoints/gen-00000001", second)
    found = store.get("checkpoints/gen-00000001", Point)
    assert found.name == "second"
    assert len({name.split("/")[3] for name in files(folder) if "gen-00000001/w_" in name}) == 1  # and is swept
    store.put("checkpoints/gen-00000001", first)  # a twin that comes second
    assert store.get("checkpoints/gen-00000001", Point).name == "second"
    store.drop("checkpoints/gen-00000001")
    assert store.names("checkpoints") == []
    assert not [name for name in files(folder) if "gen-00000001" in name]


MISHAPS = {
    "503": lambda: [now_and_then(23, error(503, "SlowDown"))],
    "429": lambda: [now_and_then(23, error(429, "TooManyRequests"))],
    "cut in the middle of a put": lambda: [now_and_then(5, "cut", "PUT")],
    "answers lost": lambda: [now_and_then(19, "lost")],
    "half an answer": lambda: [now_and_then(9, "half", "GET")],
}


@pytest.mark.parametrize("mishap", MISHAPS)
def test_a_store_that_fails_now_and_then_gives_the_same_bits(
    mishap: str, stores: Server, folder: str, rows: Path, expected: dict[str, bytes]
) -> None:
    stores.proxy.rules = MISHAPS[mishap]()
    assert bits(fit(QUICK, rows, Place(f"{folder}/run.zarr"))) == expected
    assert bits(Run.open(f"{folder}/run.zarr")) == expected


def test_slow_answers_only_take_longer(stores: Server, folder: str, rows: Path, expected: dict[str, bytes]) -> None:
    stores.proxy.latency = 0.02
    assert bits(fit(QUICK, rows, Place(f"{folder}/run.zarr"))) == expected


def test_lists_that_are_out_of_date_do_no_harm(
    stores: Server, folder: str, rows: Path, expected: dict[str, bytes]
) -> None:
    stores.proxy.stale = {}
    out = f"{folder}/run.zarr"
    with pytest.raises(Stop):
        fit(QUICK, rows, Place(out), stop)
    assert bits(resume(out)) == expected  # by lists from before there was anything
    stores.proxy.stale = None
    assert bits(Run.open(out)) == expected


@pytest.mark.parametrize("at", [3, 9, 15])
def test_a_store_that_goes_away_is_said_and_the_run_goes_on(
    at: int, server: Server, folder: str, rows: Path, expected: dict[str, bytes]
) -> None:
    out, count = f"{folder}/run.zarr", [0]

    def gone(request: Any) -> Any:
        if request.method == "PUT" and "/run.zarr/checkpoints" in request.path:
            count[0] += 1
        return error(503, "ServiceUnavailable") if count[0] >= at else None

    with with_options({**server.options, "max_retries": "1", "retry_seconds": "1"}):
        server.proxy.rules = [gone]
        with pytest.raises(OSError, match="cannot be used at the moment") as caught:
            fit(QUICK, rows, Place(out))
        assert "\n" not in str(caught.value)
        server.quiet()
        lease = located(f"{out}/.lease")
        lease.write_bytes(b"")  # which could not be given back; it is ours
        if store_at(out).names("checkpoints"):
            assert bits(resume(out)) == expected
        else:
            assert bits(fit(QUICK, rows, Place(out))) == expected


def test_refusals_get_one_sentence_and_leave_nothing(server: Server, folder: str, rows: Path) -> None:
    with with_options(server.options):
        for code, (status, words) in server.refusals.items():
            pattern = "" if words != "access denied" else "run.zarr"  # which may read, but not write
            server.proxy.rules = [now_and_then(1, error(status, code), "PUT", pattern)]
            with pytest.raises(PermissionError, match=words) as caught:
                fit(QUICK, rows, Place(f"{folder}/run.zarr"))
            assert "\n" not in str(caught.value)
            server.proxy.rules = []
            assert files(folder) == []
        with pytest.raises(OSError, match=f"there is no bucket {server.scheme}://nowhere"):
            fit(QUICK, rows, Place(f"{server.scheme}://nowhere/run.zarr"))
        with pytest.raises(ValueError, match="can only be read"):
            fit(QUICK, rows, Place("https://127.0.0.1/run.zarr"))
        with pytest.raises(ValueError, match="is not a name for an output"):
            fit(QUICK, rows, Place(f"{server.scheme}://{server.bucket}"), None)


@pytest.mark.parametrize("server", ["s3"], indirect=True)
def test_a_store_that_takes_every_put_is_refused(stores: Server, folder: str, rows: Path) -> None:
    for method, pattern in (("PUT", ""), ("PUT", r"\.lease")):
        stores.proxy.rules = [now_and_then(1, "heedless", method, pattern)]
        with pytest.raises(OSError, match="does not heed the conditions of a put") as caught:
            fit(QUICK, rows, Place(f"{folder}/run.zarr"))
        assert "\n" not in str(caught.value)
        assert files(folder) == []


def test_of_two_writers_one_is_refused(stores: Server, folder: str, rows: Path, expected: dict[str, bytes]) -> None:
    out = f"{folder}/run.zarr"
    refused = []

    def another(event: Any) -> None:
        if not refused:
            for attempt in (lambda: fit(QUICK, rows, Place(out)), lambda: resume(out)):
                with pytest.raises(Held, match="is being worked on by process"):
                    attempt()
                refused.append(1)

    assert bits(fit(QUICK, rows, Place(out), another)) == expected
    assert len(refused) == 2
    assert bits(Run.open(out)) == expected


def test_a_lease_is_taken_by_one_of_many(stores: Server, folder: str) -> None:
    import threading

    from dtree.runs.lease import Lease

    won, lost = [], []
    start = threading.Barrier(4)

    def take() -> None:
        lease = Lease(store_at(located(f"{folder}/run.zarr", located(folder).objects.options)))
        start.wait()
        try:
            lease.take()
            won.append(lease)
        except Held:
            lost.append(lease)

    options = located(folder).objects.options
    threads = []
    for _ in range(4):
        threads.append(threading.Thread(target=lambda: _within(options, take)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 3)
    won[0].release()
    with contextlib.suppress(Held):
        lost[0].take()
        lost[0].release()


def _within(options: Any, task: Any) -> None:
    with with_options(options):
        task()


def test_a_lease_whose_answer_was_lost_is_ours(stores: Server, folder: str) -> None:
    from dtree.runs.lease import leased

    stores.proxy.rules = [once("lost", "PUT", r"\.lease")]
    with leased(store_at(f"{folder}/run.zarr")) as lease:
        lease.check()


def test_a_run_takes_the_place_of_another_when_it_is_done(
    stores: Server, folder: str, rows: Path, expected: dict[str, bytes]
) -> None:
    out = f"{folder}/run.zarr"
    first = fit("bhc", rows, Place(out)).header.run_id
    with pytest.raises(ValueError, match="already holds a run"):
        fit(QUICK, rows, Place(out))
    with pytest.raises(Stop):
        fit(QUICK, rows, Place(out, overwrite=True), stop)
    assert Run.open(out).header.run_id == first
    assert bits(resume(out)) == expected
    assert bits(Run.open(out)) == expected
    assert {name.split("/")[0] for name in files(folder)} == {"run.zarr"}


def test_a_move_that_was_cut_short_goes_on(stores: Server, folder: str, rows: Path, expected: dict[str, bytes]) -> None:
    out = f"{folder}/run.zarr"
    fit("bhc", rows, Place(out))

    def while_copying(request: Any) -> Any:
        return error(403, "AccessDenied") if request.is_copy and "labels/" in request.path else None

    stores.proxy.rules = [while_copying]
    with pytest.raises(PermissionError, match="access denied"):
        fit(QUICK, rows, Place(out, overwrite=True))
    stores.quiet()
    with pytest.raises(ValueError, match="is not a"):
        Run.open(out)
    assert bits(resume(out)) == expected
    assert {name.split("/")[0] for name in files(folder)} == {"run.zarr"}


def test_models_are_saved_to_a_bucket_and_opened(server: Server, folder: str) -> None:
    model = dtree.BHC("gaussian-diag").fit(frame())
    for _ in range(2):
        dtree.save(model, f"{folder}/saved.zarr", overwrite=True, storage_options=server.options)
    again = dtree.open(f"{folder}/saved.zarr", storage_options=server.options)
    assert np.array_equal(again.labels_, model.labels_)
    assert again.row_names_.tolist() == list(frame().index)
    with pytest.raises(ValueError, match="exists already"):
        dtree.save(model, f"{folder}/saved.zarr", storage_options=server.options)


def test_damage_is_named(stores: Server, folder: str, rows: Path) -> None:
    from dtree.runs.verify import damages

    out = f"{folder}/run.zarr"
    run = fit(QUICK, rows, Place(out))
    assert damages(out) == []
    name = next(name for name in run.header.arrays)
    chunk = located(out) / name / "c" / "/".join("0" * len(dict(run.header.arrays)[name]["shape"]))
    content = bytearray(chunk.read_bytes())
    content[0] ^= 1
    chunk.write_bytes(bytes(content))
    assert any("SHA-256" in sentence for sentence in damages(out))
    with pytest.raises(ValueError, match="SHA-256"):
        dtree.open(out)
    located(f"{out}/labels/c/0").unlink()
    with pytest.raises(ValueError, match="some of its labels are missing"):
        Run.open(out)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_the_same_bits_in_a_bucket(
    name: str, stores: Server, folder: str, rows: Path, tmp_path: Path
) -> None:
    expected = bits(fit(name, rows, Place(tmp_path / "run")))
    assert bits(fit(name, rows, Place(f"{folder}/run"))) == expected
    with pytest.raises(Stop):
        fit(name, rows, Place(f"{folder}/stopped"), stop)
    assert bits(resume(f"{folder}/stopped")) == expected
