# Two commands are all that a newcomer needs: `make run` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OUT ?= out

.PHONY: core docs run test test-slow bench suite lint format clean
.DEFAULT_GOAL := help

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

# One stamp per set of extras: it is made again when pyproject.toml changes.
$(VENV)/.installed-%: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

core:  ## build the compiled core now (it is built when it is first needed, too)
	$(PYTHON) src/npga/solver/core/_build.py

run: $(VENV)/.installed-all  ## the paper's experiments: tables, figures and a summary in out/ (RUN_ARGS: see npga reproduce --help)
	$(BIN)/npga reproduce --out $(OUT) $(RUN_ARGS)

test: $(VENV)/.installed-test  ## the whole default test suite
	$(BIN)/python -m pytest -n auto $(PYTEST_ARGS)

test-slow: $(VENV)/.installed-test  ## the tests that take minutes
	$(BIN)/python -m pytest -n auto -m slow $(PYTEST_ARGS)

bench: $(VENV)/.installed-bench  ## benchmarks: table, plot and JSON in out/ (BENCH_ARGS=--quick, --write-docs)
	$(BIN)/python benchmarks/run.py --out $(OUT) $(BENCH_ARGS)

suite: $(VENV)/.installed-suite  ## the one call on 89 problems against tuned steps and other solvers: docs/suite.md (SUITE_ARGS)
	$(BIN)/python benchmarks/suite --out $(OUT) --write-docs $(SUITE_ARGS)

docs: $(VENV)/.installed-docs  ## the site, in out/site: warnings are errors, examples are run (DOCS_ARGS)
	$(BIN)/python -m sphinx -W --keep-going -b html -d $(OUT)/doctrees docs $(OUT)/site $(DOCS_ARGS)

lint: $(VENV)/.installed-dev  ## format check, lint, strict typing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev  ## rewrite the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove the virtual environment and what runs have written
	rm -rf $(VENV) $(OUT)
