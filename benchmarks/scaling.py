"""How a pass grows with workers: a real scheduler with many small simulated workers, and a model of discrete events
beside it.

python -m benchmarks.scaling [--workers 10,50,200] [--rates 20,60] [--rows 1000000000] [--chunk-rows 1000000]
python -m benchmarks.scaling --write deploy/SCALING.md      also puts the tables where the document has them
python -m benchmarks.scaling --growth growth.png            instead: how fits grow on one machine, see below

1. The costs are measured: a row against the clusters with the engine's kernels; a task with a real scheduler in a process
   of its own and ten workers in others.
2. The task graph of a pass (the engine's own `map_reduce`, with sums of the real size that really travel) is run on that
   scheduler with many workers whose chunk tasks sleep for as long as the rows would take.
3. The model is compared with that, then asked about clusters of up to 1,000 workers, each in a process of its own.

Workers that sleep need no core, so two cores are enough; but they share ten processes, in which they wait for each
other between tasks: the model is told so when it is compared, and not when it extrapolates.

--growth draws processor seconds of this process against rows, features and levels of categories: whole fits of `BHC`
and of `TreeClustering` with nothing set, and one iteration of a variational mixture of 20 components.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import numpy as np
from distributed import Client, Worker
from distributed.scheduler import heartbeat_interval

import dtree
from benchmarks.scaling_model import Costs, Outcome, model_pass
from benchmarks.tables import made
from dtree.core.families import Gaussian, moments_of
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess
from dtree.engine.on_cluster import OnCluster
from dtree.kmeans.passes import ChunkSums, assign_chunk, combine_sums, consolidate
from dtree.kmeans.scoring import Scorer

FEATURES, CLUSTERS = 16, 64
STATISTICS = 1 + FEATURES + FEATURES * (FEATURES + 1) // 2
HOSTS = 10  # processes that hold the simulated workers
READ_BYTES = 200e6  # a second, for each worker: given, not measured
SPREAD = 0.1  # standard deviation of the logarithm of a chunk's time: machines and disks are not all alike; given
_QUIET = {
    "distributed.worker.profile.enabled": False,  # each worker would look at itself a hundred times a second
    "distributed.admin.system-monitor.interval": "30s",
    "distributed.comm.timeouts.connect": "120s",
}


def cpu_seconds(dask_scheduler: Any = None) -> float:
    """CPU seconds of this process so far."""
    return time.process_time()


# The engine's own work -----------------------------------------------------------------------------------------------


def kernel_costs(rows: int = 100_000) -> tuple[float, float, float]:
    """CPU seconds of one row of a pass (scores and statistics), of adding eight sums, of the central task."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLUSTERS, rows)
    X = rng.normal(0, 3, size=(CLUSTERS, FEATURES))[labels] + rng.normal(size=(rows, FEATURES))
    model = Model(Gaussian.defaults(moments_of(X)), DirichletProcess(1.0))
    scorer = Scorer(model, Scorer(model, np.zeros((0, STATISTICS))).accumulate(X, labels, CLUSTERS))
    sums = assign_chunk(scorer, X, labels, 0, 2, 0)[1]
    return (
        _least(lambda: assign_chunk(scorer, X, labels, 0, 2, 0)) / rows,
        _least(lambda: combine_sums(model, [sums] * 8)),
        _least(lambda: consolidate(model, sums, 2)),
    )


def _least(action: Any, times: int = 4) -> float:
    spent = []
    for _ in range(times):
        began = time.process_time()
        action()
        spent.append(time.process_time() - began)
    return min(spent)


# Simulated workers on a real scheduler -------------------------------------------------------------------------------


def chunk_task(seconds: float) -> ChunkSums:
    """As long as a chunk would take, and what it would send."""
    time.sleep(seconds)
    return ChunkSums(0, 0, np.ones((CLUSTERS, STATISTICS)), np.zeros((0, STATISTICS)), {})


def combine_task(parts: list[ChunkSums]) -> ChunkSums:
    """The engine's sum of up to eight chunks."""
    return combine_sums(None, parts)  # type: ignore[arg-type]  # without births no model is asked


def centre_task(pairs: object, seconds: float, sums: ChunkSums) -> float:
    """As long as the central task would take; the sum shows that every chunk arrived."""
    time.sleep(seconds)
    return float(sums.statistics[0, 0])


async def _hold_workers(address: str, count: int) -> None:
    with dask.config.set(_QUIET):
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(count):
                worker = Worker(address, nthreads=1, memory_limit=0, dashboard=False)
                await stack.enter_async_context(worker)
            await asyncio.Event().wait()


def _start(*command: str) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, *command], env=environment, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def scheduler(folder: Path) -> Iterator[Client]:
    """A scheduler in a process of its own, and no workers."""
    address = folder / "scheduler.json"
    address.unlink(missing_ok=True)
    process = _start("-m", "distributed.cli.dask_scheduler", "--port", "0", "--host", "127.0.0.1", "--no-dashboard",
                     "--scheduler-file", str(address))  # fmt: skip
    try:
        while not address.exists():
            time.sleep(0.1)
        with Client(scheduler_file=str(address), set_as_default=False) as client:
            yield client
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def workers(client: Client, count: int) -> Iterator[list[int]]:
    """So many one-thread workers in up to ten processes; gives the numbers of those processes."""
    hosts = min(count, HOSTS)
    shares = [count // hosts + (host < count % hosts) for host in range(hosts)]
    address = client.scheduler.address
    processes = [_start("-m", "benchmarks.scaling", "--hold", address, str(share)) for share in shares]
    try:
        client.wait_for_workers(count, timeout=300)
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _cpu_of(pids: list[int]) -> float:
    """CPU seconds of processes so far."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(field[11]) + int(field[12]) for field in fields) / os.sysconf("SC_CLK_TCK")


def real_pass(client: Client, chunks: np.ndarray, centre: float) -> float:
    """Seconds of one pass with the engine's task graph."""
    began = time.perf_counter()
    cluster = OnCluster(client)
    sums = cluster.map_reduce(chunk_task, [(float(seconds),) for seconds in chunks], combine_task)
    seen = cluster.central(centre_task, centre, sums)
    assert seen == chunks.shape[0], "some chunk was lost or added twice"
    return time.perf_counter() - began


def task_costs(folder: Path, combine: float, centre: float, tasks: int = 2000, count: int = 10) -> Costs:
    """What a task costs whom, on ten workers with tasks that do nothing but send their sums."""
    with scheduler(folder) as client:
        mine, theirs = time.process_time(), client.run_on_scheduler(cpu_seconds)
        futures = client.map(chunk_task, np.zeros(tasks).tolist(), pure=False)  # nobody is there to run them
        time.sleep(2.0)
        graph = client.run_on_scheduler(cpu_seconds) - theirs
        handing = time.process_time() - mine
        client.cancel(futures)
        del futures
        with workers(client, count) as pids:
            real_pass(client, np.zeros(200), 0.0)  # first tasks import and open connections
            trips = []
            for _ in range(50):
                began = time.perf_counter()
                client.submit(time.sleep, 0.0, pure=False).result()
                trips.append(time.perf_counter() - began)
            theirs, worker = client.run_on_scheduler(cpu_seconds), _cpu_of(pids)
            real_pass(client, np.zeros(tasks), 0.0)
            theirs, worker = client.run_on_scheduler(cpu_seconds) - theirs, _cpu_of(pids) - worker
    n = tasks * 8 / 7
    done = max(theirs / n - graph / tasks, 1e-6)
    message = max(float(np.median(trips)) - done - worker / n - graph / tasks - handing / tasks, 0.0) / 4
    return Costs(
        handing / tasks, graph / tasks, done, 0.0, max(worker / n - combine / 8, 0.0), message, combine, centre
    )


def heartbeat_cost(client: Client, count: int, seconds: float = 6.0) -> float:
    """CPU of the scheduler for one heartbeat, from what it spends on idle workers."""
    time.sleep(2.0)  # the first heartbeats tell the workers how often to report
    began = client.run_on_scheduler(cpu_seconds)
    time.sleep(seconds)
    spent = client.run_on_scheduler(cpu_seconds) - began
    return max(spent, 0.0) / (seconds * count / heartbeat_interval(count))


# The tables ----------------------------------------------------------------------------------------------------------


def chunk_seconds(rows: int, chunk_rows: int, row: float) -> np.ndarray:
    """Seconds of every chunk: compute, and reading float32 rows."""
    n = -(-rows // chunk_rows)
    spread = np.exp(SPREAD * np.random.default_rng(0).normal(size=n) - SPREAD**2 / 2)
    return chunk_rows * (row + 4 * FEATURES / READ_BYTES) * spread


def constants(row: float, costs: Costs) -> list[str]:
    """What was measured, as a table."""
    task = " / ".join(
        f"{1e3 * cost:.2f}"
        for cost in (costs.client_task, costs.scheduler_graph + costs.scheduler_task, costs.worker_task)
    )
    found = {
        f"full Gaussian, {FEATURES} features, {CLUSTERS} clusters, one row: scores and sums": f"{1e6 * row:.2f} us of CPU",
        f"a Dask task with its sums of {8 * CLUSTERS * STATISTICS / 1000:.0f} kB: client / scheduler / worker": f"{task} ms of CPU",
        "a heartbeat of a worker, in the scheduler": f"{1e3 * costs.heartbeat:.2f} ms of CPU",
        "a message from one process to another": f"{1e3 * costs.message:.2f} ms",
        "adding eight sums; the central task": f"{1e3 * costs.combine:.2f}; {1e3 * costs.centre:.1f} ms of CPU",
        "reading, for each worker (given, not measured)": f"{READ_BYTES / 1e6:.0f} MB/s",
        "machines and disks differ by (given)": f"{SPREAD:.0%}",
    }
    return ["| constant | value |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in found.items())]


def compare(
    folder: Path, counts: list[int], rates: list[float], row: float, costs: Costs, longest: float
) -> tuple[Costs, list[str]]:
    """Real scheduler against model, as a table; the cost of a heartbeat is that of the largest cluster.

    The chunks are as long as it takes for the cluster to ask for so many tasks a second.
    """
    table = [
        "| workers | tasks a second asked for | a chunk | chunks | work / workers | real | model | real / model | scheduler busy (model) | cores of the workers |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for count in counts:
        with scheduler(folder) as client, workers(client, count) as pids:
            costs = costs._replace(heartbeat=heartbeat_cost(client, count))
            real_pass(client, np.zeros(2 * count), 0.0)
            for rate in rates:
                size = int(count / rate / (row + 4 * FEATURES / READ_BYTES))
                chunks = chunk_seconds(size * max(int(longest * rate), 2 * count), size, row)
                theirs, held = client.run_on_scheduler(cpu_seconds), _cpu_of(pids)
                took = real_pass(client, chunks, costs.centre)
                theirs, held = client.run_on_scheduler(cpu_seconds) - theirs, _cpu_of(pids) - held
                said = model_pass(chunks, count, costs, hosts=min(count, HOSTS))
                table.append(
                    f"| {count} | {rate:g} | {chunks.mean():.2f} s | {chunks.size:,} | {chunks.sum() / count:.1f} s | "
                    f"{took:.1f} s | {said.seconds:.1f} s | {took / said.seconds:.2f} | "
                    f"{theirs / took:.0%} ({said.scheduler_share:.0%}) | {held / took:.2f} |"
                )
                print(table[-1], flush=True)
    return costs, table


def extrapolate(rows: int, chunk_rows: int, row: float, costs: Costs) -> list[str]:
    """The model alone, every worker in a process of its own, as a table."""
    table = [
        "| workers | rows a chunk | tasks | work / workers | one pass | efficiency | scheduler busy |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for count in (10, 30, 100, 300, 1000):
        for size in (chunk_rows, chunk_rows // 4):
            chunks = chunk_seconds(rows, size, row)
            said: Outcome = model_pass(chunks, count, costs)
            ideal = chunks.sum() / count
            table.append(
                f"| {count:,} | {size:,} | {said.tasks:,} | {ideal:.1f} s | {said.seconds:.1f} s | "
                f"{ideal / said.seconds:.0%} | {said.scheduler_share:.0%} |"
            )
    return table


def write_tables(document: Path, tables: dict[str, list[str]]) -> None:
    """Replace the tables between `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""
    text = document.read_text()
    for name, lines in tables.items():
        head, begin, rest = text.partition(f"<!-- {name}: begin -->\n")
        _, end, tail = rest.partition(f"<!-- {name}: end -->")
        if not begin or not end:
            raise ValueError(f"{document} has no place for the table '{name}'")
        text = head + begin + "\n".join(lines) + "\n" + end + tail
    document.write_text(text)


# Growth on one machine -----------------------------------------------------------------------------------------------


def _groups(n: int, d: int) -> np.ndarray:
    """Rows of ten round groups, neither far apart nor on top of each other."""
    rng = np.random.default_rng(0)
    return 4.0 * rng.normal(size=(10, d))[rng.integers(0, 10, n)] + rng.normal(size=(n, d))


def _table(n: int, levels: int) -> Any:
    """A frame of two numbers and four columns of words, each with so many levels."""
    import pandas

    _, values = made(n, 0, 2, (levels,) * 4)
    words = {f"c{j}": [None if np.isnan(v) else f"word {v:.0f}" for v in values[:, 2 + j]] for j in range(4)}
    return pandas.DataFrame({"x0": values[:, 0], "x1": values[:, 1], **words})


def _variational_iteration(X: Any) -> float:
    """CPU seconds of one iteration: those of a long fit less those of a short one, so that the start does not count."""

    def fit(iterations: int) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it has not converged
            settings = {"init": "random", "max_iter": iterations, "tol": 0.0, "split_merge": 0, "sample_rows": 10**9}
            return dtree.DPMixtureVB("O-CTSB", truncation=20, random_state=0, **settings).fit(X)

    more = fit(40).n_iter_ - 2
    return max(_least(lambda: fit(40), 2) - _least(lambda: fit(2), 2), 0.0) / more


def _fit(estimator: Any) -> Callable[[Any], float]:
    return lambda X: _least(lambda: estimator.fit(X), 1)


GROWING = {
    "BHC, the whole fit": _fit(dtree.BHC()),
    "TreeClustering, the whole fit": _fit(dtree.TreeClustering(random_state=0)),
    "variational mixture, an iteration": _variational_iteration,
}
AXES: dict[str, tuple[tuple[int, ...], Callable[[int], Any]]] = {
    "rows of 8 features": ((500, 1000, 2000, 5000, 10_000, 20_000, 50_000), lambda n: _groups(n, 8)),
    "features of 2,000 rows": ((2, 4, 8, 16, 32), lambda d: _groups(2000, d)),
    "levels of 4 columns of words, 2,000 rows": ((3, 10, 30, 100, 300), lambda levels: _table(2000, levels)),
}
_MOST_ROWS_OF_A_TREE = 10_000  # exact BHC is quadratic


def growth(picture: Path) -> None:
    """CPU seconds against rows, features and levels as a table, and drawn."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(AXES), figsize=(12, 3.8), sharey=True)
    for axis, (title, (sizes, rows)) in zip(axes, AXES.items(), strict=True):
        found: dict[str, list[tuple[int, float]]] = {name: [] for name in GROWING}
        for name, measure in GROWING.items():
            measure(rows(sizes[0]))  # compiles
            for size in sizes:
                if name.startswith("BHC") and size > _MOST_ROWS_OF_A_TREE:
                    continue
                found[name].append((size, measure(rows(size))))
            axis.loglog(*zip(*found[name], strict=True), "o-", label=name)
            times = " | ".join(f"{took:.4f}" for _, took in found[name])
            print(f"| {title} | {name} | {times} |", flush=True)
        axis.set(xlabel=title)
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes], rotation=30)
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0].set(ylabel="processor seconds")
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(picture, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="10,50,200", help="sizes of the simulated clusters")
    parser.add_argument("--rates", default="20,60", help="tasks a second that the simulated clusters ask for")
    parser.add_argument("--rows", type=int, default=1_000_000_000)
    parser.add_argument("--chunk-rows", type=int, default=1_000_000)
    parser.add_argument("--longest", type=float, default=12.0, help="seconds that one simulated pass may take")
    parser.add_argument("--write", type=Path, metavar="FILE", help="a document whose tables are to be replaced")
    parser.add_argument("--growth", type=Path, metavar="PICTURE", help="draw how fits grow on this machine instead")
    parser.add_argument("--hold", nargs=2, metavar=("ADDRESS", "COUNT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.hold:
        asyncio.run(_hold_workers(options.hold[0], int(options.hold[1])))
        return
    if options.growth:
        growth(options.growth)
        return
    row, combine, centre = kernel_costs()
    with tempfile.TemporaryDirectory() as name, dask.config.set(_QUIET):
        folder = Path(name)
        costs = task_costs(folder, combine, centre)
        counts = [int(count) for count in options.workers.split(",")]
        rates = [float(rate) for rate in options.rates.split(",")]
        costs, simulation = compare(folder, counts, rates, row, costs, options.longest)
    tables = {
        "constants": constants(row, costs),
        "simulation": simulation,
        "extrapolation": extrapolate(options.rows, options.chunk_rows, row, costs),
    }
    for name, lines in tables.items():
        print(f"\n{name}\n", *lines, sep="\n")
    if options.write:
        write_tables(options.write, tables)


if __name__ == "__main__":
    main()
