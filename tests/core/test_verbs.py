"""Verbs: the kernel of a type is found, the plain one stands in, and a missing one is named."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from numba.core.errors import TypingError

from dtree.core.jit import kernel
from dtree.core.verbs import implements, verb


class Known(NamedTuple):
    factor: float
    offset: int


class AllFloats(NamedTuple):
    factor: float


class Unknown(NamedTuple):
    factor: float


@kernel
def _plain(subject, x):
    return subject.factor * x


@verb(_plain)
def stretch(subject, x):
    """x stretched as the subject says."""


@verb()
def shift(subject, x):
    """x shifted as the subject says."""


@implements(stretch, Known)
@kernel
def _stretch_known(subject, x):
    return subject.factor * x + subject.offset


@implements(shift, Known)
@implements(shift, AllFloats)
@kernel
def _shift(subject, x):
    return x + subject.factor


@kernel
def both(subject, x):
    return shift(subject, stretch(subject, x))


def test_the_type_of_the_first_argument_chooses():
    assert stretch(Known(2.0, 1), 3.0) == 7.0
    assert stretch(AllFloats(2.0), 3.0) == 6.0
    assert both(Known(2.0, 1), 3.0) == 9.0
    assert both(AllFloats(2.0), 3.0) == 8.0
    assert stretch.__doc__ == "x stretched as the subject says."


def test_a_missing_kernel_is_named():
    with pytest.raises(TypeError, match="no kernel is registered for shift of Unknown"):
        shift(Unknown(1.0), 1.0)
    with pytest.raises((TypeError, TypingError), match="no kernel is registered for shift of Unknown"):
        both(Unknown(1.0), 1.0)
