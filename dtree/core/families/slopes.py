"""The gradient of a smooth function by differences: steps shrink until extrapolations to a step of zero agree.

Central differences at steps h, h/2, h/4, ... have errors in even powers of h, which Richardson's extrapolation takes
out one by one; where two extrapolations differ least, that difference is the error (Ridders 1982). Steps that leave the
domain of the function give NaN, or values on which extrapolations do not agree, and are passed over.
"""

from collections.abc import Callable

import numpy as np

# The first step relative to the size of a coordinate. Not a round number: with one, a step from zero could end exactly
# at minus a hyperparameter, where a kernel divides by zero.
_FIRST_STEP = np.sqrt(2.0) / 16.0
_HALVINGS = 50  # the last step is 1e-16 of a coordinate's size: smaller ones do not change it
_ORDERS = 6  # extrapolations of higher order add rounding, not accuracy
_CLOSE = 1e-13  # relative error at which nothing is left to gain in double precision
_SMALL_ERROR = 1e-6  # relative error below which steps are inside the domain and extrapolation works
_NOISE = (
    64.0  # so many times the rounding of the value alone is what a sum of larger terms inside the function can have
)
_GROWTH = 8.0  # halving a step doubles what rounding does to a difference; more than two doublings are no accident
_LARGEST_ERROR = 1e-5  # relative error of a derivative that does not exist, or a function that is not smooth
_EPSILON = np.finfo(np.float64).eps


def slopes(function: Callable[[np.ndarray], np.ndarray], at: np.ndarray) -> np.ndarray:
    """Gradients (k, s) of function: (m, s) -> (m,) at each of the rows (k, s).

    Raises FloatingPointError with the number of the coordinate where there is none.

    >>> slopes(lambda x: np.log(x[:, 0]) + x[:, 1] ** 2, np.array([[2.0, 3.0]])).round(10).tolist()
    [[0.5, 6.0]]
    """
    at = np.ascontiguousarray(at, dtype=np.float64)
    # A coordinate that is zero here, as in an empty component, is as large as it is per row elsewhere. Below one it is
    # taken as one: a sum that is tiny because its terms cancel says nothing of its scale, and shrinking a step is safe.
    per_row = np.abs(at).sum(axis=0) / max(float(np.abs(at[:, 0]).sum()), 1.0)
    size = np.maximum(np.maximum(np.abs(at), per_row), 1.0)
    with np.errstate(all="ignore"):
        columns = [_slope(function, at, column, _FIRST_STEP * size[:, column]) for column in range(at.shape[1])]
    return np.ascontiguousarray(np.column_stack(columns))


def _slope(function: Callable[[np.ndarray], np.ndarray], at: np.ndarray, column: int, step: np.ndarray) -> np.ndarray:
    """Derivatives (k,) by one coordinate; `step` (k,) are the first steps."""
    best, best_error = np.full(at.shape[0], np.nan), np.full(at.shape[0], np.inf)
    rows = np.arange(at.shape[0])  # those not yet close enough
    before: list[np.ndarray] = []  # extrapolations of order 0, 1, ... from the step before
    for _ in range(_HALVINGS):
        difference, rounding = _central_difference(function, at[rows], column, step[rows])
        now, error_now = [difference], np.full(rows.size, np.inf)  # the smallest error at this step
        for order, last in enumerate(before[:_ORDERS], 1):
            better = now[-1] + (now[-1] - last) / (4.0**order - 1.0)
            error = np.maximum(np.abs(better - now[-1]), np.abs(better - last))
            error_now = np.fmin(error_now, error)
            lower = error < best_error[rows]  # false for NaN
            best[rows[lower]], best_error[rows[lower]] = better[lower], error[lower]
            now.append(better)
        reached = best_error[rows] <= np.maximum(_CLOSE * np.abs(best[rows]), rounding)
        # Errors that were small and grow again are those of rounding, which smaller steps only make worse.
        small = best_error[rows] <= np.maximum(_SMALL_ERROR * np.abs(best[rows]), _NOISE * rounding)
        left = ~(reached | (small & (error_now > _GROWTH * best_error[rows])))
        rows, before = rows[left], [estimate[left] for estimate in now]
        if rows.size == 0:
            break
        step = 0.5 * step
    if not np.all(best_error <= _LARGEST_ERROR * np.maximum(np.abs(best), 1.0)):
        raise FloatingPointError(column)
    return best


def _central_difference(
    function: Callable[[np.ndarray], np.ndarray], at: np.ndarray, column: int, step: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Differences (k,) and how far rounding of the function's values alone can move them."""
    up, down = at.copy(), at.copy()
    up[:, column] += step
    down[:, column] -= step
    high, low = function(up), function(down)
    width = up[:, column] - down[:, column]  # what the step became in double precision
    return (high - low) / width, _EPSILON * np.maximum(np.abs(high), np.abs(low)) / width
