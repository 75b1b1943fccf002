"""Variational mixtures: seconds per iteration beside scikit-learn, and the first experiment of [KWT07] at reduced size.

    python -m benchmarks.vb speed [--case 20000 10]     # one run, same prior, same start
    python -m benchmarks.vb heldout                      # held-out log density of the six variants on synthetic
    Gaussians python -m benchmarks.vb dask                         # the E-step as a pass of workers: rows per second,
    memory of workers

Both sides of `speed` are one process, may use the same BLAS threads, and are timed as often, the best of each kept.
scikit-learn's `dirichlet_distribution` model with weight prior alpha/T is exactly FSD, so answers are compared before
anything is timed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture

from dtree import DPMixtureVB
from dtree.core.families import Gaussian
from dtree.variational.fitting import Fit, InMemory, ascend
from dtree.variational.predictive import log_predictive
from dtree.variational.starts import kmeans_labels, one_hot
from dtree.variational.steps import Rule, make_block
from dtree.variational.threads import available_threads
from dtree.variational.variants import VARIANTS
from dtree.variational.weights import expected_weights

SPEED_CASES = ((20_000, 10), (200_000, 16))
TRUNCATION = 40
HELD_OUT = 5000
OUR_MULTIPLE = 8  # we take so many times more iterations, so that both sides are timed over seconds


class StartedMixture(BayesianGaussianMixture):
    """scikit-learn's mixture started from given responsibilities."""

    def _initialize_parameters(self, X: np.ndarray, random_state: object, xp: object = None) -> None:
        self._initialize(X, self.start)


def blobs(rows: int, d: int, seed: int = 0) -> np.ndarray:
    """Rows (n, d) from 25 overlapping Gaussians."""
    random = np.random.default_rng(seed)
    centres = 2.5 * random.normal(size=(25, d))
    shapes = random.normal(size=(25, d, d)) / np.sqrt(d)
    labels = random.integers(25, size=rows)
    return centres[labels] + np.einsum("nab,nb->na", shapes[labels], random.normal(size=(rows, d)))


class SpeedCase:
    """One data set with one prior and one start, for both packages."""

    def __init__(self, rows: int, d: int) -> None:
        both = blobs(rows + HELD_OUT, d)
        self.X, self.X_test = both[:rows], both[rows:]
        X = self.X
        self.mean, self.scale, self.strength, self.dof, self.alpha = (
            X.mean(axis=0),
            0.2 * np.cov(X.T),
            0.1,
            d + 2.0,
            1.0,
        )
        self.family = Gaussian(self.mean, self.strength, self.dof, self.scale, self.mean, X.std(axis=0))
        self.start = one_hot(kmeans_labels(self.family, X, TRUNCATION, np.random.default_rng(0)), TRUNCATION)

    def theirs(self, steps: int) -> tuple[float, StartedMixture]:
        """Seconds and scikit-learn's mixture after so many iterations."""
        mixture = StartedMixture(
            n_components=TRUNCATION,
            weight_concentration_prior_type="dirichlet_distribution",
            weight_concentration_prior=self.alpha / TRUNCATION,
            mean_prior=self.mean,
            mean_precision_prior=self.strength,
            degrees_of_freedom_prior=self.dof,
            covariance_prior=self.scale,
            reg_covar=0.0,
            max_iter=steps,
            tol=0.0,
        )
        mixture.start = self.start
        begun = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            mixture.fit(self.X)
        return time.perf_counter() - begun, mixture

    def ours(self, variant: str, steps: int) -> tuple[float, InMemory, Fit]:
        """Seconds, rows and fit after so many iterations, what is done before the first one included."""
        begun = time.perf_counter()
        rule = Rule(self.family, VARIANTS[variant], self.alpha)
        in_memory = InMemory(make_block(self.family, self.X), self.start.copy())
        fit = ascend(in_memory, in_memory.sums(rule), rule, steps, 0.0)
        return time.perf_counter() - begun, in_memory, fit

    def held_out(self, fit: Fit) -> float:
        """Mean log predictive density of rows that neither package saw."""
        log_weights = np.log(expected_weights(fit.rule.variant, self.alpha, fit.sums.counts))
        densities = log_predictive(self.family, self.X_test, fit.sums.statistics) + log_weights
        return float(np.logaddexp.reduce(densities, axis=1).mean())


def speed_case(rows: int, d: int, iterations: int, repeats: int) -> None:
    """Print seconds per iteration, time to the same bound and held-out density of both packages on one data set."""
    case = SpeedCase(rows, d)
    # scikit-learn ends with one more E-step after its last M-step: n of its iterations are n of ours.
    _, theirs = case.theirs(iterations + 1)
    _, in_memory, fit = case.ours("FSD", iterations + 1)
    _, _, posterior_mean, _ = case.family.posterior(fit.sums.statistics)
    np.testing.assert_allclose(theirs.means_, case.family.origin + case.family.unit * posterior_mean, atol=1e-7)
    in_memory.run(fit.state)
    np.testing.assert_allclose(theirs.predict_proba(case.X[:2000]), in_memory.responsibilities[:2000], atol=1e-6)
    print(
        f"\n{rows} x {d}, truncation {TRUNCATION}, full covariance, best of {repeats} runs of {iterations} iterations"
    )
    print(f"answers agree after {iterations + 1} iterations; {available_threads()} threads may be used by either")
    print(f"{'':14}{'s/iteration':>12}{'times faster':>14}{'s to this bound':>17}{'bound':>16}{'held out':>10}")

    def per_iteration(run: Callable[[int], float], steps: int) -> float:
        """What an iteration adds: the start costs the two packages different things and is not counted."""
        one = min(run(1) for _ in range(repeats))
        return (min(run(1 + steps) for _ in range(repeats)) - one) / steps

    their_seconds = per_iteration(lambda steps: case.theirs(steps)[0], iterations)
    whole, theirs = case.theirs(iterations + 1)
    held_out = float(theirs.score_samples(case.X_test).mean())
    print(
        f"{'scikit-learn':14}{their_seconds:12.4f}{1.0:14.1f}{whole:17.2f}{fit.elbo:16.1f}{held_out:10.4f}", flush=True
    )
    for variant in VARIANTS:
        case.ours(variant, 1)  # kernels loaded
        seconds = per_iteration(lambda steps, variant=variant: case.ours(variant, steps)[0], OUR_MULTIPLE * iterations)
        whole, _, found = case.ours(variant, iterations + 1)
        print(
            f"{variant:14}{seconds:12.4f}{their_seconds / seconds:14.1f}{whole:17.2f}{found.elbo:16.1f}"
            f"{case.held_out(found):10.4f}",
            flush=True,
        )
    print(
        "bounds of collapsed variants are approximations at this size; scikit-learn's is FSD's, after the same iterations"
    )


def separated_gaussians(
    random: np.random.Generator, rows: int = 200, test_rows: int = 1000, d: int = 16, size: int = 10
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training rows, test rows and training labels from equally likely Gaussians, 2-separated in the sense of Dasgupta
    (1999)."""
    means = random.normal(size=(size, d))
    factors, largest = [], []
    for _ in range(size):
        rotation, _ = np.linalg.qr(random.normal(size=(d, d)))
        variances = random.uniform(0.2, 1.0, d)
        factors.append(rotation * np.sqrt(variances))
        largest.append(variances.max())
    stretch = max(
        2.0 * np.sqrt(d * max(largest[i], largest[j])) / np.linalg.norm(means[i] - means[j])
        for i in range(size)
        for j in range(i)
    )
    labels = random.integers(size, size=rows + test_rows)
    noise = np.einsum("nab,nb->na", np.array(factors)[labels], random.normal(size=(rows + test_rows, d)))
    X = stretch * means[labels] + noise
    return X[:rows], X[rows:], labels[:rows]


def plain_kmeans(X: np.ndarray, size: int, random: np.random.Generator) -> np.ndarray:
    """Labels (n,) of k-means++ seeding, one candidate a draw, and Lloyd's iterations: the experiment's start."""
    centres = X[random.integers(len(X))][None, :]
    while len(centres) < size:
        distance = ((X[:, None] - centres) ** 2).sum(axis=2).min(axis=1)
        centres = np.vstack([centres, X[random.choice(len(X), p=distance / distance.sum())]])
    for _ in range(100):
        labels = ((X[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        for k in np.unique(labels):
            centres[k] = X[labels == k].mean(axis=0)
    return labels


def heldout_scores(datasets: int, truncation: int = 30, seed: int = 0) -> dict[str, np.ndarray]:
    """Mean held-out log density per point, one number per data set, of the six variants and given the true labels."""
    scores: dict[str, list[float]] = {variant: [] for variant in (*VARIANTS, "true labels")}
    for stream in np.random.SeedSequence(seed).spawn(datasets):
        random = np.random.default_rng(stream)
        X, X_test, truth = separated_gaussians(random)
        d = X.shape[1]
        family = Gaussian(X.mean(axis=0), 0.01, d + 2.0, 3.0 * X.var(axis=0).mean() * np.eye(d))
        start = plain_kmeans(X, truncation, random)
        for variant in VARIANTS:
            model = DPMixtureVB(
                variant, family, truncation, 1.0, init=start, expectation="taylor", order="size", split_merge=0
            )
            scores[variant].append(model.fit(X).score(X_test))
        known, counts = np.unique(truth, return_counts=True)
        statistics = np.array([family.statistics(X[truth == k]).sum(axis=0) for k in known])
        log_densities = family.log_predictive_of(X_test, statistics) + np.log(counts / counts.sum())
        scores["true labels"].append(float(np.logaddexp.reduce(log_densities, axis=1).mean()))
    return {variant: np.array(values) for variant, values in scores.items()}


def print_heldout(scores: dict[str, np.ndarray]) -> None:
    """Means, and differences to O-CTSB with standard errors over data sets."""
    print(f"{'variant':12}{'mean':>10}{'s.d.':>8}{'minus O-CTSB':>16}{'(s.e.)':>10}")
    for variant, values in scores.items():
        difference = values - scores["O-CTSB"]
        error = difference.std(ddof=1) / np.sqrt(len(difference))
        print(f"{variant:12}{values.mean():10.3f}{values.std(ddof=1):8.2f}{difference.mean():16.3f}{error:10.3f}")


def dask_case(folder: Path, rows: int, workers: int, d: int = 8, size: int = 12, passes: int = 3) -> str:
    """Fit O-CTSB by passes of workers over a data set on disk, which is removed afterwards; prints what each pass took.

    Returns a line of the table: the fastest pass, and the largest memory of a worker from the first look at the rows to
    their labels.
    """
    import psutil

    from dtree.cli.demo import make_rows
    from dtree.engine.cluster import cluster_client
    from dtree.engine.drive import Given, Place, drive
    from dtree.methods.variational import Settings, Variational

    folder.mkdir(parents=True, exist_ok=True)
    data = folder / f"rows-{rows}.zarr"
    if not data.exists():
        print(f"writing {rows:,} x {d} rows in {size} clusters to {data}", flush=True)
        make_rows(data, rows, seed=0, features=d, clusters=size)
    peak, done, seconds = [0], threading.Event(), []

    def watch(pids: list[int]) -> None:
        while not done.wait(0.1):
            peak[0] = max(peak[0], *[psutil.Process(pid).memory_info().rss for pid in pids])

    def show(step: object) -> None:
        seconds.append(step.seconds)
        print(
            f"{step.number:6d}{step.elbo:20.1f}{step.n_clusters:10d}{step.seconds:10.1f}{step.rows_per_second:14,.0f}"
            f"{peak[0] / 1e6:14.0f}",
            flush=True,
        )

    with cluster_client(n_workers=workers, memory_limit="2GB", warm=False) as client:
        watcher = threading.Thread(target=watch, args=(list(client.run(os.getpid).values()),))
        watcher.start()
        try:
            begun = time.perf_counter()
            print(f"{'pass':>6}{'bound (approx.)':>20}{'clusters':>10}{'seconds':>10}{'rows/s':>14}{'largest MB':>14}")
            settings = Settings("O-CTSB", "gaussian", TRUNCATION, max_iter=passes, tol=0.0)
            place = Place(folder / f"run-{rows}-{time.time_ns()}.zarr", client=client)
            run = drive(Variational(), settings, Given(data), place, progress=show)
        finally:
            done.set()
            watcher.join()
    took = time.perf_counter() - begun
    print(
        f"{rows:,} rows, {workers} workers: {run.fitted(Variational.Fitted).n_clusters} clusters (made with {size}), {took:.0f} s in all"
    )
    shutil.rmtree(data)
    best = min(seconds)
    return f"| {rows:,} | {4e-6 * rows * d:,.0f} | {best:.2f} | {rows / best:,.0f} | {peak[0] / 1e6:.0f} | {took:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "heldout", "dask"], nargs="?", default="speed")
    parser.add_argument("--case", type=int, nargs=2, metavar=("ROWS", "COLUMNS"), help="only this size of `speed`")
    parser.add_argument("--iterations", type=int, default=5, help="iterations in a timed run")
    parser.add_argument("--repeats", type=int, default=3, help="timed runs, of which the best counts")
    parser.add_argument("--datasets", type=int, default=20, help="data sets of the held-out experiment")
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[1_000_000, 5_000_000, 20_000_000], help="rows of `dask`"
    )
    parser.add_argument("--workers", type=int, default=2, help="worker processes of `dask`")
    parser.add_argument(
        "--out", type=Path, help="folder for the data and the run of `dask`; by default a temporary one"
    )
    arguments = parser.parse_args()
    if arguments.what == "heldout":
        print_heldout(heldout_scores(arguments.datasets))
    elif arguments.what == "dask":
        with tempfile.TemporaryDirectory() as folder:
            lines = [dask_case(arguments.out or Path(folder), rows, arguments.workers) for rows in arguments.rows]
        print("| rows | data, MB | seconds a pass | rows/s | peak of a worker, MB | seconds in all |")
        print("\n".join(["| --- " * 6 + "|", *lines]))
    else:
        for rows, d in [arguments.case] if arguments.case else SPEED_CASES:
            speed_case(rows, d, arguments.iterations, arguments.repeats)


if __name__ == "__main__":
    main()
