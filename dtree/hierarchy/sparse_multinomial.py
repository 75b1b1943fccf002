"""Word counts of a node joined with those of others that are kept as lists."""

import math

import numpy as np

from dtree.core.families.multinomial import FIRST_WORD, CompiledMultinomial
from dtree.core.jit import kernel
from dtree.core.tables import log_gamma_ratio
from dtree.core.verbs import implements
from dtree.hierarchy.sparse_nodes import log_marginal_sparse

_TOTAL = FIRST_WORD - 1  # the statistic that is the number of words in all


@implements(log_marginal_sparse, CompiledMultinomial)
@kernel
def _log_marginal_sparse(family, sparse, nodes, log_own, row, start, stop, out):
    words, m = family.words, sparse.rows.shape[0]
    alone = np.zeros(row.shape[0])  # what each word of the row adds to it
    last = np.max(nodes[start:stop]) if start < m else -1
    gained = np.zeros(last + 1)  # by the words that both use: what they add together less what they add to each alone
    constant = row[1]
    for c in range(FIRST_WORD, row.shape[0]):
        if row[c] == 0.0:
            continue
        word, own = c - FIRST_WORD, row[c]
        alone[c] = log_gamma_ratio(words, word, own)
        constant += alone[c]
        if start >= m:
            continue
        for i in range(sparse.first[c], sparse.first[c + 1]):
            if sparse.start[i] == sparse.stop[i]:
                continue
            gain = log_gamma_ratio(words, word, own + sparse.value[i]) - alone[c]
            gain -= log_gamma_ratio(words, word, sparse.value[i])
            for at in range(sparse.start[i], sparse.stop[i]):
                leaf = sparse.leaf[at]
                if leaf > last:
                    break
                gained[leaf] += gain
    for k in range(start, stop):
        if k < m:
            total, both = sparse.rows[nodes[k], _TOTAL], gained[nodes[k]]
        else:
            total, both = 0.0, 0.0
            for at in range(sparse.held[k - m]):
                c, count = sparse.which[k - m, at], sparse.what[k - m, at]
                if c == _TOTAL:
                    total = count
                elif c >= FIRST_WORD and row[c] != 0.0:
                    together = log_gamma_ratio(words, c - FIRST_WORD, row[c] + count)
                    both += together - alone[c] - log_gamma_ratio(words, c - FIRST_WORD, count)
        out[k] = constant + log_own[k] + math.lgamma(family.concentration_total + total)
        out[k] += both - math.lgamma(family.concentration_total + row[_TOTAL] + total)
