# Set-up is repeated only when pyproject.toml or constraints.txt change.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PANDAS3 := .venv-pandas3
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo test test-pandas3 fuzz bench browser clean

demo: $(VENV)/.installed
	$(BIN)/countjump demo --out demo-out

test: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(MAKE) --no-print-directory test-pandas3
	$(BIN)/pytest -n 2 --dist worksteal

# The tests on frames with pandas 3: the environment itself has pandas 2, because anndata wants that.
test-pandas3: $(VENV)/.installed-dev $(PANDAS3)/.installed
	PYTHONPATH=$(CURDIR)/$(PANDAS3):$(CURDIR) $(BIN)/python -c 'import pandas as pd; assert pd.__version__.startswith("3."), pd.__file__'
	PYTHONPATH=$(CURDIR)/$(PANDAS3):$(CURDIR) $(BIN)/pytest -n 2 --dist worksteal \
	  $(wildcard tests/test_frames.py tests/test_tables.py tests/test_tables_in_files.py)

# A browser for the tests of the report, where it can be installed; without one they are skipped and say so.
browser:
	@if command -v chromium >/dev/null; then echo "chromium is there"; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
	    || echo "chromium could not be installed: the tests of the report in a browser are skipped"; \
	else echo "no chromium, and no apt-get as root: the tests of the report in a browser are skipped"; fi

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

$(PANDAS3)/.installed: pyproject.toml | $(VENV)/.installed-dev
	rm -rf $(PANDAS3)
	$(PIP) install --quiet --no-deps --target $(PANDAS3) 'pandas>=3,<4'
	@touch $@
