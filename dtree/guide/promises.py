"""What dtree promises and how it is tested: faults, what happens, and the test that makes each happen.

**The promise.** Whatever is done to a run or to its data, it ends in one of two ways: the answer is to the last bit the one that an
undisturbed run gives, or there is one sentence that says what is wrong and what to do. It never ends in another answer without a word.

| what happens | what dtree does | tested in `tests/` |
| --- | --- | --- |
| a byte of a finished run is flipped: labels, statistics, tree, header | `open`, `info`, `report`, `export`, `resume` and `predict` refuse it in one sentence; `dtree verify RUN` names everything that is damaged | `faults/test_checksums.py::test_a_flipped_label_is_refused_by_every_command` |
| a checkpoint, or the labels of a pass, are damaged or lost | the run goes on from the checkpoint before it by itself, and says so; the bits are the same | `faults/test_generations.py::test_the_older_generation_takes_over` |
| an older block of a chain is damaged or lost | that chain goes back to the newest state before it, draws again, and says so; the bits are the same | `faults/test_generations.py::test_a_damaged_older_block_of_a_chain_is_drawn_again` |
| no state of a chain or walk is whole | that one begins again, and says so; the bits are the same | `faults/test_generations.py::test_parts_without_a_state_that_is_whole_begin_again` |
| somebody forged a checkpoint so that its hashes are right | refused in one sentence that says what is impossible about it | `engine/test_hostile.py` |
| two processes fit into one `--out`, or resume one run, at the same moment | one works; the other is told who does, on which machine and since when; nobody's files are touched | `faults/test_leases.py::test_a_second_writer_is_told_and_the_first_ends_undisturbed` |
| the one who worked on a run died without a word | its lease is taken over: at once on the same machine, after two minutes from another | `faults/test_leases.py::test_the_lease_of_a_dead_owner_is_taken_over` |
| one who was asleep for long wakes up, and another has taken over | it stops before it makes anything permanent | `faults/test_leases.py::test_an_owner_that_slept_too_long_stops_before_it_commits` |
| a chunk of the input zarr is lost while a run needs it | one sentence with array and chunk; after restoring it `dtree resume` carries on to the same bits | `faults/test_data.py::test_a_lost_chunk_is_named` |
| a chunk of the input zarr was never written | legal: it reads as its fill value, and that is said when the run begins and by `dtree info` | `faults/test_data.py::test_a_chunk_that_was_never_written_is_legal_and_said` |
| the data change between a fit and its resuming, or rows are added | refused by every method; `dtree resume --accept-changed-data` starts over; `dtree verify RUN --data` names the rows | `faults/test_data.py::test_data_changed_before_a_run_is_resumed` |
| the data change between two passes | refused where the rows are read again | `faults/test_data.py::test_data_changed_between_passes` |
| the data change while they are read for the first time | refused by every method, and nothing is kept: rows of before and of after were never together anywhere | `faults/test_data.py::test_data_changed_while_they_are_first_read` |
| the data change after a method has read them for the last time, while it goes on | the answer is that of the rows that were read, to the last bit; that they are others now is said at the end, and stands in `dtree info` and in the report | `faults/test_data.py::test_data_changed_after_they_were_read` |
| a csv changes of which the run has a copy | the same: it is the file that counts; where the file is gone, the copy | `faults/test_data.py::test_a_file_that_was_copied_is_looked_at_too` |
| Ctrl-C, SIGTERM (what Kubernetes and Slurm send) | the step is left, the run can be resumed, one sentence, exit code 130 or 143 | `faults/test_stops.py::test_sigterm_stops_as_ctrl_c_does` |
| the time limit is over (`--time-limit 2h`) | passes end with the best so far, called not converged; other methods can be resumed, exit code 124 | `faults/test_stops.py::test_a_time_limit_leaves_a_run_that_goes_on` |
| the passes allowed are done and the objective still rises | said, with what to do; `converged` stands in the header, in `dtree info` and in the report | `faults/test_stops.py::test_the_most_passes_are_said` |
| one cluster, every row alone, chains that never moved, trees that did not converge | said, with what to try | `faults/test_degenerate.py::test_one_cluster_is_said` |
| workers, the fitting process or the scheduler are killed | the answer has the same bits; at most one step is done again | `faults/test_deaths.py::test_random_workers_are_killed` |
| a bucket answers 503 or 429, slowly, half or not at all; a put is cut in the middle; a list is out of date | the same bits, later; a store that stays away gets one sentence, and `resume` carries on | `storage/test_runs.py` |
| a wrong key, an expired credential, no bucket, no right to write | one sentence, nothing is written | `storage/test_runs.py` |
| workers and client are killed while they write to a bucket | `dtree resume` from a machine that knows only the address: the same bits | `storage/test_commands.py` |
| a worker is cut off from the network | others do its work, to the same bits | `faults/test_network.py` |
| the disk is full, a file is cut, workers have too little memory | one sentence; after making room the run carries on | `faults/test_damage.py::test_full_disk` |
| the disk is full for the smallest of files, or a process dies while it writes one | every file of a run appears whole or not at all, so the run can be opened again | `faults/test_damage.py::test_a_disk_that_is_full_when_a_group_is_marked` |
| a folder that can only be read is resumed | one sentence; `dtree status` and `dtree info` read it | `faults/test_said.py::test_a_disk_that_can_only_be_read` |
| a method that needs every value gets a table with missing ones | one sentence with the first such row and column; nothing is kept | `faults/test_said.py::test_missing_values_in_parquet` |
| the connection to the scheduler is lost for good | one sentence, and `dtree resume` carries on to the same bits | `faults/test_deaths.py::test_the_scheduler_is_killed` |
| a task fails on a worker | the sentence alone; Dask's traceback only with `DTREE_DEBUG=1`, or in the `--log-file` | `faults/test_said.py::test_dask_says_nothing_of_a_task_that_failed` |
| a pass takes long | rows done of this pass, rows per second, time left, also on resuming | `faults/test_said.py::test_every_pass_counts_its_rows` |
| somebody looks at a run while another machine writes it (`dtree status`) | what was committed last, and what its owner said it does; nobody is disturbed | `engine/test_watching.py::test_status_from_another_process_while_a_run_is_written` |

**How.** Every array of the results has a SHA-256 in the header, every chunk of an array with one value for every row ends with zarr's
`crc32c`, and every record and the header carry a hash of all they say. The first reading of the data takes a CRC-32C of each chunk of rows, kept
in the run as the record `data` with the list of chunks that were not there; it is compared whenever a chunk is read again, for at most 3 per
cent of the time of a pass, and, for methods that keep all they need of the rows, when a run is resumed. Within one sitting
every method looks at names, sizes and times of the files (in a bucket, at the versions of the objects) after the first reading and at the
end, and compares rows only where these changed. A run has two generations of checkpoints, and a chain a state every 32 blocks. A lease, a small file that its owner renews, says who works on a run
and what it does; it is behind the same interface as everything else that a run stores (`dtree/runs/store.py`).

**All at once.** `python -m tests.chaos --minutes 30 --seed 1` kills, stops, flips, deletes, changes and fills at random, over all methods and
several kinds of data, and counts how it ended; a wrong answer without a word, or an error that is no sentence, makes it fail.

**What is not promised.** Rows that were wrong before the first reading are not found out. A checksum of 32 bits misses one change in four billion. Methods that
keep all rows as statistics (`BHC`, `IncrementalBHC`, chains, diffusion trees) do not read the data again while they run: a change within one
sitting does not stop them, it is said at the end, and only if it changed a size or a time of a file, as every ordinary writing does. Whoever can write into a run can also forge its hashes: they guard against accidents.
"""
