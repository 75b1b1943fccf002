"""The one loop that fits: every method, in this process or on workers, with a run in memory or in a folder.

`drive` opens the rows, writes the header, calls the method's steps, commits after each, and cleans up; `resume` carries
on from the last commit. What differs between methods is behind `dtree.methods.contract`, what differs between places is
behind `dtree.runs.store` and `dtree.engine.workers`.
"""

import os
import pickle
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from dtree.core.names import is_collection
from dtree.core.progress import also_listening
from dtree.data import Source, open_source
from dtree.data.chunks import chunk_rows_for
from dtree.engine.changed import (
    changes_since,
    columns_said,
    look_once_more,
    name_of_origin,
    origin_of,
    refuse_changed,
    refuse_torn,
    stamp_of_data,
)
from dtree.engine.parts import advance_task, is_over
from dtree.engine.recover import leave_what_is_whole, moved
from dtree.engine.rows import open_rows
from dtree.engine.sitting import OnProgress, OutOfTime, Sitting, notice
from dtree.engine.workers import Here, workers_of
from dtree.methods import method_named
from dtree.methods.contract import Job, Leaves, Method
from dtree.methods.fitted_checks import checked_fitted, checked_settings
from dtree.methods.seen import ABSENT, notes_of_absent
from dtree.runs.claim import claimed, in_its_place, nothing_half_made
from dtree.runs.commit import place_of, room_on_disk
from dtree.runs.folder import FolderStore
from dtree.runs.header import Header
from dtree.runs.kept import KeptStore
from dtree.runs.lease import leased
from dtree.runs.memory import MemoryStore
from dtree.runs.run import Run, is_run, unfinished

_MOST_NAMES = 1_000_000  # names and known labels of more rows than that are not kept in the run
_MOST_SENT = 20_000  # bytes of a state that goes with every task: a scheduler takes a thousand of them in a pass
_MOST_LABELS = 200  # more distinct ones are measurements rather than labels


class Given(NamedTuple):
    """What is fitted."""

    data: Any  # a path, an array, a sparse matrix, a frame, a Dask collection, or a source that is open already
    labels_column: str | None = None  # not a feature; the run remembers it
    columns: Mapping[str, str] | None = None  # what some columns of a table are, by name; the others are found out
    weight: np.ndarray | None = None  # (n,) for rows in this process
    reduction: Any = None  # instead of data: what has the `statistics`, `model` and `columns` of clusters as leaves
    chunk_bytes: int | None = None  # of a chunk as float64
    notes: Mapping[str, Any] = {}  # kept in the header
    random_state: int | None = None  # the number behind the seed, as the user gave it; kept in the header


class Place(NamedTuple):
    """Where the run is made, and who does the work."""

    out: Any = None  # a path, an address or a place; None: nothing is left behind
    overwrite: bool = False
    client: Any = None  # a distributed.Client; its workers must see `out` and the data under the same names
    time_limit: float | None = None  # seconds after which no step is begun


IN_MEMORY = Place()


def drive(
    method: Method,
    settings: Any,
    given: Given,
    place: Place = IN_MEMORY,
    seed: int = 0,
    progress: OnProgress | None = None,
) -> Run:
    """Fit `method` and return the finished run.

    The answer does not depend on the place: neither on whether the run is in memory or in a folder, nor on the number
    of workers. If anything fails after the first commit, `resume(out)` carries on.
    """
    stamp = stamp_of_data(given.data)
    sitting = Sitting.of(place.client, progress, place.time_limit)._replace(stamp=stamp)
    if place.out is not None:
        with claimed(place.out, place.overwrite) as (store, lease), also_listening(lease.tell):
            with nothing_half_made(store):
                job, run = _begin(method, settings, given, place, seed, store, stamp)
            _tell_notes(run, progress)
            try:
                return _to_the_end(job, run, sitting._replace(lease=lease))
            except ValueError:
                if method.parts(job) and not run.store.names("parts"):  # parts that cannot even start leave nothing
                    store.clear()
                raise
    if place.client is None and (not method.in_passes or _is_in_memory(given.data)):
        job, run = _begin(method, settings, given, place, seed, MemoryStore(), stamp)
        _tell_notes(run, progress)
        return _to_the_end(job, run, sitting._replace(client=None))
    with tempfile.TemporaryDirectory(prefix="dtree-run-") as temporary:
        job, run = _begin(method, settings, given, place, seed, FolderStore(Path(temporary) / "run"), stamp)
        _tell_notes(run, progress)
        return _to_the_end(job, run, sitting).in_memory(method)


def resume(
    path: Any,
    client: Any = None,
    progress: OnProgress | None = None,
    accept_changed_data: bool = False,
    time_limit: float | None = None,
) -> Run:
    """Carry a run on from its last commit; a finished run is returned as it is.

    Data that are not what they were are refused, or, with `accept_changed_data`, the run starts over with them.
    """
    run = Run.open(unfinished(path))
    if run.header.done:
        checked_fitted(run)
        run.check_rows()
        return moved(run)
    with leased(run.store) as lease:
        run = Run.open(unfinished(path))  # what it was before the lease was ours may have gone on since
        job = job_of(run)
        if not run.store.has("prepared") or not (run.checkpoints() or job.method.parts(job)):
            raise ValueError(f"{path} has no checkpoint yet: remove it and fit again")
        if lease.taken_from is not None:
            notice(f"taken over from {lease.taken_from.in_words()}, which is dead", progress)
        if not (accept_changed_data and next(changes_since(run, job), None)):
            sitting = Sitting.of(client, progress, time_limit)._replace(
                lease=lease, stamp=stamp_of_data(origin_of(run.header))
            )
            leave_what_is_whole(job, run, lambda words: notice(words, progress))
            refuse_changed(run, job)
            with also_listening(lease.tell):
                return _to_the_end(job, run, sitting)
    notice("the data were changed since the run began: it starts over", progress)
    assert run.path is not None
    return _start_over(job, run, Place(place_of(run.path), True, client, time_limit), progress)


def _start_over(job: Job, run: Run, place: Place, progress: OnProgress | None) -> Run:
    """The same fit of data that are others now; the old run stays until the new one is complete."""
    header = run.header
    given = Given(
        origin_of(header),
        header.labels_column,
        columns_said(header),
        chunk_bytes=None if job.source.is_sparse else 8 * job.chunk_rows * job.n_features,
        notes={name: note for name, note in header.notes.items() if name != ABSENT},
        random_state=header.random_state,
    )
    return drive(job.method, job.settings, given, place, header.seed, progress)


def _tell_notes(run: Run, progress: OnProgress | None) -> None:
    """Say what was noticed of the data."""
    if ABSENT in run.header.notes:
        notice(run.header.notes[ABSENT], progress)


def go_on(header: Header, settings: Any, prepared: Any, parts: Sequence[Any]) -> Run:
    """A run in memory whose parts go on from where those of a finished one stopped, under settings that want more."""
    header = msgspec.structs.replace(
        header, settings=in_words(settings), run_id=uuid.uuid4().hex, source=None, status="running", results=None,
        arrays={},
    )  # fmt: skip
    run = Run.create(MemoryStore(), header)
    run.store.put("settings", settings)
    run.store.put("prepared", prepared)
    for number, part in enumerate(parts):
        run.store.put(f"parts/{number:04d}/gen-{part.number:08d}", part)
    return _to_the_end(job_of(run), run, Sitting())


def changed_data(path: Any) -> list[str]:
    """What is not as it was in the data of a run, finished or not, one sentence a chunk; all of it is read."""
    run = Run.open(path)
    job = job_of(run)
    if not job.is_seen:
        return [f"{path} does not know what its data were like: it was saved, or made of the clusters of another run"]
    return list(changes_since(run, job))


def job_of(run: Run, with_rows: bool = True) -> Job:
    """The job of a run in a folder; without its rows also when they are gone.

    It has an identity of its own: what this process remembers of a run with the same number, which may have been
    changed or copied since, is not believed.
    """
    header = run.header
    method = method_named(header.method, run.location)
    settings = checked_settings(run)
    source: Any = Leaves((header.n_rows, header.n_features))
    if header.source is not None and with_rows:
        try:
            source = Source.from_record(header.source)
        except ValueError as problem:
            raise ValueError(f"{run.location} is damaged: {problem}") from None
        if source.shape != (header.n_rows, header.n_features):
            raise ValueError(
                f"{run.location} is damaged: its source has not the rows and features that it was begun with"
            )
    chunk_rows = header.chunk_rows or source.shape[0]
    return Job(method, settings, header.seed, source, run.store, uuid.uuid4().hex, chunk_rows)


def _begin(
    method: Method, settings: Any, given: Given, place: Place, seed: int, store: MemoryStore | KeptStore, stamp: str
) -> tuple[Job, Run]:
    """Open the rows, let the method prepare itself, write the header and the first checkpoint."""
    began = time.monotonic()
    reduction = given.reduction
    if reduction is not None:
        source: Any = Leaves((reduction.statistics.shape[0], reduction.columns.shape[0]), name="atoms")
    elif isinstance(given.data, str | os.PathLike) and is_run(given.data):
        source, reduction = _clusters_of(given.data, method)
        if given.weight is not None:
            raise ValueError(f"the clusters of {given.data} have their own numbers of rows: leave out sample_weight")
    elif not isinstance(store, MemoryStore):
        staged = store.path / "staged"
        source = open_rows(given.data, staged, place.client, labels_column=given.labels_column, columns=given.columns)
    else:
        source = open_source(given.data, labels_column=given.labels_column, columns=given.columns)
    if given.weight is not None and method.in_passes and not store.in_memory:
        raise ValueError("sample_weight works for arrays in this process only: leave out client, out and paths")
    _refuse_categories(source, method)
    n, d = source.shape
    chunk_rows = n
    if reduction is None:
        chunk_rows = min(chunk_rows_for(source, _worker_memory(place.client), given.chunk_bytes), n)
    names = source.row_names if n <= _MOST_NAMES else None
    known = _known_labels(source)
    header = Header(
        method=method.name,
        settings=in_words(settings),
        data=source.name,
        n_rows=n,
        n_features=d,
        seed=seed,
        random_state=given.random_state,
        source=None if store.in_memory else source.record(),
        copied_from=name_of_origin(source),
        chunk_rows=chunk_rows,
        labels_column=given.labels_column,
        label_names=known[0],
        feature_names=list(source.columns) or None,
        kinds=list(source.kinds),
        left_out=list(source.left_out),
        row_names=None if names is None else list(names),
        notes=dict(given.notes),
    )
    job = Job(method, settings, seed, source, store, header.run_id, chunk_rows, given.weight, reduction)
    workers = workers_of(place.client)
    with workers.named(f"dtree {method.name}", "preparation"):
        prepared = method.prepare(job, workers)
    header = msgspec.structs.replace(
        header,
        fingerprint=prepared.fingerprint,
        notes={**header.notes, **notes_of_absent(job)},
        seconds=time.monotonic() - began,
    )
    run = Run.create(store, header)
    refuse_torn(run, job, stamp)
    store.put("settings", settings)
    store.put("prepared", prepared)
    if known[0]:
        store.create_rows("known", n, n, np.int32, -1)
        store.write_rows("known", 0, known[1])
    if not method.parts(job):
        with workers.named(f"dtree {method.name}", "start"):
            run.commit(0, method.start(job, workers))
    return job, run


def _known_labels(source: Any) -> tuple[list[str], np.ndarray]:
    """The distinct labels that came with the rows, and which of them each row (n,) has; none where they are many."""
    labels = source.labels if source.shape[0] <= _MOST_NAMES else None
    if labels is None:
        return [], np.zeros(0, dtype=np.int32)
    names, places = np.unique(labels, return_inverse=True)
    if names.shape[0] > _MOST_LABELS:
        return [], np.zeros(0, dtype=np.int32)
    return [str(name) for name in names.tolist()], places.astype(np.int32)


def _refuse_categories(source: Any, method: Method) -> None:
    """One sentence when a method without families, which knows numbers only, gets the codes of a category."""
    words = [column.name for column in source.kinds if column.kind == "category"]
    if words and not hasattr(method.Settings, "family"):
        raise ValueError(
            f"{source.name}: {method.name} takes numbers, and the column '{words[0]}' is a category: leave it out "
            f"(--column '{words[0]}=skip', or columns={{'{words[0]}': 'skip'}})"
        )


def _clusters_of(path: Any, method: Method) -> tuple[Leaves, Any]:
    """The clusters of a finished Bayes-K-means run as the leaves of another method."""
    run = Run.open(path)
    made_by = method_named(run.header.method, run.location)
    if not method.takes_runs:
        raise ValueError(f"{path} is a dtree run, not data; open it with dtree.open or 'dtree info'")
    if not run.header.done:
        raise ValueError(f"{path} is not finished: resume it first")
    if not made_by.name.startswith("bayes-kmeans"):
        raise ValueError(f"{path} is a run of '{made_by.name}', which has no clusters to work on: use 'dtree fit'")
    fitted, header = checked_fitted(run), run.header
    shape = (fitted.statistics.shape[0], header.n_features)
    left_out = tuple(header.left_out)
    return Leaves(shape, tuple(header.feature_names or ()), str(path), tuple(header.kinds), left_out), fitted


def _to_the_end(job: Job, run: Run, sitting: Sitting) -> Run:
    method, began = job.method, time.monotonic()
    workers = workers_of(sitting.client, getattr(job.settings, "n_jobs", 1))
    with workers.named(f"dtree {method.name}"):
        with run.settling():
            state = _stepped(job, run, workers, sitting)
        with room_on_disk(run.location), sitting.doing("the end", workers):
            fitted = method.finish(job, workers, state)
            sitting.go_on()
            look_once_more(run, job, sitting)
            if run.path is not None:
                method.also_write(fitted, run.path)
            run.finish(fitted, time.monotonic() - began, method.converged(fitted))
    if run.path is not None and sitting.lease is not None and place_of(run.path) != run.path:
        final = in_its_place(run.store)  # type: ignore[arg-type]
        run = Run.open(final.path)
        sitting.lease.moved(run.store)
    return run


def _stepped(job: Job, run: Run, workers: Here, sitting: Sitting) -> Any:
    """Go on step by step, or part by part, until a method says that it is over; the last state, None of parts."""
    method, tell = job.method, sitting.progress or (lambda event: None)
    if method.parts(job):
        # Again when the twin of a task, on a worker that was taken for dead, was first to commit, but came less far.
        while waiting := [(job, part) for part in range(method.parts(job)) if not is_over(job, part)]:
            with sitting.doing("parts", workers):
                for _, event in workers.streams(advance_task, waiting, lambda found: not found[0]):
                    sitting.go_on()
                    tell(event)
                    if sitting.over and not all(is_over(job, part) for _, part in waiting):
                        raise _out_of_time(run)
        return None
    state: Any = run.store.get(f"checkpoints/gen-{run.checkpoints()[-1]:08d}", method.State)
    while not method.over(job, state):
        if sitting.over:
            if not method.may_stop(job, state):
                raise _out_of_time(run)
            break
        with sitting.doing(f"{'pass' if method.in_passes else 'step'} {state.number + 1}", workers):
            state = method.step(job, workers, state)
        run.commit(state.number, state, method.keep(state), sitting.go_on)
        job.latest = (state.number, state) if len(pickle.dumps(state)) <= _MOST_SENT else (-1, None)
        event = method.told(state)
        if event is not None:
            tell(event)
    return state


def _out_of_time(run: Run) -> OutOfTime:
    kept = f"'dtree resume {run.location}' carries on" if run.path is not None else "nothing is kept: give it more"
    return OutOfTime(f"the time limit was reached before there was an answer; {kept}")


def in_words(settings: Any) -> dict[str, Any]:
    """Settings as a person reads them in the header; the record `settings` has them to the last bit."""
    values = {name: getattr(settings, name) for name in settings.__struct_fields__}
    plain = bool | int | float | str | None
    return {name: value if isinstance(value, plain) else str(value)[:200] for name, value in values.items()}


# Places --------------------------------------------------------------------------------------------------------------


def _worker_memory(client: Any) -> int | None:
    """Bytes of the smallest worker, or None when this process does the work."""
    if client is None:
        return None
    from dtree.engine.cluster import worker_memory  # which loads dask

    return worker_memory(client)


def _is_in_memory(data: Any) -> bool:
    return not (isinstance(data, str | os.PathLike) or is_collection(data)) or getattr(data, "kind", "") == "memory"
