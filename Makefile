# Both commands set up everything they need in .venv, from Python 3.11+, its venv module and make.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
READY := .venv/.ready

.PHONY: reproduce test lint types unit quick wheel beyond bench bench-compare constraints clean

reproduce: $(READY)
	$(BIN)/fedbandits reproduce --out out

test: lint types unit wheel

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# Compiled programs and BLAS have threads of their own: two test processes fill two cores.
unit: $(READY)
	MPLBACKEND=agg $(BIN)/python -m pytest -n 2 --dist loadfile

# Most of the code in a minute. Compiling takes the most time, so nothing is optimised.
quick: $(READY)
	MPLBACKEND=agg XLA_FLAGS="$(XLA_FLAGS) --xla_backend_optimization_level=0" \
		$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow"

# The wheel as a stranger gets it: built, installed with its dependencies into an empty
# environment, and used from another folder.
wheel: $(READY)
	rm -rf build
	$(BIN)/python -m build --wheel --outdir build/dist . > /dev/null
	$(PYTHON) -m venv build/venv
	build/venv/bin/python -m pip --disable-pip-version-check --quiet install \
		-c constraints.txt build/dist/*.whl
	cd build && venv/bin/python ../tests/use_wheel.py && venv/bin/fedbandits --version

# What goes beyond the paper, and the tables of the README and docs made from it. Half an hour on two
# cores, minutes on a GPU.
beyond: $(READY)
	for part in suite leaderboard horizons linear; do \
		$(BIN)/fedbandits reproduce $$part --out out || exit 1; done
	$(BIN)/python docs/fill.py out

# What is measured: benchmarks/README.md. Best run while nothing else does.
bench: $(READY)
	$(BIN)/python benchmarks/bench.py --out benchmarks/results/latest.json

OLD ?= benchmarks/results/cpu-2-cores.json
NEW ?= benchmarks/results/latest.json

bench-compare: $(READY)
	$(BIN)/python benchmarks/compare.py $(OLD) $(NEW)

# Exact versions for repeatable runs; pyproject.toml holds the ranges.
constraints: $(READY)
	$(PIP) freeze --exclude-editable --exclude fedbandits > constraints.txt

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) install -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf .venv build out
