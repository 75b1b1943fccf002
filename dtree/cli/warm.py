"""`dtree warm`: compile before the first fit, for a machine image or for someone who does not want to wait later."""

import os
from typing import Annotated

import typer

from dtree.cli.console import progress_bar, say


def command(
    method: Annotated[list[str] | None, typer.Option(help="Only this method; may be said several times.")] = None,
    family: Annotated[list[str] | None, typer.Option(help="Only this family; may be said several times.")] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="How many processes compile. [default: cores]")] = None,
) -> None:
    """Compile now what a first fit would compile, on all cores; what is compiled already is not compiled again.

    Without options it is what `dtree fit` may need. Machine code is kept in the folder named by DTREE_CACHE_DIR, else
    in the user's cache, and belongs to this kind of processor.

    Example: `dtree warm --method tree-clustering --family gaussian`
    """
    from dtree.core.checks import named
    from dtree.core.families import FAMILIES
    from dtree.engine.warm import FITS, Wanted, warm_side_by_side
    from dtree.methods import METHODS

    for word in method or []:
        named(METHODS, word, "method")
    for word in family or []:
        named(FAMILIES, word, "family")
    work = list(FITS)
    if method:
        work = [Wanted(one, other) for one in method for other in (family or ["gaussian"])]
    elif family:
        work = [wanted for wanted in FITS if wanted.family in family]
    with progress_bar():
        warm_side_by_side(work, processes or os.cpu_count() or 1)
    say(f"compiled: {', '.join(f'{wanted.method} of {wanted.family}' for wanted in work)}")
