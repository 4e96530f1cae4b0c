"""Long contexts: the errors as alpha = alpha_test -> infinity, expanded in the equations that are solved.

Without ridge every quantity is a rational function of u = 1/f(z). The resolvent's quadratic gives z, the
scalar equation the rest:

    z = u (u - d) / (u + 1/kappa),    d = 1/rho - 1/kappa,    eta = z - xi,
    xi = 0 if gamma > 1,    xi = (1 - gamma) / <1/(s + z)> if gamma < 1.

Long contexts are eta -> 0, where u tends to the largest zero of eta(u). With u = u_0 + e, both eta and an
error are Laurent series in e; eliminating e leaves the error as a series in a fractional power of eta. The
exponents are those of the two series, nothing is put in. Which zero is the largest names the regime: by d for
the tasks (rich d > 0, critical d = 0, poor d < 0), by gamma for the samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import sympy as sp

from replica.engine.program import compiled
from replica.exceptions import InputError
from replica.parameters import PROTOCOLS, Parameters, Protocol
from replica.theory import equations, saddle, spectrum
from replica.theory.solution import Solution
from replica.theory.solve import solve
from replica.theory.symbols import (
    definitions,
    eta,
    eta_test,
    gamma,
    inverse_kappa,
    noise,
    q_hat,
    rho,
    ridge,
    u,
    v,
    xi,
    z,
)

_e = sp.Symbol("e")
gap = sp.Symbol("d", real=True)
"""d = 1/rho - 1/kappa, whose sign says whether the tasks span their family."""
U, tau = sp.symbols("U tau", positive=True)
"""Scaled resolvent u = U tau and tau = (z/kappa)^(1/2), finite and small around rho = kappa."""


class Tasks(StrEnum):
    """Whether the pre-training tasks span their family."""

    RICH = "task-rich"
    """rho < kappa."""
    CRITICAL = "critical"
    """rho = kappa."""
    POOR = "task-poor"
    """rho > kappa."""


class Samples(StrEnum):
    """What the prompts determine."""

    OVERDETERMINED = "overdetermined"
    """ridge = 0, gamma > 1: more prompts than parameters."""
    UNDERDETERMINED = "underdetermined"
    """ridge = 0, min(kappa, rho) < gamma < 1: the minimum norm decides only off the span of the tasks."""
    CRITICAL = "sample-critical"
    """ridge = 0, gamma = min(kappa, rho) < 1."""
    POOR = "sample-poor"
    """ridge = 0, gamma < min(kappa, rho), gamma < 1: fewer prompts than the tasks span."""
    THRESHOLD = "interpolation-threshold"
    """ridge = 0, gamma = 1: the errors diverge at any context length."""
    REGULARIZED = "regularized"
    """ridge > 0."""


class Case(NamedTuple):
    """What decides an expansion: the regime, and the special values at which leading terms vanish."""

    tasks: Tasks
    samples: Samples
    noiseless: bool = False
    """sigma = 0."""
    full_rank: bool = False
    """rho = 1."""
    endless: bool = False
    """kappa = inf."""


class Expansion(NamedTuple):
    """A series in fractional powers of one small quantity x,

        sum over terms of coefficient (x / scale)^exponent + O(x^remainder).

    Terms are in rising order of their exponents, none of them vanishing identically in its case; coefficients
    are rational functions of gamma, rho, 1/kappa and sigma^2.
    """

    terms: Mapping[sp.Rational, sp.Expr]
    scale: sp.Expr
    remainder: sp.Rational

    def expression(self, small: sp.Expr) -> sp.Expr:
        """The sum of the terms at `small`."""
        return sum(coefficient * (small / self.scale) ** power for power, coefficient in self.terms.items())


@cache
def expansion(protocol: Protocol, case: Case, count: int = 1) -> Expansion:
    """The first `count` terms of an error at ridge = 0, alpha = alpha_test, in eta = (1 + sigma^2)/alpha.

    With eta = b e^k (1 + ...) and tau = (eta/b)^(1/k), the coefficient of tau^n in an error E is the residue

        [tau^n] E = (1/k) Res_(e = 0) E (eta'/eta) tau^(-n),

    which needs only the two Laurent series in e (Lagrange inversion). Which powers occur at all, hence the
    order of what is left out, is read off the same series at rational values of the parameters.

    Raises
    ------
    ValueError: a case at the threshold or with ridge, which no Laurent series in u describes.
    """
    error, small = _in_resolvent(protocol, case)
    values = dict(zip((gamma, rho, inverse_kappa, noise), _PROBES, strict=True))
    powers = _inverted(error.subs(values), small.subs(values), _LOOK_AHEAD)[0]
    present = [power for power, coefficient in powers.items() if coefficient != 0][: count + 1]
    length = list(powers).index(present[count - 1]) + 1
    exact, scale = _inverted(error, small, length)
    terms = {power: sp.factor(exact[power]) for power in present[:count]}
    return Expansion(MappingProxyType(terms), sp.factor(scale), present[count])


_LOOK_AHEAD = 8
"""How many powers of e are searched for terms."""
_PROBES = (sp.Rational(83, 29), sp.Rational(37, 61), sp.Rational(97, 53), sp.Rational(11, 71))
"""Values without a common factor, at which no coefficient vanishes by accident."""


def _inverted(error: sp.Expr, small: sp.Expr, length: int) -> tuple[dict[sp.Rational, sp.Expr], sp.Expr]:
    """The first `length` coefficients of an error in powers of small/scale, and the scale."""
    degree, leading = _laurent(small, _e, length)
    lowest, series = _laurent(error, _e, length)
    relative = [term / leading[0] for term in leading]
    slope = [term * (1 + sp.Rational(k, degree)) for k, term in enumerate(relative)]
    integrand = _product(series, _product(slope, _power(relative, sp.Integer(-1))))
    exponents = [sp.Rational(lowest + k, degree) for k in range(length)]
    residues = [_product(integrand, _power(relative, -power))[k] for k, power in enumerate(exponents)]
    return dict(zip(exponents, residues, strict=True)), leading[0]


def _in_resolvent(protocol: Protocol, case: Case) -> tuple[sp.Expr, sp.Expr]:
    """An error and eta as rational functions of e, the distance of u from its limit."""
    if case.samples in (Samples.THRESHOLD, Samples.REGULARIZED):
        raise ValueError(f"{case.samples} has no expansion in the resolvent alone")
    fixed: dict[sp.Symbol, sp.Expr] = {}
    if case.noiseless:
        fixed[noise] = sp.Integer(0)
    if case.endless:
        fixed[inverse_kappa] = sp.Integer(0)
    if case.full_rank:
        fixed[rho] = sp.Integer(1)
        if case.tasks is Tasks.CRITICAL:
            fixed[inverse_kappa] = sp.Integer(1)
    elif case.tasks is Tasks.CRITICAL:
        fixed[rho] = 1 / inverse_kappa
    if case.samples is Samples.CRITICAL:
        fixed[gamma] = fixed.get(rho, rho) if case.tasks is Tasks.RICH else 1 / inverse_kappa
    if case.samples is Samples.POOR:
        limit = 1 / gamma - inverse_kappa
    else:
        limit = 1 / rho - inverse_kappa if case.tasks is Tasks.RICH else sp.Integer(0)
    error, small = ridgeless(protocol, overdetermined=case.samples is Samples.OVERDETERMINED)
    return error.subs(u, limit + _e).subs(fixed), small.subs(u, limit + _e).subs(fixed)


@cache
def ridgeless(protocol: Protocol, *, overdetermined: bool) -> tuple[sp.Expr, sp.Expr]:
    """An error at ridge = 0, alpha = alpha_test, and eta, both as rational functions of u = 1/f(z).

    z solves the resolvent's quadratic, which is linear in it; xi = 0 if gamma > 1, else xi solves q_hat = 0.
    """
    (argument,) = sp.solve(spectrum.resolvent_equation, z)
    explicit = spectrum.lowered(saddle.reduction().explicit[q_hat])
    if overdetermined:
        effective = sp.Integer(0)
    else:
        (effective,) = sp.solve(explicit, xi)
    explicit = explicit.subs(xi, 0) if overdetermined else sp.Integer(0)
    error = equations.results()[f"errors.{protocol}"].subs(v, equations.level()).subs(q_hat, explicit)
    error = error.subs({eta: z - xi, eta_test: z - xi}).subs(xi, effective)
    return tuple(e.subs(definitions).subs(z, argument) for e in (error, z - effective))


def _power(series: Sequence[sp.Expr], exponent: sp.Rational) -> list[sp.Expr]:
    """A power of the series 1 + a_1 e + a_2 e^2 + ..., by the recurrence of J. C. P. Miller."""
    powers = [sp.Integer(1)]
    for k in range(1, len(series)):
        total = sum((exponent * j - (k - j)) * series[j] * powers[k - j] for j in range(1, k + 1))
        powers.append(sp.cancel(total / k))
    return powers


def _product(one: Sequence[sp.Expr], other: Sequence[sp.Expr]) -> list[sp.Expr]:
    """The product of two power series, as long as the first."""
    return [sum(one[j] * other[k - j] for j in range(k + 1)) for k in range(len(one))]


def _laurent(expression: sp.Expr, variable: sp.Symbol, length: int) -> tuple[int, list[sp.Expr]]:
    """The first `length` coefficients of a rational function around 0, and the power of the first.

    The division of polynomials in `variable` over the field of rational functions of the other symbols, so
    every coefficient is exact and in lowest terms.
    """
    others = sorted(expression.free_symbols - {variable}, key=str)
    field = sp.QQ.frac_field(variable, *others)
    element = field.from_sympy(expression)
    coefficients = sp.QQ.frac_field(*others) if others else sp.QQ
    if not element:
        return 0, [sp.Integer(0)] * length

    def by_power(polynomial: Any) -> dict[int, Any]:
        grouped: dict[int, sp.Expr] = {}
        for powers, coefficient in polynomial.terms():
            rest = sp.Mul(
                sp.QQ.to_sympy(coefficient), *(x**k for x, k in zip(others, powers[1:], strict=True))
            )
            grouped.setdefault(powers[0], []).append(rest)
        return {power: coefficients.from_sympy(sp.Add(*terms)) for power, terms in grouped.items()}

    numerator, denominator = by_power(element.numer), by_power(element.denom)
    top, bottom = min(numerator), min(denominator)
    series: list[Any] = []
    for k in range(length):
        term = numerator.get(top + k, coefficients.zero)
        for j in range(1, k + 1):
            term -= denominator.get(bottom + j, coefficients.zero) * series[k - j]
        series.append(term / denominator[bottom])
    return top - bottom, [coefficients.to_sympy(term) for term in series]


@cache
def regularized_slope(protocol: Protocol) -> sp.Expr:
    """dE/d eta at eta = 0 for ridge > 0, where E is analytic in eta: its expansion is E(0) + eta dE/d eta.

    A function of u, to be taken at the root of eta = 0, which only numbers can find. With the constraint
    F(u, xi) = xi q_hat - gamma ridge = 0 and eta = z(u) - xi, the chain rule gives

        dE/d eta = (E_u F_xi - E_xi F_u) / (z_u F_xi + F_u).
    """
    (argument,) = sp.solve(spectrum.resolvent_equation, z)
    explicit = spectrum.lowered(saddle.reduction().explicit[q_hat])
    error = equations.results()[f"errors.{protocol}"].subs(v, equations.level()).subs(q_hat, explicit)
    error = error.subs({eta: z - xi, eta_test: z - xi})
    error, product = (e.subs(definitions).subs(z, argument) for e in (error, xi * explicit))
    slopes = [sp.diff(e, x) for e in (error, product) for x in (u, xi)]
    value = (slopes[0] * slopes[3] - slopes[1] * slopes[2]) / (sp.diff(argument, u) * slopes[3] + slopes[2])
    return value.subs(xi, argument)


def regularized(parameters: Parameters) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The limits of the errors at ridge > 0 and their slopes in eta, E(eta) = E(0) + E'(0) eta + O(eta^2).

    The saddle point at eta = 0 is found numerically, the slope there is symbolic. The alpha of `parameters`
    plays no part.

    Raises
    ------
    InputError: ridge = 0.

    Examples
    --------
    >>> limits, slopes = regularized(Parameters(alpha=1, kappa=0.5, rho=0.9, gamma=1.5, sigma=0.3, ridge=0.1))
    >>> exact = solve(Parameters(alpha=1e4, kappa=0.5, rho=0.9, gamma=1.5, sigma=0.3, ridge=0.1))
    >>> print(f"{limits['IDG'] + slopes['IDG'] * 1.09e-4:.6f} {exact.errors['IDG']:.6f}")
    0.581840 0.581840
    """
    if np.any(np.equal(parameters.ridge, 0)):
        raise InputError("ridge = 0 has no regular limit of long contexts; allowed range (0, inf)")
    values = dict(parameters.items()) | {"alpha": np.inf, "alpha_test": np.inf}
    limit = solve(Parameters(**values))
    inverse = 1.0 / np.asarray(parameters.kappa)
    root = spectrum.resolvent_inverse(
        limit.effective_ridge, inverse, spectrum.gap(parameters.kappa, parameters.rho)
    )
    slopes = _compiled_slopes()(
        root, parameters.rho, inverse, parameters.gamma, parameters.ridge, parameters.sigma * parameters.sigma
    )
    return limit.errors, MappingProxyType(dict(zip(map(str, PROTOCOLS), slopes, strict=True)))


@cache
def _compiled_slopes() -> Any:
    return compiled(
        (u, rho, inverse_kappa, gamma, ridge, noise), [regularized_slope(protocol) for protocol in PROTOCOLS]
    )


@dataclass(frozen=True, eq=False)
class LongContext:
    """Leading terms amplitude alpha^exponent of the errors for alpha = alpha_test -> infinity.

    Arrays have the shape of the grid. At the interpolation threshold amplitudes and leading terms are
    infinite and exponents are NaN.

    Attributes
    ----------
    tasks, samples: the regimes, labels of `Tasks` and `Samples`.
    exponents: "TM", "IDG", "ODG" -> exponent of alpha; a fraction from the symbolic expansion.
    amplitudes: protocol -> the factor of alpha^exponent.
    corrections: protocol -> exponent of alpha in the first term left out.
    leading: protocol -> the leading term at the grid's alpha, its limit where that is infinite.
    """

    tasks: Any
    samples: Any
    exponents: Mapping[str, Any]
    amplitudes: Mapping[str, Any]
    corrections: Mapping[str, Any]
    leading: Mapping[str, Any]


def long_context(parameters: Parameters) -> LongContext:
    """The leading behaviour of the errors at long contexts, over a grid.

    At ridge = 0 exponents and amplitudes are symbolic. With a ridge the limit is regular: exponent 0, first
    correction 1/alpha, and the amplitude is solved for numerically at alpha = infinity.

    Raises
    ------
    InputError: an alpha_test that is not alpha.

    Examples
    --------
    >>> terms = long_context(Parameters(alpha=100, kappa=0.5, rho=[0.3, 0.5, 0.9], gamma=1.5, sigma=0.3))
    >>> terms.exponents["IDG"]
    array([0. , 0.5, 1. ])
    >>> terms.leading["IDG"].round(4)
    array([0.351 , 1.2191, 7.3394])
    """
    _equal_contexts(parameters)
    shape = parameters.shape
    alpha, _, kappa, rho_, gamma_, sigma, ridge_ = (
        np.broadcast_to(value, shape).ravel() for _, value in parameters.items()
    )
    distance, inverse = spectrum.gap(kappa, rho_), 1.0 / kappa
    cases = _cases(distance, kappa, rho_, gamma_, sigma, ridge_)
    exponents, amplitudes, corrections = (np.full((len(PROTOCOLS), alpha.size), np.nan) for _ in range(3))
    with np.errstate(all="ignore"):
        for case in sorted(set(cases)):
            here = np.array([other == case for other in cases])
            if case.samples is Samples.THRESHOLD:
                amplitudes[:, here] = np.inf
            elif case.samples is Samples.REGULARIZED:
                point = {"kappa": kappa, "rho": rho_, "gamma": gamma_, "sigma": sigma, "ridge": ridge_}
                limits, _ = regularized(Parameters(alpha=1.0, **{name: x[here] for name, x in point.items()}))
                amplitudes[:, here] = list(limits.values())
                exponents[:, here], corrections[:, here] = 0.0, -1.0
            else:
                noise_ = sigma[here] * sigma[here]
                values = _compiled(case)(noise_, rho_[here], inverse[here], distance[here], gamma_[here])
                for row, protocol in enumerate(PROTOCOLS):
                    series = expansion(protocol, case)
                    (power,) = series.terms
                    exponents[row, here], corrections[row, here] = (
                        0.0 - float(power),
                        0.0 - float(series.remainder),
                    )
                    amplitudes[row, here] = values[row] * (1.0 + noise_) ** float(power)
        leading = np.where(np.isnan(exponents), np.inf, amplitudes * alpha**exponents)

    def table(rows: np.ndarray) -> Mapping[str, Any]:
        shaped = (row.reshape(shape)[()] for row in rows)
        return MappingProxyType(dict(zip(map(str, PROTOCOLS), shaped, strict=True)))

    tasks, samples = (
        np.array([str(case[column]) for case in cases]).reshape(shape)[()] for column in range(2)
    )
    return LongContext(tasks, samples, *map(table, (exponents, amplitudes, corrections, leading)))


def _equal_contexts(parameters: Parameters) -> None:
    """Refuse an alpha_test of its own."""
    test, alpha = np.broadcast_arrays(parameters.alpha_test, parameters.alpha)
    differs = test != alpha
    if differs.any():
        raise InputError(
            f"alpha_test = {test[differs][0]:g} differs from alpha = {alpha[differs][0]:g}; "
            "long contexts are expanded at alpha_test = alpha"
        )


def _cases(
    distance: np.ndarray,
    kappa: np.ndarray,
    rho: np.ndarray,
    gamma: np.ndarray,
    sigma: np.ndarray,
    ridge: np.ndarray,
) -> list[Case]:
    """The case of every point of flat arrays."""
    spanned = np.minimum(kappa, rho)
    tasks = np.select([distance > 0, distance < 0], [Tasks.RICH, Tasks.POOR], Tasks.CRITICAL)
    samples = np.select(
        [ridge > 0, gamma > 1, gamma == 1, gamma > spanned, gamma < spanned],
        [
            Samples.REGULARIZED,
            Samples.OVERDETERMINED,
            Samples.THRESHOLD,
            Samples.UNDERDETERMINED,
            Samples.POOR,
        ],
        Samples.CRITICAL,
    )
    flags = zip(sigma == 0, rho == 1, np.isinf(kappa), strict=True)
    return [
        Case(Tasks(task), Samples(sample), *map(bool, flag))
        for task, sample, flag in zip(tasks, samples, flags, strict=True)
    ]


@cache
def _compiled(case: Case) -> Any:
    """(sigma^2, rho, 1/kappa, d, gamma) -> amplitudes of eta^exponent, one a protocol."""
    outputs = []
    for protocol in PROTOCOLS:
        series = expansion(protocol, case)
        amplitude = series.expression(sp.Integer(1))
        # The distance from the transition keeps its digits only as a quantity of its own.
        outputs.append(
            amplitude.subs(1 - rho * inverse_kappa, rho * gap).subs(rho * inverse_kappa - 1, -rho * gap)
        )
    return compiled((noise, rho, inverse_kappa, gap, gamma), outputs)


@cache
def scaling(protocol: Protocol, *, overdetermined: bool = True, noiseless: bool = False) -> Expansion:
    """The leading term of an error around rho = kappa, in tau = (z/kappa)^(1/2) at fixed scaled resolvent.

    With u = U tau the resolvent's quadratic reads d/tau = U - 1/U - kappa tau, so that for z -> 0

        U = (w + (w^2 + 4)^(1/2)) / 2,    1/U = 2 / (w + (w^2 + 4)^(1/2)),    w = d (kappa/z)^(1/2),

    and the error is tau^exponent times a function of U. At ridge = 0 and gamma > 1, z = eta; for gamma below
    it is eta (1 - kappa)/(gamma - kappa) to leading order.
    """
    error, _ = ridgeless(protocol, overdetermined=overdetermined)
    distance = U * tau - tau / U - tau**2 / inverse_kappa
    error = error.subs(u, U * tau).subs(rho, 1 / (distance + inverse_kappa))
    if noiseless:
        error = error.subs(noise, 0)
    exponent, (coefficient, _) = _laurent(error, tau, 2)
    power = sp.Integer(exponent)
    return Expansion(MappingProxyType({power: sp.factor(coefficient)}), sp.Integer(1), power + 1)


def scaling_variable(parameters: Parameters, argument: Any = None) -> Any:
    """w = (1/rho - 1/kappa) (kappa/z)^(1/2), what the errors depend on around rho = kappa.

    Parameters
    ----------
    parameters: one point or a grid.
    argument: z = eta + xi, shape broadcasting with the grid; eta if left out.

    Returns
    -------
    Of the shape of the grid; positive where the tasks span their family, infinite at kappa = infinity.
    """
    with np.errstate(all="ignore"):
        distance = spectrum.gap(parameters.kappa, parameters.rho)
        width = np.sqrt(parameters.kappa / (parameters.implicit_ridge if argument is None else argument))
        variable = np.where(distance == 0, 0.0, distance * width)
    return np.broadcast_to(variable, parameters.shape)[()]


class Collapse(NamedTuple):
    """Errors on the scale of their value at rho = kappa; see `collapse`."""

    variable: Any
    """w, of the grid's shape."""
    rescaled: Any
    """The error over its leading term at rho = kappa."""
    function: Any
    """What theory makes of w, up to corrections of relative order (eta/kappa)^(1/2)."""


def collapse(solution: Solution, protocol: Protocol | str, errors: Any = None) -> Collapse:
    """Errors around rho = kappa against their scaling variable, on which those of all long contexts collapse.

    Parameters
    ----------
    solution: solved at ridge = 0, alpha_test = alpha, kappa < 1 and kappa < gamma.
    protocol: "TM", "IDG" or "ODG".
    errors: what to rescale, say of an experiment, shape of the grid; those of the solution if left out.

    Returns
    -------
    A `Collapse` of grid-shaped arrays. With noise and gamma > 1 the function of IDG is
    2/(w + (w^2 + 4)^(1/2)).

    Raises
    ------
    InputError: a point outside these ranges.

    Examples
    --------
    >>> grid = Parameters(alpha=[1e4, 1e6], kappa=0.5, rho=[0.5125, 0.50125], gamma=1.5, sigma=0.3)
    >>> near = collapse(solve(grid), "IDG")
    >>> near.variable.round(3), (near.rescaled / near.function).round(2)
    (array([-3.304, -3.378]), array([1., 1.]))
    """
    parameters = solution.parameters
    _equal_contexts(parameters)
    shape = parameters.shape
    alpha, _, kappa, _, gamma_, sigma, ridge_ = (
        np.broadcast_to(value, shape) for _, value in parameters.items()
    )
    for name, values, bad, allowed in (
        ("ridge", ridge_, ridge_ != 0, "0"),
        ("kappa", kappa, kappa >= 1, "(0, 1)"),
        ("gamma", gamma_, (gamma_ <= kappa) | (gamma_ == 1), "above kappa and not 1"),
        ("alpha", alpha, np.isinf(alpha), "(0, inf)"),
    ):
        if np.any(bad):
            raise InputError(
                f"{name} = {values[bad][0]:g} has no scaling around rho = kappa; allowed: {allowed}"
            )
    argument = parameters.implicit_ridge + solution.effective_ridge
    variable = scaling_variable(parameters, argument)
    root = np.sqrt(variable * variable + 4.0)
    # U - 1/U = w; the form without cancellation depends on the sign of w.
    resolvent = np.where(variable >= 0, 0.5 * (variable + root), 2.0 / (root - variable))
    small = np.sqrt(argument / kappa)
    error = solution.errors[protocol] if errors is None else errors
    rescaled, function = np.full(shape, np.nan), np.full(shape, np.nan)
    for noiseless in (False, True):
        for overdetermined in (False, True):
            here = ((sigma == 0) == noiseless) & ((gamma_ > 1) == overdetermined)
            if not here.any():
                continue
            series = scaling(Protocol(protocol), overdetermined=overdetermined, noiseless=noiseless)
            ((power, coefficient),) = series.terms.items()
            evaluate = compiled((U, inverse_kappa, gamma, noise), [coefficient])
            rest = (1.0 / kappa[here], gamma_[here], sigma[here] ** 2)
            (at_transition,) = evaluate(1.0, *rest)
            rescaled[here] = np.asarray(error)[here] / (at_transition * small[here] ** float(power))
            function[here] = evaluate(resolvent[here], *rest)[0] / at_transition
    return Collapse(variable, rescaled[()], function[()])


@cache
def steepest(*, noiseless: bool = False) -> tuple[sp.Expr, sp.Expr]:
    """Where log IDG rises fastest in rho at fixed kappa, gamma > 1, ridge = 0, as a condition on U.

    In (U, tau), log IDG has the slope (d_U log IDG) / (d_U rho). Its derivative with respect to U vanishes at
    the place sought and is expanded here as R_0(U) + R_1(U) tau + O(tau^2).

    Returns
    -------
    (R_0, R_1). With noise R_0 vanishes at U = 1, that is on the transition.
    """
    error, _ = ridgeless(Protocol.IDG, overdetermined=True)
    distance = U * tau - tau / U - tau**2 / inverse_kappa
    rank = 1 / (distance + inverse_kappa)
    error = error.subs(u, U * tau).subs(rho, rank).subs(noise, 0 if noiseless else noise)
    error = sp.QQ.frac_field(tau, U, inverse_kappa, gamma, noise).from_sympy(error).as_expr()
    condition = sp.diff(sp.diff(error, U) / error / sp.diff(rank, U), U)
    _, (first, second) = _laurent(condition, tau, 2)
    return sp.factor(first), sp.factor(second)


def steepest_distance(
    kappa: float, gamma_: float, implicit_ridge: float, *, noiseless: bool = False
) -> float:
    """rho - kappa where log IDG rises fastest in rho, to two orders in tau = (eta/kappa)^(1/2).

    With U_0 the zero of R_0 where the slope is largest and U = U_0 - tau R_1(U_0)/R_0'(U_0),

        1/rho - 1/kappa = tau (U_0 - 1/U_0) - tau^2 [(1 + 1/U_0^2) R_1(U_0)/R_0'(U_0) + kappa] + O(tau^3).

    With noise U_0 = 1, so the distance falls like 1/alpha: rho - kappa = -kappa (9 kappa - 2 gamma) eta.
    Without noise U_0 differs from 1 and it falls like alpha^(-1/2).

    Parameters
    ----------
    kappa: (0, 1).
    gamma_: (1, inf).
    implicit_ridge: eta, small against kappa.
    noiseless: whether sigma = 0.
    """
    first, second = (e.subs({inverse_kappa: 1 / kappa, gamma: gamma_}) for e in steepest(noiseless=noiseless))
    polynomial = sp.Poly(sp.numer(sp.together(first)), U)
    roots = np.roots([float(c) for c in polynomial.all_coeffs()])
    candidates = [float(root.real) for root in roots if root.real > 0 and abs(root.imag) < 1e-9]
    ((_, shape),) = scaling(Protocol.IDG, noiseless=noiseless).terms.items()
    slope = (sp.diff(shape, U) / shape / (1 + 1 / U**2)).subs({inverse_kappa: 1 / kappa, gamma: gamma_})
    place = min(candidates, key=lambda root: float(slope.subs(U, root)))
    shift = float((second / sp.diff(first, U)).subs(U, place))
    tau_ = np.sqrt(implicit_ridge / kappa)
    inverse_distance = tau_ * (place - 1 / place) - tau_**2 * ((1 + 1 / place**2) * shift + kappa)
    return 1 / (1 / kappa + inverse_distance) - kappa
