"""What is asked for before it is needed, and what is waited for beside: the same bits, nothing twice, nothing lost."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import dask
import numpy as np
import pytest
import zarr

from dtree.engine.cluster import cluster_client
from dtree.engine.drive import Place, resume
from dtree.methods import method_named
from dtree.runs.run import Run
from dtree.storage import ahead, located, with_options
from dtree.storage.zarr_places import zarr_at
from tests.engine.test_features import bits, fit, frame
from tests.storage.server import Server, error, now_and_then

METHOD = "bayes-kmeans"
CHUNK = 40  # rows: the 120 of `frame` are three chunks


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    path = tmp_path_factory.mktemp("rows") / "rows.zarr"
    write_rows(str(path))
    return bits(fit(METHOD, path, Place(path.with_name("run"))))


@pytest.fixture
def rows(server: Server, folder: str) -> Any:
    """The same rows in a bucket."""
    with with_options(server.options):
        write_rows(zarr_at(located(f"{folder}/rows.zarr")))
        server.proxy.seen.clear()
        yield f"{folder}/rows.zarr"


def write_rows(store: Any) -> None:
    values = np.ascontiguousarray(frame().to_numpy())
    zarr.create_array(store, shape=values.shape, chunks=(CHUNK, 2), dtype="f8")[...] = values


def on_workers(number: int) -> Any:
    return cluster_client(n_workers=number, processes=False, warm=False)


def test_what_was_begun_is_read_once_and_taken_for_nothing_else() -> None:
    asked: Counter[Any] = Counter()

    def reader(name: str) -> Any:
        def read(start: int, stop: int) -> list[str]:
            asked[name, start] += 1
            return [f"{name} {at}" for at in range(start, stop)]

        return read

    for start in range(0, 40, 2):
        for name in ("rows", "labels"):
            ahead.begin(name, reader(name), start, start + 2)
            ahead.begin(name, reader(name), start, start + 2)
        for name in ("rows", "labels", "other rows"):
            assert ahead.taken(name, reader(name), start, start + 2) == [f"{name} {start}", f"{name} {start + 1}"]
    assert set(asked.values()) == {1}
    assert ahead.taken("rows", reader("rows"), 0, 2) == ["rows 0", "rows 1"]  # what was taken is held no longer


def test_pieces_that_nobody_takes_do_not_pile_up() -> None:
    for start in range(1000):
        ahead.begin("a task that went elsewhere", lambda start, stop: np.zeros(1000), start, start + 1)
    assert len(ahead._pieces) <= ahead._room
    ahead._pieces.clear()


def test_what_goes_wrong_is_told_to_who_asks() -> None:
    def read(start: int, stop: int) -> None:
        raise OSError("no")

    ahead.begin("rows", read, 0, 2)
    with pytest.raises(OSError, match="no"):
        ahead.taken("rows", read, 0, 2)


@pytest.mark.parametrize("workers", [0, 2])
def test_rows_and_labels_are_asked_for_once_in_a_pass(
    workers: int, server: Server, folder: str, rows: str, expected: dict[str, bytes]
) -> None:
    if workers:
        with dask.config.set({"distributed.scheduler.work-stealing": False}), on_workers(workers) as client:
            run = fit(METHOD, rows, Place(f"{folder}/run.zarr", client=client))
    else:
        run = fit(METHOD, rows, Place(f"{folder}/run.zarr"))
    assert bits(run) == expected
    fitted = run.fitted(method_named(METHOD).Fitted)
    passes = len(fitted.trace)
    asked = Counter(request.key for request in server.proxy.seen if request.method == "GET")
    of_rows = [count for key, count in asked.items() if "rows.zarr/c/" in key]
    assert of_rows == [1 + passes] * (len(frame()) // CHUNK)  # the first look, and every pass
    for key, count in asked.items():
        assert count <= 3 or "/labels-" not in key or "/c/" not in key, key  # the next pass, and twice at the end
    assert not [key for key in asked if key.endswith("/zarr.json") and "/labels-" in key]  # who makes an array tells
    others = [f"/gen-{number:08d}/" for number in range(1, passes + 1) if number != fitted.best_pass]
    assert others
    assert not [key for key in asked if any(part in key for part in others)]  # states go with the tasks


def test_a_state_too_large_to_be_sent_is_read(
    server: Server, folder: str, rows: str, expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dtree.engine.drive._MOST_SENT", 0)
    with on_workers(2) as client:
        assert bits(fit(METHOD, rows, Place(f"{folder}/run.zarr", client=client))) == expected
    assert [request for request in server.proxy.seen if request.method == "GET" and "/gen-00000001/" in request.path]


def test_the_next_rows_are_computed_while_labels_are_put(
    server: Server, folder: str, rows: str, expected: dict[str, bytes]
) -> None:
    others, in_time = threading.Event(), []

    def held(request: Any) -> None:
        if request.method == "PUT" and "labels-00000001/c/" in request.path:
            if request.path.endswith("/c/0"):
                in_time.append(others.wait(20.0))
            else:
                others.set()

    server.proxy.rules = [held]
    with on_workers(1) as client:
        assert bits(fit(METHOD, rows, Place(f"{folder}/run.zarr", client=client))) == expected
    assert in_time == [True]


def test_a_slow_store_holds_the_workers_back(
    server: Server, folder: str, rows: str, expected: dict[str, bytes]
) -> None:
    under_way, most, lock = [0], [0], threading.Lock()

    def slow(request: Any) -> None:
        if request.method == "PUT" and "/c/" in request.path and "/labels-" in request.path:
            with lock:
                under_way[0] += 1
                most[0] = max(most[0], under_way[0])
            threading.Event().wait(0.3)
            with lock:
                under_way[0] -= 1

    server.proxy.rules = [slow]
    with on_workers(1) as client:
        assert bits(fit(METHOD, rows, Place(f"{folder}/run.zarr", client=client))) == expected
    assert 2 <= most[0] <= 3  # two beside, and the one for which there was no room


def test_labels_that_cannot_be_put_are_no_generation(
    server: Server, folder: str, rows: str, expected: dict[str, bytes]
) -> None:
    out = f"{folder}/run.zarr"
    server.proxy.rules = [now_and_then(1, error(403, "AccessDenied"), "PUT", "labels-00000002/c/1")]
    with on_workers(2) as client:
        with pytest.raises(PermissionError, match="access denied") as caught:
            fit(METHOD, rows, Place(out, client=client))
        assert "\n" not in str(caught.value)
        server.quiet()
        assert Run.glance(out).checkpoints() == [0, 1]
        assert bits(resume(out, client)) == expected


def test_what_cannot_be_swept_is_said_and_the_run_goes_on(
    server: Server, folder: str, rows: str, expected: dict[str, bytes]
) -> None:
    out, begun = f"{folder}/run.zarr", threading.Event()

    def refused(request: Any) -> Any:
        if "gen-00000002" in request.path:
            begun.set()
        return error(403, "AccessDenied") if begun.is_set() and request.method in ("POST", "DELETE") else None

    server.proxy.rules = [refused]
    with pytest.raises(PermissionError, match="access denied") as caught:
        fit(METHOD, rows, Place(out))
    assert "\n" not in str(caught.value)
    server.quiet()
    assert bits(resume(out)) == expected
    assert bits(Run.open(out)) == expected
