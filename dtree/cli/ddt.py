"""`dtree ddt`: Dirichlet diffusion trees."""

from typing import Annotated

import typer

from dtree.cli.command import fitting_command

command = fitting_command(
    ["ddt"],
    """Fit Dirichlet diffusion trees: a density, a hierarchy with times, and clusters at a cut.

    Works in this process unless something is said about workers; with workers, permutations run side by side and the
    answer is the same. A run that was stopped goes on with `dtree resume`.

    Example: `dtree ddt dtree-demo.csv --labels-column kind --out creatures-ddt.zarr` (`dtree demo` makes that file)
    """,
    data=Annotated[
        str,
        typer.Argument(
            help="Data file: .npy .npz .csv .parquet or .zarr (file.npz:NAME picks an array), or a run of "
            "'dtree fit --method bayes-kmeans', whose clusters become leaves."
        ),
    ],
)
