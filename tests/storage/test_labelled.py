"""Arrays whose dimensions have names: xarray, zarr stores that it writes, Icechunk repositories."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

import dtree
from dtree.data import open_source
from dtree.storage import with_options
from tests.storage.server import Server


def cube() -> xarray.DataArray:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(6, 5, 3)) + np.where(np.arange(6) < 3, 0.0, 9.0)[:, None, None]
    coordinates = {"lat": np.arange(6) * 10.0, "lon": np.arange(5), "band": [700, 550, 450]}
    return xarray.DataArray(values, coordinates, ("lat", "lon", "band"), name="light")


def test_a_data_array_is_rows_with_names_and_comes_back_labelled() -> None:
    X = cube()
    model = dtree.TreeClustering(random_state=0).fit(X)
    assert model.feature_names_in_.tolist() == ["700", "550", "450"]
    assert model.labels_.shape == (30,)
    found = dtree.as_dataset(model, X)
    assert found.label.dims == ("lat", "lon")
    assert np.array_equal(found.lat, X.lat)
    assert np.array_equal(found.label.values.ravel(), model.predict(X))
    assert len({*found.label.sel(lat=0.0).values.tolist()}) == 1
    np.testing.assert_array_equal(found.log_density.values.ravel(), model.score_samples(X))
    table = X.isel(lon=0, drop=True)
    assert open_source(table).row_names == [str(value) for value in table.lat.values]
    with pytest.raises(ValueError, match="the last one holds the features"):
        open_source(X.isel(lon=0, band=0))
    with pytest.raises(ValueError, match="must be an xarray DataArray"):
        dtree.as_dataset(model, X.values)


@pytest.mark.parametrize("format", [2, 3])
def test_a_variable_of_a_store_by_name(format: int, tmp_path: Path) -> None:
    cube().to_dataset().to_zarr(tmp_path / "store.zarr", zarr_format=format, consolidated=False)
    source = open_source(f"{tmp_path}/store.zarr::light")
    rows = cube().values.reshape(-1, 3)
    assert source.shape == (30, 3)
    assert source.columns == ("700", "550", "450")
    assert np.array_equal(source.load(), rows)
    for start, stop in ((0, 4), (4, 11), (29, 30)):
        assert np.array_equal(source.read(start, stop), rows[start:stop])
    assert source.absent(0, 30) == []
    fitted = dtree.TreeClustering(random_state=0).fit(f"{tmp_path}/store.zarr::light")
    assert np.array_equal(fitted.labels_, dtree.TreeClustering(random_state=0).fit(cube()).labels_)


def test_packed_numbers_are_refused(tmp_path: Path) -> None:
    packed = {"light": {"dtype": "int16", "scale_factor": 0.01, "_FillValue": -9999}}
    cube().to_dataset().to_zarr(tmp_path / "store.zarr", zarr_format=2, consolidated=False, encoding=packed)
    with pytest.raises(ValueError, match="packed numbers"):
        open_source(f"{tmp_path}/store.zarr::light")


def icechunk_repository(storage: Any) -> None:
    import icechunk

    session = icechunk.Repository.create(storage).writable_session("main")
    cube().to_dataset().to_zarr(session.store, zarr_format=3, consolidated=False)
    session.commit("rows")


@pytest.mark.parametrize("server", ["s3"], indirect=True)  # the only kind that Icechunk repositories are read from
def test_a_variable_of_an_icechunk_repository(tmp_path: Path, server: Server) -> None:
    os.environ.setdefault("ICECHUNK_LOG", "error")
    icechunk = pytest.importorskip("icechunk")
    rows = cube().values.reshape(-1, 3)
    icechunk_repository(icechunk.local_filesystem_storage(str(tmp_path / "repo")))
    source = open_source(f"{tmp_path}/repo::light")
    assert source.columns == ("700", "550", "450")
    assert np.array_equal(source.load(), rows)
    options = server.options
    icechunk_repository(
        icechunk.s3_storage(
            bucket=server.bucket, prefix="repo", region="us-east-1", endpoint_url=options["endpoint"], allow_http=True,
            access_key_id=options["aws_access_key_id"], secret_access_key=options["aws_secret_access_key"],
            force_path_style=True,
        )
    )  # fmt: skip
    with with_options(options):
        there = open_source(f"s3://{server.bucket}/repo::light")
    assert np.array_equal(there.load(), rows)
    assert np.array_equal(there.read(7, 19), rows[7:19])
