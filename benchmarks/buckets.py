"""Passes over rows in a bucket beside the same passes over the same rows on disk.

python -m benchmarks.buckets --folder DIR                          10 million rows
python -m benchmarks.buckets --folder DIR --rows 1000000           a quick look
python -m benchmarks.buckets --model                               10^9 rows on many workers, by the model of SCALING.md
python -m benchmarks.buckets --folder DIR --libraries              obstore against s3fs (pip install s3fs)

The S3 server is moto's, on loopback; a proxy adds `--latency` seconds (0.02) to every answer. Both share the machine's
cores with the workers, which a real store does not; so the proxy answers for rows and labels itself, out of its memory,
once it was asked for them or passed them on, and the CPU that each party used is told beside the time.
Labels and bound must be the same to the last bit before any time is told. Aim: seconds of a pass at most 1.3 times
those from disk, and the memory of workers flat.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from benchmarks.measure import print_table
from benchmarks.scaling_model import Bucket, Costs, chunks_from, model_pass
from dtree.cli.demo import make_rows
from dtree.engine.cluster import cluster_client
from dtree.engine.drive import Given, Place, drive
from dtree.engine.warm import warm
from dtree.methods import method_named
from dtree.methods.settings import checked
from dtree.storage import located, with_options
from dtree.storage.zarr_places import zarr_at

PASSES = 6
REQUESTS = ("GET", "HEAD", "LIST", "PUT", "POST", "DELETE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("."))
    parser.add_argument("--model", action="store_true")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--latency", type=float, default=0.02)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--family", default="gaussian-diag", help="gaussian computes more for each row")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--libraries", action="store_true")
    given = parser.parse_args()
    if given.model:
        modelled(given.latency)
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    on_disk = given.folder / f"rows-{given.rows}.zarr"
    if not on_disk.exists():
        make_rows(on_disk, given.rows, 0)
    with served(given.latency) as (options, counts), with_options(options):
        libraries(options) if given.libraries else passes(on_disk, given, options, counts)


class served:
    """The server and its proxy in a process of their own; gives storage options and a function that counts requests."""

    def __init__(self, latency: float) -> None:
        self.latency = latency

    def __enter__(self) -> tuple[dict[str, str], Any]:
        self.ours, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs, self.latency))
        self.process.start()
        options = self.ours.recv()
        return options, self._counts

    def _counts(self) -> tuple[Counter[str], float]:
        """Requests since the last call by kind, and seconds of CPU of server and proxy until now."""
        self.ours.send("count")
        requests, seconds, server = self.ours.recv()
        return requests, seconds + _cpu_of(server)

    def __exit__(self, *_: Any) -> None:
        self.ours.send("stop")
        self.process.join(timeout=30)


def _serve(pipe: Any, latency: float) -> None:
    from tests.storage.server import s3_server

    with s3_server() as server:
        server.proxy.latency, server.proxy.held = latency, "^/bucket/rows-|/labels-[0-9]+/c/"
        pipe.send({**server.options, "retry_seconds": "180", "max_retries": "10"})
        while pipe.recv() == "count":
            kinds = Counter("LIST" if request.is_list else request.method for request in server.proxy.seen)
            pipe.send((kinds, time.process_time(), server.process))
            server.proxy.seen.clear()


def _cpu_of(process: int) -> float:
    """Seconds of CPU that a process has used, as Linux says."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def passes(on_disk: Path, given: Any, options: dict[str, str], counts: Any) -> None:
    """The same fit from disk to disk and from bucket to bucket."""
    bucket = f"s3://bucket/{on_disk.name}"
    for name in (path.relative_to(on_disk).as_posix() for path in on_disk.rglob("*") if path.is_file()):
        (located(bucket) / name).write_bytes((on_disk / name).read_bytes())
    method = method_named("bayes-kmeans")
    settings = checked(method.Settings, {"family": given.family, "max_iter": PASSES, "tol": 0.0})
    warm(method, settings)
    places = [("disk", on_disk, given.folder / "run.zarr"), ("bucket", bucket, "s3://bucket/run.zarr")]
    table: list[Any] = []
    answers = []
    with cluster_client(n_workers=given.workers, warm=False) as client:
        meter = Meter(client, counts)
        for turn in range(given.rounds + 1):
            for where, data, out in places:
                marks = [meter.read()]
                run = drive(
                    method, settings, Given(data), Place(out, True, client), 0,
                    lambda _, marks=marks: marks.append(meter.read()),
                )  # fmt: skip
                answers.append((run.row_array("labels").tobytes(), run.header.fingerprint))
                peak = max(client.run(_peak_memory).values())
                # Between the ends of passes: before the first is the survey, after the last the labels are written.
                found = [later - earlier for earlier, later in pairwise(marks[1:])]
                if turn:  # the first turn compiles, and fills the memory of the disk and of the proxy
                    table.append((where, np.median(found, axis=0), peak / 1e6))
    assert len({labels for labels, _ in answers}) == 1, "the bits differ"
    disk, remote = (np.array([row[1] for row in table if row[0] == where]).min(axis=0) for where in ("disk", "bucket"))
    ratios = f"seconds a pass {remote[0] / disk[0]:.2f} x disk, CPU of workers {remote[1] / disk[1]:.2f} x"
    title = f"{given.rows:,} rows, {given.family}, {given.latency * 1000:.0f} ms, {given.workers} workers: {ratios}"
    kinds = [f"{name}s" for name in REQUESTS]
    header = ("from and to", "seconds a pass", "CPU of workers", "of server", "peak of a worker, MB", *kinds)
    rows = [
        (where, *(f"{value:.2f}" for value in found[:3]), f"{peak:.0f}", *(f"{value:.0f}" for value in found[3:]))
        for where, found, peak in table
    ]
    print_table(title, header, rows)


class Meter:
    """What was used until now, by everybody."""

    def __init__(self, client: Any, counts: Any) -> None:
        self.client, self.counts = client, counts
        self.requests: Counter[str] = Counter()

    def read(self) -> np.ndarray:
        """Seconds gone by, of CPU of all workers and of the server, and requests of each kind."""
        seen, server = self.counts()
        self.requests.update(seen)
        workers = sum(self.client.run(time.process_time).values())
        return np.array([time.monotonic(), workers, server, *(self.requests[name] for name in REQUESTS)])


def modelled(latency: float, rows: int = 10**9, chunk_rows: int = 10**6) -> None:
    """A pass of SCALING.md's example (full Gaussian, 16 features as float32, 64 clusters) from a bucket."""
    costs = Costs(1e-5, 0.0, 1.47e-3, 0.8e-3, 4.19e-3, 1.32e-3, 2e-5, 8.1e-3)  # the constants in that page
    compute, size = np.full(rows // chunk_rows, 1.37e-6 * chunk_rows), 64.0 * chunk_rows
    table = []
    for workers in (10, 100, 300):
        for speed in (200e6, 50e6):
            bucket = Bucket(latency, speed)
            disk = model_pass(compute + size / speed, workers, costs).seconds
            with_commit = costs._replace(centre=costs.centre + bucket.to_commit * latency)
            found = [
                model_pass(chunks_from(bucket, compute, size, on), workers, with_commit).seconds for on in (True, False)
            ]
            table.append((workers, f"{speed / 1e6:.0f} MB/s", *(f"{seconds:.1f} s" for seconds in (disk, *found))))
    header = ("workers", "each reads", "shared disk", "bucket, read ahead", "bucket, one after the other")
    print_table(f"One pass over 10^9 rows, {latency * 1000:.0f} ms to the store", header, table)


def _peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def libraries(options: dict[str, str]) -> None:
    """Forty chunks of 4 MB read through zarr by obstore and by s3fs."""
    import s3fs

    place = located("s3://bucket/chunks.zarr")
    values = np.random.default_rng(0).normal(size=(40 * 65_536, 8))
    array = zarr.create_array(zarr_at(place), shape=values.shape, chunks=(65_536, 8), dtype="f8", compressors=None)
    array[...] = values
    files = s3fs.S3FileSystem(
        key=options["aws_access_key_id"], secret=options["aws_secret_access_key"], asynchronous=True,
        client_kwargs={"endpoint_url": options["endpoint"], "region_name": "us-east-1"},
    )  # fmt: skip
    stores = {"obstore": zarr_at(place, True), "s3fs": zarr.storage.FsspecStore(files, True, "bucket/chunks.zarr")}
    seconds: dict[str, list[float]] = {name: [] for name in stores}
    for _ in range(5):
        for name, store in stores.items():
            began = time.monotonic()
            assert np.array_equal(zarr.open_array(store, mode="r")[...], values)
            seconds[name].append(time.monotonic() - began)
    rows = [(name, f"{min(found):.2f}") for name, found in seconds.items()]
    print_table("40 chunks of 4 MB through zarr", ("library", "seconds, least of 5"), rows)


if __name__ == "__main__":
    main()
