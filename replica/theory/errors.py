"""Errors, their decomposition and the law of predictions, as expressions in the saddle point.

In law, W = R_k (R + xi)^-1 + sqrt(v) Z R^(1/2) (R + xi)^-1 with R = R_k + eta I and Z i.i.d. N(0, 1/D).
A protocol enters through the second moment B of its test tasks: R_k for TM, P/rho for IDG, I for ODG, each
with tr B = 1. On the eigenvectors of R_k, tr B g(R_k) is an average of s g, of g over range(P), and of g.
Everything is written as a sum of positive terms, so that no digits are lost at any parameters.
"""

from __future__ import annotations

import sympy as sp

from replica.engine.action import Average
from replica.parameters import Protocol
from replica.theory.saddle import gain, spread
from replica.theory.spectrum import gain_spread, weighted_gain_shift, weighted_gain_square
from replica.theory.symbols import eta_test, noise, off_range, rho, s, s_range, v, y, z

PARTS = ("algorithmic", "memorization", "structural")


def over_tasks(protocol: Protocol, function: sp.Expr) -> sp.Expr:
    """tr B g(R_k) for g a function of `s` and B the second moment of the protocol's tasks."""
    return {
        Protocol.TM: Average(s * function, s),
        Protocol.IDG: Average(function.subs(s, s_range), s_range),
        Protocol.ODG: Average(function, s),
    }[protocol]


def error(protocol: Protocol) -> sp.Expr:
    """E (y - yhat)^2 on a fresh prompt, label noise included: sigma^2 + tr B - 2 tr(W B) + tr(W C W^T)."""
    bias = over_tasks(protocol, (z / (s + z)) ** 2) + eta_test * Average(gain**2, s)
    return noise + bias + v * _fluctuation(protocol)


def covariance(protocol: Protocol) -> sp.Expr:
    """E y yhat = tr(W B), with the noisy label y."""
    return over_tasks(protocol, gain)


def variance(protocol: Protocol) -> sp.Expr:
    """E yhat^2 = tr(W C W^T)."""
    return over_tasks(protocol, gain**2) + eta_test * Average(gain**2, s) + v * _fluctuation(protocol)


def _fluctuation(protocol: Protocol) -> sp.Expr:
    return over_tasks(protocol, spread) + eta_test * Average(spread, s)


def signal_gain() -> sp.Expr:
    """a = 1 - z f, the gain of the algorithmic signal: E W = a P."""
    return Average(gain.subs(s, s_range), s_range)


def signal_loss() -> sp.Expr:
    """1 - a = z f, what the algorithmic signal misses."""
    return Average(z / (s_range + z), s_range)


def decomposition(protocol: Protocol) -> dict[str, sp.Expr]:
    """The error in three parts, after arXiv:2510.04548; the definitions are this project's.

    With what the context estimate, yhat = x^T aP what (algorithmic) + x^T (W - aP) P what (memorization)
    + x^T W (I - P) what (structural). The parts of IDG and ODG have no cross terms. In TM the memorization
    part is the total minus the other two, net of its correlation with the target; it can be negative.
    """
    if protocol is Protocol.TM:
        return decomposition(Protocol.IDG) | {"memorization": sum(memorization_terms().values())}
    lost = signal_loss() ** 2
    kept = signal_gain() ** 2
    off = v * off_range * spread.subs(s, 0).subs(z, 1 / y)
    on_range = gain_spread + v * over_tasks(Protocol.IDG, spread)
    if protocol is Protocol.IDG:
        return {
            "algorithmic": noise + lost + eta_test * rho * kept,
            "memorization": (1 + rho * eta_test) * on_range,
            "structural": eta_test * off,
        }
    return {
        "algorithmic": noise + off_range + rho * (lost + eta_test * kept),
        "memorization": rho * (1 + eta_test) * on_range,
        "structural": (1 + eta_test) * off,
    }


def memorization_terms() -> dict[str, sp.Expr]:
    """The memorization part of TM as its variance plus its correlation with the target, which is negative.

    With Delta = (W - aP) P, C = R_k + eta_test I and y' = y - x^T aP what, which the signal leaves,

        E (y' - x^T Delta what)^2 - E y'^2 = tr(Delta C Delta^T) - 2 (1 - a) tr(Delta R_k),

    since tr(P Delta) vanishes, and so does every cross term with the structural part. On the eigenvectors
    of R_k, Delta is s/(s + z) - a plus the fluctuations of W.
    """
    fluctuation = v * (over_tasks(Protocol.TM, spread) + rho * eta_test * over_tasks(Protocol.IDG, spread))
    fixed = weighted_gain_square + rho * eta_test * gain_spread
    return {"variance": fixed + fluctuation, "correlation": -2 * signal_loss() * weighted_gain_shift}
