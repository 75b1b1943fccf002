"""Taking rows out of a cluster without losing the answer to cancellation.

The fast kernels get what a cluster is worth without one of its rows from what it is worth with it: the posterior scale,
rate or count that is left is the present one times (1 - share of the row). When the row accounts for nearly all of it
(an outlier in a tight cluster, the only row that holds a word), the leading digits cancel and what is left is rounding.
There is one rule for all families: a remainder of at most SMALLEST_REMAINDER is not trusted, and the log marginal is
computed again from the statistics of the rows that stay. That is as exact as the statistics are.
"""

from dtree.core.jit import kernel
from dtree.core.verbs import log_marginal

# The subtraction from 1 leaves an absolute error of a few 1e-16, so a remainder of 1e-4 still has 12 digits, as many as
# the rest of a score has. Rows that take more than 0.9999 of their cluster are so rare that recomputing costs nothing.
SMALLEST_REMAINDER = 1e-4


@kernel
def log_marginal_without(family, statistics, row, scratch):
    """log_marginal(statistics - row) of a cluster (s,) and one of its rows (s,); `scratch` (s,) is overwritten."""
    for s in range(scratch.shape[0]):
        scratch[s] = statistics[s] - row[s]
    return log_marginal(family, scratch)
