"""What the commands write: files that appear whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def check_ending(path: Any, endings: tuple[str, ...]) -> None:
    """Raise one sentence unless the file's name ends as it should."""
    if path.suffix.lower() not in endings:
        raise ValueError(f"{path} has an unknown ending: the known ones are {' '.join(endings)}")


def check_file(path: Any, overwrite: bool) -> Path:
    """The path of a file to write, or one sentence why it cannot be written there."""
    from dtree.runs.commit import check_place

    if not isinstance(path, Path):
        raise ValueError(f"{path} cannot be written: this file goes to a disk, only runs and .zarr go to a bucket")
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a file")
    if path.exists() and not overwrite:
        raise ValueError(f"{path} exists already; choose another name or give --overwrite")
    check_place(path)
    return path


def write_columns(path: Path, columns: dict[str, np.ndarray], row_names: list[str] | None) -> None:
    """Columns of equal length as .csv (with the rows' names), a structured .npy, or an .npz."""
    import numpy as np

    from dtree.runs.commit import file_in_place

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
            # allow_pickle is not said: numpy before 2.2 takes it for the name of an array.
            np.savez(partial, **columns)  # type: ignore[arg-type]


def write_linkage(path: Path, linkage: np.ndarray) -> None:
    """A linkage matrix (m-1, 4) as .npy or .csv, every digit kept."""
    import numpy as np

    from dtree.runs.commit import file_in_place

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
    from dtree.runs.commit import file_in_place

    figure = plot_tree(model, names=names).figure
    try:
        with file_in_place(path) as partial:
            figure.savefig(partial, dpi=150)
    finally:
        pyplot.close(figure)
