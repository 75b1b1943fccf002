"""Word counts of a node joined with those of leaves that are kept as lists."""

import math

import numpy as np

from dtree.core.families.multinomial import FIRST_WORD, CompiledMultinomial
from dtree.core.jit import kernel
from dtree.core.tables import log_gamma_ratio
from dtree.core.verbs import implements
from dtree.hierarchy.sparse_leaves import log_marginal_sparse

_SMALL_COUNTS = 5  # most words of a leaf occur fewer times: their gains are looked up once for all leaves


@implements(log_marginal_sparse, CompiledMultinomial)
@kernel
def _log_marginal_sparse(family, leaves, nodes, columns, log_own, row, start, stop, out):
    last = np.max(nodes[start:stop])
    gained = np.zeros(last + 1)  # by the words that both use: what they add together less what they add to each alone
    small = np.zeros(_SMALL_COUNTS)
    constant = row[1]
    for c in range(FIRST_WORD, row.shape[0]):
        if row[c] == 0.0:
            continue
        word, own = c - FIRST_WORD, row[c]
        alone = log_gamma_ratio(family.words, word, own)
        constant += alone
        for count in range(1, _SMALL_COUNTS):
            small[count] = log_gamma_ratio(family.words, word, own + count) - alone
            small[count] -= log_gamma_ratio(family.words, word, float(count))
        for at in range(leaves.start[c], leaves.stop[c]):
            leaf, count = leaves.leaf[at], leaves.value[at]
            if leaf > last:
                break
            index = int(count)
            if index == count and 0 <= index < _SMALL_COUNTS:
                gained[leaf] += small[index]
            else:
                together = log_gamma_ratio(family.words, word, own + count)
                gained[leaf] += together - log_gamma_ratio(family.words, word, count) - alone
    for k in range(start, stop):
        out[k] = constant + log_own[k] + math.lgamma(family.concentration_total + columns[2, k])
        out[k] += gained[nodes[k]] - math.lgamma(family.concentration_total + row[2] + columns[2, k])
