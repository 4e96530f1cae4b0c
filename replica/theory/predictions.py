"""The law of predictions: label and prediction of a fresh prompt are jointly Gaussian in the limit.

Under a protocol with task second moment B, E y^2 = 1 + sigma^2, E y yhat = tr(W B), E yhat^2 = tr(W C W^T);
both means vanish. What a prediction is made of, and how far it scatters at a given label, is written here as
sums of positive terms, like everything in `errors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import sympy as sp

from replica.engine.program import compiled
from replica.engine.status import Status
from replica.exceptions import InputError
from replica.parameters import PROTOCOLS, Protocol
from replica.theory import errors, spectrum
from replica.theory.saddle import spread
from replica.theory.solution import Solution
from replica.theory.symbols import (
    definitions,
    eta,
    eta_test,
    gamma,
    inverse_kappa,
    noise,
    off_range,
    rho,
    u,
    v,
    y,
    z,
)


def contributions(protocol: Protocol) -> dict[str, sp.Expr]:
    """Variances of the three parts of the prediction, defined in `errors.decomposition`.

    They sum to E yhat^2 under IDG and ODG. Under TM the memorization part also correlates with the signal,
    which adds 2 a (E y yhat - a). The variance of a memorization or structural part is its share of the
    error, save the memorization part of TM, which owes a share to its correlation with the target.
    """
    square = errors.signal_gain() ** 2
    parts = errors.decomposition(protocol)
    if protocol is Protocol.TM:
        parts["memorization"] = errors.memorization_terms()["variance"]
    context = rho * (1 + eta_test) if protocol is Protocol.ODG else 1 + rho * eta_test
    return parts | {"algorithmic": square * context}


def conditional_variance(protocol: Protocol) -> sp.Expr:
    """E yhat^2 - (E y yhat)^2 / (1 + sigma^2), the scatter of the prediction at a given label.

    Under IDG, E y yhat = a and under ODG rho a, so only the signal's variance is diminished. Under TM,
    E y yhat = a + c with c = <s (s/(s + z) - a)>, and the variance of s/(s + z) under the weight s is left.
    """
    square, label = errors.signal_gain() ** 2, 1 + noise
    parts = contributions(protocol)
    rest = parts["memorization"] + parts["structural"]
    if protocol is Protocol.IDG:
        return square * (noise / label + rho * eta_test) + rest
    if protocol is Protocol.ODG:
        return rho * square * ((noise + off_range) / label + eta_test) + rest
    fixed = spectrum.weighted_gain_spread + rho * eta_test * (square + spectrum.gain_spread)
    moving = errors.over_tasks(protocol, spread) + rho * eta_test * errors.over_tasks(Protocol.IDG, spread)
    return errors.covariance(protocol) ** 2 * noise / label + fixed + v * moving + parts["structural"]


@dataclass(frozen=True, eq=False)
class PredictionLaw:
    """The centred Gaussian law of label y and prediction yhat under one protocol, at every point of a grid.

    Arrays have the shape of the grid; what a method is given broadcasts against them. They are NaN where the
    status of the solution is not `OK`; at the interpolation threshold variances of yhat are infinite.

    Attributes
    ----------
    label_variance: E y^2 = 1 + sigma^2.
    covariance: E y yhat.
    variance: E yhat^2.
    conditional_variance: of yhat given y; 0 for the perfect predictor without noise, where `given` has no
        density.
    parts: "algorithmic", "memorization", "structural" -> variance of that part of yhat.
    """

    label_variance: Any
    covariance: Any
    variance: Any
    conditional_variance: Any
    parts: Mapping[str, Any]

    def conditional_mean(self, label: Any) -> Any:
        """E[yhat | y = label], that is label E y yhat / E y^2."""
        return np.asarray(label) * (self.covariance / self.label_variance)

    def given(self, label: Any) -> Any:
        """The law of yhat at a given label, as a frozen `scipy.stats.norm`."""
        return _normal(self.conditional_mean(label), self.conditional_variance)

    def prediction(self) -> Any:
        """The law of yhat over all labels, as a frozen `scipy.stats.norm`."""
        return _normal(0.0, self.variance)

    def label(self) -> Any:
        """The law of y, as a frozen `scipy.stats.norm`."""
        return _normal(0.0, self.label_variance)

    def part(self, name: str) -> Any:
        """The law of one part of yhat, a key of `parts`, as a frozen `scipy.stats.norm`."""
        return _normal(0.0, self.parts[name])

    def density(self, label: Any, prediction: Any) -> Any:
        """Joint density of (y, yhat)."""
        return self.label().pdf(label) * self.given(label).pdf(prediction)


def prediction_law(solution: Solution, protocol: Protocol | str) -> PredictionLaw:
    """The joint law of label and prediction under a protocol.

    Parameters
    ----------
    solution: what `replica.solve` returned.
    protocol: "TM", "IDG" or "ODG".

    Returns
    -------
    A `PredictionLaw` of grid-shaped arrays.

    Raises
    ------
    InputError: unknown protocol.

    Examples
    --------
    >>> from replica import Parameters, solve
    >>> solution = solve(Parameters(alpha=2, kappa=1.5, rho=0.9, gamma=1.5, sigma=0.3))
    >>> law = prediction_law(solution, "IDG")
    >>> print(f"{law.conditional_mean(1.0):.4f} +- {law.given(1.0).std():.4f}")
    0.5251 +- 1.0935
    >>> [round(float(q), 4) for q in law.given(1.0).ppf([0.05, 0.95])]
    [-1.2735, 2.3238]
    """
    if protocol not in PROTOCOLS:
        raise InputError(f"protocol = {protocol!r} is unknown; allowed are {', '.join(PROTOCOLS)}")
    protocol = Protocol(protocol)
    parameters = solution.parameters
    label_variance = 1.0 + parameters.sigma * parameters.sigma
    eta_ = parameters.implicit_ridge
    inverse = 1.0 / np.asarray(parameters.kappa)
    with np.errstate(all="ignore"):
        distance = spectrum.gap(parameters.kappa, parameters.rho)
        values = _compiled(protocol)(
            parameters.sigma * parameters.sigma,
            eta_,
            label_variance / parameters.alpha_test,
            parameters.rho,
            inverse,
            parameters.gamma,
            *spectrum.resolvents(eta_ + solution.effective_ridge, inverse, distance),
            solution.noise_level,
        )
    threshold = solution.status == Status.INTERPOLATION_THRESHOLD
    *parts, scatter = (np.where(threshold, np.inf, value)[()] for value in values)
    return PredictionLaw(
        np.broadcast_to(label_variance, parameters.shape)[()],
        solution.prediction[protocol]["covariance"],
        solution.prediction[protocol]["variance"],
        scatter,
        MappingProxyType(dict(zip(errors.PARTS, parts, strict=True))),
    )


@cache
def _compiled(protocol: Protocol) -> Any:
    parts = contributions(protocol)
    named = [*(parts[part] for part in errors.PARTS), conditional_variance(protocol)]
    return compiled(
        (noise, eta, eta_test, rho, inverse_kappa, gamma, z, y, u, v),
        [spectrum.lowered(expression) for expression in named],
        {symbol: value for symbol, value in definitions.items() if symbol is not y},
    )


def _normal(mean: Any, variance: Any) -> Any:
    from scipy.stats import norm

    return norm(loc=mean, scale=np.sqrt(variance))
