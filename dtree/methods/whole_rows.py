"""For methods that need all rows at once: the rows of a job, checked, and the model that is chosen for them."""

from typing import Any, NamedTuple

import numpy as np

from dtree.core.checks import as_counts, as_rows, check_values, require_spread
from dtree.core.families import Family, family_type, has_holes, resolve
from dtree.core.fingerprint import fingerprint
from dtree.core.model import Model
from dtree.core.priors import Prior
from dtree.hierarchy.defaults import choose_model
from dtree.methods.contract import Job, used_columns
from dtree.methods.survey import expected_of, kinds_of

# The scale of a cluster is looked for down to 1e-4 of the data's (`Gaussian.refined`). Sums of squares of so many rows
# carry rounding errors of a fifth of that.
MOST_REAL_ROWS = 1e11


class Whole(NamedTuple):
    """All rows that count, and what was found out about them."""

    rows: Any  # (m, d') dense or CSR: rows of positive weight, the columns in use
    weight: np.ndarray | None  # (m,)
    held: np.ndarray  # (m,) which of the n rows of the data they are
    columns: np.ndarray  # (d',)
    fingerprint: str  # of all n rows and columns
    model: Model


def whole_rows(job: Job, family: str | Family) -> Any:
    """All rows (n, d) of a job as float64 or CSR, checked for a family."""
    kind, source = expected_of(job, family), job.source
    names = source.row_names, source.columns or None
    rows = as_rows(job.load(), kind.accepts_sparse, *names, kind)
    check_values(rows, kind, 0, *names)
    if kind.value_kind == "real":
        require_spread(rows)
    return rows


def look_at(job: Job, family: str | Family, prior: str | Prior, coarsening: float) -> Whole:
    """Check the rows of a job, leave out what says nothing, and choose the model by the evidence.

    Rows of weight 0 are left out.
    """
    rows = whole_rows(job, family)
    mark, weight = fingerprint(rows), as_counts(job.weight, job.n)
    held = np.arange(job.n) if weight is None else np.flatnonzero(weight > 0)
    if weight is not None and held.shape[0] < job.n:
        rows, weight = rows[held], weight[held]
    family, columns, kinds = resolve(family, kinds_of(job.source), *limits(rows), has_holes(rows))
    if weight is not None:
        require_spread_above_rounding(weight, family)
    rows = used_columns(rows, columns)
    if isinstance(family, Family) and family.n_features != rows.shape[1]:
        raise ValueError(f"the family has {family.n_features} features but X has {rows.shape[1]} columns")
    # The scale is chosen without coarsening: under a power below 1 the bound prefers degenerate scales.
    chosen = choose_model(rows, family, prior, weight, kinds=kinds)
    return Whole(rows, weight, held, columns, mark, Model(chosen.family, chosen.prior, coarsening))


def require_spread_above_rounding(weight: np.ndarray, family: str | Family) -> None:
    """Refuse weights (n,) of so many rows that what sums of squares round off is more than a cluster's spread."""
    if family_type(family).value_kind == "real" and weight.sum() > MOST_REAL_ROWS:
        raise ValueError(
            f"sample_weight adds up to {weight.sum():g}: beyond {MOST_REAL_ROWS:g} rounding drowns the spread of a "
            "cluster, so divide all weights by a number"
        )


def limits(rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest value (d,) of each column of rows (n, d), dense or CSR."""
    if hasattr(rows, "tocsr"):
        return rows.min(axis=0).toarray().ravel(), rows.max(axis=0).toarray().ravel()
    return np.fmin.reduce(rows, axis=0), np.fmax.reduce(rows, axis=0)  # of what is not missing
