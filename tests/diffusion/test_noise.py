"""Learning observation noise by evidence, and sigma2 when the noise is absolute."""

from __future__ import annotations

import numpy as np
import pytest

from dtree.diffusion import noise, prior
from dtree.diffusion.belief import leaves_from_data
from dtree.diffusion.laplace import log_evidence_laplace
from dtree.diffusion.objective import Hyper


def test_noise_has_the_highest_evidence() -> None:
    """One small data set hardly fixes the noise; six together do, and each search ends at the top of its own curve."""
    grid = np.array([0.001, 0.01, 0.03, 0.06, 0.1, 0.2, 0.4])
    centre, spread = noise.LOG_NOISE_PRIOR
    total = np.zeros(len(grid))
    for seed in range(6):
        y, columns = prior.sample_data(40, 5, noise=0.1, rng=np.random.default_rng(seed))
        base = leaves_from_data(y, 1.0)
        curve = np.array(
            [log_evidence_laplace(columns, noise.scale_leaves(base, r), Hyper()).log_evidence for r in grid]
        )
        total += curve
        ratio, fit = noise.learn_noise(columns, base, Hyper(), 0.01)
        assert fit.converged, fit.message
        found = fit.log_evidence - 0.5 * ((np.log(ratio) - centre) / spread) ** 2
        assert found > (curve - 0.5 * ((np.log(grid) - centre) / spread) ** 2).max() - 0.05
    assert grid[np.argmax(total)] == pytest.approx(0.1)


def test_sigma2_is_recovered_with_absolute_noise() -> None:
    found = []
    for seed in range(4):
        y, columns = prior.sample_data(40, 5, sigma2=3.0, noise=0.2, rng=np.random.default_rng(seed))
        found.append(noise.learn_sigma2(columns, leaves_from_data(y, 0.2), (2.0, 1.5)))
    assert np.mean(found) == pytest.approx(3.0, rel=0.15)
