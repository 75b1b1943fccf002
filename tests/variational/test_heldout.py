"""The first experiment of [KWT07] at reduced size: held-out density of the six variants."""

from __future__ import annotations

import pytest

from benchmarks.vb import heldout_scores


@pytest.mark.slow
def test_six_variants_fall_into_the_published_bands():
    scores = heldout_scores(datasets=20)
    # Data sets are drawn anew, so levels are compared with the mixture that knows the labels: published -22.369 for it
    # and -22.558, -22.489, -22.550, -22.482, -22.489, -22.472 for the six, standard errors 0.02.
    gap = {variant: float((values - scores["true labels"]).mean()) for variant, values in scores.items()}
    published = {"TSB": -0.189, "O-TSB": -0.120, "CTSB": -0.181, "O-CTSB": -0.113, "FSD": -0.120, "CFSD": -0.103}
    for variant, value in published.items():
        assert gap[variant] == pytest.approx(value, abs=0.06)
    assert -22.482 - 0.35 < scores["O-CTSB"].mean() < -22.482 + 0.35
    for unordered in ("TSB", "CTSB"):  # reordering is what matters
        assert gap[unordered] < gap["O-CTSB"] - 0.03
    for close in ("O-TSB", "FSD", "CFSD"):
        assert abs(gap[close] - gap["O-CTSB"]) < 0.06
