"""A natural logarithm and an exponential for many numbers at once.

The compiler does not vectorise calls to the C library's. These are plain arithmetic on the bits of a double, so that
the processor's vector units take several numbers at a time; they are within two units in the last place of the
library's.
"""

import numpy as np

from dtree.core.jit import kernel

LANES = 64  # rows scored together; their scratch stays in the first-level cache
FUSED = {"contract"}  # a multiplication and an addition may be one instruction; nothing is reordered

_MANTISSA = (1 << 52) - 1
BITS_OF_ONE = 1023 << 52
_TWO_TO_52 = 1075 << 52  # the bits of 2**52: or-ing a small integer into them adds it
_LOG_2 = 0.6931471805599453
LOG_PER_BIT = _LOG_2 / (1 << 52)
_SQRT_2 = 1.4142135623730951
_LOG_2_HIGH = 0.693147180369123816490  # 33 bits of log 2: its products with small integers are exact
_LOG_2_LOW = 1.90821492927058770002e-10  # the rest of it
_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer, which is then in the lowest bits


@kernel(fastmath=FUSED)
def log_of_lanes(x, bits, out):
    """out[i] = log(x[i]) for positive, normal x (LANES,); bits (2, LANES) int64 is scratch."""
    raw = x.view(np.int64)
    exponent, mantissa = bits[0], bits[1]
    for i in range(LANES):
        exponent[i] = (raw[i] >> 52) | _TWO_TO_52
        mantissa[i] = (raw[i] & _MANTISSA) | BITS_OF_ONE
    exponents, mantissas = exponent.view(np.float64), mantissa.view(np.float64)
    for i in range(LANES):
        e = exponents[i] - (4503599627370496.0 + 1023.0)
        m = mantissas[i]  # in [1, 2)
        large = m > _SQRT_2
        m = 0.5 * m if large else m
        e = e + 1.0 if large else e
        # log m = 2 artanh f with |f| <= 0.172: eleven terms of the series reach the last bit.
        f = np.divide(m - 1.0, m + 1.0)  # `/` would ask whether it divides by zero, and not be vectorised
        g = f * f
        tail = 1.0 / 23.0
        tail = tail * g + 1.0 / 21.0
        tail = tail * g + 1.0 / 19.0
        tail = tail * g + 1.0 / 17.0
        tail = tail * g + 1.0 / 15.0
        tail = tail * g + 1.0 / 13.0
        tail = tail * g + 1.0 / 11.0
        tail = tail * g + 1.0 / 9.0
        tail = tail * g + 1.0 / 7.0
        tail = tail * g + 1.0 / 5.0
        tail = tail * g + 1.0 / 3.0
        out[i] = e * _LOG_2 + (2.0 * f + 2.0 * f * g * tail)


@kernel(fastmath=FUSED)
def exp_of_lanes(x, bits, out):
    """out[i] = exp(x[i]) for x (LANES,) of at most 0, where it is at least e^-700; bits (2, LANES) int64 is scratch."""
    rounded, power = bits[0].view(np.float64), bits[1].view(np.float64)
    for i in range(LANES):
        rounded[i] = max(x[i], -700.0) * (1.0 / _LOG_2) + _ROUND
    for i in range(LANES):
        bits[1, i] = (bits[0, i] << 52) + BITS_OF_ONE
    for i in range(LANES):
        n = rounded[i] - _ROUND
        r = (max(x[i], -700.0) - n * _LOG_2_HIGH) - n * _LOG_2_LOW  # |r| <= 0.35: thirteen terms reach the last bit
        tail = 1.0 / 6227020800.0
        tail = tail * r + 1.0 / 479001600.0
        tail = tail * r + 1.0 / 39916800.0
        tail = tail * r + 1.0 / 3628800.0
        tail = tail * r + 1.0 / 362880.0
        tail = tail * r + 1.0 / 40320.0
        tail = tail * r + 1.0 / 5040.0
        tail = tail * r + 1.0 / 720.0
        tail = tail * r + 1.0 / 120.0
        tail = tail * r + 1.0 / 24.0
        tail = tail * r + 1.0 / 6.0
        tail = tail * r + 0.5
        out[i] = (1.0 + (r + r * r * tail)) * power[i]
