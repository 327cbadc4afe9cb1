# `make demo` and `make test` work from a bare checkout, and again afterwards.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

export PIP_DISABLE_PIP_VERSION_CHECK := 1

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
CASES ?= 1000000

.PHONY: help demo test lint types layers unit docs coverage soak clean

help: ## show this list
	@grep -E '^[a-z]+:.*## ' Makefile | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 10

demo: $(READY) ## three data sets, the symmetries they have, and a page about them in demo/
	$(BIN)/isotropy discover --out demo

test: lint types layers unit docs ## everything below, in this order

lint: $(READY) ## style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY) ## static types: strict in the packages, lenient in the tests
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini

layers: $(READY) ## which room may import which
	$(BIN)/lint-imports

unit: $(READY) ## tests, doctests and the code blocks of the docs
	$(BIN)/python -m pytest -n 2 --dist worksteal

docs: $(READY) ## the documentation, into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean --site-dir site

coverage: $(READY) ## which lines and branches the tests run, against the floor in pyproject.toml (half an hour)
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term --cov-report=xml

soak: $(READY) ## hostile files by the million: certificates, exported programs, findings, studies (hours; goes on where it stopped)
	$(BIN)/python tests/attacks/soak.py --kind certificates --cases $(CASES) --out soak
	$(BIN)/python tests/attacks/soak.py --kind programs --cases $$(( $(CASES) / 20 )) --out soak
	$(BIN)/python tests/attacks/soak.py --kind findings --cases $$(( $(CASES) / 20 )) --out soak
	$(BIN)/python tests/attacks/soak.py --kind studies --cases $$(( $(CASES) / 200 )) --out soak

clean: ## remove whatever the other targets made
	rm -rf $(VENV) site soak dist build demo .coverage coverage.xml .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src papers tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

# torch goes first and by its exact pin: a looser requirement, met with no torch installed, fetches
# gigabytes of CUDA. The stamp is written last, so an interrupted install starts again.
$(READY): pyproject.toml papers/pyproject.toml constraints.txt oracles.txt
	rm -f $@
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,docs]' --editable ./papers
	$(BIN)/python -m pip install --quiet --no-deps --requirement oracles.txt
	touch $@
