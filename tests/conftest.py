"""One BLAS thread for every test and every process that a test starts; figures need no screen, and none stays open.

Matrices are small: several threads would only wait for each other, and how a product is split between them changes the
last bits of results. Equality of bits is asserted between runs on one machine only.
"""

import gc
import os
import sys

import pytest
from threadpoolctl import threadpool_limits

for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"
os.environ["MPLBACKEND"] = "Agg"
# Many graphs are made: noting the line of each variable, and looking for garbage, take a tenth of the time.
os.environ.setdefault("PYTENSOR_FLAGS", "traceback__limit=0")
gc.set_threshold(100_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread():
    # Plugins import NumPy before this file, so the variables come too late for this process.
    with threadpool_limits(1):
        yield


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
