"""The transition at rho = kappa: where a point stands, its long contexts, and where IDG is steepest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import Chebyshev

from replica.engine.status import Status
from replica.exceptions import InputError
from replica.parameters import PROTOCOLS, Parameters
from replica.theory.long_context import (
    LongContext,
    long_context,
    scaling_variable,
    steepest_distance,
)
from replica.theory.solve import solve

LOWEST_RANK = 1e-3
"""The steepest place is sought over rho from here to 1."""

_SCAN = 200
_NOWHERE = (np.nan, np.nan, np.nan, False)
_DEGREE = 24
"""Of the polynomial through log IDG around its steepest place; the nearest singularity, at w = +-2i, leaves
(2 + 5^(1/2))^-24 = 1e-15 over a window of |w| < 1."""


class Steepest(NamedTuple):
    """Where log IDG rises fastest in rho at fixed other parameters; arrays of the grid's shape."""

    rho: Any
    """The place."""
    distance: Any
    """rho - kappa there."""
    slope: Any
    """d log IDG / d rho there."""
    on_bound: Any
    """Whether the slope has no maximum inside the range; the place is then the steeper end."""


@dataclass(frozen=True, eq=False)
class Phase:
    """Where the points of a grid stand; arrays have the shape of the grid.

    Attributes
    ----------
    parameters: the grid.
    status: of the solution, int8 codes of `replica.Status`.
    distance: rho - kappa.
    scaling_variable: w = (1/rho - 1/kappa) (kappa/z)^(1/2) with z = eta + xi.
    asymptotic: regimes, exponents and leading terms at long contexts.
    errors: "TM", "IDG", "ODG" -> the exact error.
    steepest: where log IDG rises fastest in rho.
    steepest_asymptotic: its distance as expanded at long contexts; NaN where there is no such expansion, that
        is unless ridge = 0, gamma > 1 and kappa < 1.
    """

    parameters: Parameters
    status: Any
    distance: Any
    scaling_variable: Any
    asymptotic: LongContext
    errors: Mapping[str, Any]
    steepest: Steepest
    steepest_asymptotic: Any

    def to_dicts(self) -> list[dict[str, Any]]:
        """One nested dictionary a point, in C order."""
        return [self._at(index) for index in np.ndindex(self.parameters.shape)]

    def _at(self, index: tuple[int, ...]) -> dict[str, Any]:
        def at(array: Any) -> Any:
            return np.broadcast_to(array, self.parameters.shape)[index].item()

        limit = self.asymptotic
        return {
            "parameters": {name: at(value) for name, value in self.parameters.items()},
            "status": Status(at(self.status)).label,
            "regime": {"tasks": at(limit.tasks), "samples": at(limit.samples)},
            "distance": at(self.distance),
            "scaling_variable": at(self.scaling_variable),
            "exponents": {p: at(limit.exponents[p]) for p in PROTOCOLS},
            "asymptotic": {p: at(limit.leading[p]) for p in PROTOCOLS},
            "exact": {p: at(self.errors[p]) for p in PROTOCOLS},
            "steepest": {
                **{name: at(value) for name, value in self.steepest._asdict().items()},
                "asymptotic_distance": at(self.steepest_asymptotic),
            },
        }


def phase(parameters: Parameters) -> Phase:
    """Where the points of a grid stand with respect to the transition.

    Raises
    ------
    InputError: an infinite alpha, or an alpha_test that is not alpha.

    Examples
    --------
    >>> point = phase(Parameters(alpha=1e4, kappa=0.5, rho=0.5, gamma=1.5, sigma=0.3))
    >>> print(point.asymptotic.tasks, point.asymptotic.exponents["IDG"], f"{point.steepest.distance:.2e}")
    critical 0.5 -8.01e-05
    """
    if np.any(np.isinf(parameters.alpha)):
        raise InputError("alpha = inf leaves nothing to compare with its limit; allowed range (0, inf)")
    asymptotic = long_context(parameters)
    solution = solve(parameters)
    argument = parameters.implicit_ridge + solution.effective_ridge
    distance = np.broadcast_to(np.subtract(parameters.rho, parameters.kappa), parameters.shape)[()]
    return Phase(
        parameters,
        solution.status,
        distance,
        scaling_variable(parameters, argument),
        asymptotic,
        solution.errors,
        steepest(parameters),
        _expanded(parameters),
    )


def steepest(parameters: Parameters) -> Steepest:
    """Where log IDG rises fastest in rho, from `LOWEST_RANK` to 1, at fixed other parameters.

    This is the largest maximum of d log IDG / d rho inside the range: without noise the slope also grows like
    1/rho towards rho = 0. Scans rho, finely around kappa, then differentiates a polynomial through log IDG in
    a window as wide as the transition. NaN where the errors are not finite. The rho of `parameters` takes
    part in the shape alone.

    Examples
    --------
    >>> places = steepest(Parameters(alpha=[1e3, 1e4, 1e5], kappa=0.5, rho=0.5, gamma=1.5, sigma=0.3))
    >>> (places.distance * [1e3, 1e4, 1e5]).round(3)
    array([-0.768, -0.801, -0.812])
    """
    values = {name: np.broadcast_to(value, parameters.shape).ravel() for name, value in parameters.items()}
    if parameters.alpha_test_follows:
        del values["alpha_test"]
    places = [
        _steepest({name: float(column[index]) for name, column in values.items() if name != "rho"})
        for index in range(parameters.size)
    ]
    columns = (np.array(column).reshape(parameters.shape)[()] for column in zip(*places, strict=True))
    return Steepest(*columns)


def _steepest(point: dict[str, float]) -> tuple[float, float, float, bool]:
    """The place at one point: rho, rho - kappa, the slope, and whether it is on a bound."""
    kappa = point["kappa"]

    def log_error(rho: Any) -> np.ndarray:
        return np.log(solve(Parameters(rho=rho, **point)).errors["IDG"])

    middle = min(kappa, 1.0)
    width = _width(point, middle)
    # Spacing in proportion to the distance from kappa, down to a fraction of the transition's width.
    first, last = (float(np.arcsinh((end - middle) / width)) for end in (LOWEST_RANK, 1.0))
    rho = middle + width * np.sinh(np.linspace(first, last, _SCAN))
    rho = np.unique(np.clip(rho, LOWEST_RANK, 1.0))
    values = log_error(rho)
    if not np.all(np.isfinite(values)):
        return _NOWHERE
    slopes = np.diff(values) / np.diff(rho)
    peaks = 1 + np.flatnonzero((slopes[1:-1] > slopes[:-2]) & (slopes[1:-1] >= slopes[2:]))
    if not len(peaks):
        index = int(np.argmax(slopes))
        end = float(rho[0] if index == 0 else rho[-1])
        return end, end - kappa, float(slopes[index]), True
    index = int(peaks[np.argmax(slopes[peaks])])
    centre = (rho[index] + rho[index + 1]) / 2
    reach = max(_width(point, centre), 2 * (rho[index + 1] - rho[index]))
    low, high = max(LOWEST_RANK, centre - reach), min(1.0, centre + reach)
    # In the distance from the centre, so that the window keeps its digits.
    smooth = Chebyshev.interpolate(lambda x: log_error(centre + x), _DEGREE, [low - centre, high - centre])
    slope = smooth.deriv()
    flat = slope.deriv().roots()
    inside = flat[
        (abs(flat.imag) < 1e-6 * reach) & (flat.real > low - centre) & (flat.real < high - centre)
    ].real
    if not len(inside):
        return _NOWHERE
    place = max(inside, key=slope)
    return float(centre + place), float((centre - kappa) + place), float(slope(place)), False


def _width(point: Mapping[str, float], rho: float) -> float:
    """The change of rho that moves the scaling variable by one: rho^2 (z/rho)^(1/2)."""
    solution = solve(Parameters(rho=rho, **point))
    argument = float(solution.parameters.implicit_ridge + np.nan_to_num(solution.effective_ridge))
    return float(rho**2 * np.sqrt(argument / rho))


def _expanded(parameters: Parameters) -> Any:
    """`steepest_distance` where it holds, else NaN."""
    alpha, kappa, gamma, sigma, ridge, eta = (
        np.broadcast_to(value, parameters.shape).ravel()
        for value in (
            parameters.alpha,
            parameters.kappa,
            parameters.gamma,
            parameters.sigma,
            parameters.ridge,
            parameters.implicit_ridge,
        )
    )
    distances = np.full(alpha.size, np.nan)
    for index in np.flatnonzero((ridge == 0) & (gamma > 1) & (kappa < 1)):
        distances[index] = steepest_distance(
            float(kappa[index]), float(gamma[index]), float(eta[index]), noiseless=bool(sigma[index] == 0)
        )
    return distances.reshape(parameters.shape)[()]
