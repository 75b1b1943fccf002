"""What the commands write: tables on the screen and files that appear whole."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtree.cli.console import out, printable

if TYPE_CHECKING:
    import numpy as np

_MOST_CLUSTERS_SHOWN = 15


def print_fit(model: Any, row_names: list[str] | None) -> None:
    """Print what was found: clusters, the bound, and a few rows of each of the largest clusters."""
    import numpy as np
    from rich.table import Table
    from rich.text import Text

    out().print(
        f"{model.labels_.shape[0]} rows, {model.n_features_in_} features: [bold]{model.n_clusters_} "
        f"cluster{'s' if model.n_clusters_ != 1 else ''}[/bold], "
        f"log evidence at least {model.log_evidence_bound_:.3f}"
    )
    sizes = np.bincount(model.labels_)
    table = Table("cluster", "rows", "for example", box=None, header_style="dim", padding=(0, 2, 0, 0))
    for cluster in np.argsort(-sizes, kind="stable")[:_MOST_CLUSTERS_SHOWN]:
        members = np.flatnonzero(model.labels_ == cluster)[:4]
        examples = ", ".join(str(row_names[i]) if row_names else str(i) for i in members)
        table.add_row(
            str(cluster), str(sizes[cluster]), Text(printable(examples + (", ..." if sizes[cluster] > 4 else "")))
        )
    out().print(table)
    if len(sizes) > _MOST_CLUSTERS_SHOWN:
        out().print(f"and {len(sizes) - _MOST_CLUSTERS_SHOWN} smaller clusters")


def provenance_of(X: Any, source: str, seed: int | None, started: float) -> dict[str, Any]:
    """What a run remembers of how it was made."""
    from dtree.store.run import fingerprint

    return {
        "command": " ".join(["dtree", *sys.argv[1:]]),
        "data": str(source),
        "data_sha256": fingerprint(X),
        "data_shape": [int(size) for size in X.shape],
        "seed": seed,
        "seconds": round(time.monotonic() - started, 3),
    }


def check_ending(path: Path, endings: tuple[str, ...]) -> None:
    """Raise one sentence unless the file's name ends as it should."""
    if path.suffix.lower() not in endings:
        raise ValueError(f"{path} has an unknown ending: the known ones are {' '.join(endings)}")


def check_file(path: Path, overwrite: bool) -> None:
    """Raise one sentence unless a file can be written there."""
    from dtree.store.commit import check_place

    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a file")
    if path.exists() and not overwrite:
        raise ValueError(f"{path} exists already; choose another name or give --overwrite")
    check_place(path)


def write_columns(path: Path, columns: dict[str, np.ndarray], row_names: list[str] | None) -> None:
    """Columns of equal length as .csv (with the rows' names), a structured .npy, or an .npz."""
    import numpy as np

    from dtree.store.commit import file_in_place

    with file_in_place(path) as partial:
        if path.suffix.lower() == ".csv":
            import pandas

            count = len(next(iter(columns.values())))
            names = row_names if row_names is not None else list(range(count))
            pandas.DataFrame({"row": names, **columns}).to_csv(partial, index=False)
        elif path.suffix.lower() == ".npy":
            records = np.empty(
                len(next(iter(columns.values()))), dtype=[(name, v.dtype) for name, v in columns.items()]
            )
            for name, values in columns.items():
                records[name] = values
            np.save(partial, records, allow_pickle=False)
        else:
            np.savez(partial, allow_pickle=False, **columns)


def write_linkage(path: Path, linkage: np.ndarray) -> None:
    """A linkage matrix (m-1, 4) as .npy or .csv, every digit kept."""
    import numpy as np

    from dtree.store.commit import file_in_place

    with file_in_place(path) as partial:
        if path.suffix.lower() == ".npy":
            np.save(partial, linkage, allow_pickle=False)
        else:
            np.savetxt(partial, linkage, delimiter=",", header="left,right,height,leaves", comments="", fmt="%.17g")


def can_draw() -> bool:
    """Whether Matplotlib, which is optional, is there."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def draw(model: Any, names: list[str] | None, path: Path) -> None:
    """Draw the tree of a model into a picture file."""
    if not can_draw():
        raise ValueError("drawing needs Matplotlib, which is not installed; pip install 'dtree[plot]'")
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    from dtree.reporting.plots import plot_tree
    from dtree.store.commit import file_in_place

    figure = plot_tree(model, names=names).figure
    try:
        with file_in_place(path) as partial:
            figure.savefig(partial, dpi=150)
    finally:
        pyplot.close(figure)
