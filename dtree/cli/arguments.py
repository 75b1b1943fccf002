"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

DATA = Annotated[
    str,
    typer.Argument(help="Data file: .npy .npz .csv .parquet or .zarr; file.npz:NAME picks an array."),
]
RUN = Annotated[Path, typer.Argument(help="A run that dtree made.")]
OUT = Annotated[Path, typer.Option("--out", help="The run to make, by custom NAME.zarr.")]
SEED = Annotated[int, typer.Option(min=0, help="Seed; the same seed gives the same answer on any number of workers.")]
OVERWRITE = Annotated[bool, typer.Option("--overwrite", help="Replace what is there already.")]
LABELS_COLUMN = Annotated[
    str | None, typer.Option(help="Column (or array of an .npz) with known labels; never used as a feature.")
]
