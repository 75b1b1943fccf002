"""Rows are labelled in several threads of this process: in order, with the same bits, and an error ends it."""

from __future__ import annotations

import time

import numpy as np
import pytest
import zarr

import dtree
from dtree.engine import predict
from dtree.engine.workers import Here
from dtree.estimators.saving import save


def test_results_of_threads_come_in_order():
    def late(number: int) -> int:
        time.sleep(0.01 * (5 - number))
        return number

    assert Here(3).run(late, [(number,) for number in range(5)]) == list(range(5))


def test_an_error_in_a_thread_is_raised():
    def refuse(number: int) -> None:
        raise ValueError(f"no {number}")

    with pytest.raises(ValueError, match="no 0"):
        Here(2).run(refuse, [(number,) for number in range(3)])


@pytest.mark.parametrize("family", ["gaussian", "gaussian-diag"])
def test_predictions_do_not_depend_on_the_number_of_threads(family, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2)) + 8.0 * (np.arange(90) % 3)[:, None]
    save(dtree.BayesKMeansBHC(family, random_state=0).fit(X), tmp_path / "run")
    monkeypatch.setattr(predict, "chunk_rows_for", lambda *given: 16)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(predict, "available_threads", lambda threads=threads: threads)
        assert predict.predict_into(tmp_path / "run", X, tmp_path / f"by {threads}") == 90
        group = zarr.open_group(tmp_path / f"by {threads}", mode="r")
        found.append([group[name][...].tobytes() for name in predict.ARRAYS])
    assert found[0] == found[1]
