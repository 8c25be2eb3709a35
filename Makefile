# Every target sets up what it needs in .venv, and does nothing twice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
SOURCES := $(wildcard cpp/*) CMakeLists.txt pyproject.toml
DATA ?= ../shared/data
# Two workers have a core each: threads of BLAS and OpenMP would only wait for each other. What they start finds bytecode.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := HALFSTEP_DATA="$${HALFSTEP_DATA:-$(DATA)}" OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2
LOCKED := cli report serve tune frames test dev

.PHONY: help demo test test-heavy test-browser test-spark bench bench-full bench-counts pictures docs wheel wheel-test lint format lock locked audit sbom clean fuzz fuzz-quick sanitize torture kills coverage mutants
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
	@$(PYTEST) -m "not spark and not browser and not heavy" tests

test-heavy: $(VENV)/.test   ## tests that take seconds each: whole runs of benchmark, demo and servers, lack of memory, recipes, types
	@$(PYTEST) -m heavy tests

bench: $(VENV)/.bench   ## set up the peers, then the main ratios against them: below 5 minutes on two quiet cores
	@$(BIN)/python benchmarks/bench.py

bench-full: $(VENV)/.bench   ## the same with all tables and larger cases: below an hour
	@$(BIN)/python benchmarks/bench.py --full

$(VENV)/.valgrind: $(VENV)/.test
	@echo "== valgrind"
	@command -v valgrind >/dev/null || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq valgrind >/dev/null; } \
		|| { echo "counting needs valgrind: install it"; exit 1; }
	@touch $@

bench-counts: $(VENV)/.valgrind  ## instructions of twelve small cases, held against benchmarks/counts.json: 3% more fails
	@$(BIN)/python benchmarks/counts.py

test-browser: $(VENV)/.browser  ## the explorer in a real browser, against real servers
	@$(BIN)/python -m pytest -m browser tests/browser

test-spark: $(VENV)/.spark   ## set up Java and Spark, then the tests on a local session and a standalone cluster
	@$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m spark tests/spark

pictures: $(VENV)/.core   ## run the examples, and keep their pictures in docs/pictures
	@mkdir -p docs/pictures
	@for script in examples/*.py; do (cd docs/pictures && ../../$(BIN)/python ../../$$script >/dev/null) || exit 1; done

$(VENV)/.docs: $(VENV)/.core
	@echo "== the builder of the docs"
	@$(PIP) install $$($(BIN)/python tools/extras.py docs)
	@touch $@

docs: $(VENV)/.docs     ## the docs as a site, in build/site; a warning is an error, and nothing is fetched
	@$(BIN)/python tools/docs.py

$(VENV)/.wheel: $(VENV)/.build-tools
	@echo "== wheel builders"
	@$(PIP) install $$($(BIN)/python tools/extras.py wheel)
	@touch $@

wheel: $(VENV)/.wheel   ## the source distribution, and from its contents alone a wheel for this machine, in dist/
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tools/wheel.py build

wheel-test: $(VENV)/.build-tools   ## that wheel where there is no compiler: from an empty folder to a served model, then its tests
	@ls dist/*.whl >/dev/null 2>&1 || $(MAKE) wheel
	@$(BIN)/python tools/wheel.py try $(TESTS)

$(VENV)/.faults: $(VENV)/.test
	@echo "== Clarabel, coverage and, where it installs, atheris"
	@$(PIP) install $$($(BIN)/python tools/extras.py faults)
	@$(PIP) install atheris 2>/dev/null || echo "atheris does not install here; hypothesis goes on alone"
	@touch $@

fuzz: $(VENV)/.faults   ## ten minutes of mutated model files, CSV, npz, JSON bodies and calls of the core; finds are kept
	@$(BIN)/python tests/faults/fuzz.py --seconds 600

fuzz-quick: $(VENV)/.test   ## at most two minutes of the same, always the same inputs, as CI runs it
	@$(BIN)/python tests/faults/fuzz.py --seconds 120 --seed 1 --most 3000

torture: $(VENV)/.faults    ## 20,000 random rows against Clarabel and SciPy
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/faults/torture.py --rows 20000

kills: $(VENV)/.test    ## 50 kills of each estimator at random moments, and what resumed fits come to
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/faults/kills.py --kills 50

sanitize: $(VENV)/.test     ## the core under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer, each with its tests
	@$(BIN)/python tests/faults/sanitize.py

coverage: $(VENV)/.faults $(VENV)/.spark   ## lines of the library that make test, test-heavy and test-spark reach, in the processes they start too
	@rm -f .coverage .coverage.*
	@HALFSTEP_DATA="$${HALFSTEP_DATA:-$(DATA)}" $(BIN)/coverage run -m pytest -n 2 -m "not spark and not browser" tests
	@$(BIN)/coverage run -m pytest -m spark tests/spark
	@$(BIN)/coverage combine -q
	@$(BIN)/coverage report

mutants: $(VENV)/.test  ## small changes to losses, weights, loop and metrics, one at a time, and whether tests notice
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/faults/mutants.py --seed 1

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

$(VENV)/.audit: $(BIN)/python
	@echo "== uv, pip-audit, CycloneDX"
	@$(PIP) install $$($(BIN)/python tools/extras.py audit)
	@touch $@

lock: $(VENV)/.audit    ## requirements.lock: what development and CI install, pinned, with hashes
	@$(BIN)/uv pip compile pyproject.toml $(LOCKED:%=--extra %) --universal --python-version 3.11 --generate-hashes \
		--no-header --no-annotate --quiet --output-file requirements.lock

locked: $(BIN)/python   ## install exactly what requirements.lock says; the other targets then find it there
	@$(PIP) install --require-hashes -r requirements.lock

audit: $(VENV)/.audit   ## are there known vulnerabilities in what is locked
	@$(BIN)/pip-audit -r requirements.lock --disable-pip --require-hashes --strict

sbom: $(VENV)/.audit    ## build/sbom.json: what is locked, as CycloneDX
	@mkdir -p build
	@$(BIN)/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml --output-file build/sbom.json

clean:                  ## forget everything that was built
	rm -rf $(VENV) build dist site .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
