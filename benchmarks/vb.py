"""Variational mixtures: seconds per iteration beside scikit-learn, and the first experiment of [KWT07] at reduced size.

    python benchmarks/vb.py speed        # one run, same prior, same start, answers compared before anything is timed
    python benchmarks/vb.py heldout      # held-out log density of the six variants on synthetic Gaussians

scikit-learn may use the same threads as we do. Its `dirichlet_distribution` model with weight prior alpha/T is exactly FSD.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture

from dtree.core.families import Gaussian
from dtree.variational.estimator import DPMixtureVB
from dtree.variational.fitting import InMemory, ascend
from dtree.variational.starts import kmeans_labels, one_hot
from dtree.variational.steps import Rule, make_block
from dtree.variational.variants import VARIANTS

SPEED_CASES = ((20_000, 10), (200_000, 16))
TRUNCATION = 40


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


def speed_case(rows: int, d: int, iterations: int = 10, their_iterations: int = 3) -> None:
    """Print seconds per iteration of the six variants and of scikit-learn on one data set."""
    X = blobs(rows, d)
    mean, scale, strength, dof, alpha = X.mean(axis=0), 0.2 * np.cov(X.T), 0.1, d + 2.0, 1.0
    family = Gaussian(mean, strength, dof, scale, mean, X.std(axis=0))
    labels = kmeans_labels(family, X, TRUNCATION, np.random.default_rng(0))
    start = one_hot(labels, TRUNCATION)

    def theirs_for(steps: int) -> StartedMixture:
        mixture = StartedMixture(
            n_components=TRUNCATION,
            weight_concentration_prior_type="dirichlet_distribution",
            weight_concentration_prior=alpha / TRUNCATION,
            mean_prior=mean,
            mean_precision_prior=strength,
            degrees_of_freedom_prior=dof,
            covariance_prior=scale,
            reg_covar=0.0,
            max_iter=steps,
            tol=0.0,
        )
        mixture.start = start
        return mixture

    def ours(variant: str, steps: int) -> tuple[float, InMemory, object]:
        rule = Rule(family, VARIANTS[variant], alpha)
        in_memory = InMemory(make_block(family, X), start.copy())
        sums = in_memory.sums(rule)
        begun = time.perf_counter()
        fit = ascend(in_memory, sums, rule, steps, 0.0)
        return (time.perf_counter() - begun) / steps, in_memory, fit

    # scikit-learn ends with one more E-step after its last M-step: n of its iterations are n of ours.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs = theirs_for(3).fit(X)
        _, rows_kept, fit = ours("FSD", 3)
        _, _, posterior_mean, _ = family.posterior(fit.sums.statistics)
        np.testing.assert_allclose(theirs.means_, family.origin + family.unit * posterior_mean, atol=1e-8)
        np.testing.assert_allclose(theirs.weights_.sum(), 1.0)
        rows_kept.run(fit.state)
        np.testing.assert_allclose(theirs.predict_proba(X[:2000]), rows_kept.responsibilities[:2000], atol=1e-7)
        begun = time.perf_counter()
        theirs_for(1).fit(X)
        overhead = time.perf_counter() - begun
        begun = time.perf_counter()
        theirs_for(1 + their_iterations).fit(X)
        their_seconds = (time.perf_counter() - begun - overhead) / their_iterations
    print(f"\n{rows} x {d}, truncation {TRUNCATION}, full covariance; answers agree after 3 iterations")
    print(f"{'':14}{'s/iteration':>12}{'times faster':>14}")
    print(f"{'scikit-learn':14}{their_seconds:12.4f}{1.0:14.1f}")
    for variant in VARIANTS:
        ours(variant, 1)  # kernels loaded
        seconds = min(ours(variant, iterations)[0] for _ in range(3))
        print(f"{variant:14}{seconds:12.4f}{their_seconds / seconds:14.1f}", flush=True)


def separated_gaussians(
    random: np.random.Generator, rows: int = 200, test_rows: int = 1000, d: int = 16, size: int = 10
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training rows, test rows and training labels from equally likely Gaussians, 2-separated in the sense of Dasgupta (1999)."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "heldout"], nargs="?", default="speed")
    parser.add_argument("--datasets", type=int, default=20, help="data sets of the held-out experiment")
    arguments = parser.parse_args()
    if arguments.what == "heldout":
        print_heldout(heldout_scores(arguments.datasets))
        return
    for rows, d in SPEED_CASES:
        speed_case(rows, d)


if __name__ == "__main__":
    main()
