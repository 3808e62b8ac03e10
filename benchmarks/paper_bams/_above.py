"""Makes the modules that all benchmarks share importable from this folder, and has one thread for what comes next."""

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
