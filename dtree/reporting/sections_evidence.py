"""How good the fit is, and how it came about: evidence, passes, iterations, chains, kept trees."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from markupsafe import Markup

from dtree.reporting.markup import Section, facts, line_chart, number, png, table
from dtree.reporting.subject import Subject

_MOST_LEAVES_BOUNDED = 400
_POINTS_IN_TRACE = 400
_HEAT_ROWS = 160

_BOUND_WORDS = {
    "bhc": "partitions that fit the tree",
    "alternative": "a grandchild under the first child joined with the other child",
    "alternative_best": "the same under the better child",
    "alternative_four": "the same under both children",
    "cross_merge": "any two disjoint nodes joined",
    "nested": "the same, nested",
}


def evidence_section(subject: Subject) -> Section | None:
    """Lower bounds on the log evidence, as far as the model has them."""
    model = subject.model
    parts: list[Markup] = []
    rows: list[list[Any]]
    bounds = bounds_of(model)
    if bounds:
        rows = [[_BOUND_WORDS.get(name, name), _nats(value), _nats(value - bounds["bhc"])] for name, value in bounds.items()]  # fmt: skip
        text = "Each is a lower bound on the log evidence of the data; later ones look at more partitions and are never lower."
        parts.append(Markup('<p class="hint">{}</p>').format(text))
        parts.append(table(["what is summed", "log evidence at least", "above the first"], rows, "Evidence bounds", (1, 2)))  # fmt: skip
    else:
        single = {
            "log evidence at least": getattr(model, "log_evidence_bound_", None),
            "log joint probability of data and clusters": getattr(model, "log_joint_", None),
            "variational bound": getattr(model, "elbo_", None),
            "log evidence of the best tree": getattr(model, "log_evidence_", None),
        }
        known = [
            (name, _nats(value))
            for name, value in single.items()
            if value is not None and np.ndim(value) == 0 and np.isfinite(value)
        ]
        if getattr(model, "elbo_is_bound_", True) is False:
            known.append(("remark", "the variational bound is an expansion here and may lie above the evidence"))
        if known:
            parts.append(facts(known))
    kept = getattr(model, "log_evidences_", None)
    if kept is not None and np.all(np.isfinite(kept)) and len(kept) == len(model.weights_):
        rows = [[place, _nats(value), f"{weight:.3f}"] for place, (value, weight) in enumerate(zip(kept, model.weights_))]  # fmt: skip
        parts.append(table(["tree", "log evidence", "weight"], rows, "Kept trees", (0, 1, 2)))
    return Section("evidence", "Evidence", Markup("").join(parts)) if parts else None


def bounds_of(model: Any) -> dict[str, float]:
    """All bounds of a BHC that is small enough to compute them in a moment."""
    from dtree.estimators import BHC

    if not isinstance(model, BHC) or not 2 <= model.tree_.n_leaves <= _MOST_LEAVES_BOUNDED:
        return {}
    from dtree.evidence import evidence_bounds

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a budget that ran out still gives valid bounds
        return evidence_bounds(model)


def trace_section(subject: Subject) -> Section | None:
    """What happened pass by pass or iteration by iteration."""
    model = subject.model
    parts = []
    passes = getattr(model, "trace_", None)
    if passes and hasattr(passes[0], "objective"):
        at = [step.number for step in passes]
        objective = [step.objective for step in passes]
        parts.append(line_chart([("objective", at, objective)], "pass", "objective", "Objective after each pass"))
        clusters = [float(step.n_clusters) for step in passes]
        parts.append(line_chart([("clusters", at, clusters)], "pass", "clusters", "Clusters after each pass"))
        rows = [
            [step.number, number(step.objective, 9), number(step.n_clusters), number(step.moved), f"{step.seconds:.2f}", number(round(step.rows_per_second))]
            for step in passes
        ]  # fmt: skip
        headers = ["pass", "objective", "clusters", "rows moved", "seconds", "rows per second"]
        parts.append(table(headers, rows, "Passes", range(6)))
    for name, words in (("elbo_trace_", "variational bound"), ("bound_trace_", "evidence bound")):
        trace = np.asarray(getattr(model, name, ()), dtype=float)
        if trace.shape[0] > 1:
            place = _thin(trace.shape[0])
            parts.append(line_chart([(words, place, trace[place])], "iteration", words, f"{words} by iteration"))
    joint = np.asarray(getattr(model, "log_joint_", ()), dtype=float)
    if joint.ndim == 2 and joint.size:
        place = _thin(joint.shape[1])
        lines = [(f"walk {walk}", place, joint[walk, place]) for walk in range(joint.shape[0])]
        parts.append(line_chart(lines, "draw", "log joint density", "Log joint density of the sampled trees"))
    return Section("traces", "How the fit went", Markup("").join(parts)) if parts else None


def chains_section(subject: Subject) -> Section | None:
    """Traces of the chains, R-hat and effective sample sizes."""
    posterior = getattr(subject.model, "posterior_", None)
    if posterior is None or not hasattr(subject.model, "partitions_"):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a quantity that never changes has no R-hat, which is shown as such
        summary = subject.model.summary()
    columns = [str(name) for name in summary.columns]
    rows = [[str(name), *(_cell(value) for value in values)] for name, values in zip(summary.index, summary.to_numpy())]
    parts = [
        Markup('<p class="hint">{}</p>').format(
            "R-hat near 1 (below 1.01) and effective sample sizes (ess) in the hundreds say that the chains agree. "
            "89% of the draws lie between eti89_lb and eti89_ub; mcse is the error that is left because draws are finite."
        ),
        table(["quantity", *columns], rows, "Summary of the draws", range(1, len(columns) + 1)),
    ]
    for name, draws in posterior["posterior"].data_vars.items():
        values = np.asarray(draws, dtype=float)
        if values.ndim != 2 or not np.all(np.isfinite(values)):
            continue
        place = _thin(values.shape[1])
        lines = [(f"chain {chain}", place, values[chain, place]) for chain in range(values.shape[0])]
        words = str(name).replace("_", " ")
        parts.append(line_chart(lines, "draw", words, f"Trace of {words} in {values.shape[0]} chains"))
    return Section("chains", "Chains", Markup("").join(parts))


def coclustering_section(subject: Subject) -> Section | None:
    """How often rows are together, for rows spread evenly over the clusters."""
    model = subject.model
    if not hasattr(model, "coclustering") or not hasattr(model, "partitions_"):
        return None
    labels = model._fitted_labels()
    order = np.argsort(labels, kind="stable")
    rows = order[np.linspace(0, order.shape[0] - 1, min(_HEAT_ROWS, order.shape[0])).round().astype(int)]
    together = model.coclustering(rows)
    # From paper white to a deep blue; the same in dark mode, since it is a picture.
    shade = together[:, :, None]
    colours = np.rint(255 * (1 - shade) + np.array([28, 66, 120]) * shade)
    picture = png(colours, f"Co-clustering of {rows.shape[0]} rows, ordered by cluster", "heat")
    distinct = together[np.triu_indices(rows.shape[0], 1)]
    unsure = float(np.mean((distinct > 0.05) & (distinct < 0.95))) if distinct.size else 0.0
    text = (
        f"{number(rows.shape[0])} of {number(labels.shape[0])} rows, ordered by cluster; the stronger the colour, the more often two rows "
        f"are in one cluster. {100 * unsure:.1f}% of the pairs are together in 5% to 95% of the draws."
    )
    return Section("together", "Which rows belong together", Markup('<p class="hint">{}</p>{}').format(text, picture))


def _nats(value: float) -> str:
    return f"{value:,.3f}".replace("-", "\u2212")


def _thin(n: int) -> np.ndarray:
    return np.unique(np.linspace(0, n - 1, min(n, _POINTS_IN_TRACE)).round().astype(int))


def _cell(value: Any) -> str:
    return number(float(value)) if isinstance(value, int | float | np.number) else str(value)
