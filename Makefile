# Everything that people and CI run. Each target prepares .venv first, and does so only once.
#   make demo ARGS="--seed 7 --json"      make test ARGS="tests/foundations -x"
#   make simulate SEEDS=5000              make PYTHON=python3.12 test

SHELL := /bin/sh
.DEFAULT_GOAL := help

ARGS ?=
SEEDS ?= 1000
WORKERS ?= 3
export PYTHON

python := .venv/bin/python

.PHONY: help demo test check format model crashes mutants simulate prove bench lock reference environment infra clean

help: ## what there is to run (this list)
	@echo "Chargeonce: each customer charged once per billing period."
	@echo
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "ARGS=... is passed on; PYTHON=... chooses the interpreter (3.11, 3.12 or 3.13)."

demo: environment ## watch events charged under faults, then the books: about a minute
	@$(python) -m ops demo $(ARGS)

test: environment ## the test suite: at most 8 minutes
	@$(python) -m pytest -n $(WORKERS) -m "not prove" $(ARGS)

check: environment ## format, lint, types and import rules
	@$(python) -m ruff format --check .
	@$(python) -m ruff check .
	@$(python) -m mypy
	@.venv/bin/lint-imports --no-logo

format: environment ## put the code into the format that check wants
	@$(python) -m ruff check --fix .
	@$(python) -m ruff format .

model: environment ## visit every state of the protocol, with its rules and without each
	@$(python) -m local.check_model $(ARGS)

crashes: environment ## kill the code at each port crossing, and again over the recovery; some minutes
	@$(python) -m local.check_crashes $(ARGS)

mutants: environment ## take each safety out of the code, and see that something notices; some minutes
	@$(python) -m local.check_mutants $(ARGS)

simulate: environment ## interleave consumers, crashes and lost answers: SEEDS=1000
	@$(python) -m local.simulate --seeds $(SEEDS) $(ARGS)

prove: environment ## the long proofs
	@$(python) -m pytest -n $(WORKERS) -m prove --timeout=0 $(ARGS)

bench: environment ## the benchmarks
	@$(python) -m benchmarks $(ARGS)

lock: environment ## pin what pyproject.toml asks for into requirements*.txt
	@$(python) -m pip install --quiet uv
	@$(python) local/scripts/lock.py $(ARGS)

reference: environment ## write the pages of docs/ that are made from the code
	@$(python) -m local.scripts.reference

environment: ## prepare .venv, which the others do by themselves
	@python=$$(sh local/scripts/find_python.sh) && "$$python" -I local/scripts/environment.py

infra: ## prepare .venv-infra, with what checks infra/: tests/infra is skipped without it
	@python=$$(sh local/scripts/find_python.sh) && "$$python" -I local/scripts/environment.py infra

clean: ## remove .venv and every cache
	@rm -rf .venv .venv.lock .venv-infra .venv-infra.lock .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
