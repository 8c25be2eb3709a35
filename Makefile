# Every target sets up what it needs in .venv, and does nothing twice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
SOURCES := $(wildcard cpp/*) CMakeLists.txt pyproject.toml
DATA ?= ../shared/data

.PHONY: help demo test test-heavy test-browser test-spark bench lint format clean
help:            ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(BIN)/python:
	@echo "== virtual environment"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.build-tools: $(BIN)/python
	@echo "== build tools"
	@$(PIP) install "scikit-build-core>=0.11" "nanobind>=2.4" cmake ninja
	@touch $@

$(VENV)/.core: $(VENV)/.build-tools $(SOURCES)
	@echo "== compiling halfstep"
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) install --no-build-isolation --editable ".[cli,report]"
	@touch $@

$(VENV)/.test: $(VENV)/.core
	@echo "== test dependencies"
	@$(PIP) install $$($(BIN)/python tools/extras.py test frames serve tune)
	@touch $@

$(VENV)/.spark: $(VENV)/.test
	@echo "== Apache Spark"
	@command -v java >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get install -y -qq openjdk-17-jre-headless >/dev/null; } \
		|| { echo "Spark needs Java 17: install openjdk-17-jre-headless"; exit 1; }
	@$(PIP) install $$($(BIN)/python tools/extras.py spark)
	@touch $@

$(VENV)/.dev: $(VENV)/.test
	@echo "== linters"
	@$(PIP) install $$($(BIN)/python tools/extras.py dev)
	@touch $@

$(VENV)/.bench: $(VENV)/.test
	@echo "== the peers (some compile; this takes minutes)"
	@$(PIP) install $$($(BIN)/python tools/extras.py bench)
	@touch $@

$(VENV)/.browser: $(VENV)/.test
	@echo "== browser tests: playwright, axe-core, Debian's chromium"
	@$(PIP) install $$($(BIN)/python tools/extras.py browser)
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq chromium; }
	@touch $@

demo: $(VENV)/.core     ## set up, then the three families on built-in data against their baselines
	@$(BIN)/halfstep demo

test: $(VENV)/.test     ## set up, then all tests but the heavy suites
	@HALFSTEP_DATA="$${HALFSTEP_DATA:-$(DATA)}" $(BIN)/python -m pytest -n 2 -m "not spark and not browser and not heavy" tests

test-heavy: $(VENV)/.test   ## tests that take seconds each: whole runs of benchmark, demo and servers, lack of memory, recipes, types
	@HALFSTEP_DATA="$${HALFSTEP_DATA:-$(DATA)}" $(BIN)/python -m pytest -n 2 -m heavy tests

bench: $(VENV)/.bench   ## set up the peers, then the tables of docs/benchmarks.md
	@for script in wals plqmf cf_speed skills; do $(BIN)/python benchmarks/$$script.py || exit 1; done

test-browser: $(VENV)/.browser  ## the explorer in a real browser, against real servers
	@$(BIN)/python -m pytest -m browser tests/browser

test-spark: $(VENV)/.spark   ## set up Java and Spark, then the tests on a local session and a standalone cluster
	@$(BIN)/python -m pytest -m spark tests/spark

lint: $(VENV)/.dev      ## ruff, mypy strict, the layers, the stub of the core, clang-format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python tools/stub.py --check
	@$(BIN)/clang-format --dry-run --Werror cpp/*

format: $(VENV)/.dev    ## rewrite in place
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@$(BIN)/clang-format -i cpp/*
	@$(BIN)/python tools/stub.py
	@$(BIN)/python tools/map.py

clean:                  ## forget everything that was built
	rm -rf $(VENV) build .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
