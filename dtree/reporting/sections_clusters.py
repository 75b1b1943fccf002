"""The clusters: how many rows, what sets each apart, examples, mean pictures, and where they lie in two dimensions."""

from __future__ import annotations

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
    "share": "Features by mutual information between the cluster and all other rows: share of its rows (and of the others).",
    "token": "Words by mutual information between the cluster and all other rows: share of its words (and of the others).",
    "rate": "Features by likelihood ratio between the cluster and all other rows: mean count (and that of the others).",
}


def cluster_section(subject: Subject) -> Section:
    """The table of clusters, largest first."""
    sizes = subject.cluster_sizes
    order = np.argsort(-sizes, kind="stable")[:_MOST_CLUSTERS]
    texts = cluster_features(subject, order)
    pictures = _pictures(subject, order)
    examples = _examples(subject, order)
    headers = ["cluster", "rows", "share", "unlike the rest in"]
    if pictures:
        headers.insert(1, "mean")
    if examples:
        headers.append("for example")
    rows = []
    for place, cluster in enumerate(order):
        button = Markup('<button type="button" class="show" data-cluster="{0}" aria-label="Show cluster {0} in the tree">{1}{0}</button>').format(int(cluster), swatch(int(cluster)))  # fmt: skip
        share = f"{100 * sizes[cluster] / sizes.sum():.3g}%"
        row = [button, number(int(sizes[cluster])), share, texts[place] if texts else "not known for this family"]
        if pictures:
            row.insert(1, pictures[place])
        if examples:
            row.append(examples[place])
        rows.append(row)
    numeric = (2, 3) if pictures else (1, 2)
    html = table(headers, rows, "Cluster sizes and distinguishing features", numeric)
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
        words = [
            Markup("<li>{}</li>").format(
                feature_text(
                    subject,
                    int(k),
                    float(means[place, k]),
                    None if kind == "standard" or rest[place] <= 0 else float(others[place, k]),
                )
            )
            for k in features
            if k >= 0
        ]
        texts.append(Markup('<ul class="words">{}</ul>').format(join(words)))
    return texts


def _profile_of(subject: Subject, clusters: np.ndarray) -> Profile:
    place = np.full(subject.n_clusters, -1)
    place[clusters] = np.arange(len(clusters))
    assert subject.profile is not None
    return subject.profile.of(place[subject.leaf_cluster], len(clusters))


def _pictures(subject: Subject, clusters: np.ndarray) -> list[Markup]:
    if subject.image_shape is None or subject.profile is None:
        return []
    means = _profile_of(subject, clusters).in_data_units()
    height, width = subject.image_shape
    low, high = means.min(), means.max()
    # Columns that were the same in all rows are left out by the model; they are drawn dark.
    columns = getattr(subject.model, "columns_", np.arange(means.shape[1]))
    bright = np.zeros((means.shape[0], height * width))
    bright[:, columns] = np.rint(255 * (means - low) / (high - low if high > low else 1.0))
    return [
        png(bright[place].reshape(height, width), f"mean picture of cluster {cluster}", "mean")
        for place, cluster in enumerate(clusters)
    ]


def _examples(subject: Subject, clusters: np.ndarray) -> list[str]:
    """A few rows of each cluster by name."""
    names = subject.row_names
    if names is None or subject.row_leaf is None:
        return []
    row_cluster = np.where(subject.row_leaf >= 0, subject.leaf_cluster[subject.row_leaf], -1)
    found = []
    for cluster in clusters:
        members = np.flatnonzero(row_cluster == cluster)
        shown = ", ".join(names[row] for row in members[:_EXAMPLES])
        found.append(shown + (", …" if members.shape[0] > _EXAMPLES else ""))
    return found


def projection_section(subject: Subject) -> Section | None:
    """Rows (or leaves, where the model keeps no rows) in the plane of largest variance, in the colours of their clusters."""
    points, cluster = subject.points, subject.point_cluster
    if points is None or cluster is None:
        points, cluster = subject.profile, subject.leaf_cluster
    if points is None or points.sums.shape[0] < 3 or points.sums.shape[1] < 2:
        return None
    keep = np.linspace(0, points.sums.shape[0] - 1, min(_MOST_POINTS, points.sums.shape[0])).round().astype(int)
    some = Profile(points.kind, points.sums[keep], points.exposure[keep], points.centre, points.spread)
    plane = principal_plane(some)
    xy, share = plane.places, plane.share
    names = next(
        (found for found in (subject.point_names, subject.row_names) if found and len(found) == len(cluster)), None
    )
    low, high = xy.min(axis=0), xy.max(axis=0)
    room = (0.05 if some.exposure.max() <= 1.0 or some.kind == "token" else 0.09) * (high - low)
    frame = Frame((low[0] - room[0], high[0] + room[0]), (low[1] - room[1], high[1] + room[1]), 640, 460)
    weight = some.exposure if some.kind != "token" else np.ones(len(keep))
    single = weight.max() <= 1.0 + 1e-9
    radius = np.full(len(keep), 3.5) if single else 3.0 + 15.0 * np.sqrt(weight / weight.max())
    dots = []
    for place in np.argsort(-radius, kind="stable"):  # small ones on top
        row = keep[place]
        x, y = frame.at(*xy[place])
        text = names[row] if names is not None else ("row" if single or some.kind == "token" else "leaf") + f" {row}"
        text += f", cluster {cluster[row]}" + ("" if single else f", {number(float(np.rint(weight[place])))} rows")  # fmt: skip
        dots.append(
            Markup('<circle class="point f{}" cx="{}" cy="{}" r="{}"><title>{}</title></circle>').format(
                int(cluster[row]) % 10, x, y, round(float(radius[place]), 1), text
            )
        )
    what = "rows" if single or some.kind == "token" else "leaves"
    chart = frame.chart(
        join(dots),
        f"first component ({100 * share[0]:.0f}% of the variance)",
        f"second component ({100 * share[1]:.0f}%)",
        f"{len(keep)} {what} in the plane of the first two principal components, coloured by cluster",
    )
    total = subject.points_in_all or points.sums.shape[0]
    text = f"{number(len(keep))} of {number(total)} {what}" if len(keep) < total else f"All {number(total)} {what}"
    order = np.argsort(-subject.cluster_sizes, kind="stable")[:20]
    legend = join(Markup("<li>{}{}</li>").format(swatch(int(k)), int(k)) for k in order)
    html = Markup(
        '<p class="hint">{} in the plane in which they differ most{}.</p>{}<ul class="legend" aria-label="Colours">{}</ul>'
    ).format(text, "" if some.kind in ("standard", "rate") else " (square roots of shares)", chart, legend)
    return Section("projection", "In two dimensions", html)
