"""Imported before NumPy: one thread, so that CPU times say what was computed."""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")
