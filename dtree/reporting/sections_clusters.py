"""The clusters: how many rows, what sets each apart, examples, mean pictures, and where they lie in two dimensions."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from markupsafe import Markup

from dtree.reporting.markup import Frame, Section, join, number, png, swatch, table
from dtree.reporting.profile import Profile, contrast, most_distinct
from dtree.reporting.projection import principal_plane
from dtree.reporting.sections_tree import feature_text
from dtree.reporting.subject import Subject

_MOST_CLUSTERS = 200
_FEATURES = 6
_EXAMPLES = 4
_MOST_POINTS = 2000

_EXPLAINED = {
    "standard": "Means in standard deviations of the whole data away from its mean; those furthest out come first.",
    "share": "Features by mutual information with the cluster: share of its rows (and of the others).",
    "token": "Words by mutual information with the cluster: share of its words (and of the others).",
    "rate": "Features by likelihood ratio between the cluster and all other rows: mean count (and that of the others).",
}


def cluster_section(subject: Subject) -> Section:
    """The table of clusters, largest first."""
    sizes = subject.cluster_sizes
    order = np.argsort(-sizes, kind="stable")[:_MOST_CLUSTERS]
    texts = cluster_features(subject, order)
    pictures = _pictures(subject, order)
    examples = _examples(subject, order)
    button = Markup(
        '<button type="button" class="show" data-cluster="{0}" aria-label="Show cluster {0} in the tree">'
        "{1}{0}</button>"
    )
    columns: dict[str, Sequence[str]] = {
        "cluster": [button.format(int(cluster), swatch(int(cluster))) for cluster in order],
        "mean": pictures,
        "rows": [number(int(size)) for size in sizes[order]],
        "share": [f"{100 * size / sizes.sum():.3g}%" for size in sizes[order]],
        "unlike the rest in": texts or ["not known for this family"] * len(order),
        "for example": examples,
    }
    shown = {name: values for name, values in columns.items() if values}
    numeric = [place for place, name in enumerate(shown) if name in ("rows", "share")]
    html = table(list(shown), zip(*shown.values()), "Cluster sizes and distinguishing features", numeric)
    if sizes.shape[0] > _MOST_CLUSTERS:
        html += Markup("<p>And {} smaller ones.</p>").format(number(sizes.shape[0] - _MOST_CLUSTERS))
    if subject.profile is not None:
        html = Markup('<p class="hint">{}</p>').format(_EXPLAINED[subject.profile.kind]) + html
    return Section("clusters", "Clusters", html)


def cluster_features(subject: Subject, clusters: np.ndarray) -> list[Markup]:
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


def _profile_of(subject: Subject, clusters: np.ndarray) -> Profile:
    place = np.full(subject.n_clusters, -1)
    place[clusters] = np.arange(len(clusters))
    assert subject.profile is not None
    return subject.profile.of(place[subject.facts.leaf_clusters], len(clusters))


def _pictures(subject: Subject, clusters: np.ndarray) -> list[Markup]:
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
        for place, cluster in enumerate(clusters)
    ]


def _examples(subject: Subject, clusters: np.ndarray) -> list[str]:
    """A few rows of each cluster by name."""
    names, row_leaf = subject.row_names, subject.facts.row_leaf
    if names is None or row_leaf is None:
        return []
    row_cluster = np.where(row_leaf >= 0, subject.facts.leaf_clusters[row_leaf], -1)
    found = []
    for cluster in clusters:
        members = np.flatnonzero(row_cluster == cluster)
        shown = ", ".join(names[row] for row in members[:_EXAMPLES])
        found.append(shown + (", …" if members.shape[0] > _EXAMPLES else ""))
    return found


def projection_section(subject: Subject) -> Section | None:
    """Rows (or leaves, where the model keeps no rows) in the plane of largest variance, in the colours of their
    clusters."""
    if subject.drawn is None or subject.drawn.profile.sums.shape[0] < 3 or subject.drawn.profile.sums.shape[1] < 2:
        return None
    points, cluster, names, total = subject.drawn
    keep = np.linspace(0, len(cluster) - 1, min(_MOST_POINTS, len(cluster))).round().astype(int)
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
            Markup('<circle class="point f{}" cx="{}" cy="{}" r="{}"><title>{}</title></circle>').format(
                int(cluster[row]) % 10, x, y, round(float(radius[place]), 1), text
            )
        )
    chart = frame.chart(
        join(dots),
        f"first component ({100 * share[0]:.0f}% of the variance)",
        f"second component ({100 * share[1]:.0f}%)",
        f"{len(keep)} {what} in the plane of the first two principal components, coloured by cluster",
    )
    text = f"{number(len(keep))} of {number(total)} {what}" if len(keep) < total else f"All {number(total)} {what}"
    order = np.argsort(-subject.cluster_sizes, kind="stable")[:20]
    legend = join(Markup("<li>{}{}</li>").format(swatch(int(k)), int(k)) for k in order)
    html = Markup(
        '<p class="hint">{} in the plane in which they differ most{}.</p>{}'
        '<ul class="legend" aria-label="Colours">{}</ul>'
    ).format(text, "" if some.kind in ("standard", "rate") else " (square roots of shares)", chart, legend)
    return Section("projection", "In two dimensions", html)
