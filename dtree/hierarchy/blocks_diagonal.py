"""Where atoms of the diagonal Gaussian family lie, and what a union with one of a block is worth at most.

Let a cluster a have posterior strength k (prior strength plus rows), and in one feature mean m and rate r. Joining rows
b of count n, mean x and scatter S about x gives the rate

    r + S / 2 + c (m - x)^2 / 2,    c = k n / (k + n)

and log p(a u b) is a term of the count less (shape + count / 2) log rate, summed over features: it falls as a rate
grows. S is not negative, and no leaf of a block is nearer to m than the box of the block. So leaving S out and taking
the distance from m to the box bounds every rate from below, and log p from above.

A full covariance has no such bound here: that from a ball around a block (the triangle inequality in the metric of the
cluster) left two blocks in five to be scored, which took more time than it saved.
"""

import math

import numpy as np

from dtree.core.families.gaussian_diag import CompiledDiagonalGaussian
from dtree.core.families.gaussian_diag import _count_term as count_term
from dtree.core.jit import kernel
from dtree.core.verbs import implements
from dtree.hierarchy.blocks import log_marginal_most, places

_FEATURES_PER_LOG = 16  # as in the family
_SMALLEST_RATE = 1e-9  # of a prior relative to its base, where rounding leaves less: any width will do


@kernel
def _prior_width(family, j):
    """About how wide a cluster is in feature j before any row is seen."""
    rate = family.rate_base[j] - 0.5 * family.pull[j] ** 2 / family.strength
    return math.sqrt(max(rate, _SMALLEST_RATE * family.rate_base[j]))


@implements(places, CompiledDiagonalGaussian)
@kernel
def _places(family, columns):
    m, d = columns.shape[1], family.shape.shape[0]
    out = np.empty((m, d))
    for j in range(d):
        width = _prior_width(family, j)
        for i in range(m):
            out[i, j] = columns[1 + j, i] / (columns[0, i] * width)
    return out


@implements(log_marginal_most, CompiledDiagonalGaussian)
@kernel
def _log_marginal_most(family, blocks, row, out):
    d, n_blocks = family.shape.shape[0], blocks.start.shape[0]
    strength = family.strength + row[0]
    product, weight = np.ones(n_blocks), np.empty(n_blocks)
    for b in range(n_blocks):
        weight[b] = 0.5 * strength * blocks.counts[b] / (strength + blocks.counts[b])
        out[b] = count_term(family, row[0] + blocks.counts[b])
    for j in range(d):
        width = _prior_width(family, j)
        pulled = row[1 + j] + family.pull[j]
        rate = family.rate_base[j] + 0.5 * row[1 + d + j] - 0.5 * pulled * pulled / strength
        mean, scaled = pulled / (strength * width), width * width
        low, high = blocks.low[j], blocks.high[j]
        for b in range(n_blocks):
            gap = max(max(low[b] - mean, mean - high[b]), 0.0)
            product[b] *= rate + weight[b] * scaled * gap * gap
        if not family.same_shape or j % _FEATURES_PER_LOG == _FEATURES_PER_LOG - 1 or j == d - 1:
            for b in range(n_blocks):
                exponent = family.shape[j] + 0.5 * (row[0] + blocks.counts[b])
                out[b] -= exponent * math.log(product[b])
                product[b] = 1.0
