"""`dtree convert`: a finished run of dtree 0.1 as a run of this version."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dtree.cli.arguments import OVERWRITE
from dtree.cli.console import say


def command(
    old: Annotated[Path, typer.Argument(help="A finished run that dtree 0.1 wrote.")],
    new: Annotated[Path, typer.Argument(help="The run to make.")],
    overwrite: OVERWRITE = False,
) -> None:
    """Write a finished run of dtree 0.1 as a run of this version; the old one stays as it is.

    Trees (`dtree fit`, exact or in passes, and `dtree.save`), Bayes K-means, chains and variational mixtures are
    converted; diffusion trees and runs that were stopped are not.

    Example: `dtree convert old.zarr new.zarr` (old.zarr is a run that dtree 0.1 made)
    """
    from dtree.cli.describe import describe
    from dtree.methods import method_named
    from dtree.runs.run import Run, check_output

    check_output(new, overwrite)
    run = converted_run(old)
    run.copy_to(new, method_named(run.header.method), overwrite)
    describe(Run.open(new))
    say(f"run: {new}")


def converted_run(old: Path) -> Any:
    """A finished run in memory from one of version 0.1, its parts checked; one sentence when it cannot be made."""
    from dtree.engine.drive import in_words
    from dtree.methods import method_named
    from dtree.methods.fitted_checks import checked_fitted, checked_settings, one_sentence
    from dtree.methods.older import NotKept, converted
    from dtree.runs.header import Header
    from dtree.runs.older import read_older
    from dtree.runs.run import Run

    older = read_older(old)
    try:
        with one_sentence(older):
            found = converted(older.kind, older.values, older.arrays)
            header = Header(
                method=found.method,
                settings=in_words(found.settings),
                n_rows=found.rows["labels"].shape[0],
                status="done",
                converged=method_named(found.method).converged(found.fitted),
                **{**older.about, **found.seed, **found.features},
            )
            run = Run.in_this_process(header, found.settings, found.fitted, found.rows)
            checked_settings(run)
            checked_fitted(run)
    except NotKept as problem:
        raise ValueError(f"{older.location} {problem}, so it cannot be converted: fit the data again") from None
    return run
