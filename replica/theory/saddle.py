"""The saddle point of the action: its reduction to one unknown, and the residual of all six conditions."""

from __future__ import annotations

import sympy as sp

from replica.engine.action import Average, Reduction
from replica.theory.action import action
from replica.theory.spectrum import lowered
from replica.theory.symbols import (
    chi,
    chi_hat,
    eta,
    excess,
    gamma,
    m,
    m_hat,
    noise,
    q,
    q_hat,
    ridge,
    s,
    v,
    xi,
    z,
)

chi_regular = sp.Symbol("X", nonnegative=True)
"""chi q_hat, finite where the minimum-norm solution sends q_hat to 0 and chi to infinity."""
m_hat_regular = sp.Symbol("mu", real=True)
"""m_hat / q_hat."""

gain = s / (s + z)
"""What the mean of W does to an eigenvector of R_k; z = eta + xi."""
spread = (s + eta) / (s + z) ** 2
"""What the fluctuations of W do, per unit of their level v."""


def reduction() -> Reduction:
    """The six variables in terms of the effective ridge xi = gamma ridge / q_hat, with z = eta + xi.

    The scalar equation left is xi q_hat(xi) = gamma ridge. Every expression is a sum of positive terms if
    gamma >= 1; for gamma < 1 use q_hat = gamma ridge / xi instead.
    """
    residual_error = noise + Average(s * (z / (s + z)) ** 2, s) + eta * Average(gain**2, s)
    return Reduction(
        unknown=xi,
        eliminated=(ridge, xi * q_hat / gamma),
        explicit={
            q_hat: excess + xi * Average(1 / (s + z), s),
            m_hat: q_hat,
            chi: Average((s + eta) / (s + z), s) / q_hat,
            v: residual_error / (q_hat + xi * Average(spread, s)),
            chi_hat: v * q_hat**2,
            m: Average(s**2 / (s + z), s),
            q: Average((s + eta) * gain**2, s) + v * Average((s + eta) * spread, s),
        },
    )


def scalar_equation() -> tuple[sp.Expr, sp.Expr]:
    """G = q_hat(xi) - gamma ridge/xi, whose zero is the effective ridge, and its slope xi dG/dxi.

    G increases from negative to positive values, so the root is unique. It is concave in xi and convex in
    1/xi, being an average of xi/(s + eta + xi) plus a constant minus gamma ridge/xi.
    """
    penalty = gamma * ridge / xi
    explicit = lowered(reduction().explicit[q_hat])
    return explicit - penalty, lowered(xi * Average(spread, s)) + penalty


def scalar_equation_of_few_prompts() -> sp.Expr:
    """The same G for gamma < 1/2, in terms of the size of gamma.

    xi <1/(s + z)> is 1 - <(s + eta)/(s + z)>. The average is small where gamma is, and gamma - 1 would leave
    no digits of it.
    """
    return gamma - lowered(Average((s + eta) / (s + z), s)) - gamma * ridge / xi


_POWERS = {
    q: (q, 0),
    m: (m, 0),
    chi: (chi_regular, -1),
    q_hat: (1, 1),
    m_hat: (m_hat_regular, 1),
    chi_hat: (v, 2),
}
"""variable -> (regular variable, power): variable = regular q_hat^power."""


def relative_residuals() -> list[sp.Expr]:
    """(lhs - rhs) / scale of each stationarity condition solved for its variable, in regular variables.

    Each condition is divided by its power of q_hat, which leaves the ratio as it was and makes it regular at
    q_hat = 0. The scale is lhs + rhs, both positive; for chi_hat it is the right-hand side with all its
    terms positive, since they cancel where the training error is small.
    """
    regular = {m_hat: m_hat_regular * q_hat, chi_hat: v * q_hat**2, chi: chi_regular / q_hat}
    regular |= {ridge: (z - eta) * q_hat / gamma}
    residuals = []
    for variable, right in action().stationarity().items():
        left, power = _POWERS[variable]
        value = right.subs(regular, simultaneous=True)
        value = sp.factor_terms(lowered(value) if value.has(Average) else sp.together(value)) / q_hat**power
        scale = value.subs(m, -m) if variable == chi_hat else left + value
        residuals.append((left - value) / scale)
    return residuals
