"""A fitted DPMixtureMCMC on disk: the same again, bit for bit, and able to go on."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dtree
from dtree.core.families import DiagonalGaussian


def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.array([[0.0, 0.0], [8.0, 0.0]])[np.arange(30) % 2] + rng.normal(size=(30, 2))


def fitted(**changes) -> dtree.DPMixtureMCMC:
    family = DiagonalGaussian([4.0, 0.0], 0.05, 3.0, [3.0, 3.0])
    settings = {"family": family, "prior": "nggp", "chains": 2, "draws": 20, "warmup": 10, "random_state": 0}
    weight = np.ones(30)
    weight[3] = 0
    return dtree.DPMixtureMCMC(**{**settings, **changes}).fit(rows(), sample_weight=weight)


def test_opened_chains_are_the_same_and_go_on(tmp_path):
    model = fitted()
    dtree.save(model, tmp_path / "run.zarr")
    again = dtree.open(tmp_path / "run.zarr")
    assert again.get_params().keys() == model.get_params().keys()
    assert again.prior == "nggp"
    assert np.array_equal(again.partitions_, model.partitions_)
    assert again.partitions_.dtype == np.uint8
    assert again.posterior_.equals(model.posterior_)
    assert np.array_equal(again.labels_, model.labels_)
    assert np.array_equal(again.score_samples(rows()), model.score_samples(rows()))
    more, twin = again.more_draws(5), model.more_draws(5)
    assert np.array_equal(more.partitions_, twin.partitions_)
    assert more.posterior_.equals(twin.posterior_)


def test_what_cannot_be_saved_or_opened_is_named(tmp_path):
    with pytest.raises(ValueError, match="not fitted yet"):
        dtree.save(dtree.DPMixtureMCMC(), tmp_path / "run.zarr")
    dtree.save(fitted(sampler="gibbs"), tmp_path / "run.zarr")
    header = tmp_path / "run.zarr" / "zarr.json"
    document = json.loads(header.read_text())
    document["attributes"]["dtree"]["settings"]["fitted"].pop("prior_")
    header.write_text(json.dumps(document))
    with pytest.raises(ValueError, match="its prior_ is missing"):
        dtree.open(tmp_path / "run.zarr")
