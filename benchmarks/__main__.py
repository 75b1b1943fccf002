"""All peers that are installed, on the same machine in the same run: a table with versions, machine and commit, and two
pictures.

    python -m benchmarks [--rows 5000] [--data DIR] [--out results/peers] [--repeats 2]
    python -m benchmarks scoreboard [--data DIR] [--quick]       what a person waits for, in one table

Time is measured on made-up Gaussian clusters in 10 dimensions, doubling the rows up to --rows; quality on small real
data (those that come with scikit-learn; with --data also glass, abalone and the toy data of Lee & Choi), as adjusted
Rand index against the classes and, for trees, dendrogram purity. All see standardised rows. `pip install
'dtree[bench]'` installs the peers. The other measurements of a room have commands of their own, named in
benchmarks/RESULTS.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

import dtree
from benchmarks.bhc import mixture
from benchmarks.measure import commit, load, machine, markdown_table, seconds
from benchmarks.peers import PEERS, Peer, installed


def datasets(folder: Path | None) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, standardised rows and classes of small real data."""
    for name, loader in (("iris", load_iris), ("wine", load_wine), ("digits", load_digits)):
        X, y = loader(return_X_y=True)
        yield name, StandardScaler().fit_transform(X), y
    for name, classes in (("glass", "y"), ("abalone", "sex"), ("tgmcmc_toy", "y")) if folder else ():
        arrays = load(folder, name)  # type: ignore[arg-type]
        yield name, StandardScaler().fit_transform(arrays["X"].astype(float)), arrays[classes]


def measure_times(peers: list[Peer], largest: int, repeats: int) -> dict[str, dict[int, float]]:
    """Seconds of every peer at every size, the best of so many; each has run once before, on few rows."""
    sizes = [n for n in (500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000) if n <= largest] or [largest]
    found: dict[str, dict[int, float]] = {}
    for peer in peers:
        peer.cluster(mixture(200, 10, 5), 5)
        for n in sizes:
            if n <= peer.largest:
                X = StandardScaler().fit_transform(mixture(n, 10))
                found.setdefault(peer.name, {})[n] = seconds(lambda p=peer, X=X: p.cluster(X, 50), repeats)[0]
                print(f"{peer.name}, {n:,} rows: {found[peer.name][n]:.3f} s", flush=True)
    return found


def measure_quality(peers: list[Peer], folder: Path | None) -> dict[str, dict[str, tuple[float, float | None]]]:
    """Adjusted Rand index and, for trees, dendrogram purity of every peer on every dataset."""
    found: dict[str, dict[str, tuple[float, float | None]]] = {}
    for name, X, y in datasets(folder):
        for peer in (peer for peer in peers if peer.judged):
            labels, tree = peer.cluster(X, len(np.unique(y)))
            purity = None if tree is None else float(dtree.dendrogram_purity(tree, y))
            found.setdefault(peer.name, {})[name] = float(adjusted_rand_score(y, labels)), purity
        print(f"{name}: done", flush=True)
    return found


def report(times: dict[str, dict[int, float]], quality: dict[str, Any], peers: list[Peer]) -> str:
    """Everything as Markdown."""
    told = {peer.name: "*" if peer.told else "" for peer in peers}
    versions = ", ".join(f"{name} {number}" for name, number in installed().items())
    sizes = sorted({n for row in times.values() for n in row})
    sets = list(next(iter(quality.values())))
    means = {name: float(np.mean([score for score, _ in row.values()])) for name, row in quality.items()}
    lines = [
        "# Peers",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, commit {commit()}; {machine()}; {versions}.",
        "",
        "Seconds on made-up clusters, 10 features, everything included (hyperparameters chosen by the evidence for dtree):",
        "",
        *markdown_table(["", *(f"{n:,} rows" for n in sizes)], [[name, *(f"{row[n]:.3f}" if n in row else "–" for n in sizes)] for name, row in times.items()]),
        "",
        "Adjusted Rand index against the classes, dendrogram purity in brackets; * is told the number of classes:",
        "",
        *markdown_table(["", *sets, "mean"], [[name + told[name], *(f"{score:.3f}" + ("" if purity is None else f" ({purity:.3f})") for score, purity in row.values()), f"{means[name]:.3f}"] for name, row in quality.items()]),
        "",
    ]  # fmt: skip
    return "\n".join(lines)


def draw(times: dict[str, dict[int, float]], quality: dict[str, Any], peers: list[Peer], out: Path) -> None:
    """Time against rows, and the mean adjusted Rand index of each peer."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8, 4.6), layout="constrained")
    for name, row in times.items():
        ours = name.startswith("dtree")
        axis.loglog(list(row), list(row.values()), "o-" if ours else ".--", lw=2.2 if ours else 1.0, label=name)
    axis.set(xlabel="rows (10 features)", ylabel="seconds", title="Clustering of made-up rows")
    axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(out / "peers_time.png", dpi=110)
    plt.close(figure)
    colour = {
        peer.name: "0.75" if peer.told else "tab:blue" if peer.package == "dtree" else "tab:orange" for peer in peers
    }
    means = {name: float(np.mean([score for score, _ in row.values()])) for name, row in quality.items()}
    order = sorted(means, key=means.__getitem__)
    figure, axis = plt.subplots(figsize=(8, 4.2), layout="constrained")
    axis.barh(order, [means[name] for name in order], color=[colour[name] for name in order])
    axis.set(xlabel="mean adjusted Rand index (blue: dtree; grey: told the number of classes)")
    figure.savefig(out / "peers_quality.png", dpi=110)
    plt.close(figure)


def main() -> None:
    if sys.argv[1:2] == ["scoreboard"]:
        from benchmarks import scoreboard

        scoreboard.main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5000, help="rows of the largest timed set")
    parser.add_argument("--repeats", type=int, default=2, help="timed runs, of which the best counts")
    parser.add_argument("--data", type=Path, help="folder with more datasets as .npz")
    parser.add_argument("--out", type=Path, default=Path("results/peers"), help="folder for the table and pictures")
    arguments = parser.parse_args()
    there = installed()
    peers = [peer for peer in PEERS if peer.package in there]
    for missing in dict.fromkeys(peer.package for peer in PEERS if peer.package not in there):
        print(f"{missing} is not installed and is left out: pip install 'dtree[bench]'")
    times = measure_times(peers, arguments.rows, arguments.repeats)
    quality = measure_quality(peers, arguments.data)
    arguments.out.mkdir(parents=True, exist_ok=True)
    text = report(times, quality, peers)
    (arguments.out / "peers.md").write_text(text, encoding="utf-8")
    draw(times, quality, peers, arguments.out)
    print(text)


if __name__ == "__main__":
    main()
