"""Rows seen from full Gaussian clusters: W z - b, whose squared length is a distance, for many rows at a time."""

import math

import numpy as np

from dtree.core.jit import kernel
from dtree.core.lanes import FUSED, LANES


@kernel
def whitening(scale, mean, stretch):
    """Lower triangles of sqrt(stretch) L^-1 (k, d(d+1)/2), scale = L L', their products with the means (k, d), log det.

    The last scale is the prior's. Rows only widen it, so no pivot of another scale can be smaller than the prior's own:
    where rounding says so, the prior's is taken.
    Not LAPACK's: its last bits depend on how many threads it was given, and labels must not.
    """
    k, d = mean.shape
    least = np.zeros(d)
    whiten, offset, log_det = np.empty((k, d * (d + 1) // 2)), np.zeros((k, d)), np.zeros(k)
    factor, inverse = np.zeros((d, d)), np.zeros((d, d))
    for c in range(k - 1, -1, -1):
        for a in range(d):
            for b in range(a + 1):
                total = scale[c, a, b]
                for j in range(b):
                    total -= factor[a, j] * factor[b, j]
                if a == b:
                    total = max(total, least[a])
                    if c == k - 1:
                        least[a] = total
                factor[a, b] = math.sqrt(total) if a == b else total / factor[b, b]
            log_det[c] += 2.0 * math.log(factor[a, a])
        root = math.sqrt(stretch[c])
        position = 0
        for a in range(d):
            for b in range(a + 1):
                total = 1.0 if a == b else 0.0
                for j in range(b, a):
                    total -= factor[a, j] * inverse[j, b]
                inverse[a, b] = total / factor[a, a]
                whiten[c, position] = root * inverse[a, b]
                offset[c, a] += whiten[c, position] * mean[c, b]
                position += 1
    return whiten, offset, log_det


@kernel(fastmath=FUSED)
def whitened_distance(least, whiten, offset, z, distance, y):
    """distance (LANES,) = least + |W z - b|^2 for each column of z (d, LANES); y (LANES,) is scratch."""
    d = z.shape[0]
    for i in range(LANES):
        distance[i] = least
    position = 0
    for a in range(d):
        shift = offset[a]
        for i in range(LANES):
            y[i] = -shift
        b = 0
        while b + 4 <= a + 1:  # four columns a time: fewer trips of y through memory
            w0, w1, w2, w3 = whiten[position], whiten[position + 1], whiten[position + 2], whiten[position + 3]
            z0, z1, z2, z3 = z[b], z[b + 1], z[b + 2], z[b + 3]
            for i in range(LANES):
                y[i] += w0 * z0[i] + w1 * z1[i] + (w2 * z2[i] + w3 * z3[i])
            position += 4
            b += 4
        while b < a + 1:
            w0 = whiten[position]
            z0 = z[b]
            for i in range(LANES):
                y[i] += w0 * z0[i]
            position += 1
            b += 1
        for i in range(LANES):
            distance[i] += y[i] * y[i]
