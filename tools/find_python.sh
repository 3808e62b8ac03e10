#!/bin/sh
# Print the command of a Python that can make this project's virtual environment.
#
# Whether a candidate exists says little: a version manager leaves shims on PATH
# that fail when called, and a distribution may split venv or ensurepip off into
# another package. So each candidate is run and asked.

probe='
import sys, sysconfig
import ctypes, ensurepip, ssl, venv  # a build from source may lack ctypes or ssl
ok = (3, 12) <= sys.version_info[:2] < (3, 15) and sys.implementation.name == "cpython"
# Several dependencies have no wheels for free-threaded builds.
sys.exit(not ok or bool(sysconfig.get_config_var("Py_GIL_DISABLED")))
'

suitable() {
    [ -n "$1" ] && "$1" -c "$probe" </dev/null >/dev/null 2>&1
}

# Newest first: sort compares the versions inside the paths as numbers.
managed() {
    for found in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python; do
        echo "$found"
    done | sort -rV
    for found in "$HOME"/.local/share/uv/python/*/bin/python3; do
        echo "$found"
    done | sort -rV
}

candidates() {
    printf '%s\n' python3.14 python3.13 python3.12 python3
    managed
}

if suitable "${PYTHON-}"; then
    echo "$PYTHON"
    exit 0
elif [ -n "${PYTHON-}" ]; then
    echo "PYTHON=$PYTHON cannot be used (CPython 3.12 to 3.14 is needed), looking for another." >&2
fi

choice=$(candidates | while IFS= read -r candidate; do
    if suitable "$candidate"; then
        echo "$candidate"
        break
    fi
done)

if [ -z "$choice" ]; then
    echo "No usable Python found: install CPython 3.12, 3.13 or 3.14 with its venv and ensurepip modules, or name one with 'make PYTHON=/path/to/python'." >&2
    exit 1
fi
echo "$choice"
