"""Escapes from poor optima: merge two components, or split one into an empty place, when that raises the bound.

Candidates are ranked by what they would do to the bound if labels were hard, which needs only log marginals of
statistics; the best few are tried by some iterations on a copy, and kept only if the bound is then higher.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from dtree.core.families import Family
from dtree.variational.fitting import Fit, InMemory, ascend
from dtree.variational.steps import Rule, Sums, log_prior_of, sums_of
from dtree.variational.weights import label_order

_OCCUPIED = 0.5  # expected rows below which a component counts as empty
_TRIALS_PER_ROUND = 4
_TRIAL_ITERATIONS = 50
_CHEAP_WORK = 20_000_000  # multiplications of a cheap pass
_CHEAP_PASSES = 500
_WORST_MERGE = -10.0  # nats a hard merge may lose and still be tried: soft labels often win them back
_WIDEST_SPLIT = 2000  # statistics of sparse rows that are made dense to propose a split
_SPLIT_ROWS = 4000  # rows of a component looked at when a split is proposed


def escape(
    rows: InMemory,
    fit: Fit,
    max_iter: int,
    tol: float,
    rounds: int,
    random: np.random.Generator,
    learn_alpha: bool = False,
    patience: int = 1,
) -> tuple[Fit, InMemory]:
    """Try merges and splits for at most `rounds` rounds; the fit that comes back has at least the same bound.

    Trials stop when they have used twice the passes of the fit itself, or some hundreds where passes are cheap; but a
    trial that is kept shows that there is more to gain and earns one more, whatever it used. Its own ascent may take
    `max_iter` passes, as the fit's did.
    """
    work = len(rows.block) * fit.sums.statistics.size
    budget = 2 * len(fit.trace) + (_CHEAP_PASSES if work < _CHEAP_WORK else 0)
    for _ in range(rounds):
        merges, splits = _merges(rows, fit), _splits(rows, fit, random)
        for _, labels in sorted(merges + splits, key=lambda candidate: -candidate[0]):
            trial = rows.with_responsibilities(labels)
            limit = min(_TRIAL_ITERATIONS, budget)
            tried = ascend(trial, trial.sums(fit.rule), fit.rule, limit, tol, learn_alpha, patience)
            budget -= len(tried.trace)
            if tried.elbo > fit.elbo + tol * fit.sums.rows:
                if not tried.converged:
                    longer = ascend(trial, tried.sums, tried.rule, max_iter, tol, learn_alpha, patience)
                    tried = replace(longer, trace=tried.trace + longer.trace[1:])
                risen = [value for value in tried.trace if value > fit.elbo]  # the trace is that of the kept states
                fit, rows = replace(tried, trace=fit.trace + risen), trial
                budget = budget if budget > 0 else _TRIAL_ITERATIONS
                break
            if budget <= 0:
                return fit, rows
        else:
            break
    return fit, rows


def _hard_value(statistics: np.ndarray, fit: Fit) -> float:
    """The bound's terms that a change of components moves when labels are hard."""
    rule = fit.rule
    plain = rule.variant._replace(collapsed=False)
    if rule.variant.ordered:
        statistics = statistics[label_order(rule.alpha, statistics[:, 0], rule.order)]
    sums = Sums(statistics, 0.0, np.zeros((0, 0)), np.zeros(0), fit.sums.rows)
    return float(rule.family.soft_log_marginal_of(statistics).sum()) + log_prior_of(sums, plain, rule.alpha)


def _merges(rows: InMemory, fit: Fit) -> list[tuple[float, np.ndarray]]:
    statistics = fit.sums.statistics
    occupied = np.flatnonzero(fit.sums.counts > _OCCUPIED)
    if occupied.shape[0] < 2:
        return []
    first, second = (occupied[index] for index in np.triu_indices(occupied.shape[0], 1))
    single = fit.rule.family.soft_log_marginal_of(statistics)
    joint = fit.rule.family.soft_log_marginal_of(statistics[first] + statistics[second])
    rough = joint - single[first] - single[second]
    before = _hard_value(statistics, fit)
    found = []
    for pair in np.argsort(-rough)[: 2 * _TRIALS_PER_ROUND]:
        a, b = first[pair], second[pair]
        merged = statistics.copy()
        merged[a] += merged[b]
        merged[b] = 0.0
        gain = _hard_value(merged, fit) - before
        if gain > _WORST_MERGE:
            found.append((gain, slice(None), b, a))
    return _best_moves(rows, found)


def _splits(rows: InMemory, fit: Fit, random: np.random.Generator) -> list[tuple[float, np.ndarray]]:
    counts = fit.sums.counts
    empty = np.flatnonzero(counts < _OCCUPIED)
    if empty.shape[0] == 0:
        return []
    place = int(empty[0])  # a stick far down the line would cost what the split gains
    before = _hard_value(fit.sums.statistics, fit)
    found = []
    for k in np.argsort(-counts)[: 2 * _TRIALS_PER_ROUND]:
        sides = _two_sides(rows, fit.rule, int(k), random)
        if sides is None:
            continue
        members, second_side = sides
        labels = rows.responsibilities[members]
        moved = np.zeros((members.shape[0], 2))
        moved[:, 0] = labels[:, k] * ~second_side
        moved[:, 1] = labels[:, k] * second_side
        part = replace(rows.block, rows=rows.block.rows[members], weight=rows.block.weight[members])
        halves = sums_of(part, moved, replace(fit.rule, variant=fit.rule.variant._replace(collapsed=False)))
        statistics = fit.sums.statistics.copy()
        statistics[k] -= halves.statistics[1]
        statistics[place] += halves.statistics[1]
        gain = _hard_value(statistics, fit) - before
        if gain > 0:
            found.append((gain, members[second_side], int(k), place))
    return _best_moves(rows, found)


def _best_moves(rows: InMemory, found: list[tuple[float, Any, int, int]]) -> list[tuple[float, np.ndarray]]:
    """Gains and responsibilities (n, T) of the best moves (gain, which rows, from component, to component)."""
    proposals = []
    for gain, moving, source, target in sorted(found, key=lambda move: -move[0])[:_TRIALS_PER_ROUND]:
        labels = rows.responsibilities.copy()
        labels[moving, target] += labels[moving, source]
        labels[moving, source] = 0.0
        proposals.append((gain, labels))
    return proposals


def _two_sides(rows: InMemory, rule: Rule, k: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray] | None:
    """Rows that belong to component k (m,) and which of them a 2-means puts on the second side (m,)."""
    members = np.flatnonzero(rows.responsibilities[:, k] > 0.5)
    if members.shape[0] < 4:
        return None
    points = _points_of(rule.family, rows.block.rows[members])
    if points is None:
        return None
    sample = points if points.shape[0] <= _SPLIT_ROWS else points[random.choice(points.shape[0], _SPLIT_ROWS, False)]
    centres = sample[random.choice(sample.shape[0], 2, replace=False)]
    for _ in range(20):
        second = _nearer_second(sample, centres)
        if second.all() or not second.any():
            return None
        moved = np.stack([sample[~second].mean(axis=0), sample[second].mean(axis=0)])
        if np.array_equal(moved, centres):
            break
        centres = moved
    second = _nearer_second(points, centres)
    return None if second.all() or not second.any() else (members, second)


def _points_of(family: Family, kept: Any) -> np.ndarray | None:
    """Kept rows (m, ...) where distances make sense; None when that would be too wide."""
    if family.value_kind in ("category", "mixed"):
        return np.asarray(family.points(kept))
    features = family.statistics_of_kept(kept)
    if sparse.issparse(features):
        if features.shape[1] > _WIDEST_SPLIT:
            return None
        features = features.toarray()
    return np.asarray(features[:, 1 : 1 + family.n_features])


def _nearer_second(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    difference = centres[1] - centres[0]
    return points @ difference > 0.5 * (centres[0] + centres[1]) @ difference
