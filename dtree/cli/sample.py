"""`dtree sample`: Markov chains over partitions, watched as a table, stopped and carried on as you like."""

from typing import Annotated

import typer

from dtree.cli.command import fitting_command

command = fitting_command(
    ["chains"],
    """Sample partitions from their posterior with several chains, into a run that can be stopped and resumed.

    The chains start from different partitions. Over the clusters of a run that was fitted in passes they sample
    partitions of any number of rows.

    Example: `dtree sample dtree-demo.csv --labels-column kind --chains 2 --draws 100 --out chains.zarr` (`dtree demo`
    makes that file)
    """,
    data=Annotated[
        str,
        typer.Argument(help="Data file (.npy .npz .csv .parquet .zarr), or a run that 'dtree fit' made in passes."),
    ],
)
