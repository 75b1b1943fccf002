"""What the commands say of a run, whatever its method: from its header and the method's facts."""

import math
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from dtree.cli.console import in_words, out, printable, say
from dtree.core.columns import CODES, DECIMALS, share, values_of

_MOST_CLUSTERS_SHOWN = 15
_MOST_FEATURES_SHOWN = 6
_CALLED_LIKE_ANSWERS = {"class", "label", "labels", "target", "y", "cluster", "group"}
_MOST_COLUMNS_SHOWN = 30
_MOST_PHRASES_SHOWN = 3


def describe(run: Any, in_full: bool = False) -> None:
    """What was found: one line, warnings, and the largest clusters; in full also the data and all numbers."""
    from dtree.methods import method_named
    from dtree.methods.degenerate import facts_of_run
    from dtree.methods.fitted_checks import checked_fitted

    header = run.header
    rows = f"{header.n_rows:,} rows, {header.n_features} features"
    if in_full:
        say(f"{rows} from {header.data}")
        _describe_columns(run)
    if not header.done:
        _describe_unfinished(run, in_full)
        return
    method = method_named(header.method, run.location)
    fitted = checked_fitted(run)
    facts = facts_of_run(method, fitted, run)
    out().print(f"{rows}: {facts.headline} ({header.seconds:.1f} s)", markup=False)
    if in_full:
        say(facts.title)
        for name, value in facts.lines.items():
            say(f"{name}: {value}")
    for warning in facts.warnings:
        say(warning)
    words = _words(run, facts, fitted)
    _print_clusters(run, facts, words)
    if in_full and "stability" in facts.clusters:
        from dtree.methods.tree_clustering_facts import HOW_SURE

        say(HOW_SURE)
    if in_full and words is not None and facts.n_clusters > 1:
        ranking = words.ranking[:_MOST_COLUMNS_SHOWN]
        told = ", ".join(f"{printable(name)} {nats + 0.0:.2f}".replace("-0.00", "0.00") for name, nats in ranking)
        say(f"what tells the clusters apart, in nats a row: {told}")
    if in_full or facts.together is not None:
        for table in facts.tables.values():
            print_table(table)
    if in_full and facts.cuts is not None:
        print_levels(((cut.n_clusters, cut.level, cut.depth, cut.smallest) for cut in facts.cuts.levels), True)
    if in_full and facts.model is not None:
        _describe_model(facts.model, _names_in_use(run, fitted))


def _describe_unfinished(run: Any, in_full: bool) -> None:
    """How far a run is, and what it fits."""
    from dtree.engine.drive import job_of

    job = job_of(run, with_rows=False)
    say(f"not finished: {job.method.how_far(job)}; 'dtree resume {run.location}' carries on")
    model = getattr(job.prepared, "model", None)
    if in_full and model is not None:
        _describe_model(model)


def _names_in_use(run: Any, fitted: Any) -> list[str] | None:
    """The names of the features of the model, which leave out constant columns."""
    names = run.header.feature_names
    return None if names is None else [names[column] for column in fitted.columns]


def _describe_model(model: Any, names: Sequence[str] | None = None) -> None:
    say(f"family: {in_words(model.family, names)}")
    say(f"prior: {in_words(model.prior)}")


def _describe_columns(run: Any) -> None:
    import numpy as np

    from dtree.data.sentences import listed
    from dtree.methods import method_named

    header = run.header
    if header.feature_names and not header.kinds:  # the table of kinds names them
        say(f"features: {listed(header.feature_names)}")
    if header.kinds:
        describe_table(header.kinds, header.left_out, header.data)
    if header.labels_column:
        say(f"column of labels, left out: {header.labels_column}")
    if not header.done:
        return
    columns = run.fitted(method_named(header.method).Fitted).columns
    left_out = np.setdiff1d(np.arange(header.n_features), columns)
    if left_out.size:
        which = f": {listed([header.feature_names[column] for column in left_out])}" if header.feature_names else ""
        say(f"{left_out.size} constant column{'s' if left_out.size > 1 else ''} left out{which}")


def describe_table(kinds: Any, left_out: Any, data: str = "") -> None:
    """What the columns of a table were taken for, and which are no features, each with the reason."""
    from rich.table import Table
    from rich.text import Text

    table = Table("column", "kind", "values", "missing", "why", box=None, header_style="dim", padding=(0, 2, 0, 0))
    for column in kinds[:_MOST_COLUMNS_SHOWN]:
        shown = (column.name, column.kind, values_of(column), share(column.missing), column.reason)
        table.add_row(*(Text(printable(text)) for text in shown))
    out().print(table)
    if len(kinds) > _MOST_COLUMNS_SHOWN:
        say(f"and {len(kinds) - _MOST_COLUMNS_SHOWN} more columns")
    for name, reason in left_out[:_MOST_COLUMNS_SHOWN]:
        say(f"left out: {name} ({reason})")
    if len(left_out) > _MOST_COLUMNS_SHOWN:
        say(f"and {len(left_out) - _MOST_COLUMNS_SHOWN} more columns left out")
    if any(column.missing for column in kinds) and data.endswith(".csv"):
        say("missing are empty fields and NA, N/A, NaN, null, none and ?; a level needs another word")


def hints_before_a_fit(kinds: Any) -> None:
    """How to overrule a kind, and that a column called like an answer takes part unless it is said to be one."""
    code = next((column.name for column in kinds if column.reason.endswith(CODES)), None)
    if code is not None:
        say(f"if codes are quantities, say so: --column {shlex.quote(f'{code}=real')}")
    answers = (column for column in kinds if column.name.strip().lower() in _CALLED_LIKE_ANSWERS)
    answer = next((column.name for column in answers if not column.reason.startswith(DECIMALS)), None)
    if answer is not None:
        say(f"'{answer}' takes part like any column; if it is what you hope to find, add --labels-column {answer}")


def _words(run: Any, facts: Any, fitted: Any) -> Any:
    """What sets the clusters of a table apart, or None where the rows were no table of several kinds."""
    from dtree.methods.cluster_words import cluster_words

    if not run.header.kinds:
        return None
    columns = [run.header.kinds[column] for column in fitted.columns]
    return cluster_words(facts, columns, facts.leaf_clusters, _MOST_PHRASES_SHOWN)


def _print_clusters(run: Any, facts: Any, words: Any = None) -> None:
    """The largest clusters: how many rows, what sets them apart from all others (in brackets), a few by name."""
    import numpy as np
    from rich.table import Table
    from rich.text import Text

    labels, names = run.row_array("labels"), run.header.row_names
    if labels is None or labels.shape[0] == 0:
        return
    if names is not None and len(names) != labels.shape[0]:
        names = None
    sizes = np.bincount(labels)
    columns = facts.clusters
    shown = list(columns)[: 1 + _MOST_FEATURES_SHOWN]
    told = ["unlike the rest (in brackets)"] if words is not None and len(words.clusters) > 1 else []
    # Beside words the numbers of nameless rows say nothing, and the words need the place.
    by_name = ["for example"] if names is not None or not told else []
    heads = ["cluster", "rows", *(_feature(run, name) for name in shown), *by_name, *told]
    table = Table(*heads, box=None, header_style="dim", padding=(0, 2, 0, 0))
    for cluster in np.argsort(-sizes, kind="stable")[:_MOST_CLUSTERS_SHOWN]:
        members = np.flatnonzero(labels == cluster)[:4]
        examples = ", ".join(str(names[i]) if names else str(i) for i in members)
        numbers = (_number(columns[name][cluster]) for name in shown)
        more = ", ..." if sizes[cluster] > 4 else ""
        known = words is not None and cluster < len(words.clusters)
        phrases = [Text(printable("; ".join(words.clusters[cluster]) if known else ""))] if told else []
        rows = [Text(printable(examples + more))] if by_name else []
        table.add_row(str(cluster), f"{sizes[cluster]:,}", *numbers, *rows, *phrases)
    out().print(table)
    if len(sizes) > _MOST_CLUSTERS_SHOWN:
        say(f"and {len(sizes) - _MOST_CLUSTERS_SHOWN} smaller clusters")


def _number(value: float) -> str:
    """A number in a table for people: three digits, whole ones in full; a valley around all rows has no depth."""
    if not math.isfinite(value):
        return "–"
    return f"{value:.0f}" if 1e3 <= abs(value) < 1e7 else f"{value:.3g}"


def _feature(run: Any, name: str) -> str:
    """The name of a column of the table of clusters; `#3` stands for the fourth feature in use."""
    if not name.startswith("#"):
        return printable(name)
    from dtree.methods import method_named

    column = run.fitted(method_named(run.header.method).Fitted).columns[int(name[1:])]
    names = run.header.feature_names
    return f"feature {column}" if names is None else printable(names[column])


def print_table(frame: Any) -> None:
    """A small table of numbers (a data frame) that a method wants shown."""
    from rich.table import Table

    heads = [str(frame.index.name or ""), *map(str, frame.columns)]
    table = Table(*heads, box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name, row in frame.iterrows():
        table.add_row(str(name), *(f"{float(value):.4g}" for value in row))
    out().print(table)


def print_levels(cuts: Iterable[tuple[int, float, float, float]], valleys: bool) -> None:
    """The cuts of a tree (number of clusters, level, depth, smallest share), with the words of the report.

    `valleys`: depths are those of valleys, else shares of draws in which clusters are apart.
    """
    from rich.table import Table

    ends = ["closed up to (nats)", "shallowest valley left (nats)"] if valleys else ["joined up to", "least apart"]
    heads = ["clusters", *ends, "smallest cluster"]
    table = Table(*heads, box=None, header_style="dim", padding=(0, 2, 0, 0))
    for clusters, level, depth, smallest in cuts:
        table.add_row(str(clusters), "–" if level < 0 else _number(level), _number(depth), share(smallest))
    out().print(table)


def provenance(run: Any) -> None:
    """Where a run came from: enough to make it again."""
    header = run.header
    settings = ", ".join(f"{name} {value}" for name, value in header.settings.items() if value is not None)
    for name, value in {"method": header.method, "settings": settings, **header.origin}.items():
        say(f"{name}: {value}")


def agreement_line(run: Any, labels: Any, column: str | None) -> None:
    """How well the clusters of a run agree with known labels, or its tree, where the leaves are rows."""
    from dtree.core.levels import LevelTree
    from dtree.core.tree import Tree
    from dtree.hierarchy.purity import dendrogram_purity
    from dtree.methods import method_named

    tree = getattr(run.fitted(method_named(run.header.method).Fitted), "tree", None)
    pairs = len(set(labels.tolist())) < len(labels)  # without two rows of one label purity means nothing
    if isinstance(tree, LevelTree) and pairs:
        from sklearn.metrics import adjusted_rand_score

        say(f"adjusted Rand index against '{column}': {adjusted_rand_score(labels, run.row_array('labels')):.3f}")
    if isinstance(tree, Tree) and pairs and tree.n_leaves == len(labels):
        say(f"purity of the tree against '{column}': {dendrogram_purity(tree, labels):.3f}")
