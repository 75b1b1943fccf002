"""`dtree info`: what a run holds and where it came from."""

from dtree.cli.arguments import RUN


def command(run: RUN) -> None:
    """Say what a run holds and where it came from.

    Example: `dtree info dtree-demo.zarr`
    """
    from dtree.cli.describe import describe, provenance
    from dtree.runs.run import Run

    opened = Run.open(run)
    describe(opened, in_full=True)
    provenance(opened)
