"""Tables of `benchmarks.mcmc`: what chains did in their seconds, over seeds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

GOALS = {"toy-dp": -1582.0, "toy-nggp": -1582.0, "10k-nggp": -73_880.0}
CPP_SWEEPS = {("toy", "gibbs"): 39.0, ("toy", "split-merge"): 26.0, ("toy", "tgmcmc"): 121.0}
CPP_SWEEPS |= {("10k", "gibbs"): 0.2, ("10k", "tgmcmc"): 3.5}
MARKS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


class Outcome(NamedTuple):
    """One chain."""

    to_start: float  # seconds before the first sweep: the common start, and what the sampler builds for itself
    ess: float  # effective draws of the number of clusters
    draws: Any  # with seconds, log_joint and n_clusters (draws,)
    acceptance: np.ndarray  # (3, 3), see Problem.acceptance
    ess_log_joint: float
    counted: float  # seconds over which effective draws were counted


def spread(values: Any, digits: int = 1) -> str:
    """Mean and standard deviation."""
    found = np.asarray(values, dtype=float)
    found = found[np.isfinite(found)]
    if found.size == 0:
        return "never"
    return f"{found.mean():,.{digits}f}" + (f" ± {found.std(ddof=1):,.{digits}f}" if found.size > 1 else "")


def time_to(outcome: Outcome, goal: float) -> float:
    """Seconds until the log joint reaches a goal, the start included."""
    reached = np.flatnonzero(outcome.draws.log_joint >= goal)
    return outcome.to_start + float(outcome.draws.seconds[reached[0]]) if reached.size else np.inf


def ess_rates(outcomes: list[Outcome]) -> np.ndarray:
    """Effective draws of the number of clusters a second, by seed; 0 when it never moved."""
    return np.array([np.nan_to_num(o.ess) / o.counted for o in outcomes])


def header_of(case: str) -> list[str]:
    goal = [f"s to {GOALS[case]:,.0f}"] if case in GOALS else []
    end = ["best log joint", "clusters", "ESS/s", "ESS/s of log joint", "log ratio", "% accepted"]
    return ["sampler", "s to start", "sweeps/s", "C++", *goal, *end]


def row_of(case: str, sampler: str, outcomes: list[Outcome]) -> list[str]:
    """A line of the table; as `header_of` says."""
    speed = np.array([o.draws.seconds.shape[0] / o.draws.seconds[-1] for o in outcomes])
    cpp = CPP_SWEEPS.get((case.split("-")[0], sampler))
    row = [sampler, spread([o.to_start for o in outcomes], 2), spread(speed, 1 if speed.mean() > 5.0 else 2)]
    row.append("" if cpp is None else f"{cpp:g} ({speed.mean() / cpp:.1f}x)")
    if case in GOALS:
        times = [time_to(o, GOALS[case]) for o in outcomes]
        missed = sum(not np.isfinite(t) for t in times)
        row.append(spread(times, 2) + (f" ({missed} of {len(times)} never)" if 0 < missed < len(times) else ""))
    row += [spread([o.draws.log_joint.max() for o in outcomes]), spread([o.draws.n_clusters[-1] for o in outcomes])]
    row += [spread(ess_rates(outcomes), 2), spread([np.nan_to_num(o.ess_log_joint) / o.counted for o in outcomes], 2)]
    tally = np.sum([o.acceptance for o in outcomes], axis=0)[0]
    made = tally[0] > 0
    return [*row, f"{tally[2] / tally[0]:.1f}" if made else "", f"{100 * tally[1] / tally[0]:.1f}" if made else ""]


def marks_of(sampler: str, outcomes: list[Outcome], limit: float) -> list[str]:
    """Log joint at certain seconds after the start."""
    row = [sampler]
    for mark in MARKS:
        at = [np.searchsorted(o.draws.seconds, mark) - 1 for o in outcomes]
        values = [o.draws.log_joint[k] if k >= 0 else np.nan for o, k in zip(outcomes, at)]
        row.append(spread(values).replace("never", "") if mark <= limit else "")
    return row


def paired_row(sampler: str, outcomes: list[Outcome], ours: list[Outcome]) -> list[str]:
    """ESS a second of one sampler, and how far tgmcmc is ahead: differences over seeds with their standard error."""
    rates, ahead = ess_rates(outcomes), ess_rates(ours) - ess_rates(outcomes)
    n = ahead.shape[0]
    error = f" ± {ahead.std(ddof=1) / np.sqrt(n):.2f}" if n > 1 else ""
    return [sampler, f"{rates.mean():.2f}", f"{ahead.mean():.2f}{error}", f"{int((ahead > 0).sum())} of {n}"]
