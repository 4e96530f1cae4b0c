"""Errors of a trained model on fresh prompts, exactly at any D, and their parts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from replica.parameters import Protocol
from replica.simulation.sampling import Tasks

PARTS = ("algorithmic", "memorization", "structural", "cross")


def task_moments(tasks: Tasks) -> Mapping[Protocol, np.ndarray]:
    """The second moment B of the test task under each protocol: `R_k`, `(D/r) P` and `I`, each (D, D)."""
    count, dim = tasks.vectors.shape
    rank = tasks.basis.shape[1]
    return {
        Protocol.TM: tasks.vectors.T @ tasks.vectors / count,
        Protocol.IDG: tasks.basis @ tasks.basis.T * (dim / rank),
        Protocol.ODG: np.eye(dim),
    }


def population_error(W: np.ndarray, moment: np.ndarray, length_test: float, sigma: float) -> float:
    """The expected squared error of `yhat = x^T W what` on a fresh prompt, label noise included.

    Exact at any D (arXiv:2510.04548, set-up): with `tr = Tr / D`, B the task moment and C that of `what`,

        e = sigma^2 + tr B - 2 tr(W B) + tr(W C W^T),    C = B + (D/L~) [(tr B + sigma^2) I + B/D].

    Parameters
    ----------
    W: (D, D), the trained model.
    moment: (D, D), symmetric, B = E[w w^T] over test tasks.
    length_test: L~ in [1, inf], demonstrations per test prompt.
    sigma: >= 0, standard deviation of the label noise.

    Examples
    --------
    A model that predicts 0 errs by the variance of the label:

    >>> population_error(np.zeros((3, 3)), np.eye(3), length_test=5, sigma=0.5)
    1.25
    """
    dim = len(W)
    spread = np.trace(moment) / dim
    signal = spread - 2 * np.vdot(W, moment) / dim
    return float(sigma**2 + signal + _power(W, _estimate_moment(moment, length_test, sigma)))


def decompose(
    protocol: Protocol,
    W: np.ndarray,
    projector: np.ndarray,
    gain: float,
    moment: np.ndarray,
    length_test: float,
    sigma: float,
) -> dict[str, float]:
    """The parts of an error for the split `W = a P + (W - a P) P + W (I - P)` of the model.

    - *algorithmic*: the error of `a P`, label noise included: estimate the task, then project.
    - *memorization*: the power of `x^T (W - a P) P what`; under TM, where it correlates with the target,
      total less the other two.
    - *structural*: the power of `x^T W (I - P) what`.
    - *cross*: total less the three, of order 1/D; zero by construction under TM.

    Parameters
    ----------
    protocol: whose error.
    W: (D, D), the trained model.
    projector: (D, D), P onto the span of the task family.
    gain: a, the gain of the signal; the theory's is the mean of W on the family in the limit.
    moment, length_test, sigma: as in `population_error`.

    Returns
    -------
    {part: value}, with the parts in the order of `PARTS`.
    """
    total = population_error(W, moment, length_test, sigma)
    estimate_moment = _estimate_moment(moment, length_test, sigma)
    signal = gain * projector
    family = W @ projector
    algorithmic = population_error(signal, moment, length_test, sigma)
    structural = _power(W - family, estimate_moment)
    rest = total - algorithmic - structural
    memorization = rest if protocol is Protocol.TM else _power(family - signal, estimate_moment)
    return dict(zip(PARTS, (algorithmic, memorization, structural, rest - memorization), strict=True))


def _estimate_moment(moment: np.ndarray, length_test: float, sigma: float) -> np.ndarray:
    """C, the second moment of the context estimate."""
    dim = len(moment)
    per_length = dim / length_test
    moment_of_estimate = moment * (1 + per_length / dim)
    moment_of_estimate[np.diag_indices(dim)] += per_length * (np.trace(moment) / dim + sigma**2)
    return moment_of_estimate


def _power(W: np.ndarray, estimate_moment: np.ndarray) -> float:
    """E[(x^T W what)^2] = tr(W C W^T)."""
    return float(np.vdot(W @ estimate_moment, W) / len(W))
