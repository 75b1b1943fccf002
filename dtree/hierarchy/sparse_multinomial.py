"""Word counts of a node joined with those of others that are kept as lists."""

import math

from dtree.core.families.multinomial import FIRST_WORD, CompiledMultinomial
from dtree.core.jit import kernel
from dtree.core.tables import log_gamma_ratio, table_index
from dtree.core.verbs import implements
from dtree.hierarchy.sparse_nodes import log_marginal_sparse, put_sparse, weigh_values

_TOTAL = FIRST_WORD - 1  # the statistic that is the number of words in all
_MANY = 0.4  # share of the lists from which on going through all leaves is faster: their words come in order


@kernel(counted=False)
def _added_by(words, statistic, value):
    return log_gamma_ratio(words, statistic - FIRST_WORD, value) if statistic >= FIRST_WORD else 0.0


@implements(weigh_values, CompiledMultinomial)
@kernel(counted=False)
def _weigh_values(family, sparse):
    for c in range(sparse.first.shape[0] - 1):
        for i in range(sparse.first[c], sparse.first[c + 1]):
            sparse.adds[i] = _added_by(family.words, c, sparse.value[i])


@implements(put_sparse, CompiledMultinomial)
@kernel(counted=False)
def _put_sparse(family, sparse, slot, row):
    i, held = slot - sparse.rows.shape[0], 0
    for c in range(row.shape[0]):
        if row[c] != 0.0:
            sparse.which[i, held], sparse.what[i, held] = c, row[c]
            sparse.what_adds[i, held] = _added_by(family.words, c, row[c])
            held += 1
    sparse.held[i] = held


@kernel(counted=False)
def _look_up(words, row, own):
    """Fill own (s, 4) for the words of the row: their counts, what they add, and where they stand in the table and how
    many larger counts it has, or -1; returns the sum of what they add."""
    total = 0.0
    for c in range(FIRST_WORD, row.shape[0]):
        own[c, 0] = row[c]
        if row[c] != 0.0:
            word = c - FIRST_WORD
            own[c, 1] = log_gamma_ratio(words, word, row[c])
            place = table_index(row[c], words.per_count, words.length[word])
            own[c, 2] = words.start[word] + place if place >= 0 else -1
            own[c, 3] = words.length[word] - place
            total += own[c, 1]
    return total


@kernel(counted=False)
def _gain(words, c, own, count, adds):
    """What word c adds to a node that has it as often as the row and `count` times more, less what it adds to each."""
    place = int(own[2])
    if place >= 0:
        index = table_index(count, words.per_count, int(own[3]))
        if index >= 0:
            return words.values[place + index] - own[1] - adds
    together = math.lgamma(words.shift[c - FIRST_WORD] + (own[0] + count)) - words.log_gamma_shift[c - FIRST_WORD]
    return together - own[1] - adds


@kernel(counted=False)
def _score_by_words(words, sparse, row, last, scratch):
    """Fill what the row and each leaf up to `last` gain, going through the lists of the row's words."""
    gained, leaf = scratch.gained, sparse.leaf
    for k in range(last + 1):
        gained[k] = 0.0
    for c in range(FIRST_WORD, row.shape[0]):
        if row[c] == 0.0:
            continue
        for i in range(sparse.first[c], sparse.first[c + 1]):
            begin, end = sparse.start[i], sparse.stop[i]
            if begin == end or leaf[begin] > last:
                continue
            gain = _gain(words, c, scratch.own[c], sparse.value[i], sparse.adds[i])
            for at in range(begin, end):
                if leaf[at] > last:
                    break
                gained[leaf[at]] += gain


@kernel(counted=False)
def _score_by_leaves(words, sparse, nodes, row, start, stop, scratch):
    """The same for leaves in slots start .. stop - 1, going through their words: faster where the row uses most."""
    gain, of = scratch.gain, sparse.of
    for word in range(row.shape[0]):
        own, used = scratch.own[word], word >= FIRST_WORD and row[word] != 0.0
        for i in range(sparse.first[word], sparse.first[word + 1]):
            some = used and sparse.start[i] < sparse.stop[i]  # leaves that are merged may be in the row itself
            gain[i] = _gain(words, word, own, sparse.value[i], sparse.adds[i]) if some else 0.0
    for k in range(start, stop):
        leaf = nodes[k]
        begin, end = sparse.begin[leaf], sparse.begin[leaf + 1]
        a, b, c, d = 0.0, 0.0, 0.0, 0.0  # sums that need not wait for each other
        for at in range(begin, end - 3, 4):
            a += gain[of[at]]
            b += gain[of[at + 1]]
            c += gain[of[at + 2]]
            d += gain[of[at + 3]]
        for at in range(end - (end - begin) % 4, end):
            a += gain[of[at]]
        scratch.gained[leaf] = a + b + (c + d)


@implements(log_marginal_sparse, CompiledMultinomial)
@kernel(counted=False)
def _log_marginal_sparse(family, sparse, nodes, log_own, row, start, stop, scratch, out):
    words, m, own = family.words, sparse.rows.shape[0], scratch.own
    constant = row[1] + _look_up(words, row, own)
    if start < m:
        last, used = 0, 0
        for k in range(start, stop):
            last = max(last, nodes[k])
        for c in range(FIRST_WORD, row.shape[0]):
            used += sparse.first[c + 1] - sparse.first[c] if row[c] != 0.0 else 0
        if used > _MANY * sparse.value.shape[0]:
            _score_by_leaves(words, sparse, nodes, row, start, stop, scratch)
        else:
            _score_by_words(words, sparse, row, last, scratch)
    for k in range(start, stop):
        if k < m:
            total, both = sparse.rows[nodes[k], _TOTAL], scratch.gained[nodes[k]]
        else:
            which, what, adds = sparse.which[k - m], sparse.what[k - m], sparse.what_adds[k - m]
            total, both, first = 0.0, 0.0, 0
            while first < sparse.held[k - m] and which[first] < FIRST_WORD:
                if which[first] == _TOTAL:
                    total = what[first]
                first += 1
            for at in range(first, sparse.held[k - m]):
                c = which[at]
                if own[c, 0] != 0.0:
                    both += _gain(words, c, own[c], what[at], adds[at])
        out[k] = constant + log_own[k] + math.lgamma(family.concentration_total + total)
        out[k] += both - math.lgamma(family.concentration_total + row[_TOTAL] + total)
