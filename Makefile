# The two commands of the README are `make demo` and `make test`; each installs what it needs, once.

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= 2

.PHONY: demo test check format benchmarks clean

demo: $(VENV)/.ready
	$(BIN)/python -m kbgit.demo $(if $(KEEP),--keep)

test: $(VENV)/.ready check
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(TESTS)

check: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Real corpora are named by KBGIT_CORPORA; see docs/benchmarks.md.
benchmarks: $(VENV)/.ready
	$(BIN)/pip install --quiet --editable '.[benchmarks]'
	for name in history quality tldr verification writers documents load scale fuzz faults; do echo "== $$name"; $(BIN)/python -m benchmarks.$$name || exit 1; done

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kbgit needs Python 3.11 or later")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
