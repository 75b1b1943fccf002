"""`IncrementalBHC`: rows in memory, and files and Dask collections block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from dtree.core.families import Family
from dtree.core.priors import Prior
from dtree.engine.inputs import in_memory
from dtree.engine.sharing import SharesClient
from dtree.hierarchy.incremental_estimator import InMemoryIncrementalBHC


class IncrementalBHC(SharesClient, InMemoryIncrementalBHC):
    """Incremental Bayesian hierarchical clustering (IBHC, [LC15] section 2.3).

    Rows enter a forest of trees one at a time, in O(k + log n) each, so data may come as a stream through `partial_fit`. A name
    of a family is turned into a model on the first rows seen; give an object to fix the model beforehand.

    Parameters
    ----------
    family, prior, coarsening : the model, as for `dtree.BHC`.
    init : "exact" as described; "noisy" puts rows on top of their best tree and never cuts it ([LC15] section 4.1).
    shuffle : insert the rows of each call in random order, since the tree depends on the order.
    balanced : keep the trees shallow; without it they are exactly those of the paper, and slow for large clusters.
    random_state : seed of the shuffling.
    client : a `distributed.Client` whose workers compute the blocks of a Dask collection; insertion itself is sequential and
        happens here.

    Attributes
    ----------
    labels_, n_clusters_ : clusters of all rows seen so far. log_evidence_bound_ : lower bound on their log evidence.
    tree_, linkage_ : one tree over all rows seen so far. family_, prior_ : the model. n_trees_ : trees in the forest.
    n_seen_ : rows seen so far. columns_ : the columns used (a Gaussian given by name leaves out those that are constant in the first
        rows). feature_names_in_, row_names_ : names, when the rows have any.

    >>> X = np.concatenate([np.random.default_rng(0).normal(c, 1.0, (30, 2)) for c in (0.0, 12.0)])
    >>> model = IncrementalBHC(random_state=0).fit(X)
    >>> model.n_clusters_
    2
    >>> model.partial_fit(X[:10] + 100.0).n_clusters_
    3

    Clusters of a reduction as leaves, each for all of its rows:

    >>> from dtree import BayesKMeans
    >>> part = BayesKMeans("gaussian-diag", random_state=0).fit(X)
    >>> IncrementalBHC(part.family_, part.prior_).partial_fit_atoms(part.statistics_).tree_.size[-1].item()
    60
    """

    def __init__(
        self,
        family: str | Family = "gaussian",
        prior: str | Prior = "dp",
        *,
        init: str = "exact",
        coarsening: float = 1.0,
        shuffle: bool = True,
        balanced: bool = True,
        random_state: int | None = None,
        client: Any = None,
    ) -> None:
        super().__init__(
            family,
            prior,
            init=init,
            coarsening=coarsening,
            shuffle=shuffle,
            balanced=balanced,
            random_state=random_state,
        )
        self.client = client

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Start a new forest with the rows of X (n, d): an array, a sparse matrix, a frame, a Dask collection or a path.

        A row of weight w (a whole number) stands for w equal rows. Dask collections enter block by block.
        """
        blocks = self._blocks(X, sample_weight)
        super().fit(*next(blocks))
        for rows, y, weight in blocks:
            super().partial_fit(rows, y, weight)
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Insert more rows into the forest."""
        for rows, y, weight in self._blocks(X, sample_weight):
            super().partial_fit(rows, y, weight)
        return self

    def _blocks(self, X: Any, weight: Any) -> Iterator[tuple[Any, None, Any]]:
        """Rows as they are, or the blocks of a Dask collection one after the other, with their weights."""
        if not hasattr(X, "dask"):
            yield in_memory(X), None, weight
            return
        done = 0
        blocks = X.rechunk({1: -1}).blocks if hasattr(X, "rechunk") else X.partitions
        for block in blocks.ravel() if hasattr(X, "rechunk") else blocks:
            rows = block.compute() if self.client is None else self.client.compute(block).result()
            if rows.shape[0]:
                yield rows, None, None if weight is None else np.asarray(weight)[done : done + rows.shape[0]]
            done += rows.shape[0]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability (n, k) that each row belongs to each cluster, given that it belongs to one of them."""
        return super().predict_proba(in_memory(X))

    def score_samples(self, X: Any) -> np.ndarray:
        """Log predictive density (n,) of each row: a mixture over all nodes of the tree and a new cluster, normalised."""
        return super().score_samples(in_memory(X))
