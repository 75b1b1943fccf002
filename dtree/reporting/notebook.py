"""A fitted model in a notebook: what it found in a line, a small tree, and the levels it can be cut at."""

from typing import Any

from markupsafe import Markup

from dtree.core.tree_svg import svg_of_shape
from dtree.reporting.markup import table
from dtree.reporting.sections_evidence import cell
from dtree.reporting.subject import subject_of

# Chains and mixtures have no tree of their own, and one over more leaves takes longer than a cell should.
_MOST_LEAVES_BUILT = 1000


def html_of(model: Any) -> str:
    """A fragment of HTML about a fitted model.

    >>> import dtree
    >>> page = html_of(dtree.BHC("poisson").fit([[1], [2], [90], [95]]))
    >>> "2 clusters" in page, page.count("<svg")
    (True, 1)
    """
    facts = subject_of(model).facts
    parts = [Markup("<p>{}</p>").format(facts.headline)]
    if facts.tree is not None or facts.leaf_clusters.shape[0] <= _MOST_LEAVES_BUILT:
        parts.append(Markup(svg_of_shape(facts.shape(), facts.leaf_clusters)))
    if facts.cuts is not None:
        levels = facts.cuts.table()
        heads = [str(name) for name in levels.columns]
        rows = [[cell(value) for value in values] for values in levels.to_numpy()]
        parts.append(Markup("<p>{}</p>").format(facts.cuts.reason))
        parts.append(table(heads, rows, "Levels", range(len(heads))))
    return str(Markup('<div class="dtree">{}</div>').format(Markup("").join(parts)))
