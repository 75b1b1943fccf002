"""The contract of a method: what one file must offer so that estimator, command, run, resume, predict and report
follow.

A method is numerics plus one file in this folder and one line in `dtree/methods/__init__.py`. It never opens a file,
starts a worker or writes a run: it gets a `Job` (rows by chunks, settings, a store for records) and `Workers` (who runs
tasks). `dtree.engine.drive` owns everything around it, the same for all methods and places:

    prepared = method.prepare(job, workers)          columns, model, whatever is found out once; kept under `prepared`
    state = method.start(job, workers)               where the first step begins
    while not method.over(job, state):
        state = method.step(job, workers, state)     one pass, one tree, one block of rows; committed by `drive`
    fitted = method.finish(job, workers, state)      arrays and scalars only: the results of the run

Some methods consist of parts that move on their own, at their own pace (chains, walks of a search). They say how many
(`parts`) and how one moves (`advance`), and have no steps of their own: `drive` sends every part to a worker, commits
what it brings back, sends it again until `part_over`, and calls `finish` with `state=None`.

All records (Settings, Prepared, State, Part, Fitted) are `msgspec.Struct`s with typed fields: arrays, plain values,
families, priors, models, trees. So each of them can be committed, read again on another machine and checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from dtree.core.checks import check_rows
from dtree.core.columns import Column
from dtree.core.families import Family, expected, expected_to_predict
from dtree.core.recent import Recent
from dtree.methods.facts import counted
from dtree.methods.seen import SEEN, check_rows_seen, look, see
from dtree.storage.places import Place

_read = Recent(8)  # records that this process has read from a store; a worker asks for the same few again and again

Task = Callable[..., Any]
Arguments = Sequence[tuple[Any, ...]]  # of a task, one tuple for each time it is run


class Stage(NamedTuple):
    """What tasks do, for who watches: "pass 3", and how many rows each task does."""

    name: str = ""
    rows: Sequence[int] = ()


NO_STAGE = Stage()


class Workers(Protocol):
    """Who runs tasks: this process, or the workers of a cluster; see `dtree.engine.workers`.

    Tasks are plain functions in importable modules. Sums are taken in a fixed tree, eight results at a time in order,
    so that the answer has the same bits wherever the tasks ran.
    """

    def map_reduce(
        self,
        task: Task,
        arguments: Arguments,
        combine: Task,
        combine_with: tuple[Any, ...] = (),
        stage: Stage = NO_STAGE,
    ) -> Any:
        """combine(*combine_with, group) over the results of task(*args), in a fixed tree; `stage` is told meanwhile."""

    def run(self, task: Task, arguments: Arguments) -> list[Any]:
        """Results of independent tasks, in order."""

    def central(self, task: Task, *arguments: Any) -> Any:
        """task(pairs, *arguments) on one worker; `pairs` shares the scores of many pairs out to the others."""

    def streams(self, task: Task, arguments: Arguments, more: Callable[[Any], bool]) -> Iterator[Any]:
        """Results as they come; a task is run again with the same arguments while `more(result)` says so."""


@dataclass(frozen=True)
class Leaves:
    """What stands in for the rows when the clusters of another run are the leaves: there are no rows to read."""

    shape: tuple[int, int]  # clusters, features
    columns: tuple[str, ...] = ()
    name: str = ""
    kinds: tuple[Column, ...] = ()  # of the features, where they were columns of a table
    left_out: tuple[tuple[str, str], ...] = ()
    is_sparse: bool = False
    row_names: None = None
    labels: None = None

    def record(self) -> None:
        """There is nothing to read again."""


@dataclass
class Job:
    """What a method works on. Small enough to be sent with every task: workers read rows and records themselves."""

    method: Method
    settings: Any
    seed: int
    source: Any  # a dtree.data.Source
    store: Any  # a dtree.runs.Store
    run_id: str  # of the run, or of this sitting with it: under it a process remembers what it has read and made
    chunk_rows: int
    weight: np.ndarray | None = field(default=None)  # (n,) how many equal rows each stands for; in this process only
    reduction: Any = field(default=None)  # the fitted record of the run whose clusters are the leaves, while preparing
    latest: tuple[int, Any] = (-1, None)  # the number and state of the last step, where they are small enough to send

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "weight": None, "reduction": None}

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.source.shape[0]

    @property
    def n_features(self) -> int:
        """Number of columns, those that the model leaves out included."""
        return self.source.shape[1]

    @property
    def chunks(self) -> range:
        """Numbers of the chunks."""
        return range(-(-self.n // self.chunk_rows))

    def bounds(self, chunk: int) -> tuple[int, int]:
        """First row and row after the last of a chunk."""
        return chunk * self.chunk_rows, min((chunk + 1) * self.chunk_rows, self.n)

    def stage(self, name: str) -> Stage:
        """Tasks over all chunks, for who watches."""
        return Stage(f"{name}: rows", [stop - start for start, stop in map(self.bounds, self.chunks)])

    @property
    def prepared(self) -> Any:
        """What the method found out before its first step."""
        return self.record("prepared", self.method.Prepared)

    def state(self, number: int) -> Any:
        """The state after a step: sent along, or read."""
        if number == self.latest[0]:
            return self.latest[1]
        return self.record(f"checkpoints/gen-{number:08d}", self.method.State)

    def record(self, name: str, kind: type) -> Any:
        """A record of the run, read once by every process."""
        if self.store.in_memory:
            return self.store.get(name, kind)
        return _read.get((self.run_id, name), lambda: self.store.get(name, kind))

    def blocks(self, number: int, what: str) -> list[str]:
        """Names of the committed blocks of a part: `gen` with its state, `kept` when only what it keeps is left."""
        under = f"parts/{number:04d}"
        return [name for name in self.store.names(under) if name.startswith(f"{under}/{what}-")]

    def newest_part(self, number: int) -> Any:
        """The last committed state of a part that moves on its own, or None."""
        found = self.blocks(number, "gen")
        return self.store.get(found[-1], self.method.Part) if found else None

    def kept(self, number: int) -> list[Any]:
        """What a part has kept for good, block by block."""
        found = {name[-8:]: self.store.get(name, self.method.Kept) for name in self.blocks(number, "kept")}
        found |= {name[-8:]: self.store.get(name, self.method.Part).kept for name in self.blocks(number, "gen")}
        return [found[block] for block in sorted(found)]

    # Rows: what was seen of them first is compared whenever they are read again (see `seen`).

    def read(self, chunk: int) -> Any:
        """The rows of a chunk, all columns."""
        rows = self.source.read(*self.bounds(chunk))
        check_rows_seen(self, chunk, rows)
        return rows

    def load(self) -> Any:
        """All rows at once."""
        rows = self.source.load()
        if self.is_seen:
            for chunk in self.chunks:
                check_rows_seen(self, chunk, rows[slice(*self.bounds(chunk))])
        else:
            see(self, [look(self, chunk, rows[slice(*self.bounds(chunk))]) for chunk in self.chunks])
        return rows

    def ahead(self, chunk: int, *arrays: str, rows: bool = True) -> None:
        """Begin to read what a task will ask for: rows of a chunk, and what these arrays have for them."""
        bounds = self.bounds(chunk)
        if rows:
            self.source.ahead(*bounds)
        for name in arrays:
            self.store.ahead(name, *bounds)

    @property
    def is_seen(self) -> bool:
        """Whether it is known what the rows were like when the run began."""
        return _read.holds((self.run_id, SEEN)) or bool(self.store.has(SEEN))

    def rows(self, chunk: int) -> Any:
        """The rows of a chunk, those columns only that the model uses."""
        return used_columns(self.read(chunk), self.prepared.columns)


def used_columns(rows: Any, columns: np.ndarray) -> Any:
    """The columns of rows (n, d), dense or CSR, that a model uses."""
    return rows if columns.shape[0] == rows.shape[1] else rows[:, columns]


def seed_of(random_state: Any) -> int:
    """The seed behind scikit-learn's `random_state`: the first number that it draws."""
    if isinstance(random_state, int | np.integer):  # without scikit-learn, whose import is much of a command's start
        return int(np.random.RandomState(random_state).randint(2**31 - 1))
    from sklearn.utils import check_random_state

    return int(check_random_state(random_state).randint(2**31 - 1))


class Told(NamedTuple):
    """What a progress callback is told by a method that has no numbers to tell: a few words."""

    words: str

    def line(self) -> str:
        """For the console."""
        return self.words


class Notice(Told):
    """Words that must not be missed: they stay on the screen, and in the log."""


class Standing(NamedTuple):
    """How far a run is that is not finished, for who watches it; None for what a method does not know."""

    done: int  # passes, steps, or sweeps of all chains
    total: int | None = None  # how many there will be, or can be at most
    unit: str = "step"
    objective: float | None = None
    objective_name: str = ""
    clusters: int | None = None
    rows_per_second: float | None = None  # of the last pass
    seconds_each: float | None = None  # of the last pass, or of one step of all parts together


class Method:
    """Base of all methods: the defaults of what most need not say."""

    name: ClassVar[str]
    estimator: ClassVar[str]  # the class in `dtree` that a finished run opens as
    command: ClassVar[str] = ""  # the command that fits it, if there is one
    Settings: ClassVar[Any]
    Prepared: ClassVar[type]  # must have `columns` (d',) and `fingerprint`
    State: ClassVar[type] = type(None)  # must have `number`, the steps done
    Part: ClassVar[type] = type(None)  # must have `number`, the blocks done, and `kept` when there is a Kept
    Kept: ClassVar[type] = type(None)  # what a part leaves behind for good after a block, e.g. draws
    Fitted: ClassVar[type]
    instead: ClassVar[str] = "another --family, a larger --alpha, or columns in other units"  # of one single cluster
    leaf_rows: ClassVar[str] = "leaves"  # the row array that `facts` gets: the leaf of each row
    takes_runs: ClassVar[bool] = False  # whether a run of Bayes K-means may be given as the data
    in_passes: ClassVar[bool] = False  # reads rows chunk by chunk, so that they may be more than fit in memory
    predict_rows: ClassVar[int] = 1 << 40  # rows that one task labels at most, where a row costs much

    def __init_subclass__(cls, **records: type) -> None:
        """Records are named with the class: `class BHC(Method, Settings=Settings, Fitted=Fitted, ...)`."""
        super().__init_subclass__()
        for name, kind in records.items():
            setattr(cls, name, kind)

    def takes(self, family: type[Family]) -> bool:
        """Whether a family can be fitted: every one by default, none by a method without families."""
        return hasattr(self.Settings, "family")

    def value_kind(self, settings: Any) -> str:
        """What the rows may hold: "real", "binary", "count", "category" or "mixed"."""
        return expected(settings.family).value_kind

    def readings(self, settings: Any, n: int) -> tuple[int, int | None]:
        """How often all n rows are read, at least and at most (None: that depends on the rows)."""
        return 1, 1

    def tiny(self, settings: Any) -> Any:
        """The same settings with as little work as compiles the same kernels."""
        return settings

    def seed_of(self, random_state: Any) -> int:
        """The seed of a run that was asked for with `random_state` (on the command line, `--seed`)."""
        return seed_of(random_state)

    def prepare(self, job: Job, workers: Workers) -> Any:
        """Everything before the first step."""
        raise NotImplementedError

    def start(self, job: Job, workers: Workers) -> Any:
        """The state before the first step."""
        raise NotImplementedError

    def step(self, job: Job, workers: Workers, state: Any) -> Any:
        """One step."""
        raise NotImplementedError

    def over(self, job: Job, state: Any) -> bool:
        """Whether there is nothing left to do."""
        raise NotImplementedError

    def may_stop(self, job: Job, state: Any) -> bool:
        """Whether the state is an answer already, if not the best: then a time limit ends the run with it."""
        return False

    def converged(self, fitted: Any) -> bool | None:
        """Whether more steps would not have changed the answer; None where that is no question, or not known."""
        return getattr(fitted, "converged", None)

    def keep(self, state: Any) -> tuple[int, ...]:
        """Earlier steps whose checkpoints are still needed."""
        return ()

    def how_far(self, job: Job) -> str:
        """What an unfinished run has done; the rows of the job need not be there."""
        done = job.store.names("checkpoints")
        return f"{counted(int(done[-1][-8:]) if done else 0, 'pass' if self.in_passes else 'step')} done"

    def standing(self, job: Job) -> Standing:
        """How far an unfinished run is; the rows of the job need not be there."""
        unit, most = "pass" if self.in_passes else "step", getattr(job.settings, "max_iter", None)
        done = job.store.names("checkpoints")
        number = int(done[-1][-8:]) if done else 0
        told: Any = self.told(job.store.get(done[-1], self.State)) if number else None
        numbers: dict[str, Any] = {} if told is None else told._asdict()
        name = next((name for name in ("objective", "elbo") if name in numbers), "")
        if not name:  # a few words
            return Standing(number, most, unit)
        return Standing(number, most, unit, numbers[name], name, told.n_clusters, told.rows_per_second, told.seconds)

    def told(self, state: Any) -> Any:
        """What a progress callback is told after a step: an event with a method `line()`."""
        return None

    def parts(self, job: Job) -> int:
        """How many parts move on their own; 0 for a method in steps."""
        return 0

    def advance(self, job: Job, number: int, part: Any) -> tuple[Any, Any]:
        """Move part `number` on by a block (from None at first): the part as it stands then, and an event."""
        raise NotImplementedError

    def part_over(self, job: Job, part: Any) -> bool:
        """Whether a part has come to its end."""
        raise NotImplementedError

    def finish(self, job: Job, workers: Workers, state: Any) -> Any:
        """The fitted record; results for every row go to `job.store` as row arrays `labels` (and `leaves`)."""
        raise NotImplementedError

    def also_write(self, fitted: Any, folder: Place) -> None:
        """Write what other programs read into the folder of a run, beside dtree's own arrays."""

    def check_state(self, job: Job, state: Any) -> None:
        """ValueError unless a state that was read from somewhere is one that steps could leave."""

    def check_part(self, job: Job, number: int, part: Any) -> None:
        """ValueError unless what was read as part `number` is something that `advance` could leave."""

    def check_kept(self, job: Job, kept: Any) -> None:
        """ValueError unless what was read is something that a block of a part could leave behind for good."""

    def check(self, fitted: Any, header: Any) -> None:
        """ValueError unless the parts of a fitted record that was read from somewhere fit together."""

    def predict(self, fitted: Any, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Labels (n,) and log densities (n,) of rows (n, d) with all columns of the data."""
        raise NotImplementedError

    def checked(self, fitted: Any, rows: Any, first_row: int = 0) -> Any:
        """New rows (n, d) after checking that the model can take them; rows are numbered from first_row."""
        columns, kind = fitted.columns, expected_to_predict(fitted.model.family)
        if columns.shape[0] == rows.shape[1]:
            check_rows(rows, kind, first_row)
        else:  # the family knows its own columns only
            check_rows(used_columns(rows, columns), kind, first_row, None, columns)
        return rows

    def facts(self, fitted: Any, row_leaf: np.ndarray | None) -> Any:
        """What `info`, the console and the report say of a fitted record; see `dtree.methods.facts`."""
        raise NotImplementedError
