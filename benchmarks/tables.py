"""Tables with categories and missing values against complete numbers: speed, growth and the memory of workers.

    python -m benchmarks.tables [--rows 1000000] [--tree-rows 5000]       # a pass and an exact tree
    python -m benchmarks.tables --growth                                  # levels and columns
    python -m benchmarks.tables --workers DIR --rows 10000000             # passes over a folder of parquet files

Rows have 8 numbers, 4 categories of 3 to 50 levels and 5 % missing values; the diagonal Gaussian has 12 numbers. Times
are CPU seconds, the least of several, both sides in turn. Before anything is timed, labels are compared with those of
`assign_atoms`, which asks for one marginal likelihood after the other, and the merges of 80 rows with a naive tree.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dtree
from benchmarks.measure import print_table
from dtree.core.model import Model
from dtree.hierarchy.bhc import build_tree
from dtree.kmeans.scoring import Scorer
from dtree.kmeans.scoring.any_family import assign_atoms, atom_tables

LEVELS = (3, 8, 20, 50)
CLUSTERS = 50
ROWS_PER_FILE = 1_000_000


def made(n: int, seed: int = 0, numbers: int = 8, levels: tuple[int, ...] = LEVELS) -> tuple[np.ndarray, np.ndarray]:
    """Labels (n,) and a table (n, numbers + categories) with 5 % holes; the clusters do not depend on the seed."""
    means = np.random.default_rng(0).normal(scale=5.0, size=(CLUSTERS, numbers))
    likely = [np.random.default_rng(1).dirichlet(np.full(one, 0.3), CLUSTERS).cumsum(axis=1) for one in levels]
    rng = np.random.default_rng(2 + seed)
    labels = rng.integers(0, CLUSTERS, n)
    table = np.empty((n, numbers + len(levels)))
    table[:, :numbers] = means[labels] + rng.normal(size=(n, numbers))
    for j, (one, shares) in enumerate(zip(levels, likely, strict=True)):
        drawn = rng.random(n)
        for start in range(0, n, 100_000):
            part = slice(start, start + 100_000)
            table[part, numbers + j] = np.minimum((drawn[part, None] > shares[labels[part]]).sum(axis=1), one - 1)
    table[rng.random(table.shape) < 0.05] = np.nan
    return labels, table


def mixed_model(numbers: int = 8, levels: tuple[int, ...] = LEVELS) -> Model:
    """A model of such tables."""
    real = dtree.DiagonalGaussian(np.zeros(numbers), 0.05, 2.0, np.ones(numbers))
    categories = dtree.Categorical([np.full(one + 1, 0.5) for one in levels])
    blocks = [(real, np.arange(numbers)), (categories, np.arange(numbers, numbers + len(levels)))]
    return Model(dtree.Mixed(blocks), dtree.DirichletProcess(1.0))


def diagonal_model(d: int = 12) -> Model:
    """A model of complete numbers."""
    return Model(dtree.DiagonalGaussian(np.zeros(d), 0.05, 2.0, np.ones(d)), dtree.DirichletProcess(1.0))


def complete(n: int, d: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels and numbers without holes."""
    labels, table = made(n, seed, d, ())
    return labels, np.where(np.isnan(table), 0.0, table)


def in_turn(*tasks: Callable[[], Any], times: int = 5) -> list[float]:
    """The least CPU seconds of each task, after one call that compiles."""
    found: list[list[float]] = [[] for _ in tasks]
    for task in tasks:
        task()
    for _ in range(times):
        for task, seconds in zip(tasks, found, strict=True):
            began = time.process_time()
            task()
            seconds.append(time.process_time() - began)
    return [min(seconds) for seconds in found]


def one_pass(model: Model, X: np.ndarray, labels: np.ndarray) -> Callable[[], np.ndarray]:
    """A call that assigns every row to its best cluster and adds up statistics; the labels it finds."""
    start = Scorer(model, np.zeros((0, model.atoms(X[:1]).shape[1]))).accumulate(X, labels, CLUSTERS)

    def run() -> np.ndarray:
        scorer = Scorer(model, start)
        found = scorer.assign(X, labels).best
        scorer.accumulate(X, found, CLUSTERS)
        return found

    return run


def check_pass(model: Model, X: np.ndarray, labels: np.ndarray, rows: int = 2000) -> None:
    """The same labels as one marginal likelihood after the other gives."""
    X, labels = X[:rows], labels[:rows]
    atoms, found = model.atoms(X), one_pass(model, X, labels)()
    clusters = np.stack([atoms[labels == c].sum(axis=0) for c in range(CLUSTERS)])
    best, unexplained = np.empty(len(X), dtype=np.int64), np.empty(len(X), dtype=np.bool_)
    assign_atoms(atom_tables(model, clusters), atoms, labels, best, unexplained)
    assert np.array_equal(found, best)


def check_tree(model: Model, X: np.ndarray) -> None:
    """The same merges as the naive tree."""
    from tests.naive.bhc import greedy_tree  # the twin of the tests

    assert np.array_equal(build_tree(model, model.atoms(X)).merges, greedy_tree(model, model.atoms(X)).merges)


def speed(pass_rows: int, tree_rows: int) -> None:
    """Ratios of a pass and of an exact tree to the diagonal Gaussian on 12 columns."""
    mixed, diagonal = mixed_model(), diagonal_model()
    (labels, table), (plain_labels, numbers) = made(pass_rows), complete(pass_rows)
    check_pass(mixed, table, labels)
    rows = [["a pass", f"{pass_rows:,}", *in_turn(one_pass(mixed, table, labels), one_pass(diagonal, numbers, plain_labels))]]  # fmt: skip
    (labels, table), (_, numbers) = made(tree_rows, 1), complete(tree_rows, seed=1)
    check_tree(mixed, table[:80])
    atoms, plain_atoms = mixed.atoms(table), diagonal.atoms(numbers)
    times = in_turn(lambda: build_tree(mixed, atoms, 1), lambda: build_tree(diagonal, plain_atoms, 1), times=3)
    rows.append(["an exact tree", f"{tree_rows:,}", *times])
    printed = [[*row[:2], f"{row[2]:.3f}", f"{row[3]:.3f}", f"{row[2] / row[3]:.2f}"] for row in rows]
    print_table("CPU seconds", ["what", "rows", "mixed", "diagonal, 12 columns", "ratio"], printed)


def growth(rows: int = 100_000, tree_rows: int = 2000) -> None:
    """CPU time as levels grow, and as columns grow."""
    cases = [(8, (3, 8, 20, 50)), (8, (30, 80, 200, 500)), (8, (100, 300, 600, 1000)), (16, LEVELS * 2), (32, LEVELS * 4), (0, LEVELS)]  # fmt: skip
    printed = []
    for numbers, levels in cases:
        model = mixed_model(numbers, levels) if numbers else _categories_only(levels)
        labels, table = made(rows, 0, numbers, levels)
        check_pass(model, table, labels)
        (a_pass,) = in_turn(one_pass(model, table, labels), times=3)
        atoms = model.atoms(table[:tree_rows])
        (a_tree,) = in_turn(lambda model=model, atoms=atoms: build_tree(model, atoms, 1), times=2)
        what = f"{numbers} numbers, {len(levels)} categories, {sum(levels)} levels"
        printed.append([what, f"{1e9 * a_pass / rows:.0f}", f"{1e9 * a_tree / tree_rows**2:.0f}"])
    print_table("growth", ["table", "ns a row of a pass", "ns a pair of rows of a tree"], printed)


def _categories_only(levels: tuple[int, ...]) -> Model:
    categories = dtree.Categorical([np.full(one + 1, 0.5) for one in levels])
    return Model(dtree.Mixed([(categories, np.arange(len(levels)))]), dtree.DirichletProcess(1.0))


def write_files(folder: Path, rows: int) -> Path:
    """A folder of parquet files of a million rows each, with words for categories, in row groups; kept between runs."""
    import pandas

    target = folder / f"table-{rows}"
    target.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, rows, ROWS_PER_FILE)):
        file = target / f"part-{number:04d}.parquet"
        if file.exists():
            continue
        _, table = made(min(ROWS_PER_FILE, rows - start), number)
        frame = pandas.DataFrame(table[:, :8], columns=[f"x{j}" for j in range(8)])
        for j, levels in enumerate(LEVELS):
            codes = np.where(np.isnan(table[:, 8 + j]), -1, table[:, 8 + j]).astype(int)
            frame[f"c{j}"] = pandas.Categorical.from_codes(codes, [f"level {v}" for v in range(levels)])
        frame.to_parquet(file, row_group_size=100_000)
    return target


def workers(folder: Path, sizes: list[int], passes: int) -> None:
    """Peak memory of two workers, and seconds a row, as rows grow; fresh workers for each size."""
    from benchmarks.engine import peak_memory
    from dtree.engine.cluster import cluster_client

    printed = []
    for rows in sizes:
        files = write_files(folder, rows)
        with cluster_client(n_workers=2, memory_limit="2GB") as client:
            began = time.perf_counter()
            model = dtree.BayesKMeans("mixed", max_iter=passes, random_state=0, client=client).fit(str(files))
            seconds = time.perf_counter() - began
            peak = max(client.run(peak_memory).values()) / 1e6
        printed.append([f"{rows:,}", model.n_clusters_, f"{seconds:.0f}", f"{1e9 * seconds / rows:.0f}", f"{peak:.0f}"])
        print(printed[-1], flush=True)
    print_table(
        f"a survey and {passes} passes over parquet files, 2 workers",
        ["rows", "clusters", "seconds", "ns a row", "peak of a worker, MB"],
        printed,
    )


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--tree-rows", type=int, default=5000)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--workers", type=Path, help="a folder for the files; 100 bytes a row")
    parser.add_argument("--passes", type=int, default=3)
    options = parser.parse_args()
    if options.growth:
        growth()
    elif options.workers:
        workers(options.workers, [options.rows // 10, options.rows], options.passes)
    else:
        speed(options.rows, options.tree_rows)


if __name__ == "__main__":
    main()
