"""The command line: ``pymc-active``, or ``python -m pymc_active``."""
