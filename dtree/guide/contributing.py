"""Contribute.

**Set up.** `make test` makes a virtual environment in `.venv` and runs linting, types and tests; `make test-slow` runs the long ones,
`make test-lowest` some with the lowest versions that pyproject.toml admits, `make test-scverse` those with AnnData and scanpy,
`make docs` builds these pages with warnings as errors. All must pass. Chromium, if it is there, is used to test the report in a real browser.

**Right before fast.** Write the slow, obvious twin in `tests/naive/` first, then the kernel against it. A new method needs a test that would
fail if the method were wrong: enumeration of all partitions for few rows, an independent value, or a property that must hold for any data.

**The house.** `core <- hierarchy, kmeans, mcmc, variational, diffusion <- methods <- data, runs <- engine <- estimators, reporting <- cli`:
each imports what stands to its left, never to its right, and `tests/test_architecture.py` holds it (data and runs import core only). One
idea per file, under 400 lines; shapes in docstrings; comments say why. Numerical code is pure: arrays in, arrays out, a random generator
passed in. Only the engine knows Dask.

**A new family or prior** is one file and one line in a registry, and every method has it. The whole contract is the docstring of
`dtree/core/families/base.py` or `dtree/core/priors/base.py`.

**A new method** is its numerics, one file in `dtree/methods/` and one line in `dtree/methods/__init__.py`: its settings, and how it prepares,
steps, finishes, predicts and what is to be said of it (`dtree/methods/contract.py`). The loop, commits, resuming, the run's format, workers,
`predict`, `info` and the report follow. A command of the same name is one line in `dtree/cli/app.py`: its options come from the settings and its
help from the method's docstring; a command with words or rules of its own is a short file in `dtree/cli/`. An estimator, which `dtree.open` needs
too, is one class in `dtree/estimators/`, named by the method, and its line in `dtree/__init__.py`. List the method in
`tests/engine/test_features.py`, and every feature of the engine is tested for it.

**A new sampler** is one file in `dtree/mcmc/` and one line in its registry. **A new format of data** is one file in `dtree/data/formats/` and its
name there; the name is the ending of its files.

**Kernels** are compiled by numba and kept on disk under a hash of the sources that they reach (`dtree/core/kernel_sources.py`), so an edit compiles
what it touches, once. They dispatch on the type of a NamedTuple, release the GIL, return codes instead of raising, and take a NumPy Generator.
Numba counts references of every array that a kernel hands on, also of all arrays in a record, with an instruction that threads
wait for: a kernel that makes no array itself says `counted=False`, and hot loops have been up to thirty times faster for it.

**Errors** that a user can cause are a ValueError with one clear sentence, exit code 2 on the command line, and leave nothing half-written.

**Claims** in README and RESULTS come from a command that is named beside them. If a change moves a figure, run the command again.
"""
