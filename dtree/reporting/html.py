"""`report`: one HTML page about a run, with everything inside it and nothing to fetch."""

import base64
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from dtree.core.families import Mixed
from dtree.core.names import Named, take_names
from dtree.methods.facts import counted
from dtree.reporting.markup import Section, embedded_json, join, number
from dtree.reporting.projection import evenly
from dtree.reporting.sections_clusters import cluster_section, projection_section
from dtree.reporting.sections_evidence import (
    coclustering_section,
    evidence_section,
    trace_section,
    warnings_section,
)
from dtree.reporting.sections_levels import labels_section, levels_section, odd_section
from dtree.reporting.sections_provenance import provenance_section
from dtree.reporting.sections_tree import tree_section
from dtree.reporting.subject import Points, Subject, subject_of

# The parts of the page, in order; one that has nothing to say returns None.
BUILDERS: tuple[Callable[[Subject], Section | None], ...] = (
    warnings_section,
    levels_section,
    tree_section,
    cluster_section,
    projection_section,
    labels_section,
    odd_section,
    evidence_section,
    trace_section,
    coclustering_section,
    provenance_section,
)
_SCRIPTS = ("layout.js", "draw.js", "tree.js")
_MOST_ROWS_DRAWN = 2000


def report(
    model_or_run: Any,
    out: str | os.PathLike[str],
    row_names: Sequence[Any] | None = None,
    *,
    feature_names: Sequence[Any] | None = None,
    X: Any = None,
    image_shape: tuple[int, int] | None = None,
    title: str | None = None,
) -> Path:
    """Write one HTML page about a fitted model or a run: the tree to walk through, clusters, evidence, provenance.

    The page needs no network and no other file. It can be read on a phone, in the dark, and with the keyboard alone.

    Parameters
    ----------
    model_or_run : a fitted dtree model, the folder of a finished run, or a `Tree`.
    out : the page to write; one that is there already is replaced.
    row_names, feature_names : (n,) and (d,) names; those the model, the run or X remembers when None.
    X : (n, d) rows for the picture in two dimensions, where the model keeps only summaries of them: an array, a sparse
        matrix, a data frame or an AnnData-like object.
    image_shape : (height, width) when a row is a picture: clusters then show their mean picture.
    title : what to write on top; the name of the run, or what was found, when None.

    Returns the path of the page.

    >>> import tempfile, dtree
    >>> from dtree.datasets import nested_creatures
    >>> data = nested_creatures(27)
    >>> model = dtree.BHC("gaussian-diag").fit(data.X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = report(model, folder + "/report.html", data.row_names, feature_names=data.feature_names)
    ...     text = page.read_text(encoding="utf-8")
    >>> "owl 1" in text, "lifespan" in text, "<link" in text
    (True, True, False)
    """
    from dtree.runs.commit import check_place, file_in_place

    out = Path(out)
    if out.is_dir():
        raise ValueError(f"{out} is a folder, not a file: name the page, for example {out / 'report.html'}")
    check_place(out)
    subject = subject_of(model_or_run)
    rows = take_names(X)
    _give_names(subject, row_names, feature_names, rows)
    if image_shape is not None:
        height, width = (int(size) for size in image_shape)
        if height * width != subject.n_features:
            pixels = f"image_shape {height} x {width} has {height * width} pixels"
            raise ValueError(f"{pixels} but there are {subject.n_features} features")
        subject.image_shape = (height, width)
    if X is not None:
        give_points(subject, rows.X, _MOST_ROWS_DRAWN)
    text = page_of(subject, title or (subject.headline if subject.run is None else Path(subject.run).name))
    with file_in_place(out) as partial:
        partial.write_text(text, encoding="utf-8")
    return out


def page_of(subject: Subject, title: str) -> str:
    """The page as text."""
    sections = [section for section in (builder(subject) for builder in BUILDERS) if section is not None]
    data = {section.key: section.data for section in sections if section.data is not None}
    folder = files("dtree.reporting") / "page"
    script = "\n".join((folder / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    # Only this very script may run, whatever else may have found its way into the page.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    features = [] if subject.profile is None else [counted(subject.profile.sums.shape[1], "feature")]
    found = [counted(subject.n_rows, "row"), *features, counted(subject.n_clusters, "cluster")]
    headline = [text.split(" ") for text in found]
    bound = subject.facts.evidence.get("log evidence at least")
    if bound is not None:
        headline.append([number(bound, 7), "log evidence at least"])
    body = join(
        Markup('<section id="{0}" aria-labelledby="{0}-title"><h2 id="{0}-title">{1}</h2>{2}</section>\n').format(
            section.key, section.title, section.html
        )
        for section in sections
    )
    return str(
        Markup((folder / "page.html").read_text(encoding="utf-8")).format(
            title=title,
            method=subject.facts.title,
            headline=join(Markup("<li><b>{}</b> {}</li>").format(value, what) for value, what in headline),
            navigation=join(Markup('<a href="#{}">{}</a>').format(s.key, s.title) for s in sections),
            body=body,
            policy=f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
            style=Markup((folder / "page.css").read_text(encoding="utf-8")),
            data=embedded_json(data),
            script=Markup(script),
        )
    )


# Where names and points come from
# --------------------------------------------------------------------------------------


def _give_names(subject: Subject, rows: Any, features: Any, drawn: Named) -> None:
    """The names given, else those the run or the rows to be drawn have."""
    n = subject.shape.n_leaves if subject.facts.row_leaf is None else subject.facts.row_leaf.shape[0]
    if rows is not None and len(rows) != n:
        raise ValueError(f"there are {len(rows)} row names but {n} rows")
    names = next((f for f in (rows, subject.row_names, drawn.row_names) if f is not None and len(f) == n), None)
    subject.row_names = None if names is None else [str(name) for name in names]
    if subject.profile is None:
        return
    d = int(subject.profile.sums.shape[1])
    every = subject.n_features or d
    if features is not None and len(features) not in (d, every):
        raise ValueError(f"there are {len(features)} feature names but {every} features")
    columns_drawn = drawn.feature_names if drawn.feature_names is not None else getattr(drawn.X, "columns", None)
    for found in (features, subject.feature_names, columns_drawn):
        if found is not None and len(found) in (d, every):
            columns = range(d) if len(found) == d or subject.columns is None else subject.columns
            subject.feature_names = [str(found[column]) for column in columns]
            break


def give_points(subject: Subject, X: Any, most: int) -> None:
    """Draw these rows in two dimensions instead of the summaries that a run keeps; of many, evenly chosen ones."""
    profile = subject.profile
    if profile is None or subject.columns is None:
        return
    X = X if hasattr(X, "iloc") else X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
    if len(X.shape) != 2 or X.shape[1] != subject.n_features:
        raise ValueError(f"X has shape {tuple(X.shape)} but the model was fitted to {subject.n_features} features")
    n = X.shape[0]
    keep = evenly(n, most)
    rows = X.iloc[keep] if hasattr(X, "iloc") else X[keep]
    row_leaf, leaf = subject.facts.row_leaf, None
    if row_leaf is not None and row_leaf.shape[0] == n:
        leaf = row_leaf[keep]
        cluster = np.where(leaf >= 0, subject.facts.leaf_clusters[leaf], 0)
    elif subject.predict is not None:
        cluster = subject.predict(rows.to_numpy() if hasattr(rows, "iloc") else rows)
    else:
        raise ValueError(f"X has {n} rows but the model was fitted to {subject.n_rows}")
    values = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)
    values = values[:, subject.columns]
    exposure = values.sum(axis=1) if profile.kind == "token" else np.ones(values.shape[0])
    family = None if subject.facts.model is None else subject.facts.model.family
    if isinstance(family, Mixed):  # which knows what becomes of words and of what is missing
        points = family.profile(family.statistics(values))
    else:
        sums = np.nan_to_num((values - profile.centre) / profile.spread)  # what is missing stands in the middle
        points = replace(profile, sums=sums, exposure=exposure)
    names = subject.row_names if subject.row_names is not None and len(subject.row_names) == n else None
    shown = [f"row {row}" if names is None else names[row] for row in keep]
    subject.points = Points(points, cluster, shown, n, leaf)
