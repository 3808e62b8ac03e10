"""Imported before NumPy: one thread, so that CPU times say what was computed."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
