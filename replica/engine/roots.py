"""Roots of one increasing function of one positive unknown, for a whole array of parameters at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import elementwise

from replica.engine.status import Status

WIDENING = 1e-9
"""Brackets are widened by this relative amount at either end, against the rounding of analytic bounds."""

_TANGENTS = 12
_TIGHT = 1e-7
_FROM_SCIPY = {0: Status.OK, -1: Status.UNPHYSICAL, -2: Status.NOT_CONVERGED, -3: Status.NONFINITE}


def tighten(
    function: Callable[..., tuple[Any, Any]], low: Any, high: Any, arguments: tuple[Any, ...]
) -> tuple[Any, Any]:
    """Shrink brackets by tangents, for functions increasing and concave in x and convex in 1/x.

    The tangent in x meets zero below the root and the tangent in 1/x above it, so one evaluation moves both
    ends, and both converge quadratically.

    Parameters
    ----------
    function: `function(x, *arguments)` returns F(x) and x F'(x).
    low, high: positive ends that enclose the root, broadcasting with the arguments.
    arguments: arrays passed on.

    Returns
    -------
    The new ends. A point that is tight stays as it is, whatever its neighbours need, so that its root is the
    same in any array; points that are not tight after twelve steps keep what was reached.
    """
    for _ in range(_TANGENTS):
        loose = high > low * (1.0 + _TIGHT)
        if not loose.any():
            break
        x = np.sqrt(low * high)
        value, slope = function(x, *arguments)
        step = value / slope
        # A tangent may meet zero at a negative x, where it tells nothing: fmax and fmin drop it.
        low = np.where(loose, np.fmax(low, x * (1.0 - step)), low)
        high = np.where(loose & (step > -1.0), np.fmin(high, x / (1.0 + step)), high)
    return low, high


def find_root(
    function: Callable[..., Any],
    low: Any,
    high: Any,
    arguments: tuple[Any, ...] = (),
    *,
    max_iterations: int = 200,
) -> tuple[np.ndarray, np.ndarray]:
    """Find the root of an increasing function between two positive bounds, element by element.

    Works in the logarithm of the unknown, relative to the middle of its bracket so that the logarithm costs
    no digits. The caller vouches for uniqueness; with several roots one of them is returned.

    Parameters
    ----------
    function: `function(x, *arguments)`, vectorized.
    low, high: positive bounds, shape broadcasting with the arguments; widened by `WIDENING`.
    arguments: arrays, broadcasting with the bounds.
    max_iterations: of `scipy.optimize.elementwise.find_root`.

    Returns
    -------
    x, status: float64 and int8 arrays of the broadcast shape. The status is `UNPHYSICAL` where the widened
    bracket shows no change of sign or the root sits in the outer half of the widening, `NOT_CONVERGED` at the
    iteration limit, `NONFINITE` where the function or a bound is not finite; x is then not to be used.
    """
    low, high, *arguments_ = np.broadcast_arrays(low, high, *arguments)
    middle = np.sqrt(low) * np.sqrt(high)
    end = 0.5 * np.log(high / low) + WIDENING

    def shifted(logarithm: Any, middle: Any, *rest: Any) -> Any:
        return function(middle * np.exp(logarithm), *rest)

    # An absolute tolerance on the logarithm is a relative one on the unknown.
    tolerances = {"xatol": 2 * np.finfo(float).eps, "xrtol": 0.0}
    found = elementwise.find_root(
        shifted, (-end, end), args=(middle, *arguments_), tolerances=tolerances, maxiter=max_iterations
    )
    status = np.full(np.shape(found.x), Status.NONFINITE, dtype=np.int8)
    for code, meaning in _FROM_SCIPY.items():
        status[found.status == code] = meaning
    status[(status == Status.OK) & (np.abs(found.x) > end - WIDENING / 2)] = Status.UNPHYSICAL
    return middle * np.exp(found.x), status
