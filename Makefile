# `make demo` and `make test` create .venv and install what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export JAX_PLATFORMS ?= cpu

.PHONY: help demo test test-slow setup setup-dev lint bench bench-smoke docs clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

setup: $(VENV)/.installed  ## create .venv and install covary

setup-dev: $(VENV)/.installed-dev  ## create .venv and install covary with the development tools

demo: setup  ## fit and forecast Mauna Loa CO2; writes demo/
	$(BIN)/python examples/co2_forecast.py --out demo

lint: setup-dev  ## run ruff and pyright
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

test: lint bench-smoke  ## run lint, the benchmarks at n = 200 and the test suite
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not gpu"

test-slow: setup-dev  ## run the slow tests
	$(BIN)/python -m pytest -m "slow and not gpu"

bench-smoke: setup-dev  ## run every benchmark script at n = 200, without other libraries
	$(BIN)/python -m benchmarks.run --smoke

bench:  ## run the benchmarks with other libraries in a separate environment; writes docs/benchmarks
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -e .
	.venv-bench/bin/python -m benchmarks.run --out docs/benchmarks

docs: setup-dev  ## run the examples in the documentation and build it into site/, offline
	$(BIN)/python docs/run_examples.py
	$(BIN)/sphinx-build -q -W --keep-going -b html -d $(VENV)/doctrees docs site

clean:  ## remove environments and caches
	rm -rf $(VENV) .venv-bench demo site .ruff_cache
