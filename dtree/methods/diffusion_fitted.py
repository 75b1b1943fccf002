"""The fitted record of diffusion trees, and what follows from it: densities, clusters, samples, locations of nodes."""

from functools import cached_property, partial

import msgspec
import numpy as np

from dtree.diffusion.belief import posterior_locations
from dtree.diffusion.clusters import log_memberships
from dtree.diffusion.posterior import Posterior, mixture_of
from dtree.diffusion.predictive import BranchMixture, log_density, log_density_of_tree, sample_rows, seen_mixtures
from dtree.diffusion.prepare import Prepared
from dtree.diffusion.probit import log_probability, signs_from_binary
from dtree.diffusion.records import KeptPosterior, check_prepared, posterior_again
from dtree.diffusion.tree import Columns
from dtree.methods.diffusion_records import check_used_columns

_LIGHTEST = -40.0  # log weight of trees that the density leaves out: they add less than rounding does


class Fitted(msgspec.Struct, frozen=True, dict=True):
    """The prepared rows, the best trees, the trees that the density averages over, and the cut of the best tree."""

    columns: np.ndarray  # (d',) the columns that the trees use
    constants: np.ndarray  # (d,) of every column the value that all rows share, NaN where they differ or it is unknown
    prepared_rows: Prepared  # leaves, units and noise
    kept: KeptPosterior  # the trees
    node_labels: np.ndarray  # (2m-1,) the cluster of every node of the best tree, -1 above the cut
    n_clusters: int
    sigma2: float  # of the best tree, the posterior mean when it is integrated out
    c: float  # likewise
    inference: str
    n_nodes: int  # per branch in the density

    @cached_property
    def prepared(self) -> Prepared:
        """The prepared rows, checked."""
        check_prepared(self.prepared_rows)
        return self.prepared_rows

    @cached_property
    def posterior(self) -> Posterior:
        """The trees; every one is checked when they are put together."""
        return posterior_again(self.kept, self.prepared)

    @property
    def tree(self) -> Columns:
        """The best tree."""
        return self.posterior.best[0].tree

    @property
    def log_evidences(self) -> np.ndarray:
        """Log evidence of every best tree, its prior included, in the original units."""
        return np.array([fit.log_evidence for fit in self.posterior.best]) - self.prepared.log_volume

    @property
    def is_probit(self) -> bool:
        """Whether the rows are binary."""
        return self.prepared.bits is not None

    def check(self, n_rows: int, n_features: int) -> None:
        """ValueError unless the pieces make diffusion trees over so many rows."""
        prepared, posterior = self.prepared, self.posterior
        if prepared.leaf_of_row.shape != (n_rows,):
            raise ValueError(f"it has leaves for {prepared.leaf_of_row.size} rows instead of {n_rows}")
        check_used_columns(self.columns, self.constants, prepared, n_features)
        labels = self.node_labels
        possible = labels.shape == posterior.best[0].tree.parent.shape and labels.dtype.kind == "i"
        found = np.unique(labels[labels >= 0])
        if not possible or found.size != self.n_clusters or not np.array_equal(found, np.arange(found.size)):
            raise ValueError(f"its tree is not cut into {self.n_clusters} clusters")
        if self.n_nodes < 1 or not (self.sigma2 > 0 and self.c > 0):
            raise ValueError("its hyperparameters are not positive")

    # Densities and clusters of rows in the columns used --------------------------------------------------------------

    @cached_property
    def mixtures(self) -> list[BranchMixture]:
        """The predictive mixture of every averaged tree."""
        return [mixture_of(fit, self.prepared, self.n_nodes) for fit in self.posterior.averaged]

    def log_density(self, rows: np.ndarray) -> np.ndarray:
        """Log predictive density (probit: log probability) (n,) of rows (n, d'); NaN entries are marginalised."""
        log_weights = np.log(np.maximum(self.posterior.weights, 1e-300))
        chosen = np.flatnonzero(log_weights > _LIGHTEST)
        mixtures, weights = [self.mixtures[k] for k in chosen], log_weights[chosen]
        if self.is_probit:
            signs = signs_from_binary(rows)
            values = np.array([log_probability(signs, mixture) for mixture in mixtures])
            return np.logaddexp.reduce(values + weights[:, None], axis=0) - np.logaddexp.reduce(weights)
        out = np.empty(rows.shape[0])
        for which, z, seen, log_volume in seen_mixtures(rows, self.prepared.affine, mixtures):
            out[which] = log_density(z, seen, weights) - log_volume
        return out

    def labels(self, rows: np.ndarray) -> np.ndarray:
        """Cluster (n,) of rows (n, d'): the subtree below the cut of the best tree that explains a row best."""
        mixture = mixture_of(self.posterior.best[0], self.prepared, self.n_nodes)
        where = (self.node_labels, self.n_clusters)
        if self.is_probit:
            score = partial(log_probability, signs_from_binary(rows))
            return log_memberships(score, mixture, *where).argmax(axis=1)
        labels = np.empty(rows.shape[0], dtype=np.int64)
        for which, z, seen, _ in seen_mixtures(rows, self.prepared.affine, [mixture]):
            labels[which] = log_memberships(partial(log_density_of_tree, z), seen[0], *where).argmax(axis=1)
        return labels

    # In all columns --------------------------------------------------------------------------------------------------

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """New rows (n, d) from the predictive distribution; constant columns have their value, unknown ones NaN."""
        prepared, weights = self.prepared, self.posterior.weights
        which = rng.multinomial(n, weights / weights.sum())
        parts = [
            sample_rows(int(k), fit.tree, fit.leaves, prepared.hyper, rng, noise=prepared.noise, rows=prepared.rows)
            for k, fit in zip(which, self.posterior.averaged, strict=True)
            if k > 0
        ]
        drawn = rng.permutation(np.concatenate(parts)) if parts else np.empty((0, self.columns.shape[0]))
        drawn = prepared.affine.outward(drawn)
        if self.is_probit:
            drawn = (drawn + rng.standard_normal(drawn.shape) > 0).astype(np.float64)
        return self._in_all_columns(drawn, self.constants)

    def node_locations(self) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and standard deviation (2m-1, d) of every node of the best tree, in the original units."""
        mean, var = posterior_locations(self.tree, self.posterior.best[0].leaves, self.sigma2)
        deviation = self.prepared.affine.deviation(np.repeat(var, mean.shape[1] // var.shape[1], axis=1))
        mean = self._in_all_columns(self.prepared.affine.outward(mean), self.constants)
        return mean, self._in_all_columns(deviation, np.zeros(self.constants.shape[0]))

    def _in_all_columns(self, values: np.ndarray, left_out: np.ndarray) -> np.ndarray:
        out = np.tile(left_out, (values.shape[0], 1))
        out[:, self.columns] = values
        return out
