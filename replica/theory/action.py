"""The replica-symmetric action of low-rank in-context learning."""

import sympy as sp

from replica.engine.action import Action, Average
from replica.theory.symbols import (
    chi,
    chi_hat,
    eta,
    gamma,
    m,
    m_hat,
    noise,
    q,
    q_hat,
    ridge,
    s,
)


def action() -> Action:
    """The free energy, whose stationary value is -gamma/2 times the minimal training loss, penalty included.

    Phi = (q q^ - chi chi^)/2 - m m^ + < (m^2 s^2 + chi^ (s + eta)) / (q^ (s + eta) + gamma ridge) > / 2
          - (gamma/2) (1 + sigma^2 - 2 m + q) / (1 + chi)

    with m^ squared in the average and < > over the law of the eigenvalues s of R_k on R^D. Order parameters
    q = tr(W R W^T), m = tr(W R_k) and chi, R = R_k + eta I. Set-up: arXiv:2510.04548; action derived for
    this project.
    """
    context = s + eta
    entropy = (m_hat**2 * s**2 + chi_hat * context) / (q_hat * context + gamma * ridge)
    energy = (1 + noise - 2 * m + q) / (1 + chi)
    expression = (
        (q * q_hat - chi * chi_hat) / 2
        - m * m_hat
        + sp.Rational(1, 2) * Average(entropy, s)
        - gamma * energy / 2
    )
    return Action(expression, pairs=((q, q_hat), (m, m_hat), (chi, chi_hat)))
