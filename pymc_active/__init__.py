"""PyMC models that choose their own data."""

from importlib.metadata import version

import lazy_loader

# The export list is the stub beside this file. Names load on first use (SPEC 1 of Scientific Python): SciPy, which PyMC
# itself does not load, would be most of the import time.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = version("pymc-active")
# Raised by the commit that changes what the defaults answer (benchmarks/same_answers.py decides): results of different
# engines are never in one table.
ENGINE = 2
