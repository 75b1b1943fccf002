"""Answers that say nothing, or that nobody should believe without another look: said, with what to try."""

from typing import Any

import numpy as np

from dtree.methods.facts import Facts

_FEWEST_ROWS = 3  # two rows may well be one cluster, or two
_HARDLY_EVER = 0.05  # share of sweeps in which something moved below which a sampler gets nowhere


def facts_of_run(method: Any, fitted: Any, run: Any) -> Facts:
    """The facts of a finished run, with a warning where its answer is degenerate."""
    facts = method.facts(fitted, run.row_array(method.leaf_rows))
    return facts._replace(warnings=(*facts.warnings, *degenerate(facts.n_clusters, run.header.n_rows, method.instead)))


def degenerate(n_clusters: int, n_rows: int, instead: str) -> list[str]:
    """What to say of so many clusters of so many rows.

    >>> degenerate(1, 900, "another --family")
    ['all 900 rows are in one cluster: if you expected more, try another --family']
    >>> degenerate(4, 900, "")
    []
    """
    if n_rows < _FEWEST_ROWS:
        return []
    if n_clusters == 1:
        return [f"all {n_rows:,} rows are in one cluster: if you expected more, try {instead}"]
    if n_clusters >= n_rows:
        return [
            f"each of the {n_rows:,} rows is a cluster of its own: the family does not fit them, or their columns have "
            "very different units; try another --family, or a smaller --coarsening or --alpha"
        ]
    return []


def chains_that_stand(labels: np.ndarray, sampler: str) -> list[str]:
    """What to say of chains (chains, draws, m) that never moved, and of a slice sampler that hardly ever does."""
    chains, draws, leaves = labels.shape
    if draws < 2 or leaves < 2:
        return []
    moved = np.any(labels[:, 1:] != labels[:, :-1], axis=2)  # (chains, draws - 1)
    still = int((~moved.any(axis=1)).sum())
    found = []
    if still:
        which = "the chain" if chains == 1 else f"{still} of {chains} chains"
        found.append(
            f"{which} never moved in {draws} draws: nobody knows how sure the partition is; try more --draws, another "
            "--sampler, and whether chains from other starts agree"
        )
    if sampler == "slice" and moved.mean() < _HARDLY_EVER:
        found.append(
            f"in {1 - moved.mean():.0%} of its sweeps the slice sampler left every label as it was: it skips a sweep "
            "that would need too many jumps, as with sigma near 1; use --sampler tgmcmc or gibbs"
        )
    return found
