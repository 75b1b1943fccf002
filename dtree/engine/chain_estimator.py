"""`DPMixtureMCMC`: arrays in this process, files and Dask collections read into it, chains on a cluster through the engine."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Self

import numpy as np

from dtree.core.families import DiagonalGaussian, Family  # noqa: F401  (the example needs the first)
from dtree.core.priors import Prior
from dtree.engine.inputs import in_memory
from dtree.engine.sharing import SharesClient
from dtree.mcmc.estimator import InMemoryDPMixtureMCMC


class DPMixtureMCMC(SharesClient, InMemoryDPMixtureMCMC):
    """Mixture with an unknown number of clusters, sampled by MCMC over partitions.

    Parameters
    ----------
    sampler : "tgmcmc" (guided by a tree, exact), "gibbs", "split-merge", "slice", "gibbs-subset", "split-merge-subset",
        or "tgmcmc-paper" (as printed in [LC15], biased).
    family, prior : names, whose hyperparameters are then chosen by the evidence, or objects, as for `dtree.BHC`.
    chains, draws, warmup, thin : how many chains, kept draws per chain, sweeps before the first (None: half of draws,
        at least 100), and sweeps per kept draw.
    resample_hyperparameters : sample alpha (and sigma) along with the partition; u is always sampled.
    coarsening : power of the likelihood in (0, 1]; below 1 all results are those of the coarsened posterior.
    loss : what `labels_` minimises in expectation, "vi" or "binder".
    n_jobs : chains run at the same time, in threads. Results do not depend on it.
    random_state : seed; the same seed gives the same draws, bit for bit, in this process or on any number of workers.
    client : a `distributed.Client` whose workers run the chains, each a task that can be resumed.
    out : folder for the run when the engine works (with a client, or when given): `dtree.open` and `dtree resume` know it; None
        for a temporary one. Workers must see it under the same name.

    Attributes
    ----------
    posterior_ : xarray DataTree in ArviZ's schema: n_clusters, log_joint and the prior's parameters by chain and draw.
    partitions_ : (chain, draw, row) labels. labels_, n_clusters_ : the point estimate.
    checkpoints_ : where each chain stopped, as plain arrays; `more_draws` goes on from there.
    family_, prior_ : the model the chains started from. columns_ : the columns it uses (a Gaussian given by name leaves out
        constant ones). atoms_ : statistics (m, s) of the leaves.
    tree_ : a tree over the leaves; `credibility()` says how often the leaves below each of its nodes were one cluster.
    feature_names_in_, row_names_ : names, when the rows have any: columns and index of a frame, header and names of a file.

    >>> X = np.concatenate([np.random.default_rng(0).normal(c, 1.0, (15, 2)) for c in (0.0, 12.0)])
    >>> family = DiagonalGaussian(mean=[6.0, 6.0], strength=0.05, shape=3.0, rate=[3.0, 3.0])
    >>> model = DPMixtureMCMC(family=family, chains=2, draws=30, warmup=20, random_state=0).fit(X)
    >>> model.n_clusters_, model.partitions_.shape
    (2, (2, 30, 30))
    >>> {"n_clusters", "log_joint", "alpha"} <= set(model.posterior_["posterior"].data_vars), "r_hat" in model.summary()
    (True, True)
    >>> together = model.coclustering()  # (30, 30); coclustering(least=0.1) is sparse
    >>> bool(together[:15, :15].mean() > 0.9), bool(together[:15, 15:].mean() < 0.1)
    (True, True)
    >>> model.set_params(loss="binder").fit(X).n_clusters_
    2
    >>> bool(model.credibility().cluster.max() > 0.5)  # the share of draws in which a branch of tree_ is one cluster
    True
    """

    def __init__(
        self,
        sampler: str = "tgmcmc",
        family: str | Family = "gaussian",
        prior: str | Prior = "dp",
        *,
        chains: int = 4,
        draws: int = 1000,
        warmup: int | None = None,
        thin: int = 1,
        resample_hyperparameters: bool = True,
        coarsening: float = 1.0,
        loss: str = "vi",
        n_jobs: int = 1,
        random_state: int | None = None,
        client: Any = None,
        out: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(
            sampler, family, prior, chains=chains, draws=draws, warmup=warmup, thin=thin,
            resample_hyperparameters=resample_hyperparameters, coarsening=coarsening, loss=loss, n_jobs=n_jobs,
            random_state=random_state,
        )  # fmt: skip
        self.client = client
        self.out = out

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Run the chains on the rows of X (n, d): an array, a sparse matrix, a frame, a Dask collection or a path.

        A row of weight w (a whole number) stands for w equal rows.
        """
        super().fit(in_memory(X), y, sample_weight)
        return self

    def _run(self, checkpoints: Any, sweeps: int) -> Any:
        first = all(checkpoint is None for checkpoint in checkpoints)
        if self.client is None and (self.out is None or not first):
            return super()._run(checkpoints, sweeps)
        if not first:
            raise ValueError("more_draws goes on in this process: set client to None first")
        # dask, distributed and zarr are loaded only when the engine is asked for
        from dtree.engine.chains import run_chains

        if self.out is not None:
            return run_chains(self, Path(self.out), self.client)
        with tempfile.TemporaryDirectory(prefix="dtree-run-") as folder:
            return run_chains(self, Path(folder) / "run", self.client)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability (n, k) that each row belongs to each cluster of `labels_`, given that it belongs to one of them."""
        return super().predict_proba(in_memory(X))

    def score_samples(self, X: Any) -> np.ndarray:
        """Log predictive density (n,) of each row, averaged over (at most 100, evenly chosen) draws."""
        return super().score_samples(in_memory(X))
