"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

DATA = Annotated[
    str,
    typer.Argument(
        help="Data: .npy .npz .csv .parquet .zarr, on disk or s3:// gs:// az:// https://; x.zarr::NAME picks an array."
    ),
]
RUN = Annotated[
    str, typer.Argument(help="A run that dtree made: a folder, or an address such as s3://bucket/run.zarr.")
]
OUT = Annotated[str, typer.Option("--out", help="The run to make, by custom NAME.zarr; s3://bucket/NAME.zarr too.")]
SEED = Annotated[int, typer.Option(min=0, help="Seed; the same seed gives the same answer on any number of workers.")]
OVERWRITE = Annotated[bool, typer.Option("--overwrite", help="Replace what is there already.")]
COLUMN = Annotated[
    list[str] | None,
    typer.Option(
        "--column", metavar="NAME=KIND",
        help="What a column of a table is: real, count, binary, category, or skip to leave it out; may be repeated.",
    ),
]  # fmt: skip
TIME_LIMIT = Annotated[
    str | None,
    typer.Option(help="Stop after so long (90s, 30m, 2h): with the best so far, or to be resumed where there is none."),
]
LOG_FILE = Annotated[
    Path | None, typer.Option(help="Add what happens to this file, one line of JSON for each event.", dir_okay=False)
]
DRY_RUN = Annotated[
    bool, typer.Option("--dry-run", help="Only say what would be done, how large it is and how long it may take.")
]
LABELS_COLUMN = Annotated[
    str | None, typer.Option(help="Column (or array of an .npz) with known labels; never used as a feature.")
]


def columns_said(words: list[str] | None) -> dict[str, str] | None:
    """What `--column` says, by name.

    >>> columns_said(["zip=category", "id=skip"])
    {'zip': 'category', 'id': 'skip'}
    """
    if not words:
        return None
    for word in words:
        if "=" not in word:
            raise ValueError(f"--column must look like zip=category, got '{word}'")
    return dict(word.rsplit("=", 1) for word in words)


def seconds_in(text: str | None) -> float | None:
    """A time such as 90s, 30m or 2h in seconds.

    >>> seconds_in("1.5m"), seconds_in("20"), seconds_in(None)
    (90.0, 20.0, None)
    """
    if text is None:
        return None
    units = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    try:
        seconds = float(number) * unit
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise ValueError(f"--time-limit must be a time such as 90s, 30m or 2h, got {text!r}")
    return seconds
