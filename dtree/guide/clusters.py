"""Size a cluster of machines, and live with its deaths.

**Do you need one?** A pass over 10 million rows of 16 features with 64 clusters takes about 12 seconds on two cores. Below some hundred thousand rows, worker
processes cost more to start than they save, and dtree works in this process unless you say otherwise.

**Memory of a worker.** A worker holds one chunk of rows (about 32 MB as float64), its labels and scores, and the statistics of
the clusters. With 1 GB it has room to spare; the number of rows in the dataset does not enter. Chunks become smaller when
workers are smaller. Statistics take k s 8 bytes: 1,000 clusters of 100 features with full covariances are 41 MB.

**Number of workers.** Passes over the rows share out almost perfectly; what does not is one central task per pass that merges
clusters. Divide: rows x clusters x a microsecond / workers is a pass; a fit takes some ten passes. `deploy/SCALING.md` has the cost model with
measured constants, and a simulation that supports it: up to about 100 workers for 10^9 rows. A tree over single rows (`dtree.BHC`) is grown in one process,
on its cores, whatever the workers: half of its work is one merge after the other.

**Where it runs.** On one machine, `--workers N --memory-limit 1GB` starts worker processes. On a cluster give
`--scheduler tls://host:8786` with certificates. In Python, `client=` takes a `distributed.Client`. `deploy/README.md` has Docker, Kubernetes, SLURM,
and a script that starts a scheduler and workers with TLS from nothing.

**Where data live.** Workers must see the data and the run under the same path or address (`s3://...`, see `dtree.guide.stores`). zarr and parquet are read chunk by chunk in place; arrays in
memory, CSV files and Dask collections are first written into the run's folder. Uncompressed zarr of float32 reads fastest.

**Before and while it runs.** `dtree fit DATA --out RUN --dry-run` says what would be done: columns, chunks, memory of a worker, passes, and a time by the
model of `deploy/SCALING.md`. `dtree status RUN`, from any machine that sees the run, says what is being done: stage, pass, objective, clusters, rows a
second, time left, last commit, owner; `--json` says it to a program. `--log-file FILE` adds one line of JSON for every event. The address of Dask's
dashboard is printed where the scheduler has one. A local cluster has one with `--dashboard`; what draws it is bokeh (`pip install bokeh`), on the scheduler's
machine. The stages of a run are spans there, to be chosen on its page "Fine Performance Metrics".

**When something dies.** A worker: its chunk goes to another, and the answer has the same bits. The scheduler or your own
process: `dtree resume run.zarr` carries on from the last finished pass. The disk is full: one sentence says so, and after
making room `dtree resume` carries on.

**The same answer everywhere.** Sums are added in a fixed order and random numbers belong to chunks, not to workers: 1 worker
or 100, threads or processes, disturbed or not, give identical labels, statistics and trees.

**The first start** of a kernel on a machine compiles it, which takes from seconds to a minute; the machine code is kept on disk
(`DTREE_CACHE_DIR` chooses where) and later starts load it. `dtree warm` compiles beforehand, on all cores.
"""
