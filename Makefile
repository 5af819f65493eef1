# Two commands: `make demo` and `make test`. They need Python 3.11 or newer, make and git; the rest is installed into .venv.
PYTHON ?= python3
PEERS ?=
BIN := .venv/bin
READY := .venv/ready
SHAPES := --jaxtyping-packages=vitrail,beartype.beartype

.PHONY: demo test lint test-slow bench clean

demo: $(READY)
	$(BIN)/vitrail train --data digits

test: lint
	@start=$$(date +%s); \
	$(BIN)/python -m pytest -n 2 $(SHAPES) --durations=15 && \
	$(BIN)/python -m pytest -m compiled && \
	echo "make test: tests took $$(( $$(date +%s) - start )) s"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow --durations=15

bench: $(READY)
	$(or $(PEERS),$(BIN)/python) benchmarks/speed.py --site .venv/lib

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Vitrail needs Python 3.11 or newer, this is " + sys.version) if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache
