"""The interactive tree, and the same as a table for those who do not see it."""

from typing import Any

import numpy as np
from markupsafe import Markup

from dtree.reporting.markup import Section, details, facts, number, table
from dtree.reporting.profile import contrast, most_distinct
from dtree.reporting.subject import Subject

_DESCRIBED = 3000  # nodes, largest first, that get typical features
_IN_WORDS = 300  # of the nodes of a table of several kinds; a few milliseconds each
_IN_TABLE = 60
_FEATURES = 5
_MOST_NAMES = 50_000
_AT_ONCE = 2_000_000  # values of a block of node profiles

NodeFeatures = dict[int, list[tuple[int, float, float] | str]]

_EXPLAINED = {
    "odds": (
        ("where a fork stands", "at its log odds against one cluster: the further left, the surer; dotted: even odds"),
        ("colours", "the clusters: the highest nodes that are one cluster with over even odds, or at the run's cut"),
        ("rows, level", "how many rows lie below the node, and how many forks lie above it"),
        ("r", "the probability that the rows below are one cluster, given that no cluster reaches beyond them"),
        ("p(cluster)", "the probability that the node is a cluster, over all partitions that fit the tree"),
        ("unlike its sibling in", "the features in which the two sides of a fork differ most"),
    ),
    "draws": (
        ("where a fork stands", "at its log odds against one cluster at the typical draw; dotted: even odds"),
        ("colours", "the clusters of the point estimate, the partition closest to all draws"),
        ("rows, level", "how many rows lie below the node, and how many forks lie above it"),
        ("together", "the share of the draws in which all rows below the node are in one cluster, perhaps with others"),
        ("alone", "the share of the draws in which they are a cluster by themselves"),
        ("unlike its sibling in", "the features in which the two sides of a fork differ most"),
    ),
    "depth": (
        ("where a fork stands", "at the depth of the valley it closes: further left is deeper; dotted: the level"),
        ("leaves", "the components that the model fitted; a cluster is made up of those below a fork at the level"),
        ("rows, level", "how many rows lie below the node, and how many forks lie above it"),
        ("density falls to", "what is left of the lower of two peaks at the bottom of the valley between them"),
        ("unlike its sibling in", "the features in which the two sides of a fork differ most"),
    ),
    "time": (
        ("where a fork stands", "at the time, 0 to 1, when its rows parted: the later, the more alike"),
        ("colours", "the branches below a cut in time: in the widest gap between forks, or as many as were asked for"),
        ("rows, level", "how many rows lie below the node, and how many forks lie above it"),
        ("unlike its sibling in", "the features in which the two sides of a fork differ most, in standard deviations"),
    ),
}  # fmt: skip


def tree_section(subject: Subject) -> Section:
    """The tree and its table."""
    features = node_features(subject)
    html = Markup(
        '<p class="hint">{remark} Open and close nodes with a click, or with the arrow keys and Enter. A triangle '
        "holds all that is below it.</p>"
        '<div id="tree-tools" role="toolbar" aria-label="Tree tools">'
        '<label class="search">Search <input id="search" type="search" autocomplete="off" placeholder="a name" '
        'role="combobox" aria-expanded="false" aria-controls="found" aria-autocomplete="list"></label>'
        '<span class="buttons"><button type="button" id="zoom-out" aria-label="Zoom out">\u2212</button>'
        '<button type="button" id="zoom-in" aria-label="Zoom in">+</button>'
        '<button type="button" id="fewer">Fewer nodes</button><button type="button" id="more">More nodes</button>'
        '<button type="button" id="whole" hidden>Whole tree</button></span>'
        '<ul id="found" role="listbox" aria-label="Names found" hidden></ul></div>'
        '<div class="tree-and-node"><div id="tree-view" tabindex="0" role="tree" aria-label="Tree of {rows} rows">'
        '<div id="tree-space"></div></div>'
        '<aside id="node" aria-live="polite" aria-label="The chosen node"></aside></div>'
        '<div id="tip" hidden></div>'
        "<noscript><p>The interactive tree needs JavaScript; the table below holds its largest nodes.</p></noscript>"
    ).format(remark=subject.facts.remark, rows=number(subject.n_rows))
    explained = _EXPLAINED["draws" if subject.shape.by == "draws" else subject.shape.scale]
    html += details("How to read the tree", facts(explained))
    shown = min(_IN_TABLE, 2 * subject.shape.n_leaves - 1)
    html += details(f"The {shown} largest nodes as a table", _as_table(subject, features))
    return Section("tree", "Tree", html, _data(subject, features))


def node_features(subject: Subject) -> NodeFeatures:
    """What sets the largest nodes apart from their siblings: (feature, value here, value there), most telling first.

    For a table of several kinds these are phrases: a category has many levels, and the one that differs is named.
    """
    profile, shape = subject.profile, subject.shape
    if profile is None or shape.n_leaves < 2:
        return {}
    order, start, stop = shape.leaf_order()
    # The leaves under a node stand together in this order, so running sums give the sum under any node.
    sums = np.vstack([np.zeros(profile.sums.shape[1]), np.cumsum(profile.sums[order], axis=0)])
    exposure = np.concatenate([[0.0], np.cumsum(profile.exposure[order])])
    sibling = shape.sibling
    largest = np.argsort(-shape.size, kind="stable")[:_DESCRIBED]
    # A single row is described by its own values only where a leaf holds several rows.
    nodes = largest[(sibling[largest] >= 0) & ((largest >= shape.n_leaves) | (shape.size[largest] > 1))]
    found: NodeFeatures = {}
    if subject.words_between(order[:1], order[1:2], 1) is not None:
        for node in nodes[:_IN_WORDS]:
            here, there = (order[start[one] : stop[one]] for one in (node, sibling[node]))
            found[int(node)] = [*(subject.words_between(here, there, _FEATURES) or [])]
        return found
    block = max(1, _AT_ONCE // profile.sums.shape[1])
    for first in range(0, nodes.shape[0], block):
        some = nodes[first : first + block]
        other = sibling[some]
        here, there = sums[stop[some]] - sums[start[some]], sums[stop[other]] - sums[start[other]]
        n, m = exposure[stop[some]] - exposure[start[some]], exposure[stop[other]] - exposure[start[other]]
        scores = contrast(profile.kind, here, n, there, m)
        chosen = most_distinct(scores, _FEATURES, only_more=profile.kind != "standard")
        mean, other = here / np.maximum(n, 1e-300)[:, None], there / np.maximum(m, 1e-300)[:, None]
        for at, node in enumerate(some):
            found[int(node)] = [(int(k), _short(mean[at, k]), _short(other[at, k])) for k in chosen[at] if k >= 0]
    return found


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _in_words(subject: Subject, feature: tuple[int, float, float] | str) -> str:
    return feature if isinstance(feature, str) else feature_text(subject, *feature)


def feature_text(subject: Subject, feature: int, value: float, other: float | None = None) -> str:
    """One feature in words."""
    kind = subject.profile.kind if subject.profile is not None else "standard"
    name = subject.feature(feature)
    if kind == "standard":
        return f"{name} {value:+.2f}".replace("-", "\u2212")
    shown = [f"{100 * v:.3g}%" if kind in ("share", "token") else number(v, 3) for v in (value, other) if v is not None]
    return f"{name} {shown[0]}" + (f" ({shown[1]})" if len(shown) > 1 else "")


def _data(subject: Subject, features: NodeFeatures) -> dict[str, Any]:
    shape, row_leaf = subject.shape, subject.facts.row_leaf
    m, names = shape.n_leaves, subject.leaf_names()
    used = sorted({one[0] for listed in features.values() for one in listed if not isinstance(one, str)})
    data: dict[str, Any] = {
        "left": shape.left.tolist(),
        "right": shape.right.tolist(),
        "size": None if np.all(shape.size[:m] == 1) else shape.size[:m].tolist(),
        "height": [_short(value) for value in shape.height],
        "scale": shape.scale,
        "cut": shape.cut,
        "r": None if shape.r is None else [_short(value) for value in shape.r[m:]],
        "p": None if shape.p is None else [_short(value) for value in shape.p],
        "cluster": subject.facts.leaf_clusters.tolist(),
        "words": ["together", "alone"] if shape.by == "draws" else ["r", "p(cluster)"],
        "names": names,
        # Leaves that are the clusters themselves, as in mixtures, are called so.
        "leafWord": _leaf_word(subject),
        "rows": None,
        "kind": subject.profile.kind if subject.profile is not None else None,
        "features": [[node, listed] for node, listed in features.items()],
        "featureNames": [[k, subject.feature(k)] for k in used],
    }
    rows = subject.row_names
    if names is None and rows is not None and row_leaf is not None and len(rows) <= _MOST_NAMES:
        data["rows"] = {"names": list(rows), "leaf": row_leaf.tolist()}
    return data


def _leaf_word(subject: Subject) -> str:
    if subject.shape.scale == "depth":
        return "component"
    return "cluster" if np.array_equal(subject.facts.leaf_clusters, np.arange(subject.shape.n_leaves)) else "leaf"


def _as_table(subject: Subject, features: NodeFeatures) -> Markup:
    shape = subject.shape
    level, parent, names = shape.level, shape.parent, subject.leaf_names()
    nodes = np.argsort(-shape.size, kind="stable")[:_IN_TABLE]
    rows = []
    for node in nodes:
        r = "–" if shape.r is None else f"{shape.r[node]:.3f}"
        what = ", ".join(_in_words(subject, feature) for feature in features.get(int(node), [])[:3])
        name = names[node] if names is not None and node < shape.n_leaves else f"node {node}"
        above = "root" if parent[node] < 0 else f"node {parent[node]}"
        rows.append([name, above, int(level[node]), number(int(shape.size[node])), r, what])
    share = "together" if shape.by == "draws" else "r"
    heads = ["node", "under", "level", "rows", share, "unlike its sibling in"]
    return table(heads, rows, "Nodes of the tree", (2, 3, 4))
