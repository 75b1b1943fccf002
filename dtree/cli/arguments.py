"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

DATA = Annotated[str, typer.Argument(help="Data file: .npy .npz .csv .parquet or .zarr; file.npz:NAME picks an array.")]
RUN = Annotated[Path, typer.Argument(help="A run that dtree made.")]
OVERWRITE = Annotated[bool, typer.Option("--overwrite", help="Replace what is there already.")]
LABELS_COLUMN = Annotated[
    str | None, typer.Option(help="Column (or array of an .npz) with known labels; never used as a feature.")
]


def prior_of(name: str | None, alpha: float | None) -> Any:
    """The prior's name, or the prior with this concentration; one sentence when there is no such prior."""
    from dtree.core.priors import PRIORS
    from dtree.hierarchy.defaults import named

    if name is not None:
        named(PRIORS, name, "prior")
    return name if alpha is None else PRIORS[name or "dp"](alpha=alpha)  # type: ignore[call-arg]
