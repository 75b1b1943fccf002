"""How far a run is, from what its store says: also of a run that another process, or another machine, writes."""

import os
import time
from datetime import UTC, datetime
from typing import Any

import msgspec

from dtree.engine.drive import job_of
from dtree.methods.contract import Standing
from dtree.methods.degenerate import facts_of_run
from dtree.methods.facts import counted
from dtree.methods.fitted_checks import checked_fitted
from dtree.runs.commit import place_of
from dtree.runs.lease import Holder, holder_in
from dtree.runs.run import Run, unfinished

_TRIES = 20  # a checkpoint may go while it is read, because two newer ones were written; the next try finds those
_SECONDS_BETWEEN_TRIES = 0.1


class Status(msgspec.Struct, frozen=True):
    """What there is to say of a run; None for what is not known, or is no question."""

    run: str
    state: str  # preparing, running, stopped, dead or done
    method: str | None = None
    rows: int | None = None
    features: int | None = None
    data: str | None = None
    stage: str | None = None  # what is being done: "pass 3: rows"
    stage_done: int | None = None
    stage_total: int | None = None
    unit: str | None = None  # what is counted: passes, steps, or sweeps of all chains
    done: int | None = None
    total: int | None = None  # how many there will be, or can be at most
    objective: float | None = None
    objective_name: str | None = None
    clusters: int | None = None
    rows_per_second: float | None = None
    seconds_left_of_stage: float | None = None
    seconds_left_at_most: float | None = None
    last_commit: str | None = None
    converged: bool | None = None
    found: str | None = None  # of a finished run, in words
    owner: str | None = None  # who works on it, or did when it died
    owner_heard: float | None = None  # seconds ago
    seconds: float | None = None  # of all sittings that came to an end

    def lines(self) -> list[str]:
        """For a person, one thing a line."""
        return [line for line in (self._first(), *self._middle(), *self._last()) if line]

    def _first(self) -> str:
        what = "" if self.method is None else f" ({self.method}, {self.rows:,} rows, {self.features} features)"
        return f"{self.run}: {self.state}{what}"

    def _middle(self) -> list[str]:
        lines = [self.found or ""]
        if self.stage:
            rate = f", {self.rows_per_second:,.0f} rows/s" if self.rows_per_second else ""
            far = f" {self.stage_done:,} of {self.stage_total:,}{rate}" if self.stage_total else ""
            lines.append(f"now: {self.stage}{far}{_left(self.seconds_left_of_stage)}")
        if self.done is not None and self.unit:
            most = f" of {'' if self.unit != 'pass' else 'at most '}{self.total:,}" if self.total else ""
            lines.append(f"{counted(self.done, self.unit)}{most} done{_left(self.seconds_left_at_most, 'at most ')}")
        numbers = [] if self.objective is None or self.found else [f"{self.objective_name} {self.objective:.8g}"]
        numbers += [] if self.clusters is None or self.found else [counted(self.clusters, "cluster")]
        return [*lines, ", ".join(numbers)]

    def _last(self) -> list[str]:
        heard = "" if self.owner_heard is None else f", heard of {self.owner_heard:.0f} seconds ago"
        goes_on = self.state in ("stopped", "dead") and self.done is not None
        return [
            f"last commit: {self.last_commit}" if self.last_commit else "",
            f"owner: {self.owner}{heard}" if self.owner else "",
            f"'dtree resume {self.run}' carries on" if goes_on else "",
        ]


def _left(seconds: float | None, words: str = "") -> str:
    if seconds is None:
        return ""
    unit = ((1, "s"), (60, "min"), (3600, "h"))[(seconds >= 120) + (seconds >= 7200)]
    return f", {words}{seconds / unit[0]:,.0f} {unit[1]} left"


def status_of(path: str | os.PathLike[str]) -> Status:
    """The status of a run; one sentence (ValueError) where there is none.

    Nothing is written and no lease is needed: whoever works on the run is not disturbed.
    """
    was_free = False
    for tried in range(_TRIES):
        try:
            return _status(path)
        except (ValueError, OSError):
            is_free = not _is_held(path)
            if tried == _TRIES - 1 or (is_free and was_free):  # once: it may have been finished while it was read
                raise
            was_free = is_free
            time.sleep(_SECONDS_BETWEEN_TRIES)
    raise AssertionError("the last try raises")


def _is_held(path: str | os.PathLike[str]) -> bool:
    holder = _holder(Run.place(unfinished(path)))
    return holder is not None and holder.alive()


def _holder(store: Any) -> Holder | None:
    found = store.read_lease()
    return None if found is None else holder_in(found)


def _status(path: str | os.PathLike[str]) -> Status:
    at = unfinished(path)
    store = Run.place(at)
    holder, name = _holder(store), str(place_of(at))
    try:
        run = Run.glance(at)
    except ValueError:
        if holder is None:
            raise
        state = "preparing" if holder.alive() else "dead"  # before there is a header
        return msgspec.structs.replace(Status(name, state), **_of_owner(holder))
    header = run.header
    known: dict[str, Any] = {
        "method": header.method, "rows": header.n_rows, "features": header.n_features, "data": header.data,
        "seconds": round(header.seconds, 3), "converged": header.converged,
    }  # fmt: skip
    if header.done:
        return Status(name, "done", **known, **_of_results(run))
    state = "stopped" if holder is None else "running" if holder.alive() else "dead"
    steps, owner = _of_steps(run, state == "running"), _of_owner(holder, state == "running")
    return Status(name, state, **known, **{**steps, **owner})


def _of_owner(holder: Holder | None, is_running: bool = True) -> dict[str, Any]:
    """Who works on a run, and what they were doing when they last said so."""
    if holder is None:
        return {}
    found: dict[str, Any] = {"owner": holder.in_words(), "owner_heard": max(0.0, time.time() - holder.renewed)}
    doing = holder.doing
    if doing is None or not is_running:
        return found
    found |= {"stage": doing.stage, "stage_done": doing.done, "stage_total": doing.total or None}
    found |= {"seconds_left_of_stage": doing.seconds_left}
    if doing.stage.endswith("rows") and doing.per_second:
        found["rows_per_second"] = doing.per_second
    return found


def _of_steps(run: Run, is_running: bool) -> dict[str, Any]:
    """How far an unfinished run is, by its checkpoints."""
    job = job_of(run, with_rows=False)
    standing: Standing = job.method.standing(job)
    left = None
    if is_running and standing.total and standing.seconds_each is not None:
        side_by_side = max(1, getattr(job.settings, "n_jobs", 1))
        left = (standing.total - standing.done) * standing.seconds_each / side_by_side
    found = {
        "unit": standing.unit, "done": standing.done, "total": standing.total, "objective": standing.objective,
        "objective_name": standing.objective_name or None, "clusters": standing.clusters,
        "rows_per_second": standing.rows_per_second, "seconds_left_at_most": left,
        "last_commit": _last_commit(run, job),
    }  # fmt: skip
    return found


def _last_commit(run: Run, job: Any) -> str | None:
    parts = [name for part in range(job.method.parts(job)) for name in job.blocks(part, "gen")]
    times = [run.store.written(name) for name in (*run.store.names("checkpoints"), *parts)]
    known = [when for when in times if when is not None]
    return _in_words(max(known)) if known else None


def _of_results(run: Run) -> dict[str, Any]:
    """What a finished run has found."""
    job = job_of(run, with_rows=False)
    facts = facts_of_run(job.method, checked_fitted(run), run)
    (name, value) = next(iter(facts.evidence.items()), (None, None))
    when = run.store.written("")
    return {
        "found": facts.headline, "clusters": facts.n_clusters, "objective": value, "objective_name": name,
        "last_commit": None if when is None else _in_words(when),
    }  # fmt: skip


def _in_words(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).isoformat(timespec="seconds")
