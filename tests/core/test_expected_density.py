"""Expected log densities: the default from the log marginal against every family's closed form and golden values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import digamma, gammaln

from dtree.core.families import (
    FAMILIES,
    Bernoulli,
    DiagonalGaussian,
    Family,
    Gaussian,
    Multinomial,
    Poisson,
    moments_of,
)
from dtree.core.families.slopes import slopes
from tests.core.test_families import rows_for
from tests.golden import golden

MIXED = golden("mixed")


def default(family, statistics):
    return Family.expected_log_density(family, statistics)


def soft_and_hard(rng, n):
    """Responsibilities: spread out, hard with two empty components, and hard but for a trace everywhere."""
    hard = np.eye(5)[rng.integers(0, 3, n)]
    return {"soft": rng.dirichlet(np.ones(5), n), "hard": hard, "nearly hard": (1.0 - 1e-9) * hard + 1e-12}


@pytest.mark.parametrize("share", [0.3, 0.01])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_default_equals_the_closed_form(name, share):
    rng = np.random.default_rng(2)
    X = rows_for(name, rng, 150, d=4)
    family = FAMILIES[name].defaults(moments_of(X), share)
    rows = family.statistics(X)
    for kind, responsibilities in soft_and_hard(rng, 150).items():
        statistics = responsibilities.T @ rows
        closed = family.expected_log_density(statistics)
        assert rows @ default(family, statistics).T == pytest.approx(rows @ closed.T, rel=1e-10, abs=1e-8), kind


@pytest.mark.parametrize("unit", [1e-6, 1e6])
@pytest.mark.parametrize("name", ["gaussian", "gaussian-diag"])
def test_units_do_not_matter_to_the_default(name, unit):
    rng = np.random.default_rng(3)
    X = unit * rows_for(name, rng, 80, d=2)
    fitted = FAMILIES[name].defaults(moments_of(X), 0.1)
    # Statistics taken about zero in the data's raw units, as a family without an origin would take them.
    family = type(fitted)(**{**fitted.parameters(), "origin": np.zeros(2), "unit": np.ones(2)})
    rows = family.statistics(X)
    statistics = soft_and_hard(rng, 80)["soft"].T @ rows
    closed = rows @ family.expected_log_density(statistics).T
    assert rows @ default(family, statistics).T == pytest.approx(closed, rel=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_it_is_the_derivative_along_each_row(name):
    rng = np.random.default_rng(4)
    X = rows_for(name, rng, 30)
    family = FAMILIES[name].defaults(moments_of(X), 0.2)
    rows = family.statistics(X)
    at = rows[:20].sum(axis=0) * 0.83
    step = 1e-4
    up, down = family.soft_log_marginal_of(at + step * rows), family.soft_log_marginal_of(at - step * rows)
    expected = rows @ family.expected_log_density(at[None, :])[0]
    assert expected == pytest.approx((up - down) / (2.0 * step), rel=1e-5, abs=1e-5)


def column_family(kind, *parameters):
    match kind:
        case "real":
            mean, strength, shape, rate = parameters
            return DiagonalGaussian([mean], strength, [shape], [rate])
        case "binary":
            return Bernoulli(*([value] for value in parameters))
        case "count":
            return Poisson(*([value] for value in parameters))
    return Multinomial(parameters[0])


def column_values(kind, values, levels):
    """Observed values (m,) as rows of the column's family; a category is a one among its levels."""
    values = np.array(values)
    return np.eye(levels)[values.astype(int)] if kind == "category" else values[:, None].astype(float)


@pytest.mark.parametrize("case", MIXED["cases"], ids=range(len(MIXED["cases"])))
@pytest.mark.parametrize("expected", [default, lambda family, statistics: family.expected_log_density(statistics)])
def test_golden_columns_of_four_kinds_with_holes(case, expected):
    """A row's expected log density is the sum over its observed columns, each given the rows with a value there."""
    half = case["X"][: len(case["X"]) // 2]
    total = np.zeros(len(case["new"]))
    for j, (kind, *parameters) in enumerate(MIXED["columns"]):
        family = column_family(kind, *parameters)
        levels = len(parameters[0]) if kind == "category" else 1
        seen = [row[j] for row in half if row[j] is not None]
        statistics = np.zeros(family.statistics(np.zeros((1, family.n_features))).shape[1])
        if seen:
            statistics = family.statistics(column_values(kind, seen, levels)).sum(axis=0)
        coefficients = expected(family, statistics[None, :])[0]
        for i, row in enumerate(case["new"]):
            if row[j] is not None:
                total[i] += family.statistics(column_values(kind, [row[j]], levels))[0] @ coefficients
    assert total == pytest.approx(case["expected_log_density_first_half"], abs=1e-8)


def test_slopes_find_the_scale_of_a_function_by_themselves():
    for shift in np.exp(np.random.default_rng(0).uniform(-14.0, 5.0, 300)):
        found = slopes(lambda x, a=shift: gammaln(a + x[:, 0]) - gammaln(a), np.zeros((1, 1)))[0, 0]
        assert found == pytest.approx(digamma(shift), rel=1e-10, abs=1e-10)


def test_a_log_marginal_for_whole_counts_only_gets_a_sentence():
    class Stepped(Gaussian):
        def soft_log_marginal_of(self, statistics):
            return np.floor(statistics[:, 0])

    family = Stepped([0.0], 1.0, 3.0, [[1.0]])
    with pytest.raises(ValueError, match="no derivative by statistic 0"):
        default(family, family.statistics([[1.0]]))
