"""The MNIST experiment of [KWT07]: held-out log probability of six variational mixtures, and their largest clusters.

    python benchmarks/mnist_vb.py --data DIR --out DIR [--rows 5000 10000] [--splits 30]

DIR holds mnist.npz (`X` (70000, 784), 0..255). Images are reduced to 50 principal components of pixels in 0..255; each split
draws training rows and 10,000 others for testing; truncation is 80 for all variants, started from the same k-means.

**How many clusters.** In 50 dimensions components hardly overlap: nearly every row belongs to one of them with probability near 1.
So a component that holds rows at the start does not give them up, and a fit ends with as many clusters as its start had, under
every prior we tried and for all six variants; counting by expected mass or by hard labels makes no difference. Started
from k-means with 80 centres, all 80 stay in use, although the bound is higher from a start with fewer. The number of clusters is
therefore decided by the start, and we let the bound choose it: on the first split short fits from 10 to 80 centres are compared
(the table is printed), and all variants and splits start from the winner. It grows with the number of images. The paper, which
found 32 to 36 clusters, does not say how it started. `--centres 80` starts with as many centres as the truncation.

**Levels.** The paper prints neither its prior ("vague") nor its unit of pixels. Multiplying pixels by c adds -50 log c to every
level (c = 1/255 adds 277 nats), so levels (-574 there) cannot be compared; differences between variants can.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from dtree.core.families import Family, Gaussian, moments_of
from dtree.engine.variational_estimator import DPMixtureVB
from dtree.variational.defaults import choose_by_bound, family_from_data
from dtree.variational.starts import kmeans_labels
from dtree.variational.variants import VARIANTS

COMPONENTS, TRUNCATION, TEST_ROWS = 50, 80, 10_000
CENTRES = (10, 20, 30, 40, 60, 80)
# [KWT07] Figure 6, 10,000 images: level and difference to O-CTSB, each with its standard error.
PAPER = {
    "TSB": (-574.05, 0.52, -0.17, 0.13),
    "O-TSB": (-574.03, 0.53, -0.14, 0.11),
    "CTSB": (-573.90, 0.54, -0.01, 0.05),
    "O-CTSB": (-573.89, 0.54, 0.0, 0.0),
    "FSD": (-574.06, 0.50, -0.17, 0.13),
    "CFSD": (-573.89, 0.51, -0.00, 0.10),
}


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


def best_centres(family: Family, train: np.ndarray, random: np.random.Generator) -> int:
    """The number of k-means centres whose short fit has the highest bound; prints what each gives."""
    print("    centres   clusters   by mass   bound per image   (short FSD fits from k-means)")
    bounds = {}
    for centres in CENTRES:
        start = kmeans_labels(family, train, centres, random)
        model = DPMixtureVB("FSD", family, TRUNCATION, 1.0, init=start, split_merge=0, tol=1e-3, max_iter=40).fit(train)
        bounds[centres] = model.elbo_ / len(train)
        held = int((model.statistics_[:, 0] > 1.0).sum())
        print(f"    {centres:7d}{model.n_clusters_:11d}{held:10d}{bounds[centres]:18.3f}", flush=True)
    return max(bounds, key=lambda centres: bounds[centres])


def run_split(
    scores: np.ndarray, rows: int, family: Family | None, centres: int | None, random: np.random.Generator
) -> tuple[Family, int, dict]:
    """Fit the six variants on one split; returns family and number of centres used, and by variant (held-out mean, model)."""
    order = random.permutation(len(scores))
    train, test = scores[order[:rows]], scores[order[rows : rows + TEST_ROWS]]
    if family is None:
        candidates = family_from_data("gaussian", train)
        family, _ = choose_by_bound(candidates, train, VARIANTS["FSD"], TRUNCATION, 1.0, random)
    if centres is None:
        centres = best_centres(family, train, random)
        print(f"    all variants start from k-means with {centres} centres", flush=True)
    start = kmeans_labels(family, train, centres, random)
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
    return family, centres, found


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
    parser.add_argument(
        "--centres", type=int, help="centres of the k-means start; by default those the bound likes most"
    )
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    scores, mean, axes = principal_components(np.load(arguments.data / "mnist.npz")["X"])
    for rows in arguments.rows:
        family: Family | None = None
        if arguments.share is not None:
            family = Gaussian.defaults(moments_of(scores), arguments.share)
        values: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
        clusters: dict[str, list[int]] = {variant: [] for variant in VARIANTS}
        centres = arguments.centres
        for i, stream in enumerate(np.random.SeedSequence(arguments.seed, spawn_key=(rows,)).spawn(arguments.splits)):
            print(f"  {rows} images, split {i + 1} of {arguments.splits}", flush=True)
            family, centres, found = run_split(scores, rows, family, centres, np.random.default_rng(stream))
            for variant, (score, model) in found.items():
                values[variant].append(score)
                clusters[variant].append(model.n_clusters_)
        print(
            f"{rows} training images: held-out log probability per image; [KWT07] has 10,000 images, 32 to 36 clusters"
        )
        print(
            f"  {'':8}{'ours':>9}{'s.e.':>7}{'-O-CTSB':>9}{'s.e.':>7}{'clusters':>10}{'paper':>12}{'s.e.':>6}{'-O-CTSB':>9}{'s.e.':>6}"
        )
        best = np.array(values["O-CTSB"])
        for variant, list_of in values.items():
            column = np.array(list_of)
            root = np.sqrt(len(column))
            error = column.std(ddof=1) / root if len(column) > 1 else float("nan")
            paired = (column - best).std(ddof=1) / root if len(column) > 1 else float("nan")
            held = f"{min(clusters[variant])}-{max(clusters[variant])}"
            level, level_error, difference, difference_error = PAPER[variant]
            print(
                f"  {variant:8}{column.mean():9.2f}{error:7.2f}{(column - best).mean():9.3f}{paired:7.3f}{held:>10}"
                f"{level:12.2f}{level_error:6.2f}{difference:9.2f}{difference_error:6.2f}"
            )
        draw(arguments.out / f"mnist_{rows}.png", {variant: model for variant, (_, model) in found.items()}, mean, axes)


if __name__ == "__main__":
    main()
