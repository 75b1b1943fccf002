"""The MNIST experiment of [KWT07]: held-out log probability of six variational mixtures, and their largest clusters.

    python benchmarks/mnist_vb.py --data DIR --out DIR [--rows 5000 10000] [--splits 30]

DIR holds mnist.npz (`X` (70000, 784), 0..255). Images are reduced to 50 principal components of pixels in 0..255; each split
draws training rows and 10,000 others for testing; truncation is 80 for all variants, started from the same k-means. The paper
does not print its prior ("vague"); ours has the data's mean and covariance and the within-cluster share of variance that
the bound likes most on the first split. So levels are not the paper's (-574), the differences between variants are comparable.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from dtree.core.families import Family, Gaussian, moments_of
from dtree.variational.defaults import choose_by_bound, family_from_data
from dtree.variational.estimator import DPMixtureVB
from dtree.variational.starts import kmeans_labels
from dtree.variational.variants import VARIANTS

COMPONENTS, TRUNCATION, TEST_ROWS = 50, 80, 10_000


def principal_components(images: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores (n, 50), mean (784,) and axes (784, 50) of uint8 images (n, 784), covariance summed in chunks."""
    mean = images.mean(axis=0, dtype=np.float64)
    second = np.zeros((images.shape[1], images.shape[1]))
    for start in range(0, len(images), 5000):
        chunk = images[start : start + 5000] - mean
        second += chunk.T @ chunk
    _, vectors = np.linalg.eigh(second / len(images))
    axes = vectors[:, ::-1][:, :COMPONENTS]
    scores = np.vstack([(images[start : start + 5000] - mean) @ axes for start in range(0, len(images), 5000)])
    return scores, mean, axes


def run_split(scores: np.ndarray, rows: int, family: Family | None, random: np.random.Generator) -> tuple[Family, dict]:
    """Fit the six variants on one split; returns the family used and, by variant, (held-out mean, model)."""
    order = random.permutation(len(scores))
    train, test = scores[order[:rows]], scores[order[rows : rows + TEST_ROWS]]
    if family is None:
        candidates = family_from_data("gaussian", train)
        family, _ = choose_by_bound(candidates, train, VARIANTS["FSD"], TRUNCATION, 1.0, random)
    start = kmeans_labels(family, train, TRUNCATION, random)
    found = {}
    for variant in VARIANTS:
        begun = time.perf_counter()
        model = DPMixtureVB(variant, family, TRUNCATION, 1.0, init=start, split_merge=0, tol=1e-4, max_iter=300)
        model.fit(train)
        score = model.score(test)
        found[variant] = score, model
        seconds = time.perf_counter() - begun
        print(
            f"    {variant:8} {score:9.3f}  clusters {model.n_clusters_:3d}  iterations {model.n_iter_:4d}  {seconds:6.1f} s",
            flush=True,
        )
    return family, found


def draw(path: Path, models: dict[str, DPMixtureVB], mean: np.ndarray, axes: np.ndarray) -> None:
    """The means of the 15 largest clusters of each variant as images, one row per variant."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, cells = plt.subplots(len(models), 15, figsize=(15, 1.1 * len(models)), layout="constrained")
    for row, (variant, model) in zip(cells, models.items()):
        largest = np.argsort(-model.statistics_[:, 0])[:15]
        for cell, k in zip(row, largest):
            cell.imshow((mean + axes @ model.means_[k]).reshape(28, 28), cmap="gray_r", vmin=0, vmax=255)
            cell.set(xticks=[], yticks=[])
        row[0].set_ylabel(variant)
    figure.savefig(path, dpi=120)
    print(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with mnist.npz")
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--rows", type=int, nargs="+", default=[5000, 10_000])
    parser.add_argument("--splits", type=int, default=5, help="the paper has 30")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, help="within-cluster share of variance assumed by the prior")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    scores, mean, axes = principal_components(np.load(arguments.data / "mnist.npz")["X"])
    for rows in arguments.rows:
        family: Family | None = None
        if arguments.share is not None:
            family = Gaussian.defaults(moments_of(scores), arguments.share)
        values: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
        for i, stream in enumerate(np.random.SeedSequence(arguments.seed, spawn_key=(rows,)).spawn(arguments.splits)):
            print(f"  {rows} images, split {i + 1} of {arguments.splits}", flush=True)
            family, found = run_split(scores, rows, family, np.random.default_rng(stream))
            for variant, (score, _) in found.items():
                values[variant].append(score)
        print(f"{rows} training images: held-out log probability per image, s.e., difference to O-CTSB, its s.e.")
        best = np.array(values["O-CTSB"])
        for variant, list_of in values.items():
            column = np.array(list_of)
            root = np.sqrt(len(column))
            error = column.std(ddof=1) / root if len(column) > 1 else float("nan")
            paired = (column - best).std(ddof=1) / root if len(column) > 1 else float("nan")
            print(f"  {variant:8}{column.mean():10.2f}{error:8.2f}{(column - best).mean():10.3f}{paired:8.3f}")
        draw(arguments.out / f"mnist_{rows}.png", {variant: model for variant, (_, model) in found.items()}, mean, axes)


if __name__ == "__main__":
    main()
