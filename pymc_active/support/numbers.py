"""Numbers as text: coordinates, and values with their uncertainty."""

from __future__ import annotations

import numpy as np


def _two_digits(value: float) -> str:
    return np.format_float_positional(float(f"{value:.2g}"), trim="-")


def coordinate(value: float, width: float = 0.0) -> str:
    """A coordinate to about 1e-4 of the ``width`` of its range, whole numbers in full; to 12 digits without a width.

    Examples
    --------
    >>> coordinate(5412135.04, 600), coordinate(0.00123, 0.002), coordinate(3.14159, 10), coordinate(5412135.25)
    ('5412135', '0.00123', '3.142', '5412135.25')
    """
    if not width > 0:
        return f"{value:.12g}"
    # Adding zero takes the sign from -0.
    return f"{round(float(value), max(0, 4 - round(np.log10(width)))) + 0.0:.15g}"


def plus_minus(value: float, sd: float, digits: int = 1) -> str:
    """``value ± sd``, both to the decimals that show ``digits`` digits of the sd; the value alone if the sd is zero.

    Numbers of more than six decimals are not aligned.

    Examples
    --------
    >>> plus_minus(1.00312, 0.0123), plus_minus(372.4, 45.1), plus_minus(26.77, 4.61, digits=2), plus_minus(2.5, 0.0)
    ('1.00 ± 0.01', '372 ± 45', '26.8 ± 4.6', '2.5')
    >>> plus_minus(5.0, 1e-14)
    '5 ± 1e-14'
    """
    if not sd > 0:
        return f"{value:.4g}"
    decimals = max(0, digits - 1 - int(np.floor(np.log10(sd)))) if np.isfinite(sd) else np.inf
    if decimals > 6:
        return f"{value:.4g} ± {sd:.{digits}g}"
    return f"{value:.{decimals}f} ± {sd:.{decimals}f}"
