"""DPMixtureMCMC as a scikit-learn estimator; weights; constant columns."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dtree.core.families import DiagonalGaussian
from dtree.estimators.chains import DPMixtureMCMC

REASONS = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a row of weight w is one atom, kept in one cluster; w copies of it may be parted"
    ),
}
# The conventions are those of the class, whatever the sampler: this one is compiled quickly, for rows with gaps too.
ESTIMATORS = [DPMixtureMCMC("gibbs", chains=1, draws=10, warmup=5, random_state=0)]


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: REASONS)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.array([[0.0, 0.0], [8.0, 0.0]])[np.arange(30) % 2] + rng.normal(size=(30, 2))


def sampler(**changes) -> DPMixtureMCMC:
    return DPMixtureMCMC("gibbs", **{"chains": 1, "draws": 20, "warmup": 10, "random_state": 0, **changes})


def test_constant_columns_are_left_out() -> None:
    X = rows()
    wider = np.column_stack([X, np.full(30, 7.0)])
    estimator = sampler(family="gaussian-diag")
    narrow = estimator.fit(X).labels_
    scores = estimator.score_samples(X)
    again = estimator.fit(wider)
    assert again.columns_.tolist() == [0, 1]
    assert np.array_equal(again.labels_, narrow)
    np.testing.assert_allclose(again.score_samples(wider), scores, rtol=1e-12)
    assert np.array_equal(again.predict(wider), estimator.fit(X).predict(X))


def test_weights() -> None:
    X, family = rows(), DiagonalGaussian([4.0, 0.0], 0.05, 3.0, [3.0, 3.0])
    weight = np.ones(30)
    weight[:4] = 0
    weighted = sampler(family=family, prior="dp").fit(X, sample_weight=weight)
    without = sampler(family=family, prior="dp").fit(X[4:])
    assert np.array_equal(weighted.partitions_[..., 4:], without.partitions_)
    assert np.all(weighted.partitions_[..., :4] == -1)
    assert weighted.labels_.shape == (30,)
    doubled = sampler(family=family, prior="dp").fit(X, sample_weight=np.full(30, 2))
    assert doubled.atoms_[:, 0].sum() == 60
    for wrong in (np.full(30, 0.5), np.full(30, -1), np.ones(7), np.zeros(30)):
        with pytest.raises(ValueError, match="sample_weight"):
            sampler().fit(X, sample_weight=wrong)
