# Two commands do everything: `make demo` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export JAX_PLATFORMS ?= cpu

.PHONY: help demo test test-slow setup setup-dev lint bench bench-smoke docs clean

help:  ## what can be made
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

setup-dev: $(VENV)/.installed-dev  ## ... and the tools the tests need

demo: setup  ## fit and forecast Mauna Loa CO2; writes demo/
	$(BIN)/python examples/co2_forecast.py --out demo

lint: setup-dev  ## ruff and pyright
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

test: lint bench-smoke  ## lint, every benchmark at n = 200, the whole suite
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not gpu"

test-slow: setup-dev  ## the tests that take long
	$(BIN)/python -m pytest -m "slow and not gpu"

bench-smoke: setup-dev  ## every benchmark script at n = 200, without the peers
	$(BIN)/python -m benchmarks.run --smoke

bench:  ## the benchmark tables, with the peers, in an environment of its own
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -e .
	.venv-bench/bin/python -m benchmarks.run --out docs/benchmarks

docs: setup-dev  ## the documentation as a site that opens from disk: runs its examples, checks its links; writes site/
	$(BIN)/python docs/site/examples.py
	$(BIN)/python docs/site/build.py --out site

clean:  ## remove environments and caches
	rm -rf $(VENV) .venv-bench demo site .ruff_cache
