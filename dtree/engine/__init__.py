"""Datasets larger than memory on Dask: the only room of the house that imports dask or distributed.

A run is a folder. Every task is a plain function of (job, pass number, chunk), reads what it needs from the folder and
writes what it made there; so a task can run anywhere, twice, or again after a crash, and gives the same bits.
"""
