"""From walks to a posterior: the best trees with their evidences, and the trees that the density averages over."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dtree.diffusion.belief import Leaves
from dtree.diffusion.em import log_evidence_em
from dtree.diffusion.laplace import Evidence, importance_correction, log_evidence_laplace
from dtree.diffusion.message_passing import log_evidence_message_passing
from dtree.diffusion.objective import Hyper
from dtree.diffusion.predictive import BranchMixture, branch_mixture
from dtree.diffusion.prepare import Prepared
from dtree.diffusion.probit import log_evidence_probit
from dtree.diffusion.search import best_columns
from dtree.diffusion.tree import Columns
from dtree.diffusion.walk import Walk, drawn_trees

EVIDENCES: dict[str, Callable[[Columns, Leaves, Hyper], Evidence]] = {
    "laplace": log_evidence_laplace,
    "em": log_evidence_em,
    "message-passing": log_evidence_message_passing,
}


class FittedTree(NamedTuple):
    """One tree: its columns, its leaves (probit: its own sites), log evidence in the tree's units, how it ended."""

    tree: Columns
    leaves: Leaves
    log_evidence: float
    converged: bool
    message: str


class Posterior(NamedTuple):
    """Trees ranked by evidence (sampled ones: by joint density), best first, and the trees that the predictive density
    averages over with their weights (sum 1); log_joint (walks, draws) of the sampled ones."""

    best: list[FittedTree]
    averaged: list[FittedTree]
    weights: np.ndarray
    log_joint: np.ndarray


def posterior_of(
    walks: Sequence[Walk], prepared: Prepared, inference: str, n_trees: int, importance_draws: int
) -> Posterior:
    """Join the walks of all permutations: the `n_trees` best distinct trees, evaluated by `inference`.

    Sampled trees count equally: the sampler visits them in proportion to their posterior. Without them the K best
    trees are averaged by their evidence.
    """
    sampled = [
        FittedTree(tree, leaves, np.nan, True, "sampled")
        for walk in walks
        for tree, leaves in zip(drawn_trees(walk), _drawn_leaves(walk, prepared), strict=True)
    ]
    log_joint = np.stack([walk.log_joint for walk in walks])
    equal = np.full(len(sampled), 1.0 / max(len(sampled), 1))
    if inference == "mcmc":
        order = np.argsort(-log_joint.ravel(), kind="stable")[:n_trees]
        return Posterior([sampled[k] for k in order], sampled, equal, log_joint)
    candidates = best_columns([walk.state for walk in walks], n_trees)
    best = [_evaluate(columns, prepared, inference, importance_draws, k) for k, (_, columns) in enumerate(candidates)]
    best.sort(key=lambda fit: -fit.log_evidence)
    if sampled:
        return Posterior(best, sampled, equal, log_joint)
    values = np.array([fit.log_evidence for fit in best])
    if not np.isfinite(values).any():  # nothing converged: what drove the search ranks them
        values = np.array([score for score, _ in candidates])
    return Posterior(best, best, np.exp(values - np.logaddexp.reduce(values)), log_joint)


def _drawn_leaves(walk: Walk, prepared: Prepared) -> list[Leaves]:
    """The leaves of every draw: the same for all, or each with the latent values drawn along with its tree (probit)."""
    if not prepared.signs.size:
        return [prepared.leaves] * walk.log_joint.size
    assert prepared.hyper.sigma2 is not None  # learned before
    # latent values are seen with noise 1, here in units of sigma2
    var = np.where(prepared.signs == 0.0, np.inf, 1.0 / prepared.hyper.sigma2)
    return [Leaves(latent, var, prepared.leaves.n_observed) for latent in walk.drawn_latent]


def _evaluate(columns: Columns, prepared: Prepared, inference: str, importance_draws: int, k: int) -> FittedTree:
    leaves, hyper, bits = prepared.leaves, prepared.hyper, prepared.bits
    if bits is not None:
        result = log_evidence_probit(columns, bits.signs, hyper, start=bits.start, sites=leaves)
        fit = result.evidence
        return FittedTree(fit.tree, result.sites, fit.log_evidence, fit.converged, fit.message)
    fit = EVIDENCES[inference](columns, leaves, hyper)
    value = fit.log_evidence
    if inference == "laplace" and importance_draws > 0:
        value, _ = importance_correction(fit, leaves, hyper, np.random.default_rng(k), draws=importance_draws)
    if inference == "message-passing" and not fit.converged:
        value = -np.inf  # where messages have not settled, their energy is no bound and may be anything
    return FittedTree(fit.tree, leaves, value, fit.converged, fit.message)


def mixture_of(fit: FittedTree, prepared: Prepared, nodes: int) -> BranchMixture:
    """The predictive mixture of one tree, in the tree's units; probit: in those of the bits, start included."""
    mixture = branch_mixture(
        fit.tree, fit.leaves, prepared.hyper, noise=prepared.noise, rows=prepared.rows, nodes=nodes
    )
    if not prepared.signs.size:
        return mixture
    return mixture._replace(top=prepared.affine.outward(mixture.top), bottom=prepared.affine.outward(mixture.bottom))
