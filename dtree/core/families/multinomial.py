"""Rows of counts over a vocabulary: the Dirichlet-multinomial family, dense or sparse.

x ~ Multinomial(N_x, theta), theta ~ Dirichlet(concentration). With `coefficient` the probability is that of the count
vector, without it that of the word sequence; the two differ by a constant of the data, never by a tree.

Statistics of a row: [1, log coefficient, N_x, x (v)].
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import digamma, gammaln

from dtree.core.families.base import feature_vector, require_positive
from dtree.core.families.counts import Counts, row_sums
from dtree.core.families.moments import Moments
from dtree.core.families.profile import Profile, as_it_is
from dtree.core.jit import kernel
from dtree.core.tables import LogGammaTable, add_log_gamma_ratios, log_gamma_ratio, log_gamma_table, table_index
from dtree.core.verbs import implements, log_marginal, log_marginal_joined, log_marginal_merged, log_marginal_pair

FIRST_WORD = 3  # the column where the counts of words begin


class CompiledMultinomial(NamedTuple):
    words: LogGammaTable  # lgamma(concentration + x) - lgamma(concentration)
    concentration_total: float
    log_gamma_total: float


@implements(log_marginal, CompiledMultinomial)
@kernel(counted=False)
def _log_marginal(family, statistics):
    total = family.log_gamma_total - math.lgamma(family.concentration_total + statistics[2]) + statistics[1]
    for v in range(family.words.shift.shape[0]):
        count = statistics[FIRST_WORD + v]
        if count != 0.0:
            total += log_gamma_ratio(family.words, v, count)
    return total


@implements(log_marginal_merged, CompiledMultinomial)
@kernel
def _log_marginal_merged(family, columns, row, start, stop, out):
    # A word that only one side uses adds what it adds to that side alone; a table of the row's words is filled once,
    # and the loops over candidates touch each word's counts in contiguous memory.
    scratch = np.empty(stop - start, dtype=np.int32)
    for k in range(start, stop):
        out[k] = family.log_gamma_total + row[1] + columns[1, k]
        out[k] -= math.lgamma(family.concentration_total + row[2] + columns[2, k])
    for v in range(family.words.shift.shape[0]):
        counts = columns[FIRST_WORD + v, start:stop]
        add_log_gamma_ratios(family.words, v, row[FIRST_WORD + v], counts, scratch, out[start:stop])


@kernel(counted=False)
def _add_shared_word(words, v, own, alone, counts, out):
    """out[k] += what a word adds to the union of a row that has it `own` times and one that has it counts[k] times,
    less what it adds to each alone."""
    table, first = words.values, words.start[v]
    own_index = table_index(own, words.per_count, words.length[v])
    if words.per_count == 1.0 and own_index >= 0:
        # Whole numbers: a lookup for every k, also where the count is 0 and nothing comes of it, beats asking.
        most = words.length[v] - 1 - own_index
        for k in range(out.shape[0]):
            index = int(counts[k])
            if index == counts[k] and 0 <= index <= most:
                out[k] += table[first + own_index + index] - table[first + index] - alone
            else:
                together = log_gamma_ratio(words, v, own + counts[k])
                out[k] += together - log_gamma_ratio(words, v, counts[k]) - alone
        return
    for k in range(out.shape[0]):
        if counts[k] != 0.0:
            together = log_gamma_ratio(words, v, own + counts[k])
            out[k] += together - log_gamma_ratio(words, v, counts[k]) - alone


@implements(log_marginal_joined, CompiledMultinomial)
@kernel(counted=False)
def _log_marginal_joined(family, columns, log_own, row, start, stop, out):
    # A word that the row does not use adds what it adds to the column alone, and one that the column does not use what
    # it adds to the row alone, so only words that both use are looked up.
    constant = row[1]
    for k in range(start, stop):
        out[k] = log_own[k] + math.lgamma(family.concentration_total + columns[2, k])
        out[k] -= math.lgamma(family.concentration_total + row[2] + columns[2, k])
    for v in range(family.words.shift.shape[0]):
        own = row[FIRST_WORD + v]
        if own != 0.0:
            alone = log_gamma_ratio(family.words, v, own)
            constant += alone
            _add_shared_word(family.words, v, own, alone, columns[FIRST_WORD + v, start:stop], out[start:stop])
    for k in range(start, stop):
        out[k] += constant


@implements(log_marginal_pair, CompiledMultinomial)
@kernel(counted=False)
def _log_marginal_pair(family, a, log_a, b, scratch):
    total = log_a + b[1] + math.lgamma(family.concentration_total + a[2])
    total -= math.lgamma(family.concentration_total + a[2] + b[2])
    for v in range(family.words.shift.shape[0]):
        more = b[FIRST_WORD + v]
        if more != 0.0:
            count = a[FIRST_WORD + v]
            total += log_gamma_ratio(family.words, v, count + more)
            if count != 0.0:
                total -= log_gamma_ratio(family.words, v, count)
    return total


@dataclass(frozen=True, eq=False, repr=False)
class Multinomial(Counts):
    """Dirichlet-multinomial family for rows of word counts.

    Parameters
    ----------
    concentration : (v,) Dirichlet prior over the words of a cluster.
    coefficient : include N!/prod x! of each row, the probability of the counts instead of the sequence.

    >>> round(Multinomial([1.0, 1.0, 1.0]).log_marginal([[2, 0, 1], [1, 1, 0]]), 6)
    -6.040255
    """

    concentration: Any
    coefficient: bool = False

    name: ClassVar[str] = "multinomial"
    value_kind: ClassVar[str] = "count"

    def __post_init__(self) -> None:
        concentration = feature_vector(self.concentration, None, "concentration")
        require_positive(concentration, "concentration")
        object.__setattr__(self, "concentration", concentration)
        object.__setattr__(self, "coefficient", bool(self.coefficient))

    @classmethod
    def defaults(cls, moments: Moments, share: float = 0.1) -> Self:
        # One word drawn from a cluster has within-cluster variance c/(c+1) of its variance over clusters: share.
        frequency = moments.mean * moments.rows + 0.5
        frequency /= frequency.sum()
        return cls(share / (1.0 - share) * frequency)

    def leading_columns(self, X: Any) -> list[np.ndarray]:
        total = row_sums(X)
        log_coefficient = np.zeros(X.shape[0])
        if self.coefficient:
            log_coefficient = gammaln(total + 1.0) - row_sums(X, lambda x: gammaln(x + 1.0))
        return [np.ones(X.shape[0]), log_coefficient, total]

    def compile(self, total: np.ndarray, coarsening: float = 1.0) -> CompiledMultinomial:
        concentration_total = float(self.concentration.sum())
        words = log_gamma_table(self.concentration, total[FIRST_WORD:], coarsening)
        return CompiledMultinomial(words, concentration_total, math.lgamma(concentration_total))

    def expected_log_density(self, statistics: np.ndarray) -> np.ndarray:
        fixed = np.tile([0.0, 1.0], (statistics.shape[0], 1))
        log_total = digamma(self.concentration.sum() + statistics[:, 2:3])
        return np.hstack([fixed, -log_total, digamma(self.concentration + statistics[:, FIRST_WORD:])])

    def posterior_means(self, statistics: np.ndarray) -> dict[str, np.ndarray]:
        weight = self.concentration + statistics[:, FIRST_WORD:]
        return {"probabilities": weight / weight.sum(axis=1, keepdims=True)}

    def profile(self, statistics: np.ndarray) -> Profile:
        """Shares of all words."""
        return as_it_is("token", statistics[:, FIRST_WORD:], statistics[:, 2])

    # Unconstrained parameters: log concentration (v).

    def free_parameters(self) -> np.ndarray:
        return np.log(self.concentration)

    def with_free_parameters(self, theta: np.ndarray) -> Self:
        return type(self)(np.exp(theta), self.coefficient)

    def gradient(self, statistics: np.ndarray, weights: np.ndarray) -> np.ndarray:
        total = self.concentration.sum()
        shared = weights @ (digamma(total) - digamma(total + statistics[:, 2]))
        gained = digamma(self.concentration + statistics[:, FIRST_WORD:]) - digamma(self.concentration)
        return self.concentration * (weights @ gained + shared)
