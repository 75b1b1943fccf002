"""One check of values for every method: it names row and column, by number and by name, in dense and sparse rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from dtree.core.checks import as_rows, check_rows
from dtree.core.families import Bernoulli, Gaussian, Multinomial, Poisson
from dtree.kmeans import survey

CASES = {
    "NaN": (Gaussian, np.nan, "row 2 holds NaN or infinity in column 1, 1 such value here: remove or impute"),
    "infinity": (Gaussian, -np.inf, "row 2 holds NaN or infinity in column 1"),
    "NaN among counts": (Multinomial, np.nan, "row 2 holds NaN or infinity in column 1"),
    "too large": (Gaussian, 1e200, r"row 2 holds a value beyond 1e\+150 in column 1"),
    "not binary": (Bernoulli, 2.0, "row 2 is not 0 or 1 in column 1.*the bernoulli family needs zeros and ones"),
    "negative": (Poisson, -1.0, "row 2 is not a whole number of 0 or more in column 1.*Negative values in data"),
    "a fraction": (
        Poisson,
        0.5,
        "row 2 is not a whole number of 0 or more in column 1.*the poisson family needs counts",
    ),
}


def rows_with(value):
    X = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
    X[2, 1] = value
    return X


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_the_first_wrong_value_is_named(case, container):
    family, value, sentence = CASES[case]
    X = rows_with(value)
    check_rows(container(rows_with(1.0)), family)
    with pytest.raises(ValueError, match=sentence):
        check_rows(container(X), family)
    with pytest.raises(ValueError, match=sentence.replace("row 2", "row 52")):
        check_rows(container(X), family, first_row=50)
    with pytest.raises(ValueError, match=r"row 2 \('c'\) .* in column 1 \('width'\)"):
        check_rows(container(X), family, 0, list("abcd"), ["length", "width", "height"])


def test_whole_numbers_and_truth_values_pass_and_text_does_not():
    check_rows(np.array([[True, False]]), Bernoulli)
    check_rows(np.array([[0, 255]], dtype=np.uint8), Poisson)
    check_rows(sparse.csr_array((3, 2)), Poisson)
    with pytest.raises(ValueError, match="row 0 is not a whole number of 0 or more in column 1"):
        check_rows(np.array([[0, -1]]), Poisson)
    with pytest.raises(ValueError, match="the data have type"):
        check_rows(np.array([["a"]]), Poisson)


def test_several_wrong_values_are_counted_and_the_first_is_named():
    X = rows_with(np.nan)
    X[0, 2] = np.inf
    with pytest.raises(ValueError, match="row 0 holds NaN or infinity in column 2, 2 such values here"):
        as_rows(X)
    with pytest.raises(ValueError, match=r"row 2 \('c'\) holds NaN or infinity in column 1"):
        as_rows(sparse.csr_array(rows_with(np.nan)), True, list("abcd"))


def test_the_check_of_a_survey_is_the_same():
    assert survey.check_rows is check_rows
