"""Cases like others: only make nightly takes them."""

import pytest


def nightly(*cases):
    """Parameters, of which a tuple are several."""
    return [pytest.param(*(c if isinstance(c, tuple) else (c,)), marks=pytest.mark.nightly) for c in cases]
