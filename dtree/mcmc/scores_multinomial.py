"""Fast join and leave gains of the multinomial family: only the words that an atom holds are touched."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dtree.core.families.multinomial import FIRST_WORD, CompiledMultinomial
from dtree.core.jit import kernel
from dtree.core.tables import log_gamma_ratio
from dtree.core.verbs import log_marginal
from dtree.mcmc.scores import caches, join_gains, leave_gain, refresh_slot, shift_atom, speaks


class MultinomialCache(NamedTuple):
    """The words of each atom in compressed rows."""

    start: np.ndarray  # (m + 1,)
    word: np.ndarray  # (entries,)
    times: np.ndarray  # (entries,)
    row: np.ndarray  # (s,) scratch


@caches(CompiledMultinomial)
def multinomial_cache(family: CompiledMultinomial, atoms: np.ndarray, capacity: int) -> MultinomialCache:
    """Compress the rows of atoms (m, s)."""
    row, word = np.nonzero(atoms[:, FIRST_WORD:])
    start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=atoms.shape[0]))])
    times = atoms[row, FIRST_WORD + word]
    return MultinomialCache(start, word.astype(np.int64), np.ascontiguousarray(times), np.empty(atoms.shape[1]))


@speaks(shift_atom, MultinomialCache)
@kernel
def _shift(cache, clusters, atoms, i, k, sign):
    for s in range(FIRST_WORD):
        clusters.columns[s, k] += sign * atoms[i, s]
    for entry in range(cache.start[i], cache.start[i + 1]):
        clusters.columns[FIRST_WORD + cache.word[entry], k] += sign * cache.times[entry]


@speaks(refresh_slot, MultinomialCache)
@kernel
def _refresh(cache, family, clusters, k):
    for s in range(cache.row.shape[0]):
        cache.row[s] = clusters.columns[s, k]
    clusters.log_marginal[k] = log_marginal(family, cache.row)


@speaks(join_gains, MultinomialCache)
@kernel
def _join(cache, family, clusters, atoms, i, start, stop, slack, out):
    total = family.concentration_total
    for k in range(start, stop):
        words = clusters.columns[2, k]
        out[k] = atoms[i, 1] + math.lgamma(total + words) - math.lgamma(total + words + atoms[i, 2])
    for entry in range(cache.start[i], cache.start[i + 1]):
        v, times = cache.word[entry], cache.times[entry]
        counts = clusters.columns[FIRST_WORD + v]
        for k in range(start, stop):
            out[k] += log_gamma_ratio(family.words, v, counts[k] + times) - log_gamma_ratio(family.words, v, counts[k])


@speaks(leave_gain, MultinomialCache)
@kernel
def _leave(cache, family, clusters, atoms, i, k):
    total = family.concentration_total
    words = clusters.columns[2, k]
    gain = atoms[i, 1] + math.lgamma(total + words - atoms[i, 2]) - math.lgamma(total + words)
    for entry in range(cache.start[i], cache.start[i + 1]):
        v = cache.word[entry]
        count = clusters.columns[FIRST_WORD + v, k]
        gain += log_gamma_ratio(family.words, v, count) - log_gamma_ratio(family.words, v, count - cache.times[entry])
    return gain
