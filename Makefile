# Two commands are all that a newcomer needs: `make run` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OUT ?= out

.PHONY: run test test-slow lint format clean
.DEFAULT_GOAL := help

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

# One stamp per set of extras: it is made again when pyproject.toml changes.
$(VENV)/.installed-%: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

run: $(VENV)/.installed-all  ## the worked example: solve, compare versions, draw out/example.png
	$(BIN)/python examples/quickstart.py --out $(OUT)

test: $(VENV)/.installed-test  ## the whole default test suite
	$(BIN)/python -m pytest -n auto $(PYTEST_ARGS)

test-slow: $(VENV)/.installed-test  ## the tests that take minutes
	$(BIN)/python -m pytest -n auto -m slow $(PYTEST_ARGS)

lint: $(VENV)/.installed-dev  ## format check, lint, strict typing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev  ## rewrite the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove the virtual environment and what runs have written
	rm -rf $(VENV) $(OUT)
