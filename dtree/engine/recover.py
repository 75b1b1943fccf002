"""What a stopped run goes on from: the newest checkpoint that is whole (a damaged one is dropped, and said), or the
move of a finished run to its place."""

from collections.abc import Callable
from typing import Any

from dtree.methods.contract import Job
from dtree.methods.fitted_checks import one_sentence
from dtree.runs.claim import in_its_place
from dtree.runs.commit import place_of
from dtree.runs.lease import leased
from dtree.runs.run import Run

_ROWS_AT_ONCE = 4_000_000  # labels that are read together: 16 MB


def leave_what_is_whole(job: Job, run: Run, tell: Callable[[str], None]) -> None:
    """Drop damaged checkpoints and blocks that an older generation can stand in for; one sentence where there is none.

    A record that is to the last bit what was written and still makes no sense is no damage: it is refused.
    """
    run.store.get("prepared", job.method.Prepared)  # which says more of a wrong value than that it is not what it was
    run.store.check("prepared")
    run.store.check()
    numbers = run.checkpoints()[::-1]
    problems = {}
    for number in numbers:
        problem = _problem_of_checkpoint(job, run, number)
        if problem is None:
            break
        problems[number] = problem
    if numbers and len(problems) == len(numbers):
        raise next(iter(problems.values()))
    for number, problem in problems.items():
        run.forget(number)
        tell(f"{problem}; going on from the checkpoint before it")
    for part in range(job.method.parts(job)):
        _whole_blocks(job, run, part, tell)


def moved(run: Run) -> Run:
    """A finished run where it belongs: one that was made beside another may have been stopped before it moved."""
    if run.path is None or place_of(run.path) == run.path:
        return run
    store: Any = run.store
    with leased(store) as lease:
        final = in_its_place(store)
        lease.moved(final)
    return Run.open(final.path)


def _problem_of_checkpoint(job: Job, run: Run, number: int) -> ValueError | None:
    """What is damaged in a checkpoint, in the labels that belong to it, or in an earlier one that it still needs."""
    name = f"checkpoints/gen-{number:08d}"
    state: Any
    try:
        state = run.store.get(name, job.method.State)
    except ValueError as damage:
        return damage
    problem = _refused(job, run, name, lambda: _check_state(job, state, number))
    needed = {number, *job.method.keep(state)} if problem is None else set()
    for at in sorted(needed - {0}, reverse=True):
        try:
            if at != number:
                run.store.get(f"checkpoints/gen-{at:08d}", job.method.State)
            _check_labels(job, run, at)
        except ValueError as found:
            return found
    return problem


def _check_state(job: Job, state: Any, number: int) -> None:
    if state.number != number:
        raise ValueError(f"its checkpoint {number} says that it is number {state.number}")
    job.method.check_state(job, state)


def _check_labels(job: Job, run: Run, number: int) -> None:
    """The labels that a pass left, for a method that leaves some."""
    name = f"passes/labels-{number:08d}"
    if run.store.has_rows(name):
        for start in range(0, job.n, _ROWS_AT_ONCE):
            if run.store.read_rows(name, start, min(start + _ROWS_AT_ONCE, job.n)).min() < 0:  # never written, or lost
                raise ValueError(f"{run.location} is damaged: some of the labels of pass {number} are missing")


def _whole_blocks(job: Job, run: Run, part: int, tell: Callable[[str], None]) -> None:
    """Leave of a part what stands before its first damaged block, back to the newest state there; nothing if none."""
    states = {int(name[-8:]): name for name in job.blocks(part, "gen")}
    kept = {int(name[-8:]): name for name in job.blocks(part, "kept")}
    first, problem = _first_damage(job, run, part, states, kept)
    if problem is None:
        return
    back = max((number for number in states if number < first), default=0)
    for number, name in [*states.items(), *kept.items()]:
        if number > back:
            run.store.drop(name)
    before = [number for number in (*states, *kept) if number < first]
    behind = "the block before it" if back == max(before, default=0) else f"block {back}"
    tell(f"{problem}; " + (f"going on from {behind}" if back else f"part {part} begins again, to the same end"))


def _first_damage(
    job: Job, run: Run, part: int, states: dict[int, str], kept: dict[int, str]
) -> tuple[int, ValueError | None]:
    """The first block of a part that stands in the way of going on, and what is wrong with it."""
    found: tuple[int, ValueError | None] = (0, None)
    if job.method.Kept is type(None):  # only the newest state counts
        for number in sorted(states, reverse=True):
            problem = _problem_of_state(job, run, part, states[number])
            if problem is None:
                break
            found = number, problem
        return found
    for number in range(1, max([*states, *kept], default=0) + 1):
        problem = ValueError(f"{run.location} is damaged: block {number} of part {part} is lost")
        if number in kept:
            problem = _problem_of_kept(job, run, kept[number])
        if number in states:  # which has what is kept as well
            problem = _problem_of_state(job, run, part, states[number])
        if problem is not None:
            return number, problem
    return found


def _problem_of_state(job: Job, run: Run, part: int, name: str) -> ValueError | None:
    """What is damaged in a block with its state."""
    try:
        found: Any = run.store.get(name, job.method.Part)
    except ValueError as damage:
        return damage
    return _refused(job, run, name, lambda: job.method.check_part(job, part, found))


def _problem_of_kept(job: Job, run: Run, name: str) -> ValueError | None:
    """What is damaged in what a block keeps."""
    try:
        found: Any = run.store.get(name, job.method.Kept)
    except ValueError as damage:
        return damage
    return _refused(job, run, name, lambda: job.method.check_kept(job, found))


def _refused(job: Job, run: Run, name: str, check: Callable[[], None]) -> ValueError | None:
    """What is wrong with a record that could be read; raised at once when it is what was written."""
    problem = None
    try:
        with one_sentence(run):
            check()
    except ValueError as found:
        problem = found
    try:
        run.store.check(name)
    except ValueError as damage:
        return problem or damage
    if problem is not None:
        raise problem
    return None
