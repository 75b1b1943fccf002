"""Binary search inside kernels."""

from dtree.core.jit import kernel


@kernel
def first_at_or_after(values, low, high, value):
    """The first position from low on, below high, whose entry of the rising `values` is at least `value`, else high.

    >>> import numpy as np
    >>> int(first_at_or_after(np.array([1, 3, 3, 7]), 0, 4, 3))
    1
    """
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low
