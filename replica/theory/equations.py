"""The equations that are solved: one list of named expressions, compiled once per process on first use."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import sympy as sp

from replica.engine.program import compiled
from replica.parameters import Protocol
from replica.theory import errors, saddle, spectrum
from replica.theory.symbols import (
    chi,
    chi_hat,
    definitions,
    eta,
    eta_test,
    gamma,
    inverse_kappa,
    m,
    m_hat,
    noise,
    q,
    q_hat,
    rho,
    ridge,
    u,
    v,
    xi,
    y,
    z,
)

ORDER_PARAMETERS = {"q": q, "m": m, "chi": chi, "q_hat": q_hat, "m_hat": m_hat, "chi_hat": chi_hat}


@cache
def level() -> sp.Expr:
    """v, the level of the fluctuations of W, in the averages' own symbols."""
    return spectrum.lowered(saddle.reduction().explicit[v])


@cache
def results() -> dict[str, sp.Expr]:
    """Everything that a solution reports besides the effective ridge and the residual, by dotted name."""
    explicit = {**saddle.reduction().explicit, q_hat: q_hat}
    named = {f"errors.{p}": errors.error(p) for p in Protocol}
    named |= {
        f"decomposition.{p}.{part}": expression
        for p in Protocol
        for part, expression in errors.decomposition(p).items()
    }
    named |= {f"memorization.{term}": expression for term, expression in errors.memorization_terms().items()}
    named |= {f"covariance.{p}": errors.covariance(p) for p in Protocol}
    named |= {f"variance.{p}": errors.variance(p) for p in Protocol}
    named |= {f"order_parameters.{name}": explicit[symbol] for name, symbol in ORDER_PARAMETERS.items()}
    named |= {"training_error": explicit[chi_hat] / gamma, "noise_level": v}
    return {name: spectrum.lowered(expression).subs(m_hat, q_hat) for name, expression in named.items()}


@cache
def fingerprint() -> str:
    """A hash of every equation that enters a number; it changes exactly when one of them does."""
    lines = [f"{symbol} = {expression}" for symbol, expression in definitions.items()]
    lines += [f"{name} = {expression}" for name, expression in results().items()]
    lines += [str(level()), *map(str, saddle.scalar_equation()), str(saddle.scalar_equation_of_few_prompts())]
    lines += map(str, saddle.relative_residuals())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Compiled:
    """The equations as numpy functions of broadcasting arrays; each returns a list.

    y = 1/z is an argument, since z may be 0 where the tasks span the space; y may then be anything finite.
    """

    q_hat: Callable[..., list[Any]]
    """(xi, eta, rho, 1/kappa, gamma, z, y, u) -> [q_hat], without cancellation for gamma >= 1."""
    scalar: Callable[..., list[Any]]
    """(xi, eta, rho, 1/kappa, gamma, ridge, z, y, u) -> [G, G for gamma < 1/2]."""
    tangent: Callable[..., list[Any]]
    """The same arguments -> [G, G for gamma < 1/2, xi dG/dxi]."""
    values: Callable[..., list[Any]]
    """(xi, q_hat, sigma^2, eta, eta_test, rho, 1/kappa, gamma, z, y, u) -> all of `results`, in order."""
    residuals: Callable[..., list[Any]]
    """(q, m, X, q_hat, mu, v, sigma^2, eta, rho, 1/kappa, gamma, z, y, u) -> six signed residuals."""


@cache
def compiled_equations() -> Compiled:
    """Derive and compile; the first call takes a fraction of a second."""
    averages = {symbol: value for symbol, value in definitions.items() if symbol is not y}
    equation, slope = saddle.scalar_equation()
    forms = [equation, saddle.scalar_equation_of_few_prompts()]
    scalar = (xi, eta, rho, inverse_kappa, gamma, ridge, z, y, u)
    regular = (q, m, saddle.chi_regular, q_hat, saddle.m_hat_regular, v)
    explicit = spectrum.lowered(saddle.reduction().explicit[q_hat])
    return Compiled(
        q_hat=compiled((xi, eta, rho, inverse_kappa, gamma, z, y, u), [explicit], averages),
        scalar=compiled(scalar, forms, averages),
        tangent=compiled(scalar, [*forms, slope], averages),
        values=compiled(
            (xi, q_hat, noise, eta, eta_test, rho, inverse_kappa, gamma, z, y, u),
            results().values(),
            averages | {v: level()},
        ),
        residuals=compiled(
            (*regular, noise, eta, rho, inverse_kappa, gamma, z, y, u), saddle.relative_residuals(), averages
        ),
    )
