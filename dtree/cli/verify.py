"""`dtree verify`: is a run, and are its data, what was written?"""

from typing import Annotated

import typer

from dtree.cli.arguments import RUN
from dtree.cli.console import BAD_INPUT, err, printable, say


def command(
    run: RUN, data: Annotated[bool, typer.Option("--data", help="Read the data of the run too, once.")] = False
) -> None:
    """Read every array of a run and name what is damaged; exit code 2 when anything is.

    Example: `dtree verify dtree-demo.zarr`
    """
    from dtree.engine.drive import changed_data
    from dtree.methods.fitted_checks import checked_fitted, checked_settings
    from dtree.runs.run import Run
    from dtree.runs.verify import damages

    found = damages(run)
    if data:
        found += changed_data(run)
    if not found:  # every bit is what was written: then what was written must make sense too
        opened = Run.open(run)
        checked_settings(opened)
        if opened.header.done:
            checked_fitted(opened)
    for sentence in found:
        err().print(printable(sentence), markup=False)
    if found:
        raise typer.Exit(BAD_INPUT)
    more = ", and its data are what they were" if data else ""
    say(f"{run}: every array is what was written{more}")
