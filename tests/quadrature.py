"""Integrals over spectra, shared by the tests."""

from collections.abc import Callable

import numpy as np

from replica.theory import Hessian


def bulk_integral(spectrum_: Hessian, function: Callable[[np.ndarray], np.ndarray]) -> float:
    """Over the density, by Gauss-Legendre on the angle that makes it smooth at both ends."""
    low, high = spectrum_.edges
    nodes, weights = np.polynomial.legendre.leggauss(400)
    angle = np.pi * (nodes + 1) / 2
    x = low + (high - low) * np.sin(angle / 2) ** 2
    density = spectrum_.density(x) * (high - low) / 2 * np.sin(angle)
    return float(np.pi / 2 * np.sum(weights * density * function(x)))
