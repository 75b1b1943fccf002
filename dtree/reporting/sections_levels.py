"""Levels to slide through, clusters against known labels, and the rows that fit worst."""

from typing import Any

import numpy as np
from markupsafe import Markup

from dtree.reporting.markup import Section, fixed, join, number, swatch, table
from dtree.reporting.subject import Subject

_MOST_LABELS = 20  # columns of the cross table
_MOST_CLUSTERS = 60  # its lines
_MOST_ODD = 10

_ABOUT = (
    "A component is what the model fitted, a cluster is one or more of them without a valley of the density between "
    "them. A level says how deep a valley must be to part two clusters. Every level is a cut of the tree below; moving "
    "the slider colours the whole page anew."
)


def levels_section(subject: Subject) -> Section | None:
    """Why the tree is cut where it is, and a slider over the other levels."""
    cuts = subject.facts.cuts
    if cuts is None:
        return None
    known = None if subject.known is None else [agreement(subject, leaf)[:2] for leaf in cuts.leaf_clusters]
    lines, data = [], []
    for place, (level, k, depth, smallest) in enumerate(cuts.levels):
        words = f"{k} cluster{'' if k == 1 else 's'}"
        own = " (the level that was chosen)" if place == cuts.chosen else ""
        deep = "" if not np.isfinite(depth) else f", valleys of {depth:.3g} nats"
        clusters = cuts.leaf_clusters[place].tolist()
        data.append({"level": float(level), "cluster": clusters, "words": f"{words}{deep}{own}"})
        lines.append([
            f"{k}{' (chosen)' if own else ''}", "–" if level < 0 else number(level), number(depth),
            f"{100 * smallest:.3g}%", *([] if known is None else map(fixed, known[place])),
        ])  # fmt: skip
    heads = ["clusters", "closed up to (nats)", "shallowest valley left (nats)", "smallest cluster"]
    heads += [] if known is None else ["ARI", "purity"]
    reason = cuts.reason[0].upper() + cuts.reason[1:]
    html = Markup(
        '<p>{}.</p><p class="hint">{}</p><div class="levels"><label>Level <input id="level" type="range" min="0" '
        'max="{}" step="1" value="{}"></label> <output id="level-text" for="level">{}</output>'
        '<button type="button" id="level-back">The chosen level</button></div>'
    ).format(reason, _ABOUT, len(data) - 1, cuts.chosen, data[cuts.chosen]["words"])
    html += table(heads, lines, "Levels, the coarsest first", range(1, len(heads)))
    return Section("levels", "Levels", html, {"cuts": data, "chosen": cuts.chosen})


def by_level(subject: Subject, build: Any) -> Markup:
    """What build(place, leaf_clusters) makes for every level, of which the page shows one; for a run without, once."""
    cuts = subject.facts.cuts
    if cuts is None:
        return build(None, np.asarray(subject.facts.leaf_clusters))
    return join(
        Markup('<div data-level="{}"{}>{}</div>').format(
            place, Markup("" if place == cuts.chosen else " hidden"), build(place, leaf_clusters)
        )
        for place, leaf_clusters in enumerate(cuts.leaf_clusters)
    )


# Known labels --------------------------------------------------------------------------------------------------------


def labels_section(subject: Subject) -> Section | None:
    """Clusters against the column of labels that came with the data."""
    if subject.known is None:
        return None
    column = subject.known.column

    def build(place: int | None, leaf_clusters: np.ndarray) -> Markup:
        ari, purity, counts = agreement(subject, leaf_clusters)
        labels = np.argsort(-counts.sum(axis=0), kind="stable")
        shown, rest = labels[:_MOST_LABELS], labels[_MOST_LABELS:]
        names = [subject.known.names[label] for label in shown] + (["others"] if rest.size else [])  # type: ignore[union-attr]
        lines = []
        for cluster in np.argsort(-counts.sum(axis=1), kind="stable")[:_MOST_CLUSTERS]:
            cells = [*counts[cluster, shown], *([counts[cluster, rest].sum()] if rest.size else [])]
            name = Markup("{}{}").format(swatch(int(cluster)), int(cluster))
            lines.append([name, *(number(int(cell)) if cell else "" for cell in cells)])
        said = Markup(
            "<p>Adjusted Rand index {} (1: the same partition, 0: no better than chance), purity {} (the share of rows "
            "that have the commonest label of their cluster).</p>"
        ).format(fixed(ari), fixed(purity))
        more = counts.shape[0] - _MOST_CLUSTERS
        left = Markup("<p>And {} smaller clusters.</p>").format(number(more)) if more > 0 else Markup("")
        caption = f"Rows of each cluster by {column}"
        return said + table(["cluster", *names], lines, caption, range(1, len(names) + 1)) + left

    return Section("known", f"Against {column}", by_level(subject, build))


def agreement(subject: Subject, leaf_clusters: np.ndarray) -> tuple[float, float, np.ndarray]:
    """Adjusted Rand index, purity and rows by cluster and label (k, l) of clusters of the leaves (m,)."""
    from sklearn.metrics import adjusted_rand_score

    assert subject.known is not None
    leaf = subject.facts.row_leaf
    assert leaf is not None
    held = leaf >= 0
    cluster, label = leaf_clusters[leaf[held]], subject.known.codes[held]
    counts = np.zeros((int(leaf_clusters.max()) + 1, len(subject.known.names)), dtype=np.int64)
    np.add.at(counts, (cluster, label), 1)
    return float(adjusted_rand_score(label, cluster)), float(counts.max(axis=1).sum() / counts.sum()), counts


# Odd rows ------------------------------------------------------------------------------------------------------------


def odd_section(subject: Subject) -> Section | None:
    """The rows that are least like the rest of their component."""
    score, confidence, leaf = subject.outlier_score, subject.confidence, subject.facts.row_leaf
    if score is None or confidence is None or leaf is None:
        return None
    odd = np.argsort(-score, kind="stable")[: min(_MOST_ODD, score.shape[0])]

    def build(place: int | None, leaf_clusters: np.ndarray) -> Markup:
        sure = [] if subject.facts.cuts is not None and place != subject.facts.cuts.chosen else ["confidence"]
        lines = []
        for row in odd:
            cluster = int(leaf_clusters[leaf[row]])
            name = f"row {row}" if subject.row_names is None else subject.row_names[row]
            told = [name, number(float(score[row])), Markup("{}{}").format(swatch(cluster), cluster)]
            lines.append([*told, *([fixed(float(confidence[row]))] if sure else [])])
        return table(["row", "nats less likely", "cluster", *sure], lines, "The oddest rows", (1, 3))

    hint = Markup(
        '<p class="hint">How many nats less likely a row is than the average row of its component; one row in a '
        "hundred has more than {}. Confidence is the probability of the row's cluster at the chosen level.</p>"
    ).format(_usual(subject))
    return Section("odd", "Odd rows", hint + by_level(subject, build))


def _usual(subject: Subject) -> str:
    """A score that one row in a hundred exceeds, by the rows themselves."""
    assert subject.outlier_score is not None
    return number(float(np.quantile(subject.outlier_score, 0.99)), 3)
