"""Rows from object stores: the same as from disk, whatever the format."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import zarr

import dtree
from dtree.data import open_source
from dtree.storage import located, with_options
from dtree.storage.zarr_places import zarr_at
from tests.storage.server import Server, now_and_then


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"])
    frame["kind"] = np.where(np.arange(60) % 3 == 0, "left", "right")
    return frame


def write(place: Any, kind: str) -> None:
    """The same rows in every format, on disk or in a bucket."""
    numbers = table()[["a", "b", "c"]].to_numpy()
    buffer = io.BytesIO()
    if kind.startswith("zarr"):
        array = zarr.create_array(
            zarr_at(place), shape=numbers.shape, chunks=(7, 2), dtype="f8", zarr_format=int(kind[-1])
        )
        array[...] = numbers
        array.attrs["feature_names"] = ["a", "b", "c"]
        return
    if kind == "folder":
        for number, rows in enumerate((table()[:25], table()[25:])):
            buffer = io.BytesIO()
            rows.to_parquet(buffer, row_group_size=10, index=False)
            (place / f"part-{number}.parquet").write_bytes(buffer.getvalue())
        return
    if kind == "parquet":
        table().to_parquet(buffer, row_group_size=10, index=False)
    elif kind == "csv":
        table().to_csv(buffer, index=False)
    elif kind == "npy":
        np.save(buffer, numbers)
    else:
        np.savez(buffer, X=numbers)
    place.write_bytes(buffer.getvalue())


NAMES = {
    "zarr2": "two.zarr", "zarr3": "three.zarr", "folder": "parts", "parquet": "rows.parquet", "csv": "rows.csv",
    "npy": "rows.npy", "npz": "rows.npz",
}  # fmt: skip


@pytest.mark.parametrize("kind", NAMES)
def test_rows_are_those_on_disk(kind: str, server: Server, folder: str, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    write(tmp_path / NAMES[kind], kind)
    with with_options(server.options):
        write(located(folder) / NAMES[kind], kind)
        there = open_source(f"{folder}/{NAMES[kind]}")
    here = open_source(tmp_path / NAMES[kind])
    assert there.shape == here.shape
    assert there.columns == here.columns
    assert there.kinds == here.kinds
    assert there.name == f"{folder}/{NAMES[kind]}"
    # What the source was opened with stays with it, also where it was sent.
    assert np.array_equal(there.load(), here.load())
    for start, stop in ((0, 10), (10, 20), (20, 30), (50, 60), (3, 4)):
        assert there.read(start, stop).tobytes() == here.read(start, stop).tobytes()


@pytest.mark.parametrize("kind", ["zarr3", "parquet", "csv"])
def test_workers_read_the_bucket_themselves(kind: str, server: Server, folder: str, tmp_path: Path) -> None:
    from dtree.engine.cluster import cluster_client

    with with_options(server.options):
        write(located(folder) / NAMES[kind], kind)
    write(tmp_path / NAMES[kind], kind)
    settings = {"family": "gaussian-diag" if kind == "zarr3" else "auto", "random_state": 0}
    here = dtree.TreeClustering(**settings).fit(tmp_path / NAMES[kind])
    with cluster_client(n_workers=1, processes=False, warm=False) as client:
        there = dtree.TreeClustering(**settings, client=client, storage_options=server.options)
        there.fit(f"{folder}/{NAMES[kind]}")
    assert np.array_equal(there.labels_, here.labels_)
    assert there.log_evidence_bound_ == here.log_evidence_bound_
    assert np.array_equal(there.predict(f"{folder}/{NAMES[kind]}"), here.labels_)


def test_environment_variables_are_enough(in_environment: None, folder: str) -> None:
    write(located(folder) / "rows.npy", "npy")
    assert open_source(f"{folder}/rows.npy").shape == (60, 3)


def test_arrays_of_a_group_by_name(server: Server, folder: str) -> None:
    with with_options(server.options):
        group = zarr.open_group(zarr_at(located(folder) / "store.zarr"), mode="w")
        for name, size in (("temperature", 4), ("wind", 3)):
            group.create_array(name, shape=(9, size), dtype="f8", chunks=(4, size))[...] = size
        assert open_source(f"{folder}/store.zarr::temperature").shape == (9, 4)
        assert open_source(f"{folder}/store.zarr:wind").load().tolist() == [[3.0] * 3] * 9
        with pytest.raises(ValueError, match=r"choose one of 'temperature', 'wind'"):
            open_source(f"{folder}/store.zarr")


def test_files_over_http(server: Server, tmp_path: Path) -> None:
    import functools
    import threading
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments: Any) -> None:
            pass

    for kind in ("zarr3", "parquet", "csv", "npz"):
        write(tmp_path / NAMES[kind], kind)
    web = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(tmp_path)))
    threading.Thread(target=web.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{web.server_address[1]}"
        for kind in ("zarr3", "csv", "npz"):
            assert open_source(f"{address}/{NAMES[kind]}").load().shape[0] == 60
        with pytest.raises(ValueError, match="there is no file"):
            open_source(f"{address}/nothing.csv")
    finally:
        web.shutdown()
        web.server_close()


def test_rows_in_the_memory_of_this_process() -> None:
    for kind, name in NAMES.items():
        write(located(f"memory://here/{name}"), kind)
        assert open_source(f"memory://here/{name}").load().shape[0] == 60


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("ftp://host/rows.csv", "dtree knows no files at ftp://"),
        ("s3:///rows.csv", "names no bucket"),
        ("https://user:pass-word@host/rows.csv", "must not hold a password"),
        ("https://host/rows.csv?X-Amz-Signature=abc-def", "may hold a credential"),
        ("memory://nothing/rows.csv", "there is no file memory://nothing/rows.csv"),
        ("memory://nothing/rows.txt", "unknown ending"),
    ],
)
def test_bad_addresses_get_one_sentence(address: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        open_source(address)
    assert "\n" not in str(caught.value)
    assert "pass-word" not in str(caught.value)
    assert "abc-def" not in str(caught.value)


def test_unknown_options_get_one_sentence_without_their_values() -> None:
    with with_options({"nonsense": "abc"}), pytest.raises(ValueError, match="no storage option 'nonsense'") as caught:
        open_source("s3://bucket/rows.csv")
    assert "abc" not in str(caught.value)


def test_next_rows_are_asked_for_while_others_are_worked_on(server: Server, folder: str) -> None:
    with with_options(server.options):
        write(located(folder) / "rows.npy", "npy")
        source = open_source(f"{folder}/rows.npy")
    expected = table()[["a", "b", "c"]].to_numpy()
    for start in range(0, 60, 10):
        assert np.array_equal(source.read(start, start + 10), expected[start : start + 10])
    ranges = [request for request in server.proxy.seen if request.method == "GET" and "rows.npy" in request.path]
    asked = [request.headers["Range"] for request in ranges]
    assert len(asked) == len(set(asked)) + asked.count("bytes=0-2047") - 1 or len(asked) <= 10  # nothing twice


def test_an_array_of_a_run_that_is_made_again_is_read_again(server: Server, folder: str) -> None:
    import pickle

    from dtree.runs.kept import store_at

    with with_options(server.options):
        store = store_at(f"{folder}/run.zarr")
        for value, size in ((1, 5), (2, 4)):
            store.create_rows("labels", 20, size, np.int32, -1)
            at_a_worker = pickle.loads(pickle.dumps(store))
            at_a_worker.write_rows("labels", 0, np.full(20, value, dtype=np.int32))
            for start in (0, 5, 10):
                assert at_a_worker.read_rows("labels", start, start + 5).tolist() == [value] * 5
            server.proxy.seen.clear()
            assert at_a_worker.read_rows("labels", 15, 20).tolist() == [value] * 5
            assert not [request for request in server.proxy.seen if request.key.endswith("zarr.json")]


@pytest.mark.parametrize("mishap", [(503, "SlowDown"), (429, "TooManyRequests"), "lost", "half"])
def test_a_store_that_fails_now_and_then_gives_the_same_rows(mishap: Any, server: Server, folder: str) -> None:
    from tests.storage.server import error

    with with_options(server.options):
        for kind in ("zarr3", "parquet", "npy"):
            write(located(folder) / NAMES[kind], kind)
        server.proxy.rules = [now_and_then(3, error(*mishap) if isinstance(mishap, tuple) else mishap, "GET")]
        for kind in ("zarr3", "parquet", "npy"):
            source = open_source(f"{folder}/{NAMES[kind]}")
            assert np.array_equal(source.load()[:, :3], table()[["a", "b", "c"]].to_numpy())


def test_a_store_that_is_gone_is_said(server: Server, folder: str) -> None:
    options = {**server.options, "max_retries": "1", "retry_seconds": "1"}
    with with_options(options):
        write(located(folder) / "rows.npy", "npy")
        source = open_source(f"{folder}/rows.npy")
        server.proxy.rules = [now_and_then(1, (503, b"SlowDown"))]
        with pytest.raises(OSError, match="cannot be used at the moment") as caught:
            source.read(0, 5)
    assert "\n" not in str(caught.value)
    assert "Secret" not in str(caught.value)
