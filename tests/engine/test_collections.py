"""Dask collections are written by the workers."""

from __future__ import annotations

import numpy as np
import pytest

from dtree.engine.rows import open_rows
from tests.data.test_forms import FORMS, X, whole


@pytest.mark.parametrize("form", ["dask-unknown", "dask-frame"])
def test_dask_collections_through_the_workers(form, tmp_path, client):
    source = open_rows(FORMS[form](tmp_path), tmp_path / "staged", client)
    assert np.array_equal(whole(source), X)


def test_the_callers_array_stays_as_it_is(tmp_path):
    given_rows = FORMS["dask-unknown"](tmp_path)
    open_rows(given_rows, tmp_path / "staged")
    assert np.isnan(given_rows.shape[0])
