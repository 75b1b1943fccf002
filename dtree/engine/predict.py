"""Label new rows with a finished run of any method: workers write labels and log densities, chunk by chunk."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dtree.core.recent import Recent
from dtree.data.chunks import chunk_bounds, chunk_rows_for
from dtree.methods import method_named
from dtree.methods.fitted_checks import checked_fitted
from dtree.runs.kept import KeptStore, store_in_place
from dtree.runs.run import Run
from dtree.storage.ahead import reads
from dtree.storage.places import Place, located, remove_tree
from dtree.variational.threads import available_threads

ARRAYS = ("labels", "log_density")
_opened = Recent(2)  # fitted records, by run


def predict_into(
    run: Any,
    data: Any,
    out: Any,
    client: Any = None,
    *,
    leave_out: Sequence[str] = (),
    overwrite: bool = False,
) -> int:
    """Make a zarr group `out` with the arrays `labels` (n,) int32 and `log_density` (n,) float64; returns n.

    Columns called as in `leave_out`, or as the run's own column of labels, are not features. The group appears when it
    is complete; nothing of the size of the data comes to this process.
    """
    from dtree.engine.cluster import worker_memory
    from dtree.engine.rows import open_rows
    from dtree.engine.workers import workers_of

    opened = Run.open(run)
    opened.require_done()
    header = opened.header
    assert opened.path is not None
    opened.check_rows()
    _fitted_once(opened.path, header.run_id)  # whatever is wrong with the run is said before rows are read
    names = [*leave_out, *([header.labels_column] if header.labels_column else [])]
    target = located(out).resolve()
    check_target(target, overwrite)
    with _staging(opened.path) as staging:
        source = open_rows(data, staging, client, leave_out=names, features=header.features)
        n = source.shape[0]
        most = method_named(header.method).predict_rows
        rows = min(chunk_rows_for(source, worker_memory(client)), n, most)
        with store_in_place(target, "replace" if overwrite else "refuse", "predict again") as store:
            store.create_rows("labels", n, rows, np.int32, -1)
            store.create_rows("log_density", n, rows, np.float64, np.nan)
            arguments = [(opened.path, header.run_id, source, bounds, store) for bounds in chunk_bounds(n, rows)]
            done = sum(workers_of(client, available_threads()).run(predict_task, arguments))
            store.make_group()
            return done


@contextmanager
def _staging(run: Place) -> Iterator[Place]:
    """A place beside a run for copies of new rows, where workers see it; for as long as the block lasts."""
    folder = run / f".predicting-{uuid.uuid4().hex[:12]}"
    try:
        yield folder
    finally:
        remove_tree(folder)


@reads(lambda run, run_id, source, bounds, out: source.ahead(*bounds))
def predict_task(run: Place, run_id: str, source: Any, bounds: tuple[int, int], out: KeptStore) -> int:
    """Write the labels and log densities of new rows; returns their number."""
    method, fitted = _fitted_once(run, run_id)
    labels, log_density = method.predict(fitted, method.checked(fitted, source.read(*bounds), bounds[0]))
    out.write_rows("labels", bounds[0], labels.astype(np.int32))
    out.write_rows("log_density", bounds[0], log_density)
    return bounds[1] - bounds[0]


def _fitted_once(run: Place, run_id: str) -> tuple[Any, Any]:
    """The method and the fitted record of a run, read and checked once by every process."""

    def read() -> tuple[Any, Any]:
        opened = Run.open(run)
        return method_named(opened.header.method, str(run)), checked_fitted(opened)

    return _opened.get((run, run_id), read)


def check_target(target: Place, overwrite: bool) -> None:
    """Raise one sentence unless predictions can be written there; only earlier predictions are ever replaced."""
    if not target.exists():
        return
    if not overwrite:
        raise ValueError(f"{target} exists already: choose another place for the labels, or give --overwrite")
    if {path.name for path in target.iterdir()} != {"zarr.json", *ARRAYS} if target.is_dir() else True:
        raise ValueError(f"{target} exists and does not hold predictions, so it is not replaced; choose another name")
