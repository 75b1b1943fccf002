"""`dtree vb`: a variational mixture of a data file of any size, as a run that can be resumed."""

from dtree.cli.command import fitting_command

command = fitting_command(
    ["vb"],
    """Fit a Dirichlet process mixture by variational inference, in passes where rows are many.

    The variants: truncated stick-breaking (TSB) or a finite symmetric Dirichlet (FSD); C has the weights integrated
    out, O keeps the clusters in the best order. A stopped run can be resumed.

    Example: `dtree vb dtree-demo.csv --labels-column kind --family gaussian-diag --out mixture.zarr` (`dtree demo`
    makes that file)
    """,
)
