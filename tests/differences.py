"""Numerical differentiation, the second route to every derivative in these tests."""

import numpy as np

# Five-point central differences err by about h⁴ f⁽⁵⁾/30 + 1.5 ε |f| / h, with ε the relative rounding error of f.
# For a log posterior of size 100, ε = 1e-15 and a scale of variation of 0.1, this step leaves 1e-9. The exception are
# Matérn 1/2 and 3/2: PyMC's √(r² + 1e-12) turns a rounding of 1e-16 in r² into one of 1e-10 in the kernel, which
# leaves 1e-6.
STEP = 1e-4


def central_difference(function, theta, step=STEP):
    """Derivative of an array-valued function in each entry of theta, stacked in the last axis."""
    columns = []
    for direction in np.eye(len(theta)) * step:
        near = function(theta + direction) - function(theta - direction)
        far = function(theta + 2 * direction) - function(theta - 2 * direction)
        columns.append((8 * near - far) / (12 * step))
    return np.stack(columns, axis=-1)
