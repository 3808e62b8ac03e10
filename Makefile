# make demo    run the example
# make test    run every check
# PYTHON=...   the Python to make the environment with, if not the one found

VENV := .venv
PY := $(VENV)/bin/python

# An environment whose Python has since been removed or upgraded does not run,
# and one that was copied with its checkout still imports the original.
ifneq ($(shell test "$$(cat $(VENV)/.stamp-venv 2>/dev/null)" = "$$(pwd -P)" && \
	$(PY) -c 'import pip' >/dev/null 2>&1 && echo sound),sound)
.PHONY: $(VENV)/.stamp-venv
endif

# Both targets install into the one environment, which pip cannot do at once.
.NOTPARALLEL:

.PHONY: demo
demo: $(VENV)/.stamp-demo
	@$(PY) -m pymc_active demo

.PHONY: test
test: $(VENV)/.stamp-test
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
# Small matrices everywhere: several BLAS threads would only wait for each other.
	OMP_NUM_THREADS=1 $(PY) -m pytest --doctest-modules --nbmake tests pymc_active $(wildcard notebooks)
	$(PY) tools/check_wheel.py

$(VENV)/.stamp-venv: pyproject.toml
	@python=$$(sh tools/find_python.sh) && \
	echo "Making $(VENV) with $$python" && \
	"$$python" -m venv --clear $(VENV) && \
	pwd -P >$@

$(VENV)/.stamp-demo: EXTRAS := plots,datasets
$(VENV)/.stamp-test: EXTRAS := test

$(VENV)/.stamp-%: $(VENV)/.stamp-venv
	@echo "Installing the package with [$(EXTRAS)] into $(VENV); this takes a minute or two"
	@$(PY) -m pip install -qq --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@touch $@
