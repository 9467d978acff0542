# Both commands set up everything they need in .venv, from Python 3.11+, its venv module and make.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
READY := .venv/.ready

# `pip install '.[sim]'` replaces the library in .venv by a copy without ratings. The environment is
# then set up again. pip's own record says whether the library is used from this folder.
ifeq ($(shell grep -ls '"editable": *true' .venv/lib/python*/site-packages/fedbandits-*/direct_url.json),)
.PHONY: $(READY)
endif

.PHONY: reproduce test soak lint types unit deep bytecode quick build wheel docs docs-check pages studies bench bench-compare constraints openapi-check clean

reproduce: $(READY)
	$(BIN)/fedbandits reproduce --out out

test: lint types unit build

# What finds most in minutes is in `make test`; here is what takes longer: deep histories, chaos,
# browsers, reports, kills, and the wheel in empty environments. Nothing is in both.
soak: deep wheel

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# Compiled programs and BLAS have threads of their own: two test processes fill two cores.
PYTEST := MPLBACKEND=agg $(BIN)/python -m pytest -n 2 --dist loadfile

# XLA optimises nothing, and writes loops in its older and quicker way: compiling takes most of the time.
QUICKLY := XLA_FLAGS="$(XLA_FLAGS) --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"

unit: bytecode
	$(QUICKLY) $(PYTEST) -m "not soak and not optimised"
	$(PYTEST) $$(grep -rl --include='*.py' mark.optimised tests) -m "optimised and not soak"

deep: bytecode
	$(PYTEST) -m soak

# Of the package alone, for hundreds of processes that tests start. Tests write modules of their own
# and change them within a second, which Python does not notice where it has their bytecode.
bytecode: $(READY)
	$(BIN)/python -m compileall -q -j 2 src

# Without the slow tests and the docstrings' examples, in a minute.
quick: bytecode
	$(QUICKLY) $(PYTEST) tests -m "not slow and not soak"

# The wheel's content and size.
build: $(READY)
	rm -rf build/dist
	$(BIN)/python -m build --wheel --outdir build/dist . > /dev/null
	test $$(cat build/dist/*.whl | wc -c) -lt 1000000

# The wheel as a stranger gets it: built, installed into empty environments, alone and for
# simulations, and used from another folder. `python benchmarks/install.py` does so with every extra.
wheel: build
	rm -rf build/with_*
	for extra in "" sim; do \
		$(PYTHON) -m venv build/with_$$extra && \
		build/with_$$extra/bin/python -m pip --disable-pip-version-check --quiet install \
			-c constraints.txt "$$(echo build/dist/*.whl)$${extra:+[$$extra]}" && \
		(cd build && with_$$extra/bin/python ../tests/use_wheel.py $$extra) || exit 1; done
	build/with_/bin/fedbandits --version

# The site, in build/site, with the gallery's scripts played; warnings are errors. -j would not help:
# compiled programs have threads of their own.
docs: $(READY)
	rm -rf build/site
	MPLBACKEND=agg $(BIN)/python -m sphinx -q -W --keep-going -b html -d build/doctrees docs build/site
	@echo "open build/site/index.html"

# Every page in Chromium: phone and desktop, light and dark.
docs-check: docs
	$(BIN)/python tests/pages/look.py build/site

# What the pages say of the paper: here, and as older processors compute it.
pages: reproduce
	XLA_FLAGS=--xla_cpu_max_isa=SSE4_2 JAX_PLATFORMS=cpu $(BIN)/fedbandits reproduce --out out/older
	$(BIN)/python docs/fill.py out out/older

# Studies beyond the paper, and figure 2 at full size, for the pages. Minutes on a GPU, more than an
# hour on two cores.
studies: $(READY)
	for part in suite leaderboard horizons linear cdn; do \
		$(BIN)/python -m studies $$part --out out || exit 1; done
	$(BIN)/fedbandits reproduce figure2 --data generated --out out/generated
	$(BIN)/python docs/fill.py out out/generated

# What is measured: benchmarks/README.md. Best run while nothing else does.
bench: $(READY)
	$(BIN)/python benchmarks/bench.py --out benchmarks/results/latest.json

OLD ?= benchmarks/results/cpu-2-cores.json
NEW ?= benchmarks/results/latest.json

bench-compare: $(READY)
	$(BIN)/python benchmarks/compare.py $(OLD) $(NEW)

# The service's OpenAPI document as other tools read it: Redocly's linter and a TypeScript compiler,
# which npm downloads.
openapi-check: $(READY)
	rm -rf build/openapi && mkdir -p build/openapi
	cp tests/live/service/client.ts build/openapi
	$(BIN)/python -c "import json; from fedbandits.live.service.openapi import document; \
		print(json.dumps(document()))" > build/openapi/openapi.json
	cd build/openapi && npx --yes @redocly/cli@2 lint openapi.json
	cd build/openapi && npx --yes --package typescript@5 --package openapi-typescript@7 -- sh -c \
		"openapi-typescript openapi.json --output api.d.ts && tsc --strict --noEmit client.ts"

# Exact versions for repeatable runs; pyproject.toml holds the ranges.
constraints: $(READY)
	$(PIP) freeze --exclude-editable --exclude fedbandits > constraints.txt

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) install -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf .venv build out docs/gallery
