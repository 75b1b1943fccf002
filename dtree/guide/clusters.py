"""Size a cluster, and live with its deaths.

**Memory of a worker.** A worker holds one chunk of rows (about 32 MB as float64), its labels and scores, and the statistics of
the clusters. With 1 GB it has room to spare; the number of rows in the dataset does not enter. Chunks become smaller when
workers are smaller.

**Number of workers.** Passes over the rows share out almost perfectly; what does not is one central task per pass that merges
clusters. `deploy/SCALING.md` has the cost model with measured constants, and a simulation that supports it.

**Where it runs.** On one machine, `--workers N --memory-limit 1GB` starts worker processes. On a cluster give
`--scheduler tls://host:8786` with certificates. `deploy/README.md` has Docker, Kubernetes, SLURM, and a script that starts a
scheduler and workers with TLS from nothing.

**Where data live.** Workers must see the data and the run's folder under the same path. Arrays in memory, CSV files and Dask
collections are first written into the run's folder.

**When something dies.** A worker: its chunk goes to another, and the answer has the same bits. The scheduler or your own
process: `dtree resume run.zarr` carries on from the last finished pass. The disk is full: one sentence says so, and after
making room `dtree resume` carries on.

**The same answer everywhere.** Sums are added in a fixed order and random numbers belong to chunks, not to workers: 1 worker
or 100, threads or processes, disturbed or not, give identical labels, statistics and trees.
"""
