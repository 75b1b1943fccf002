"""`dtree status`: how far a run is, also while another process or machine works on it."""

from typing import Annotated

import typer

from dtree.cli.arguments import RUN
from dtree.cli.console import say


def command(
    run: RUN,
    json: Annotated[bool, typer.Option("--json", help="Say it as one line of JSON.")] = False,
) -> None:
    """Say how far a run is, who works on it and how long it will take, also while it runs on another machine.

    Example: `dtree status dtree-demo.zarr`
    """
    import msgspec

    from dtree.engine.status import status_of

    found = status_of(run)
    if json:
        print(msgspec.json.encode(found).decode())
        return
    for line in found.lines():
        say(line)
