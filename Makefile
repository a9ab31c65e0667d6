# Set-up is repeated only when pyproject.toml or constraints.txt change.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo test fuzz bench browser clean

demo: $(VENV)/.installed
	$(BIN)/countjump demo --out demo-out

test: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist worksteal

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
