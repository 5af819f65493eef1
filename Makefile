# Two commands: `make demo` and `make test`. They need Python 3.11 or newer, make and git; the rest is installed into .venv.
PYTHON ?= python3
PEERS ?=
BIN := .venv/bin
READY := .venv/ready
export PYTHONDONTWRITEBYTECODE :=
SHAPES := --jaxtyping-packages=vitrail,beartype.beartype

.PHONY: demo test check lint test-slow regress mutants bench docs wheel browser clean

demo: $(READY)
	$(BIN)/vitrail train --data digits

test: export SHARED_RUNS := $(CURDIR)/build/runs
test: $(READY) browser
	@start=$$(date +%s); rm -rf build/runs; mkdir -p build/runs; \
	$(MAKE) --no-print-directory lint > build/lint.txt 2>&1 & linting=$$!; \
	$(BIN)/python -m pytest -n 2 --dist worksteal $(SHAPES) --part checked --durations=15 && \
	$(BIN)/python -m pytest -n 2 --dist worksteal --part plain --durations=15 && \
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "compiled and not slow" --part compiled; tested=$$?; \
	wait $$linting; linted=$$?; cat build/lint.txt; \
	echo "make test: lint and tests took $$(( $$(date +%s) - start )) s"; \
	test $$tested = 0 && test $$linted = 0

# While working: what takes less than 90 seconds. `python tests/net/fast.py` chooses the tests anew.
check: lint
	$(BIN)/python -m pytest -n 2 --fast

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# What is slow and rarely breaks; then the tests that `make test` runs without shape checks, with them.
test-slow: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow --durations=15
	$(BIN)/python -m pytest -n 2 --dist worksteal $(SHAPES) --part plain

# Does the working tree compute, bit for bit, what a commit computed? make regress REF=COMMIT [ARGS="--only mri,detect"]
regress: $(READY)
	@test -n "$(REF)" || { echo "make regress needs a commit to compare with: make regress REF=COMMIT" >&2; exit 2; }
	$(BIN)/python tests/net/regress.py $(REF) $(ARGS)

# That the tests notice small faults.
mutants: $(READY)
	$(BIN)/python tests/net/mutants.py --jobs 2

bench: $(READY)
	$(or $(PEERS),$(BIN)/python) benchmarks/speed.py --site .venv/lib
	$(or $(PEERS),$(BIN)/python) benchmarks/engines.py --site .venv/lib

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

wheel: $(READY)
	$(BIN)/python -m build --wheel --no-isolation

# Pages are tested in Debian's chromium. Whoever has none, and cannot install one, is warned; the tests that need it skip.
browser:
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	{ apt-get install -y --no-install-recommends chromium || { apt-get update && apt-get install -y --no-install-recommends chromium; }; } >/dev/null 2>&1; } || \
	echo "make: NO CHROMIUM HERE: the tests that open pages in a browser are skipped"

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Vitrail needs Python 3.11 or newer, this is " + sys.version) if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache
