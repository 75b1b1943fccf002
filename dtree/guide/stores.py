"""Data and runs in a bucket: addresses, credentials, what is kept where.

Wherever a path is given, an address will do: `s3://bucket/rows.zarr`, `gs://`, `az://`, `https://` (to read) and `memory://` (of this
process). `pip install 'dtree[cloud]'` brings [obstore](https://developmentseed.org/obstore), which speaks to all of them.

    dtree fit s3://bucket/rows.parquet --out s3://bucket/run.zarr
    dtree report s3://bucket/run.zarr -o report.html

**Data**: zarr of format 2 and 3, parquet files and folders, `.npy` are read by ranges, by the workers themselves, the next chunk (and its labels of the last pass) while one is
worked on; `.csv` and `.npz` are read once by the process that fits and copied into the run. `store.zarr::temperature` picks an array of a store; its
dimensions but the last are the rows. An Icechunk repository (`repo::temperature`, on disk or s3://) is read at the tip of `main`. An xarray
`DataArray` is rows too, and `dtree.as_dataset(model, X)` gives labels and densities back with its coordinates.

**Runs**: every command and `out=` take an address; workers read and write the bucket, nothing of the size of the data passes the client, and the
bits are those of a run on disk. A record counts once its `zarr.json` is there, which is put only if there is none and lists the hashes of the rest. One
process works on a run: its lease is an object that is replaced only in the version that was read. A store must heed such conditional puts: S3,
Google and Azure do; one that takes every put and says nothing (`rclone serve s3` is such a one) is tried when a run begins, and refused in a
sentence. What was tried: S3 by moto's server, Azure by Azurite, Google by its dialect spoken before moto (`make test-stores`); none of the
three real services. Replacing a run (`--overwrite`) is done by copying within the bucket: for that moment there is no run at the
address, and `dtree resume` ends a move that was cut short. Reports, exports and labels as files go to a disk. `dtree status s3://bucket/run.zarr` works from any
machine; one that cannot see the owner's processes takes it for dead when it has been silent for two minutes.

**Credentials** come from the usual environment variables (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_ENDPOINT_URL`, `AWS_REGION`;
`GOOGLE_APPLICATION_CREDENTIALS`; `AZURE_STORAGE_ACCOUNT_NAME`, `AZURE_STORAGE_ACCOUNT_KEY`; for an emulator `AZURE_STORAGE_ENDPOINT`, `GOOGLE_BASE_URL`), in every process from its own environment; or from
`storage_options={"endpoint": ...}` and `--storage-option KEY=VALUE`, which travel to the workers inside the tasks. They are written into no run, log, report or
message. An address that holds a password or a query is refused, because runs remember addresses. Profiles in `~/.aws` are not read.

**When the store fails**: requests are repeated for up to three minutes (`retry_seconds`, `max_retries`, `timeout_seconds` are storage options too); then there is
one sentence, and `dtree resume` carries on, from any machine that knows the address.

>>> import numpy as np
>>> import dtree
>>> X = np.array([[0.0], [0.1], [5.0], [5.2]])
>>> dtree.save(dtree.BHC().fit(X), "memory://guide/run.zarr")
>>> dtree.open("memory://guide/run.zarr").labels_.tolist()
[0, 0, 1, 1]
"""
