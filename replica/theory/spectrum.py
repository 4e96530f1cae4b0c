"""The spectrum of the pre-training tasks: Marchenko-Pastur averages, as symbols and as numbers.

On range(P) the task second moment R_k follows a Marchenko-Pastur law of mean 1/rho; off it the eigenvalue
is 0 with weight 1 - rho. The resolvent f(z) = <1/(s + z)> on range(P) solves

    1 = z f + (f/rho) / (1 + f/kappa).

Here it is parametrized by u = 1/f and t = u - z, which turns every average into a sum of positive terms:

    u^2 - u (z + d) - z/kappa = 0,    d = 1/rho - 1/kappa,    t = u / (rho (1/kappa + u)).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import sympy as sp

from replica.engine.action import Average
from replica.theory.symbols import inverse_kappa as ik
from replica.theory.symbols import n, off_range, rho, s_range, t, u, y, z

resolvent_equation = u**2 - u * (z + 1 / rho - ik) - z * ik
"""Vanishes at u = 1/f(z), its one positive root."""

_POSITIVE = {
    (0, 1): 1 / u,
    (1, 1): t / u,
    (2, 1): t * (t + ik) / u,
    (0, 2): (ik + u) / (u * n),
    (1, 2): t / n,
    (2, 2): t * (t + z**2 * ik / n) / u**2,
    (3, 2): t * (t**2 + ik * (u * z * ik + t * (u**2 + u * z + z**2)) / n) / u**2,
}
"""(a, b) -> <s^a / (s + z)^b> on range(P), free of cancellation. `by_partial_fractions` is the proof."""

gain_spread = z**2 * t * ik / (n * u**2)
"""Variance of s/(s + z) on range(P), <(s/(s + z))^2> - <s/(s + z)>^2, free of cancellation."""
weighted_gain_shift = rho * z * t * ik / u**2
"""<s (s/(s + z) - a)> on R^D with a = <s/(s + z)> on range(P); <s> = 1 makes s a weight."""
weighted_gain_square = rho * gain_spread * (t + z * ik / u)
"""<s (s/(s + z) - a)^2> on R^D with a = <s/(s + z)> on range(P)."""
weighted_gain_spread = rho * z**2 * t**2 * ik / (n * u * (ik + u))
"""`weighted_gain_square` less the square of `weighted_gain_shift`, free of cancellation."""


def range_average(power: int, order: int) -> sp.Expr:
    """<s^power / (s + z)^order> over range(P), a sum of positive terms in u, t, n, z, rho and 1/kappa."""
    if order == 0:
        return {0: sp.Integer(1), 1: 1 / rho}[power]
    return _POSITIVE[power, order]


@cache
def by_partial_fractions(power: int, order: int) -> sp.Expr:
    """The same average by the textbook road: partial fractions in s, then f(z) and its derivatives.

    f'(z) comes from implicit differentiation of the Marchenko-Pastur equation. The result is a rational
    function of f, z, rho and 1/kappa and cancels badly where z is large or small.
    """
    s, f = s_range, sp.Function("f")(z)
    equation = z * f + (f / rho) / (1 + f * ik) - 1
    slope = sp.solve(sp.diff(equation, z), sp.diff(f, z))[0]
    total = sp.Integer(0)
    for term in sp.Add.make_args(sp.apart(s**power / (s + z) ** order, s)):
        degree = sp.degree(sp.denom(sp.together(term)), s)
        if degree == 0:
            moments = sp.Poly(term, s).all_coeffs()[::-1]
            total += sum(c * moment for c, moment in zip(moments, (1, 1 / rho), strict=False))
        else:
            total += sp.cancel(term * (s + z) ** degree) * (f if degree == 1 else -slope)
    return total.subs(f, sp.Symbol("f"))


def lowered(expression: sp.Expr) -> sp.Expr:
    """Replace every `Average` whose integrand is rational in s with poles at s = -z by its value.

    Averages over `s` run over R^D, those over `s_range` over range(P).
    """
    return expression.replace(Average, _value)


def _value(integrand: sp.Expr, variable: sp.Symbol) -> sp.Expr:
    numerator, denominator = sp.fraction(sp.together(integrand))
    pole = sp.Poly(denominator, variable)
    order = pole.degree()
    if order and sp.expand(denominator - pole.LC() * (variable + z) ** order) != 0:
        raise ValueError(f"the poles of {integrand} are not at {variable} = -{z}")
    terms = [(power, c / pole.LC()) for (power,), c in sp.Poly(numerator, variable).terms()]
    on_range = sum(c * range_average(power, order) for power, c in terms)
    if variable == s_range:
        return on_range
    return rho * on_range + off_range * sum(c * y**order for power, c in terms if power == 0)


def gap(kappa: Any, rho: Any) -> Any:
    """d = 1/rho - 1/kappa, whose zero is the transition; full relative precision next to it."""
    finite = np.isfinite(kappa)
    kappa = np.where(finite, kappa, 1.0)
    return np.where(finite, (kappa - rho) / (kappa * rho), 1.0 / np.asarray(rho))


def resolvent_inverse(z: Any, inverse_kappa: Any, gap: Any) -> Any:
    """u = 1/f(z), the positive root of u^2 - u (z + d) - z/kappa = 0.

    Parameters
    ----------
    z: positive, any shape.
    inverse_kappa: 1/kappa in [0, inf), broadcasting with z.
    gap: d = 1/rho - 1/kappa, broadcasting with z.

    Returns
    -------
    Of the broadcast shape, to full relative precision on both sides of the transition.
    """
    shift = z + gap
    product = z * inverse_kappa
    # The root of larger modulus never cancels; the other follows from the product of the two.
    larger = 0.5 * (np.abs(shift) + np.sqrt(shift * shift + 4.0 * product))
    return np.where(shift >= 0, larger, product / larger)


def resolvents(z: Any, inverse_kappa: Any, gap: Any) -> tuple[Any, Any, Any]:
    """z, y = 1/z and u = 1/f(z). Where z = 0 nothing lies off range(P), and 0 stands for y."""
    return z, np.where(z == 0, 0.0, 1.0 / z), resolvent_inverse(z, inverse_kappa, gap)
