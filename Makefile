# Set-up is repeated only when pyproject.toml or constraints.txt change.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo test fuzz bench clean

demo: $(VENV)/.installed
	$(BIN)/countjump demo --out demo-out

test: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest

# Hostile cases: how many, by which seed, and some of the families (all, if none is named).
CASES ?= 5000
SEED ?= 1
FAMILIES ?=
fuzz: $(VENV)/.installed-dev
	$(BIN)/python -m tests.fuzz $(FAMILIES) --cases $(CASES) --seed $(SEED)

bench: $(VENV)/.installed
	@for script in $(wildcard benchmarks/*.py); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:
	rm -rf demo-out build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.installed
