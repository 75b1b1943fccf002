"""What dtree promises and how it is tested: faults, what happens, and the test that makes each happen.

**The promise.** Whatever is done to a run or to its data, it ends in one of two ways: the answer is to the last bit the one that an
undisturbed run gives, or there is one sentence that says what is wrong and what to do. It never ends in another answer without a word.

| what happens | what dtree does | tested in |
| --- | --- | --- |
| a byte of a finished run is flipped: labels, statistics, tree, header | `open`, `info`, `report`, `export` and `predict` refuse it in one sentence; `dtree verify RUN` names everything that is damaged | `tests/faults/test_checksums.py` |
| a checkpoint, or the labels of a pass, are damaged or lost | the run goes on from the checkpoint before it by itself, and says so; the bits are the same | `tests/faults/test_generations.py` |
| somebody forged a checkpoint so that its hashes are right | refused in one sentence that says what is impossible about it | `tests/engine/test_hostile.py` |
| two processes fit into one `--out`, or resume one run, at the same moment | one works; the other is told who does, on which machine and since when; nobody's files are touched | `tests/faults/test_leases.py` |
| the one who worked on a run died without a word | its lease is taken over: at once on the same machine, after two minutes from another | `tests/faults/test_leases.py` |
| one who was asleep for long wakes up, and another has taken over | it stops before it makes anything permanent | `tests/faults/test_leases.py` |
| a chunk of the input zarr is lost while a run needs it | one sentence with array and chunk; after restoring it `dtree resume` carries on to the same bits | `tests/faults/test_data.py` |
| a chunk of the input zarr was never written | legal: it reads as its fill value, and that is said when the run begins and by `dtree info` | `tests/faults/test_data.py` |
| the data change between two passes, or between a fit and its resuming | refused wherever rows are read again; `dtree resume --accept-changed-data` starts over; `dtree verify RUN --data` names the rows | `tests/faults/test_data.py` |
| Ctrl-C, SIGTERM (what Kubernetes and Slurm send) | the step is left, the run can be resumed, one sentence, exit code 130 or 143 | `tests/faults/test_stops.py` |
| the time limit is over (`--time-limit 2h`) | passes end with the best so far, called not converged; other methods can be resumed, exit code 124 | `tests/faults/test_stops.py` |
| the passes allowed are done and the objective still rises | said, with what to do; `converged` stands in the header, in `dtree info` and in the report | `tests/faults/test_stops.py` |
| one cluster, every row alone, chains that never moved, trees that did not converge | said, with what to try | `tests/faults/test_degenerate.py` |
| workers, the fitting process or the scheduler are killed | the answer has the same bits; at most one step is done again | `tests/faults/test_deaths.py` |
| a bucket answers 503 or 429, slowly, half or not at all; a put is cut in the middle; a list is out of date | the same bits, later; a store that stays away gets one sentence, and `resume` carries on | `tests/storage/test_runs.py` |
| a wrong key, an expired credential, no bucket, no right to write | one sentence, nothing is written | `tests/storage/test_runs.py` |
| workers and client are killed while they write to a bucket | `dtree resume` from a machine that knows only the address: the same bits | `tests/storage/test_commands.py` |
| a worker is cut off from the network | others do its work, to the same bits | `tests/faults/test_network.py` |
| the disk is full, a file is cut, workers have too little memory | one sentence; after making room the run carries on | `tests/faults/test_damage.py` |
| a task fails on a worker | the sentence alone; Dask's traceback only with `DTREE_DEBUG=1` | `tests/faults/test_said.py` |
| a pass takes long | rows done of this pass, rows per second, time left, also on resuming | `tests/faults/test_said.py` |

**How.** Every array of the results has a SHA-256 in the header, every chunk of an array with one value for every row ends with zarr's
`crc32c`, and every record and the header carry a hash of all they say. The first reading of the data takes a CRC-32C of each chunk of rows, kept
in the run as the record `data` with the list of chunks that were not there; it is compared whenever a chunk is read again, for at most 3 per
cent of the time of a pass. A run has two generations of checkpoints. A lease, a small file that its owner renews, says who works on a run;
it is behind the same interface as everything else that a run stores (`dtree/runs/store.py`).

**All at once.** `python -m tests.chaos --minutes 30 --seed 1` kills, stops, flips, deletes and fills at random, over all methods, and counts how
it ended; a wrong answer without a word, or an error that is no sentence, makes it fail.

**What is not promised.** Rows that were wrong before the first reading are not found out. A checksum of 32 bits misses one change in four billion. Methods that
keep all rows as statistics (`BHC`, `IncrementalBHC`, chains, diffusion trees) do not read the data again, so they do not notice that the data change;
their answer is that of the rows they read. Whoever can write into a run can also forge its hashes: they guard against accidents.
"""
