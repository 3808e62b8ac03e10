"""Warnings that point at the line of the user's that led to them."""

import warnings
from pathlib import Path

_PACKAGE = str(Path(__file__).parent)


def warn_user(message: str) -> None:
    """Warn, attributed to the innermost caller outside the package."""
    warnings.warn(message, UserWarning, skip_file_prefixes=(_PACKAGE,))
