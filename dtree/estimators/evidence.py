"""Evidence of data under a model: bounds for any number of rows, the exact value for few."""

from typing import Any

import numpy as np

from dtree.core.checks import as_rows, check_values
from dtree.core.families import Family, expected, has_holes, resolve
from dtree.core.model import Model
from dtree.core.priors import Prior
from dtree.estimators.bhc import BHC
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.bounds import DEFAULT_BUDGET, tree_bounds
from dtree.hierarchy.defaults import choose_model
from dtree.hierarchy.exact import log_evidence_by_recursion


def _model_and_atoms(X: Any, family: str | Family, prior: str | Prior, coarsening: float) -> tuple[Model, Any]:
    kind = expected(family)
    rows = as_rows(X, accept_sparse=kind.accepts_sparse, family=kind)
    check_values(rows, kind)
    d = rows.shape[1]  # constant columns are part of the evidence
    family, _, kinds = resolve(family, (), np.zeros(d), np.ones(d), has_holes(rows))
    chosen = choose_model(rows, family, prior, kinds=kinds)
    model = Model(chosen.family, chosen.prior, coarsening)
    return model, model.atoms(rows)


def exact_log_evidence(
    X: Any, family: str | Family = "auto", prior: str | Prior = "dp", coarsening: float = 1.0
) -> float:
    """Log evidence of at most 14 rows, summed over all their partitions (at fixed u, log p(X, u), for an NGGP).

    >>> import dtree
    >>> round(exact_log_evidence([[1], [2], [9]], dtree.Poisson(1.0, 0.2), dtree.DirichletProcess(1.0)), 4)
    -8.2442
    """
    return log_evidence_by_recursion(*_model_and_atoms(X, family, prior, coarsening))


def evidence_bounds(
    X_or_model: Any,
    family: str | Family = "auto",
    prior: str | Prior = "dp",
    coarsening: float = 1.0,
    budget: int = DEFAULT_BUDGET,
) -> dict[str, float]:
    """Lower bounds on the log evidence, each above the one before, of rows or of a fitted `BHC`.

    Keys: `bhc` (tree-consistent partitions), `alternative`, `alternative_best` and `alternative_four` (relocated
    grandchildren [XHG09]), `cross_merge` and `nested` (all pairs of disjoint nodes). On large trees the last two look
    at `budget` pairs, nearest first, and a warning says so.

    >>> import dtree
    >>> bounds = evidence_bounds([[1], [2], [9]], dtree.Poisson(1.0, 0.2), dtree.DirichletProcess(1.0))
    >>> round(bounds["nested"], 4)
    -8.2442
    >>> bounds["bhc"] <= bounds["alternative"] <= bounds["cross_merge"] <= bounds["nested"]
    True
    """
    if isinstance(X_or_model, BHC):
        return tree_bounds(X_or_model.tree_, X_or_model.model_, X_or_model.atoms_, budget)
    model, atoms = _model_and_atoms(X_or_model, family, prior, coarsening)
    return tree_bounds(build_tree(model, atoms), model, atoms, budget)
