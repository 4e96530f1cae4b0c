"""Optimal choices: the parameters that minimize a weighted sum of the three errors.

A mix w IDG + (1 - w) ODG, 0 < w < 1, wants robust specialists. With label noise, without a ridge, at
gamma > 1, kappa < 1 and in long contexts (alpha_test = alpha -> inf, eta -> 0), its best rank is

    rho = kappa - y kappa^(3/2) eta^(1/2) + O(eta),    y = 2 (1 - A) / sqrt(A (2 - A)),
    A = 2 (1 - w) kappa / (w + (1 - w) kappa).

That lies inside the critical window around rho = kappa, whatever the weights: IDG is there of order
eta^(-1/2), and so is the part of ODG that depends on rho. A fixed ridge bounds both and moves the best rank
away.
Derived for this project from f(eta) = (kappa/eta)^(1/2) 2/(y + sqrt(y^2 + 4)) in the window, with the scaling
variable y = (1/rho - 1/kappa) (kappa/eta)^(1/2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.ndimage import minimum_filter
from scipy.optimize import minimize

from replica.engine.status import Status
from replica.exceptions import InputError, NumericalError
from replica.parameters import NAMES, PROTOCOLS, RANGES, Parameters, validated
from replica.theory.solution import Solution
from replica.theory.solve import solve

CHOICES = ("ridge", "kappa", "rho", "alpha_test", "gamma")
"""The parameters that can be optimized."""

_SCAN = {1: 2001, 2: 201}
"""Points of the scan along each axis, by the number of axes."""
_POLISHED = 5
"""The lowest local minima of the scan that are polished."""
_RADII = {"initial_tr_radius": 5e-3, "final_tr_radius": 1e-10}
"""From the spacing of the scan to below what the flat bottom of a minimum resolves (about 1e-8)."""
_MARGIN = 5e-7
"""The search keeps this fraction of the logarithmic range away from bounds, which may have no answer."""
_FLOOR = 1e-12
"""Smallest positive ridge that is tried below a lower bound of 0, over the upper bound."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """The lowest weighted error within bounds.

    Attributes
    ----------
    weights: protocol -> weight, all three, as given.
    bounds: optimized parameter -> (low, high).
    position: optimized parameter -> "interior", "lower" or "upper": whether the optimum sits on a bound.
    criterion: sum of weight times error at the optimum.
    solution: the theory there, at one point, with the optimal `parameters`.
    """

    weights: Mapping[str, float]
    bounds: Mapping[str, tuple[float, float]]
    position: Mapping[str, str]
    criterion: float
    solution: Solution

    @property
    def choice(self) -> dict[str, float]:
        """The optimal values of the optimized parameters."""
        return {name: getattr(self.solution.parameters, name) for name in self.bounds}

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and mappings, as `replica optimize --format json` prints them."""
        return {
            "parameters": dict(self.solution.parameters.items()),
            "status": Status(self.solution.status).label,
            "weights": dict(self.weights),
            "criterion": self.criterion,
            "optimum": {
                name: {"value": value, "low": low, "high": high, "position": self.position[name]}
                for (name, value), (low, high) in zip(self.choice.items(), self.bounds.values(), strict=True)
            },
            "errors": dict(self.solution.errors),
            "residual": self.solution.residual,
        }


def optimize(weights: Mapping[str, float], over: Mapping[str, Sequence[float]], **fixed: float) -> Optimum:
    """Find the values of one or two parameters that minimize a weighted sum of TM, IDG and ODG errors.

    Parameters
    ----------
    weights: protocol -> weight >= 0, not all zero; protocols left out weigh nothing.
    over: one or two of `CHOICES` -> (low, high), finite, low < high, within the range of the parameter.
    fixed: the other parameters, numbers; `alpha_test` left out follows `alpha`, `ridge` left out is 0.

    Returns
    -------
    `Optimum`. A parameter next to a bound counts as on it if the bound itself does no worse.

    Raises
    ------
    InputError: any of these rules broken.
    NumericalError: the criterion is finite nowhere within the bounds.

    Notes
    -----
    Global within the resolution of a scan, logarithmic in each parameter (2001 points, or 201 x 201), whose
    lowest local minima are polished by a derivative-free trust-region method (COBYQA). The criterion is found
    to rounding; the place of an interior minimum only to about 1e-8 of the logarithmic range, for there the
    criterion is flat.

    Examples
    --------
    >>> best = optimize({"IDG": 0.7, "ODG": 0.3}, {"ridge": (1e-6, 10)}, alpha=2, kappa=1.5, rho=0.9,
    ...                 gamma=1.5, sigma=0.3)
    >>> print(f"{best.choice['ridge']:.5f} {best.criterion:.6f} {best.position['ridge']}")
    0.76894 0.763029 interior
    """
    weights = _checked_weights(weights)
    axes = [_Axis(name, *bounds) for name, bounds in _checked_bounds(over, fixed).items()]

    def solved(place: Iterable[Any]) -> Solution:
        return solve(
            Parameters(**fixed, **{axis.name: axis.at(t) for axis, t in zip(axes, place, strict=True)})
        )

    def criterion(solution: Solution) -> Any:
        total = sum(weights[p] * solution.errors[p] for p in PROTOCOLS if weights[p] > 0)
        return np.where(np.isfinite(total), total, np.inf)[()]

    def value(place: Iterable[Any]) -> Any:
        return criterion(solved(place))

    ticks = np.linspace(_MARGIN, 1.0 - _MARGIN, _SCAN[len(axes)])
    scan = solved(np.meshgrid(*[ticks] * len(axes), indexing="ij", sparse=True))
    heights = criterion(scan)
    if not np.isfinite(heights).any():
        counts = ", ".join(f"{number} {label}" for label, number in scan.counts().items())
        raise NumericalError(f"the criterion is finite nowhere within the bounds ({counts}); move them")
    candidates = [ticks[list(index)] for index in _local_minima(heights)]
    box = [(_MARGIN, 1.0 - _MARGIN)] * len(axes)
    candidates += [minimize(value, c, method="COBYQA", bounds=box, options=_RADII).x for c in candidates]
    place, position = _settled(min(candidates, key=value), value)
    solution = solved(place)
    return Optimum(
        weights,
        {axis.name: (axis.low, axis.high) for axis in axes},
        {axis.name: where for axis, where in zip(axes, position, strict=True)},
        float(criterion(solution)),
        solution,
    )


@dataclass(frozen=True)
class _Axis:
    """A parameter along its range: t runs from 0 at the lower bound to 1 at the upper, logarithmically."""

    name: str
    low: float
    high: float

    def at(self, t: Any) -> Any:
        start = self.low if self.low > 0 else _FLOOR * self.high
        inside = np.exp((1.0 - np.asarray(t)) * np.log(start) + t * np.log(self.high))
        # The ends exactly, so that a bound is met to the last digit.
        return np.where(t == 0, self.low, np.where(t == 1, self.high, np.clip(inside, start, self.high)))[()]


def _local_minima(heights: np.ndarray) -> list[tuple[int, ...]]:
    """Indices of the lowest local minima of a scan, the lowest first."""
    lowest = np.isfinite(heights) & (heights == minimum_filter(heights, size=3, mode="nearest"))
    found = np.argwhere(lowest)
    order = np.argsort(heights[lowest], kind="stable")[:_POLISHED]
    return [tuple(index) for index in found[order]]


def _settled(place: np.ndarray, value: Callable[[np.ndarray], Any]) -> tuple[np.ndarray, list[str]]:
    """Move coordinates that stopped at the margin onto their bound where it is no worse; say which are there.

    A bound without an answer is only approached, which counts as being there.
    """
    position = ["interior"] * len(place)
    for axis, t in enumerate(place):
        end = float(t > 0.5)
        if abs(t - end) > 2 * _MARGIN:
            continue
        moved = place.copy()
        moved[axis] = end
        here, there = value(place), value(moved)
        no_worse = there <= here * (1.0 + 4 * np.finfo(float).eps)
        if no_worse or np.isinf(there):
            position[axis] = "upper" if end else "lower"
        if no_worse:
            place = moved
    return place, position


def _checked_weights(weights: Mapping[str, float]) -> dict[str, float]:
    for protocol, weight in weights.items():
        if protocol not in PROTOCOLS:
            raise InputError(f"weight of {protocol!r}: allowed protocols are {', '.join(PROTOCOLS)}")
        if not 0 <= weight < np.inf:
            raise InputError(f"weight of {protocol} = {weight:g} is outside the allowed range [0, inf)")
    checked = {str(p): float(weights.get(p, 0.0)) for p in PROTOCOLS}
    if not any(checked.values()):
        raise InputError(f"no weight is positive; give one to at least one of {', '.join(PROTOCOLS)}")
    return checked


def _checked_bounds(
    over: Mapping[str, Sequence[float]], fixed: Mapping[str, float]
) -> dict[str, tuple[float, float]]:
    for name in over:
        if name not in CHOICES:
            raise InputError(f"{name!r} cannot be optimized; allowed are {', '.join(CHOICES)}")
        if name in fixed:
            raise InputError(f"{name} is both fixed at {fixed[name]:g} and optimized; choose one")
    if len(over) not in _SCAN:
        raise InputError(
            f"{len(over)} parameters to optimize; allowed are one or two of {', '.join(CHOICES)}"
        )
    for name, value in fixed.items():
        if name not in NAMES:
            raise InputError(f"{name!r} is no parameter; allowed are {', '.join(NAMES)}")
        if np.ndim(validated(name, value)) > 0:
            raise InputError(
                f"{name} of shape {np.shape(value)} is no single number, as a fixed value must be"
            )
    for name in NAMES:
        if name not in {*over, *fixed, "alpha_test", "ridge"}:
            raise InputError(f"{name} is neither fixed nor optimized; allowed range {RANGES[name]}")
    bounds = {}
    for name, ends in over.items():
        low, high = (validated(name, end) for end in ends)
        if not low < high:
            raise InputError(
                f"bounds of {name} = {low:g}:{high:g} are not increasing; give the lower one first"
            )
        if np.isinf(high):
            raise InputError(f"bounds of {name} = {low:g}:{high:g} are not finite; a range is scanned")
        bounds[name] = (low, high)
    return bounds
