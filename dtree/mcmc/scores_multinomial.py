"""Fast gains of the multinomial family: only the words that an atom holds are touched.

A word that an atom holds t times adds log Gamma(a + c + t) / Gamma(a + c) to the gain of joining a cluster that has
it c times: a product of t factors. Over a few dozen words the factors are multiplied up, one cluster beside the other
in contiguous memory, before one logarithm is taken of their product. Many or fractional (coarsened) times go through
the family's table.
"""

import math
from typing import NamedTuple

import numpy as np

from dtree.core.families.multinomial import FIRST_WORD, CompiledMultinomial
from dtree.core.jit import kernel
from dtree.core.tables import log_gamma_ratio
from dtree.core.verbs import implements
from dtree.mcmc import scores

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


@implements(scores.make_cache, CompiledMultinomial)
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
    """out[k] = the part of the gain that depends on totals alone, clusters holding held[k] words; products become 1."""
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

    `spent` bounds |log product|, of which this word takes at most `most`; the new bound is returned. All arrays begin
    with the first cluster asked for: loops from 0 vectorise.
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


@implements(scores.shift_atom, MultinomialCache)
@kernel
def _shift(cache, clusters, atoms, i, k, sign):
    for s in range(FIRST_WORD):
        clusters.columns[s, k] += sign * atoms[i, s]
    for entry in range(cache.start[i], cache.start[i + 1]):
        clusters.columns[FIRST_WORD + cache.word[entry], k] += sign * cache.times[entry]


@implements(scores.add_atoms, MultinomialCache)
@kernel
def _add(cache, clusters, atoms, labels):
    for i in range(atoms.shape[0]):
        _shift(cache, clusters, atoms, i, labels[i], 1.0)


@implements(scores.refresh_slots, MultinomialCache)
@kernel
def _refresh(cache, family, clusters, start, stop):
    columns, log_marginal, total = clusters.columns, clusters.log_marginal, family.concentration_total
    for k in range(start, stop):
        log_marginal[k] = family.log_gamma_total - _log_gamma(total + columns[2, k]) + columns[1, k]
    for v in range(family.words.shift.shape[0]):
        for k in range(start, stop):
            count = columns[FIRST_WORD + v, k]
            if count != 0.0:
                log_marginal[k] += log_gamma_ratio(family.words, v, count)


@implements(scores.put_atom, MultinomialCache)
@kernel
def _put(cache, family, clusters, atoms, i, k, sign):
    columns = clusters.columns
    held = family.concentration_total + columns[2, k]
    gain = sign * atoms[i, 1] + _log_gamma(held) - _log_gamma(held + sign * atoms[i, 2])
    for s in range(FIRST_WORD):
        columns[s, k] += sign * atoms[i, s]
    for entry in range(cache.start[i], cache.start[i + 1]):
        v = cache.word[entry]
        before = columns[FIRST_WORD + v, k]
        after = before + sign * cache.times[entry]
        gain += log_gamma_ratio(family.words, v, after) - log_gamma_ratio(family.words, v, before)
        columns[FIRST_WORD + v, k] = after
    clusters.log_marginal[k] += gain


@kernel
def _gains(cache, family, columns, log_coefficient, n_words, words, times, out):
    """out[k] = gain of clusters (s, k) by a text of n_words words, words[e] of them held times[e] times."""
    product = cache.product[: out.shape[0]]
    _begin_gains(family, columns[2], log_coefficient, n_words, product, out)
    spent = 0.0
    for entry in range(words.shape[0]):
        v, held = words[entry], times[entry]
        counts, most = columns[FIRST_WORD + v], held * cache.reach[v]
        spent = _add_word(family.words, v, counts, held, most, spent, product, out)
    _take_logs(product, out)


@implements(scores.join_gains, MultinomialCache)
@kernel
def _join(cache, family, clusters, atoms, i, start, stop, depth, out):
    words, times = cache.word[cache.start[i] : cache.start[i + 1]], cache.times[cache.start[i] : cache.start[i + 1]]
    _gains(cache, family, clusters.columns[:, start:stop], atoms[i, 1], atoms[i, 2], words, times, out[start:stop])


@implements(scores.block_gains, MultinomialCache)
@kernel
def _block(cache, family, clusters, block, stop, out):
    words = np.flatnonzero(block[FIRST_WORD:])
    times = block[FIRST_WORD:][words]
    _gains(cache, family, clusters.columns[:, :stop], block[1], block[2], words, times, out[:stop])


@implements(scores.leave_gain, MultinomialCache)
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


@implements(scores.log_likelihood, MultinomialCache)
@kernel
def _likelihood(cache, atoms, i, natural):
    total = 0.0
    for s in range(FIRST_WORD):
        total += natural[s] * atoms[i, s]
    for entry in range(cache.start[i], cache.start[i + 1]):
        total += natural[FIRST_WORD + cache.word[entry]] * cache.times[entry]
    return total
