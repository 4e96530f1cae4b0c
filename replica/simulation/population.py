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

    Exact at any D (arXiv:2510.04548, set-up). With `tr = Tr / D`, B the task moment and F that of the
    fluctuation of `what` about its task,

        e = sigma^2 + tr (I - W) B (I - W)^T + tr W F W^T,    F = (D/L~) [(tr B + sigma^2) I + B/D],

    which equals `sigma^2 + tr B - 2 tr(W B) + tr(W (B + F) W^T)` without its cancellation.

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
    missed = _power(np.eye(len(W)) - W, moment)
    return sigma**2 + missed + _power(W, _fluctuation(moment, length_test, sigma))


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
    estimate_moment = moment + _fluctuation(moment, length_test, sigma)
    signal = gain * projector
    family = W @ projector
    algorithmic = population_error(signal, moment, length_test, sigma)
    structural = _power(W - family, estimate_moment)
    rest = total - algorithmic - structural
    memorization = rest if protocol is Protocol.TM else _power(family - signal, estimate_moment)
    return dict(zip(PARTS, (algorithmic, memorization, structural, rest - memorization), strict=True))


def _fluctuation(moment: np.ndarray, length_test: float, sigma: float) -> np.ndarray:
    """F, the second moment of the context estimate less that of its task."""
    dim = len(moment)
    isotropic = np.trace(moment) / dim + sigma**2
    return dim / length_test * (isotropic * np.eye(dim) + moment / dim)


def _power(W: np.ndarray, moment: np.ndarray) -> float:
    """E[(x^T W u)^2] = tr(W U W^T), U being the second moment of u."""
    return float(np.vdot(W @ moment, W) / len(W))
