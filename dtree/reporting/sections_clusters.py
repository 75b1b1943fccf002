"""The clusters: how many rows, what sets each apart, examples, mean pictures, and where they lie in two dimensions."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from dtree.core.colours import CLUSTER_COLOURS
from dtree.methods.tree_clustering_facts import HOW_SURE
from dtree.reporting.markup import Frame, Section, colour_class, join, number, png, swatch, table
from dtree.reporting.profile import Profile, contrast, most_distinct
from dtree.reporting.projection import evenly, principal_plane
from dtree.reporting.sections_levels import by_level
from dtree.reporting.sections_tree import feature_text
from dtree.reporting.subject import Subject

_MOST_CLUSTERS = 200
_FEATURES = 6
_MOST_COLUMNS = 50
_EXAMPLES = 4
_MOST_POINTS = 2000
_IN_LEGEND = 40
_SURE = ("valley", "confidence", "stability", "found again", "exactly")
_FOUND_AGAIN = (
    "Found again: how much the cluster overlaps, in the mean over the draws, with the cluster of a draw that is most "
    "like it (rows in both over rows in either; 1 is exactly). Exactly: the share of draws that have this very cluster."
)
_MANY_COLOURS = (
    "There are more clusters than colours that can be told apart: from cluster 20 on they come again as rings and "
    "broken lines, from 40 on with a dark edge, from 60 on dotted."
)

_EXPLAINED = {
    "table": "What tells a cluster from all other rows, most telling first: the mean of a number, the share of rows "
    "with a word; that of all other rows in brackets.",
    "standard": "Means in standard deviations of the whole data away from its mean; those furthest out come first.",
    "share": "Features by mutual information with the cluster: share of its rows (and of the others).",
    "token": "Words by mutual information with the cluster: share of its words (and of the others).",
    "rate": "Features by likelihood ratio between the cluster and all other rows: mean count (and that of the others).",
}


def cluster_section(subject: Subject) -> Section:
    """The table of clusters, largest first; for a run with levels one for each."""
    html = by_level(subject, lambda place, leaf_clusters: _table_at(subject, place, leaf_clusters))
    if subject.profile is not None:
        kind = subject.profile.kind if subject.words(subject.facts.leaf_clusters) is None else "table"
        html = Markup('<p class="hint">{}</p>').format(_EXPLAINED[kind]) + html
    if subject.facts.clusters.keys() & {"confidence", "stability"}:
        html = Markup('<p class="hint">{}</p>').format(f"{HOW_SURE} The last two are known at the chosen level.") + html
    if "found again" in subject.facts.clusters:
        html = Markup('<p class="hint">{}</p>').format(_FOUND_AGAIN) + html
    return Section("clusters", "Clusters", html)


def _table_at(subject: Subject, level: int | None, leaf_clusters: np.ndarray) -> Markup:
    """The table of the clusters of a cut."""
    sizes = np.bincount(leaf_clusters, weights=subject.shape.size[: subject.shape.n_leaves]).astype(np.int64)
    order = np.argsort(-sizes, kind="stable")[:_MOST_CLUSTERS]
    groups = Groups(leaf_clusters, order)
    words = subject.words(leaf_clusters)
    texts = cluster_features(subject, groups) if words is None else [_phrases(words.clusters[c]) for c in order]
    pictures = _pictures(subject, groups)
    examples = _examples(subject, groups)
    button = Markup(
        '<button type="button" class="show" data-cluster="{0}" aria-label="Show cluster {0} in the tree">'
        "{1}{0}</button>"
    )
    columns: dict[str, Sequence[str]] = {
        "cluster": [button.format(int(cluster), swatch(int(cluster))) for cluster in order],
        "mean": pictures,
        "rows": [number(int(size)) for size in sizes[order]],
        "share": [f"{100 * size / sizes.sum():.3g}%" for size in sizes[order]],
        **_how_sure(subject, level, order),
        "unlike the rest in": texts or ["not known for this family"] * len(order),
        "for example": examples,
    }
    shown = {name: values for name, values in columns.items() if values}
    numeric = [place for place, name in enumerate(shown) if name in ("rows", "share", *_SURE)]
    html = table(list(shown), zip(*shown.values()), "Cluster sizes and distinguishing features", numeric)
    if sizes.shape[0] > _MOST_CLUSTERS:
        html += Markup("<p>And {} smaller ones.</p>").format(number(sizes.shape[0] - _MOST_CLUSTERS))
    if sizes.shape[0] > len(CLUSTER_COLOURS):
        html += Markup('<p class="hint">{}</p>').format(_MANY_COLOURS)
    return html if words is None or len(words.clusters) == 1 else html + _ranking(words.ranking)


def _how_sure(subject: Subject, level: int | None, order: np.ndarray) -> dict[str, list[str]]:
    """What is known of the sureness of clusters: at other levels than the chosen one only the valleys."""
    cuts, told = subject.facts.cuts, subject.facts.clusters
    if cuts is None or level is None:
        return {name: [f"{float(told[name][c]):.3f}" for c in order] for name in _SURE if name in told}
    found = {"valley": [number(float(depth), 3) for depth in cuts.valleys[level][order]]}
    if level == cuts.chosen:
        found |= {name: [f"{float(told[name][c]):.3f}" for c in order] for name in ("confidence", "stability")}
    return found


class Groups(NamedTuple):
    """A cut of the leaves, and the clusters of it that are told of."""

    leaf_clusters: np.ndarray  # (m,)
    order: np.ndarray  # (k',) largest first


def _phrases(phrases: Sequence[str]) -> Markup:
    return Markup('<ul class="words">{}</ul>').format(join(Markup("<li>{}</li>").format(one) for one in phrases))


def _ranking(ranking: Sequence[tuple[str, float]]) -> Markup:
    """The columns of a table by how much they tell the clusters apart."""
    hint = (
        "Columns by how much better the clusters explain them than one cluster would, in nats a row. Below 0, a column "
        "is the same in all clusters."
    )
    rows = [(name, f"{nats:.2f}") for name, nats in ranking[:_MOST_COLUMNS]]
    listed = table(["column", "nats a row"], rows, "Columns by how much they tell the clusters apart", [1])
    return Markup('<h3>Columns</h3><p class="hint">{}</p>').format(hint) + listed


def cluster_features(subject: Subject, clusters: Groups) -> list[Markup]:
    """What sets each of the clusters apart from all other rows, in words."""
    if subject.profile is None:
        return []
    groups = _profile_of(subject, clusters)
    rest_sums = subject.profile.sums.sum(axis=0) - groups.sums
    rest = subject.profile.exposure.sum() - groups.exposure
    kind = subject.profile.kind
    means = groups.means
    scores = means if kind == "standard" else contrast(kind, groups.sums, groups.exposure, rest_sums, rest)
    chosen = most_distinct(scores, _FEATURES, only_more=kind != "standard")
    others = rest_sums / np.maximum(rest, 1e-300)[:, None]
    texts = []
    for place, features in enumerate(chosen):
        compared = kind != "standard" and rest[place] > 0
        told = [(int(k), means[place, k], others[place, k] if compared else None) for k in features if k >= 0]
        words = join(Markup("<li>{}</li>").format(feature_text(subject, *feature)) for feature in told)
        texts.append(Markup('<ul class="words">{}</ul>').format(words))
    return texts


def _profile_of(subject: Subject, clusters: Groups) -> Profile:
    place = np.full(int(clusters.leaf_clusters.max()) + 1, -1)
    place[clusters.order] = np.arange(len(clusters.order))
    assert subject.profile is not None
    return subject.profile.of(place[clusters.leaf_clusters], len(clusters.order))


def _pictures(subject: Subject, clusters: Groups) -> list[Markup]:
    if subject.image_shape is None or subject.profile is None:
        return []
    means = _profile_of(subject, clusters).in_data_units()
    height, width = subject.image_shape
    low, high = means.min(), means.max()
    # Columns that were the same in all rows are left out by the model; they are drawn dark.
    columns = np.arange(means.shape[1]) if subject.columns is None else subject.columns
    bright = np.zeros((means.shape[0], height * width))
    bright[:, columns] = np.rint(255 * (means - low) / (high - low if high > low else 1.0))
    return [
        png(bright[place].reshape(height, width), f"mean picture of cluster {cluster}", "mean")
        for place, cluster in enumerate(clusters.order)
    ]


def _examples(subject: Subject, clusters: Groups) -> list[str]:
    """A few rows of each cluster by name."""
    names, row_leaf = subject.row_names, subject.facts.row_leaf
    if names is None or row_leaf is None:
        return []
    row_cluster = np.where(row_leaf >= 0, clusters.leaf_clusters[row_leaf], -1)
    found = []
    for cluster in clusters.order:
        members = np.flatnonzero(row_cluster == cluster)
        shown = ", ".join(names[row] for row in members[:_EXAMPLES])
        found.append(shown + (", …" if members.shape[0] > _EXAMPLES else ""))
    return found


def projection_section(subject: Subject) -> Section | None:
    """Rows (or leaves, where the model keeps no rows) in the plane of largest variance, in the colours of their
    clusters."""
    if subject.drawn is None or subject.drawn.profile.sums.shape[0] < 3 or subject.drawn.profile.sums.shape[1] < 2:
        return None
    points, cluster, names, total, leaf = subject.drawn
    keep = evenly(len(cluster), _MOST_POINTS)
    some = replace(points, sums=points.sums[keep], exposure=points.exposure[keep])
    xy, share = principal_plane(some)
    low, high = xy.min(axis=0), xy.max(axis=0)
    room = (0.05 if some.exposure.max() <= 1.0 or some.kind == "token" else 0.09) * (high - low)
    frame = Frame((low[0] - room[0], high[0] + room[0]), (low[1] - room[1], high[1] + room[1]), 460)
    weight = some.exposure if some.kind != "token" else np.ones(len(keep))
    single = weight.max() <= 1.0 + 1e-9
    one, what = ("row", "rows") if single or some.kind == "token" else ("leaf", "leaves")
    radius = np.full(len(keep), 3.5) if single else 3.0 + 15.0 * np.sqrt(weight / weight.max())
    dots = []
    for place in np.argsort(-radius, kind="stable"):  # small ones on top
        row = keep[place]
        x, y = frame.at(*xy[place])
        text = f"{one} {row}" if names is None else names[row]
        text += f", cluster {cluster[row]}" + ("" if single else f", {number(float(np.rint(weight[place])))} rows")
        dots.append(
            Markup('<circle class="point {}"{} cx="{}" cy="{}" r="{}"><title>{}</title></circle>').format(
                colour_class(int(cluster[row])),
                Markup(' data-leaf="{}"').format(int(leaf[row])) if leaf is not None and leaf[row] >= 0 else "",
                x,
                y,
                round(float(radius[place]), 1),
                text,
            )
        )
    chart = frame.chart(
        join(dots),
        f"first component ({100 * share[0]:.0f}% of the variance)",
        f"second component ({100 * share[1]:.0f}%)",
        f"{len(keep)} {what} in the plane of the first two principal components, coloured by cluster",
    )
    text = f"{number(len(keep))} of {number(total)} {what}" if len(keep) < total else f"All {number(total)} {what}"
    html = Markup('<p class="hint">{} in the plane in which they differ most{}.</p>{}{}').format(
        text,
        "" if some.kind in ("standard", "rate") else " (square roots of shares)",
        chart,
        by_level(subject, lambda place, leaf_clusters: _legend(leaf_clusters)),
    )
    return Section("projection", "In two dimensions", html)


def _legend(leaf_clusters: np.ndarray) -> Markup:
    """The colours of the clusters, which are numbered by size or by appearance."""
    shown = range(min(_IN_LEGEND, int(leaf_clusters.max()) + 1))
    inside = join(Markup("<li>{}{}</li>").format(swatch(cluster), cluster) for cluster in shown)
    return Markup('<ul class="legend" aria-label="Colours">{}</ul>').format(inside)
