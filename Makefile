# Two commands for a fresh machine with Python 3.11+, make and a C compiler:
#   make demo   sets up and runs the main job on a built-in dataset
#   make test   sets up and passes the tests
# Each makes its own virtual environment in .venv when there is none.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS := deploy/constraints.txt
JOBS ?= 2

.PHONY: demo test test-slow test-numerics test-lowest test-scverse test-stores lint types docs clean

$(BIN)/python:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || { echo "dtree needs Python 3.11 or newer: make PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable ".[plot,parquet]"
	touch $@

$(VENV)/.dev: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable ".[dev]"
	touch $@ $(VENV)/.run

demo: $(VENV)/.run
	$(BIN)/dtree demo --out dtree-demo.zarr --overwrite

test: $(VENV)/.dev lint types
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(JOBS) --dist loadscope

test-slow: $(VENV)/.dev
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -m slow

# The numerics alone: nothing installed but what arrays need, so that an import of dask, zarr or pandas fails.
NUMERICS := .venv-numerics
test-numerics: | $(BIN)/python
	test -x $(NUMERICS)/bin/python || $(PYTHON) -m venv $(NUMERICS)
	$(NUMERICS)/bin/python -m pip install --quiet --constraint $(CONSTRAINTS) numpy scipy numba scikit-learn threadpoolctl msgspec
	PYTHONPATH=. $(NUMERICS)/bin/python tests/numerics_alone.py

# The lowest versions that pyproject.toml admits: the ranges are true if the commands, runs and readers work with them.
LOWEST := .venv-lowest
test-lowest: | $(BIN)/python
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --editable ".[plot,parquet,cloud]"
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python pytest hypothesis dendropy
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest -q -W default tests/test_estimators.py tests/runs tests/data tests/test_cli.py

# AnnData and scanpy in an environment of their own: anndata 0.12.6 cannot write the strings of pandas 3.
SCVERSE := .venv-scverse
test-scverse: | $(BIN)/python
	test -x $(SCVERSE)/bin/python || $(PYTHON) -m venv $(SCVERSE)
	$(SCVERSE)/bin/python -m pip install --quiet --editable ".[scverse,parquet]" "pandas<3" pytest
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(SCVERSE)/bin/python -m pytest -q tests/scverse

# Runs and data in stores like Azure's (Azurite, Microsoft's emulator, from npm) and Google's, besides S3.
test-stores: $(VENV)/.dev
	npm install --silent --no-fund --no-audit --prefix .stores azurite
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -m "slow or not slow" tests/storage

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

# The site, with warnings as errors; the stories are run once and kept in docs-html/.stories.
docs: $(VENV)/.dev
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs-html
	@echo "open docs-html/index.html"

clean:
	rm -rf $(VENV) $(NUMERICS) $(LOWEST) $(SCVERSE) .stores dtree-demo* docs-html jupyter_execute docs/_made
