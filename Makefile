# make demo    run the example
# make docs    build the documentation, docs/_build/html/index.html
# make quick   run linters, types and the tests that say most
# make test    run every check
# make nightly run what takes too long for make test: kills, clusters, fuzz, coverage, Numba and JAX, every benchmark
# make papers  make missing records of the four papers' tables and figures, MINUTES=90 of them at lowest priority
# PYTHON=...   the Python to make the environment with, if not the one found

VENV := .venv
PY := $(VENV)/bin/python

# An environment whose Python has since been removed or upgraded does not run,
# and one that was copied with its checkout still imports the original.
ifneq ($(shell test "$$(cat $(VENV)/.stamp-venv 2>/dev/null)" = "$$(pwd -P)" && \
	$(PY) -c 'import pip' >/dev/null 2>&1 && echo sound),sound)
.PHONY: $(VENV)/.stamp-venv
endif

# Compiled files are kept, also where the caller's Python keeps none: every process would compile them again.
unexport PYTHONDONTWRITEBYTECODE

# All targets install into the one environment, which pip cannot do at once.
.NOTPARALLEL:

.PHONY: demo
demo: $(VENV)/.stamp-demo
	@$(PY) tools/demo.py

# One thread: with small matrices several BLAS threads would only wait for each other.
SPHINX = OMP_NUM_THREADS=1 $(PY) -m sphinx --fail-on-warning --keep-going -b html docs docs/_build/html

.PHONY: docs
docs: $(VENV)/.stamp-docs
	$(SPHINX)

# Two processes, a file at a time, since the tests of a file share what is slow to make.
PYTEST = OMP_NUM_THREADS=1 $(PY) -m pytest --numprocesses 2 --dist loadfile

.PHONY: lint
lint: $(VENV)/.stamp-test
# Without its cache: whether imports are in order depends on which files there are.
	$(PY) -m ruff check --no-cache .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

.PHONY: quick
quick: lint
	$(PYTEST) -m "not slow and not nightly" tests

.PHONY: test
test: lint
	$(PYTEST) --doctest-modules tests pymc_active
# Every page anew, so that every notebook runs with the package as it is. A source archive has no docs.
# The wheel is made and tried meanwhile.
	$(PY) tools/check_wheel.py & \
	$(if $(wildcard docs),$(SPHINX) --fresh-env --write-all --jobs 2 --define nb_execution_mode=force,true) && wait $$!

.PHONY: nightly
nightly: $(VENV)/.stamp-test $(VENV)/.stamp-nightly
	$(PYTEST) --dist worksteal -m nightly tests

MINUTES := 90

.PHONY: papers
papers: $(VENV)/.stamp-bench
	$(PY) -m benchmarks.papers --minutes $(MINUTES)

$(VENV)/.stamp-venv: pyproject.toml
	@python=$$(sh tools/find_python.sh) && \
	echo "Making $(VENV) with $$python" && \
	"$$python" -m venv --clear $(VENV) && \
	pwd -P >$@

$(VENV)/.stamp-demo: EXTRAS := plots,datasets
$(VENV)/.stamp-docs: EXTRAS := docs
$(VENV)/.stamp-test: EXTRAS := test
$(VENV)/.stamp-nightly: EXTRAS := test,jax
$(VENV)/.stamp-bench: EXTRAS := bench,plots,datasets

# Python compiles what is imported when it is; to compile all packages would take longer than the rest of installing.
$(VENV)/.stamp-%: $(VENV)/.stamp-venv
	@echo "Installing the package with [$(EXTRAS)] into $(VENV); this takes a minute or two"
	@$(PY) -m pip install -qq --disable-pip-version-check --no-compile --editable '.[$(EXTRAS)]'
	@touch $@
