"""Runs: a header, records and arrays of rows, in a folder or in memory; written whole and read with suspicion."""
