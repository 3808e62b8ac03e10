"""Numbers as text: coordinates, and values with their uncertainty."""

from __future__ import annotations

import numpy as np

# Half the width of a central 89 % interval of a Gaussian, in sds, and the quantiles of one of draws, with the median.
Z89, QUANTILES = 1.598193, (0.055, 0.5, 0.945)
# Powers of ten between which numbers are written in full, and the digits that others may have.
_SMALLEST, _LARGEST, _DIGITS = -4, 6, 4


def two_digits(value: float) -> str:
    """A number to two digits, without a power of ten."""
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

    From a million on, and below a ten-thousandth, they have a common power of ten if four digits suffice. Numbers of
    more than six decimals are not aligned.

    Examples
    --------
    >>> plus_minus(1.00312, 0.0123), plus_minus(372.4, 45.1), plus_minus(26.77, 4.61, digits=2), plus_minus(2.5, 0.0)
    ('1.00 ± 0.01', '372 ± 45', '26.8 ± 4.6', '2.5')
    >>> plus_minus(3131443, 71692), plus_minus(6.7e-6, 7e-7), plus_minus(1e9 + 1, 0.0038, digits=2)
    ('(3.13 ± 0.07)e+06', '(6.7 ± 0.7)e-06', '1000000001.0000 ± 0.0038')
    >>> plus_minus(5.0, 1e-14)
    '5 ± 1e-14'
    """
    if not sd > 0:
        return f"{value:.4g}"
    if not np.isfinite(sd) or not np.isfinite(value):
        return f"{value:.4g} ± {sd:.{digits}g}"
    decimals = digits - 1 - int(np.floor(np.log10(sd)))
    exponent = int(np.floor(np.log10(max(abs(value), sd))))
    if not _SMALLEST <= exponent < _LARGEST and decimals + exponent < _DIGITS:
        unit = 10.0**exponent
        return f"({plus_minus(value / unit, sd / unit, digits)})e{exponent:+03d}"
    if decimals > 6:
        return f"{value:.4g} ± {sd:.{digits}g}"
    return f"{value:.{max(0, decimals)}f} ± {sd:.{max(0, decimals)}f}"
