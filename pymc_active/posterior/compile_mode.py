"""The default PyTensor compilation mode."""

from __future__ import annotations

from pytensor.compile.mode import Mode
from pytensor.link.vm import VMLinker


def vm_mode() -> Mode:
    """A mode without JIT and C compiler: elementwise graphs build in about a second and run at NumPy's speed."""
    return Mode(linker=VMLinker(use_cloop=False, c_thunks=False), optimizer="fast_run").excluding(
        "cxx_only", "BlasOpt", "fusion", "inplace"
    )
