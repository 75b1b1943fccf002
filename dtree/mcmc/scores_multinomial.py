"""Fast gains of the multinomial family: only the words that an atom holds are touched.

A word that an atom holds t times adds log Gamma(a + c + t) / Gamma(a + c) to the gain of joining a cluster that has it c times:
a product of t factors. Over a few dozen words the factors are multiplied up, one cluster beside the other in contiguous memory,
before one logarithm is taken of their product. Many or fractional (coarsened) times go through the family's table.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dtree.core.families.multinomial import FIRST_WORD, CompiledMultinomial
from dtree.core.jit import kernel
from dtree.core.tables import log_gamma_ratio
from dtree.mcmc.scores import (
    block_gains,
    caches,
    join_gains,
    leave_gain,
    log_likelihood,
    put_atom,
    refresh_slots,
    shift_atom,
    speaks,
)

LONGEST_PRODUCT = 16  # a word held more often is looked up instead
LARGEST_LOG = 690.0  # a product of doubles whose log stays within this neither overflows nor vanishes
_LARGE = 100.0  # from here on three terms of Stirling's series are exact in double precision
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class MultinomialCache(NamedTuple):
    """The words of each atom in compressed rows."""

    start: np.ndarray  # (m + 1,)
    word: np.ndarray  # (entries,)
    times: np.ndarray  # (entries,)
    reach: np.ndarray  # (v,) the largest |log factor| of a word, whatever its count in a cluster
    product: np.ndarray  # (capacity,) scratch


@caches(CompiledMultinomial)
def multinomial_cache(family: CompiledMultinomial, atoms: np.ndarray, capacity: int) -> MultinomialCache:
    """Compress the rows of atoms (m, s)."""
    row, word = np.nonzero(atoms[:, FIRST_WORD:])
    start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=atoms.shape[0]))])
    times = np.ascontiguousarray(atoms[row, FIRST_WORD + word])
    shift = family.words.shift
    largest = np.bincount(word, weights=times, minlength=shift.shape[0]) + LONGEST_PRODUCT
    reach = np.maximum(np.abs(np.log(shift)), np.abs(np.log(shift + largest)))
    return MultinomialCache(start, word.astype(np.int64), times, reach, np.ones(capacity))


@kernel
def _log_gamma(x):
    if x < _LARGE:
        return math.lgamma(x)
    inverse = 1.0 / x
    square = inverse * inverse
    series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square / 1260.0))
    return (x - 0.5) * math.log(x) - x + _HALF_LOG_2PI + series


@kernel
def _begin_gains(family, held, log_coefficient, words, product, out):
    """out[k] = the part of the gain that depends on totals alone, of clusters that hold held[k] words; products become 1."""
    total = family.concentration_total
    for k in range(out.shape[0]):
        out[k] = log_coefficient + _log_gamma(total + held[k]) - _log_gamma(total + held[k] + words)
        product[k] = 1.0


@kernel
def _take_logs(product, out):
    for k in range(out.shape[0]):
        out[k] += math.log(product[k])
        product[k] = 1.0


@kernel
def _add_word(words, v, counts, times, most, spent, product, out):
    """Let the gains take in a word held so many times, by clusters that have it counts[k] times.

    `spent` bounds |log product|, of which this word takes at most `most`; the new bound is returned. All arrays begin with the
    first cluster asked for: loops from 0 vectorise.
    """
    if words.per_count != 1.0 or times > LONGEST_PRODUCT or times != math.floor(times) or most > LARGEST_LOG:
        alone = log_gamma_ratio(words, v, times)
        for k in range(out.shape[0]):
            if counts[k] == 0.0:
                out[k] += alone
            else:
                out[k] += log_gamma_ratio(words, v, counts[k] + times) - log_gamma_ratio(words, v, counts[k])
        return spent
    if spent + most > LARGEST_LOG:
        _take_logs(product, out)
        spent = 0.0
    _multiply(product, counts, words.shift[v], int(times))
    return spent + most


@kernel
def _multiply(product, counts, shift, times):
    """product[k] *= x (x + 1) ... (x + times - 1), x = shift + counts[k]."""
    while times >= 2:
        for k in range(product.shape[0]):
            x = counts[k] + shift
            product[k] *= x * (x + 1.0)
        shift += 2.0
        times -= 2
    if times == 1:
        for k in range(product.shape[0]):
            product[k] *= counts[k] + shift


@speaks(shift_atom, MultinomialCache)
@kernel
def _shift(cache, clusters, atoms, i, k, sign):
    for s in range(FIRST_WORD):
        clusters.columns[s, k] += sign * atoms[i, s]
    for entry in range(cache.start[i], cache.start[i + 1]):
        clusters.columns[FIRST_WORD + cache.word[entry], k] += sign * cache.times[entry]


@speaks(refresh_slots, MultinomialCache)
@kernel
def _refresh(cache, family, clusters, start, stop):
    columns, log_marginal = clusters.columns, clusters.log_marginal
    for k in range(start, stop):
        log_marginal[k] = (
            family.log_gamma_total - _log_gamma(family.concentration_total + columns[2, k]) + columns[1, k]
        )
    for v in range(family.words.shift.shape[0]):
        for k in range(start, stop):
            count = columns[FIRST_WORD + v, k]
            if count != 0.0:
                log_marginal[k] += log_gamma_ratio(family.words, v, count)


@speaks(put_atom, MultinomialCache)
@kernel
def _put(cache, family, clusters, atoms, i, k, sign):
    total, columns = family.concentration_total, clusters.columns
    gain = (
        sign * atoms[i, 1] + _log_gamma(total + columns[2, k]) - _log_gamma(total + columns[2, k] + sign * atoms[i, 2])
    )
    for s in range(FIRST_WORD):
        columns[s, k] += sign * atoms[i, s]
    for entry in range(cache.start[i], cache.start[i + 1]):
        v = cache.word[entry]
        before = columns[FIRST_WORD + v, k]
        after = before + sign * cache.times[entry]
        gain += log_gamma_ratio(family.words, v, after) - log_gamma_ratio(family.words, v, before)
        columns[FIRST_WORD + v, k] = after
    clusters.log_marginal[k] += gain


@speaks(join_gains, MultinomialCache)
@kernel
def _join(cache, family, clusters, atoms, i, start, stop, slack, out):
    columns, product, gains = clusters.columns, cache.product[start:stop], out[start:stop]
    _begin_gains(family, columns[2, start:stop], atoms[i, 1], atoms[i, 2], product, gains)
    spent = 0.0
    for entry in range(cache.start[i], cache.start[i + 1]):
        v, times = cache.word[entry], cache.times[entry]
        counts = columns[FIRST_WORD + v, start:stop]
        spent = _add_word(family.words, v, counts, times, times * cache.reach[v], spent, product, gains)
    _take_logs(product, gains)


@speaks(block_gains, MultinomialCache)
@kernel
def _block(cache, family, clusters, block, stop, out):
    columns, product, gains = clusters.columns, cache.product[:stop], out[:stop]
    _begin_gains(family, columns[2, :stop], block[1], block[2], product, gains)
    spent = 0.0
    for v in range(family.words.shift.shape[0]):
        times = block[FIRST_WORD + v]
        if times != 0.0:
            counts = columns[FIRST_WORD + v, :stop]
            spent = _add_word(family.words, v, counts, times, times * cache.reach[v], spent, product, gains)
    _take_logs(product, gains)


@speaks(leave_gain, MultinomialCache)
@kernel
def _leave(cache, family, clusters, atoms, i, k):
    total = family.concentration_total
    words = clusters.columns[2, k]
    gain = atoms[i, 1] + _log_gamma(total + words - atoms[i, 2]) - _log_gamma(total + words)
    for entry in range(cache.start[i], cache.start[i + 1]):
        v = cache.word[entry]
        count = clusters.columns[FIRST_WORD + v, k]
        gain += log_gamma_ratio(family.words, v, count) - log_gamma_ratio(family.words, v, count - cache.times[entry])
    return gain


@speaks(log_likelihood, MultinomialCache)
@kernel
def _likelihood(cache, atoms, i, natural):
    total = 0.0
    for s in range(FIRST_WORD):
        total += natural[s] * atoms[i, s]
    for entry in range(cache.start[i], cache.start[i + 1]):
        total += natural[FIRST_WORD + cache.word[entry]] * cache.times[entry]
    return total
