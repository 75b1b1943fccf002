"""`report`: one HTML page about a run, with everything inside it and nothing to fetch."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from dtree.core.names import Named, take_names
from dtree.core.tree import Tree
from dtree.reporting.markup import Section, embedded_json, join, number
from dtree.reporting.profile import Profile
from dtree.reporting.remembered import opened
from dtree.reporting.sections_clusters import cluster_section, projection_section
from dtree.reporting.sections_evidence import chains_section, coclustering_section, evidence_section, trace_section
from dtree.reporting.sections_provenance import provenance_section
from dtree.reporting.sections_tree import tree_section
from dtree.reporting.subject import Subject, subject_of

# The parts of the page, in order; one that has nothing to say returns None.
BUILDERS: tuple[Callable[[Subject], Section | None], ...] = (
    tree_section,
    cluster_section,
    projection_section,
    evidence_section,
    trace_section,
    chains_section,
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
    from dtree.store.commit import check_place, file_in_place

    out = Path(out)
    if out.is_dir():
        raise ValueError(f"{out} is a folder, not a file: name the page, for example {out / 'report.html'}")
    check_place(out)
    model, notes, names = opened(model_or_run)
    subject = subject_of(model)
    subject.notes = notes
    rows = take_names(X)
    _give_names(subject, row_names, feature_names, names, rows)
    if image_shape is not None:
        _give_image_shape(subject, image_shape)
    if X is not None:
        give_points(subject, rows.X, _MOST_ROWS_DRAWN)
    text = page_of(subject, title or (Path(notes["run"]).name if "run" in notes else _headline(subject)))
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
    headline = [(number(subject.n_rows), "rows"), (number(subject.n_clusters), _clusters(subject))]
    if subject.profile is not None:
        headline.insert(1, (number(subject.profile.sums.shape[1]), "features"))
    bound = getattr(subject.model, "log_evidence_bound_", None)
    if bound is not None:
        headline.append((number(bound, 7), "log evidence at least"))
    body = join(
        Markup('<section id="{0}" aria-labelledby="{0}-title"><h2 id="{0}-title">{1}</h2>{2}</section>\n').format(
            section.key, section.title, section.html
        )
        for section in sections
    )
    return str(
        Markup((folder / "page.html").read_text(encoding="utf-8")).format(
            title=title,
            method=subject.method,
            headline=join(Markup("<li><b>{}</b> {}</li>").format(value, what) for value, what in headline),
            navigation=join(Markup('<a href="#{}">{}</a>').format(s.key, s.title) for s in sections),
            body=body,
            policy=f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
            style=Markup((folder / "page.css").read_text(encoding="utf-8")),
            data=embedded_json(data),
            script=Markup(script),
        )
    )


def _clusters(subject: Subject) -> str:
    return "cluster" if subject.n_clusters == 1 else "clusters"


def _headline(subject: Subject) -> str:
    return f"{number(subject.n_rows)} rows, {number(subject.n_clusters)} {_clusters(subject)}"


# Where names and points come from --------------------------------------------------------------------------------------


def _give_names(subject: Subject, rows: Any, features: Any, remembered: dict[str, list[str]], drawn: Named) -> None:
    """The names given, else those the model, the run or the rows to be drawn have."""
    model = subject.model
    n = subject.shape.n_leaves if isinstance(model, Tree) or subject.row_leaf is None else subject.row_leaf.shape[0]
    if rows is not None and len(rows) != n:
        raise ValueError(f"there are {len(rows)} row names but {n} rows")
    for found in (rows, getattr(model, "row_names_", None), remembered.get("row_names"), drawn.row_names):
        if found is not None and len(found) == n:
            subject.row_names = [str(name) for name in found]
            break
    if subject.profile is None:
        return
    d = int(subject.profile.sums.shape[1])
    columns = getattr(model, "columns_", np.arange(d))
    every: int = getattr(model, "n_features_in_", d)
    if features is not None and len(features) not in (d, every):
        raise ValueError(f"there are {len(features)} feature names but {every} features")
    columns_drawn = drawn.feature_names if drawn.feature_names is not None else getattr(drawn.X, "columns", None)
    own = getattr(model, "feature_names_in_", None)
    for found in (features, own, remembered.get("feature_names"), columns_drawn):
        if found is not None and len(found) in (d, every):
            kept = found if len(found) == d else [found[column] for column in columns]
            subject.feature_names = [str(name) for name in kept]
            break


def _give_image_shape(subject: Subject, image_shape: tuple[int, int]) -> None:
    height, width = (int(size) for size in image_shape)
    d = 0 if subject.profile is None else int(subject.profile.sums.shape[1])
    every: int = getattr(subject.model, "n_features_in_", d)
    if height * width != every:
        raise ValueError(f"image_shape {height} x {width} has {height * width} pixels but there are {every} features")
    subject.image_shape = (height, width)


def give_points(subject: Subject, X: Any, most: int) -> None:
    """Draw these rows in two dimensions instead of the summaries that the model keeps, evenly chosen when there are more."""
    profile, model = subject.profile, subject.model
    if profile is None:
        return
    X = X if hasattr(X, "iloc") else X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
    columns = getattr(model, "columns_", np.arange(profile.sums.shape[1]))
    every: int = getattr(model, "n_features_in_", columns.shape[0])
    if len(X.shape) != 2 or X.shape[1] != every:
        raise ValueError(f"X has shape {tuple(X.shape)} but the model was fitted to {every} features")
    n = X.shape[0]
    keep = np.linspace(0, n - 1, min(n, most)).round().astype(int)
    rows = X.iloc[keep] if hasattr(X, "iloc") else X[keep]
    if subject.row_leaf is not None and subject.row_leaf.shape[0] == n:
        leaf = subject.row_leaf[keep]
        cluster = np.where(leaf >= 0, subject.leaf_cluster[leaf], 0)
    elif hasattr(model, "predict"):
        cluster = np.asarray(model.predict(rows))
    else:
        raise ValueError(f"X has {n} rows but the model was fitted to {subject.n_rows}")
    values = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)
    values = values[:, columns]
    exposure = values.sum(axis=1) if profile.kind == "token" else np.ones(values.shape[0])
    sums = (values - profile.centre) / profile.spread
    subject.points = Profile(profile.kind, sums, exposure, profile.centre, profile.spread)
    subject.point_cluster, subject.points_in_all = cluster, n
    names = subject.row_names if subject.row_names is not None and len(subject.row_names) == n else None
    subject.point_names = [names[row] if names is not None else f"row {row}" for row in keep]
