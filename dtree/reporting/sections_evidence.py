"""How good the fit is, and how it came about: evidence, passes, iterations, chains, kept trees."""

import warnings
from typing import Any

import numpy as np
from markupsafe import Markup

from dtree.core.tree import Tree
from dtree.reporting.markup import Section, facts, fixed, line_chart, number, png, table
from dtree.reporting.projection import evenly, over_clusters
from dtree.reporting.subject import Subject

_MOST_LEAVES_BOUNDED = 400
_POINTS_IN_TRACE = 400
_HEAT_ROWS = 160

_ABOUT_CHAINS = (
    "R-hat near 1 (below 1.01) and effective sample sizes (ess) in the hundreds say that the chains agree. 89% of the "
    "draws lie between eti89_lb and eti89_ub; mcse is the error that is left because draws are finite. The credible "
    "ball holds 95% of the draws: of those, the one furthest from the point estimate (by variation of information), "
    "and those with the fewest and the most clusters."
)
_ABOUT_BOUNDS = Markup(
    '<p class="hint">Each is a lower bound on the log evidence of the data; later ones look at more partitions and are '
    "never lower.</p>"
)
_BOUND_WORDS = {
    "bhc": "partitions that fit the tree",
    "alternative": "a grandchild under the first child joined with the other child",
    "alternative_best": "the same under the better child",
    "alternative_four": "the same under both children",
    "cross_merge": "any two disjoint nodes joined",
    "nested": "the same, nested",
}


def evidence_section(subject: Subject) -> Section | None:
    """Lower bounds on the log evidence, or whatever else is known of it."""
    known, bounds = subject.facts, bounds_of(subject)
    if bounds:
        first = next(iter(bounds.values()))
        rows = [[_BOUND_WORDS.get(name, name), fixed(value), fixed(value - first)] for name, value in bounds.items()]
        heads = ["what is summed", "log evidence at least", "above the first"]
        return Section("evidence", "Evidence", _ABOUT_BOUNDS + table(heads, rows, "Evidence bounds", (1, 2)))
    if not known.evidence:
        return None
    pairs = [(name, fixed(value)) for name, value in known.evidence.items() if np.isfinite(value)]
    return Section("evidence", "Evidence", facts(pairs))


def warnings_section(subject: Subject) -> Section | None:
    """What must be known before anything on the page is believed."""
    if not subject.facts.warnings:
        return None
    said = Markup("").join(Markup("<p>{}</p>").format(warning) for warning in subject.facts.warnings)
    return Section("warnings", "Before you believe it", said)


def bounds_of(subject: Subject) -> dict[str, float]:
    """All bounds of a tree over rows that is small enough to compute them in a moment."""
    known = subject.facts
    if not isinstance(known.tree, Tree) or known.model is None or known.statistics is None or known.together:
        return {}
    if not 2 <= known.tree.n_leaves <= _MOST_LEAVES_BOUNDED:
        return {}
    from dtree.hierarchy.bounds import tree_bounds

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a budget that ran out still gives valid bounds
        return tree_bounds(known.tree, known.model, known.statistics)


def trace_section(subject: Subject) -> Section | None:
    """What happened pass by pass, iteration by iteration or draw by draw, and the tables that a method adds."""
    parts = []
    for name, (step, lines) in subject.facts.traces.items():
        if len(lines[0]) < 2 or not all(np.all(np.isfinite(line)) for line in lines):
            continue
        place = evenly(len(lines[0]), _POINTS_IN_TRACE)
        named = [
            (f"chain {number}" if len(lines) > 1 else name, place, line[place]) for number, line in enumerate(lines)
        ]
        parts.append(line_chart(named, step, name, f"{name} by {step}"))
    for title, frame in subject.facts.tables.items():
        heads = [str(frame.index.name or ""), *map(str, frame.columns)]
        rows = [[str(name), *map(cell, values)] for name, values in zip(frame.index, frame.to_numpy())]
        parts.append(table(heads, rows, title, range(1, len(heads))))
    if not parts:
        return None
    if subject.facts.together is not None:
        parts.insert(0, Markup('<p class="hint">{}</p>').format(_ABOUT_CHAINS))
        return Section("chains", "Chains", Markup("").join(parts))
    return Section("traces", "How the fit went", Markup("").join(parts))


def coclustering_section(subject: Subject) -> Section | None:
    """How often rows are together, for rows spread evenly over the clusters."""
    if subject.facts.together is None:
        return None
    labels = subject.facts.leaf_clusters
    rows = over_clusters(labels, _HEAT_ROWS)
    together = subject.facts.together(rows)
    # From paper white to a deep blue; the same in dark mode, since it is a picture.
    shade = together[:, :, None]
    colours = np.rint(255 * (1 - shade) + np.array([28, 66, 120]) * shade)
    picture = png(colours, f"Co-clustering of {rows.shape[0]} rows, ordered by cluster", "heat")
    distinct = together[np.triu_indices(rows.shape[0], 1)]
    unsure = float(np.mean((distinct > 0.05) & (distinct < 0.95))) if distinct.size else 0.0
    text = (
        f"{number(rows.shape[0])} of {number(labels.shape[0])} rows, ordered by cluster; the stronger the colour, the "
        f"more often two rows are in one cluster. {100 * unsure:.1f}% of the pairs are together in 5% to 95% of the "
        "draws."
    )
    return Section("together", "Which rows belong together", Markup('<p class="hint">{}</p>{}').format(text, picture))


def cell(value: Any) -> str:
    """A value of a table as text."""
    return number(float(value)) if isinstance(value, int | float | np.number) else str(value)
