# The environment is .venv, made from hash locks; it is made again when a lock or pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help env venv run stop test test-full test-containers soak bench screenshots lint format types lock audit clean

help: ## List what there is
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

env: ## Have every secret in .env, for `docker compose up`
	@sh include/make-env.sh .env

venv: $(READY) ## Make the Python environment

$(READY): requirements.txt include/locks/uv.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)) and "Python 3.11 or 3.12 is needed: make PYTHON=python3.11 ...")'
	@echo "making $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r include/locks/uv.txt
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip sync --quiet --require-hashes requirements.txt
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

run: venv ## Start everything, bring sample data to gold, show it
	@$(BIN)/lakehouse run

stop: venv ## Stop everything; data stays
	@$(BIN)/lakehouse down

test: lint types ## Lint, types and all tests but the long matrix
	@$(PYTEST) -m "not full" tests/unit tests/dags tests/spark tests/stack

test-full: lint types ## All tests
	@$(PYTEST) tests/unit tests/dags tests/spark tests/stack

test-containers: venv ## Build the image, and run the platform in containers
	@$(PYTEST) tests/containers

soak: venv ## Writers, a reader and maintenance at once, for half an hour
	@SOAK_SECONDS=1800 $(PYTEST) -s tests/stack/test_maintenance_soak.py

bench: venv ## Measure, and write the page of results; ONLY=gates: one benchmark
	@$(PYTEST) $(if $(ONLY),tests/bench/test_$(ONLY).py,tests/bench)

screenshots: venv ## Take the README's pictures of the running stack (needs Chromium)
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --require-hashes -r include/locks/screenshots.txt
	@$(BIN)/python -m tests.looks.screenshots

lint: venv ## Check style
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

types: venv ## Check types
	@$(BIN)/mypy

format: venv ## Put the code in order
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

lock: venv ## Resolve requirements.txt anew
	@$(BIN)/uv pip compile pyproject.toml --extra local --extra dev --generate-hashes --no-emit-index-url \
		--no-emit-find-links --no-header --python-version 3.11 --quiet -o requirements.txt

audit: venv ## List known advisories on what is used, and write its bill of materials
	@$(BIN)/python -m lakehouse.stack.audit

clean: ## Stop the stack, and remove its data, the environment and caches; .env stays
	@test ! -x $(BIN)/lakehouse || $(BIN)/lakehouse reset --yes
	@rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache build dist *.egg-info
