"""`dtree impute`: a table with its missing values filled in by a run."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dtree.cli.arguments import DATA, OVERWRITE, RUN
from dtree.cli.console import err, say
from dtree.cli.output import check_ending, check_file


def command(
    run: RUN,
    data: DATA,
    out_: Annotated[Path, typer.Option("--out", help="The table to write, a .csv file.")],
    probabilities: Annotated[
        bool,
        typer.Option("--probabilities", help="Add columns that say how probable the words are that were filled in."),
    ] = False,
    overwrite: OVERWRITE = False,
) -> None:
    """Fill in the missing values of a table with what a run makes of the rest of each row.

    Numbers get their mean, categories and yes or no the most probable word. Everything else stays as it is. For runs
    of `dtree fit` and `dtree vb`.

    Example: `dtree impute mixture.zarr dtree-demo.csv --out filled.csv` (the example of `dtree vb` makes that run)
    """
    import numpy as np
    import pandas

    from dtree.cli.cells import columns_of, model_of_cells, source_for
    from dtree.core.columns import in_words
    from dtree.data.source import dense
    from dtree.runs.commit import file_in_place

    check_ending(out_, (".csv",))
    check_file(out_, overwrite)
    model = model_of_cells(run, "impute")
    source = source_for(model._run.header, data)
    rows = dense(source.load())
    with err().status("filling in"):
        found = model._imputed(rows)
    holes, (table, places) = np.isnan(rows), source.table()
    kinds = columns_of(model)
    for j, (place, kind) in enumerate(zip(places, kinds, strict=True)):
        lacking = holes[:, j]
        if lacking.any():
            values = table.iloc[:, place].to_numpy(dtype=object, copy=True)
            values[lacking] = in_words(found.values[lacking, j], kind)
            table.isetitem(place, values)
    if probabilities:
        told = {
            f"probability of {kind.name}": np.where(holes[:, j], _probability(found, j, kind), np.nan)
            for j, kind in enumerate(kinds)
            if kind.levels and holes[:, j].any()
        }
        table = pandas.concat([table, pandas.DataFrame(told)], axis=1)
    with file_in_place(out_) as partial:
        table.to_csv(partial, index=False)
    if not holes.any():
        say(f"{len(rows):,} rows, nothing was missing: {out_}")
        return
    by_column = [(kind.name, number) for kind, number in zip(kinds, holes.sum(axis=0), strict=True) if number]
    say(f"filled in: {', '.join(f'{name} {number:,}' for name, number in by_column)}")
    say(f"{len(rows):,} rows, {int(holes.sum()):,} of {holes.size:,} values filled in: {out_}")


def _probability(found: Any, j: int, kind: Any) -> Any:
    """How probable the words of a column are."""
    import numpy as np

    values = found.values[:, j]
    return (found.probability[:, j] if kind.kind == "category" else np.maximum(values, 1.0 - values)).round(4)
