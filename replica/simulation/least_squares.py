"""The minimizer of the pre-training loss, matrix-free, to a stated residual or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import brentq
from scipy.sparse.linalg import LinearOperator, cg

from replica.exceptions import NumericalError
from replica.simulation.design import Design

MAX_ITERATIONS = 20_000
"""Conjugate gradient steps after which a fit is given up; |gamma - 1| = 1e-3 needs about as many."""
DIRECT_ROWS = 4096
"""Most prompts for which the kernel is factorised: half a second, which is how long an interrupt may wait."""
EXPLICIT_SHARE = 0.02
"""Share of the explicit ridge in the effective one from which on whitening pays at gamma < 1."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A trained model.

    Parameters
    ----------
    W: (D, D), the minimizer.
    iterations: conjugate gradient steps; 0 where the kernel was factorised.
    residual: the true relative residual of `W`, see `minimize`.
    """

    W: np.ndarray
    iterations: int
    residual: float


def minimize(design: Design, labels: np.ndarray, ridge: float, rtol: float = 1e-8) -> Fit:
    r"""The W that minimizes `(1/M) |y - Phi W|^2 + (ridge/D) |W|_F^2`; of many the one of least norm.

    Three roads, each by SciPy:

    - *primal* (gamma >= 1, or a ridge that counts): conjugate gradients on
      `(D/M) Phi^T Phi + ridge` in the variable `V = W (C + xi)^{1/2}`, where C is the sample second moment of
      the context estimates and xi the effective ridge, which solves
      `ridge = xi (1 - tr C (C + xi)^-1 / gamma)`. At gamma > 1 the condition number then depends on gamma
      alone (about 90 steps to 1e-8 at gamma = 1.5).
    - *dual* (else): `W = Phi^T a` with `(K + M ridge / D) a = y`, `K = Phi Phi^T`. Such a W lies in the row
      space, hence has the least norm in the sense of the loss; an iteration in V would end elsewhere.
    - *direct*: the dual system by Cholesky, where K is small.

    Parameters
    ----------
    design: Phi, M prompts in dimension D.
    labels: (M,), y.
    ridge: >= 0; 0 is the limit from above, and then M = D^2 is refused by the caller.
    rtol: largest relative residual, in (0, 1).

    Returns
    -------
    `Fit`. Its residual is evaluated from `W` itself, whatever the iteration made of its own:
    `|y - Phi W| / |y|` at ridge = 0 and M < D^2, else `|Phi^T (y - Phi W) - (M ridge / D) W| / |Phi^T y|`.

    Raises
    ------
    NumericalError: the residual was not reached, or numbers left the range of float64.
    """
    rows, dim = design.queries.shape
    gamma = rows / dim**2
    interpolates = ridge == 0 and gamma < 1
    per_dim = rows / dim
    target = labels if interpolates else design.adjoint(labels) / per_dim

    def residual(W: np.ndarray) -> float:
        left = labels - design.forward(W)
        if not interpolates:
            left = design.adjoint(left) / per_dim - ridge * W
        return float(np.linalg.norm(left) / np.linalg.norm(target))

    if not np.isfinite(np.linalg.norm(target)):
        raise NumericalError("the labels leave the range of float64; try a smaller sigma")
    if not interpolates:
        moments, axes = np.linalg.eigh(design.second_moment())
        moments = np.maximum(moments, 0)  # rounding makes some negative
        effective = effective_ridge(moments, ridge, gamma)
        if gamma >= 1 or ridge > EXPLICIT_SHARE * effective:
            return _primal(design, target, ridge, moments + effective, axes, residual, rtol)
    penalty = per_dim * ridge
    if rows <= DIRECT_ROWS:
        return _direct(design, labels, penalty, residual, rtol)

    def dual(a: np.ndarray) -> np.ndarray:
        return design.forward(design.adjoint(a)) + penalty * a

    return _conjugate_gradients(dual, labels, design.adjoint, residual, rtol, gamma)


def effective_ridge(moments: np.ndarray, ridge: float, gamma: float) -> float:
    """The root xi of `ridge = xi (1 - mean(s / (s + xi)) / gamma)`.

    The right side, `xi - mean(s xi / (s + xi)) / gamma`, is convex in xi and 0 at 0, so for ridge > 0 there
    is one root; it lies between ridge and ridge + mean(s) / gamma because `xi / (s + xi) < 1`.

    Parameters
    ----------
    moments: (D,), eigenvalues s of the second moment of the context estimates.
    ridge: > 0, or 0 at gamma > 1, where the root is 0.
    gamma: > 0.

    Examples
    --------
    >>> xi = effective_ridge(np.ones(4), ridge=0.5, gamma=2.0)
    >>> round(xi * (1 - 0.5 / (1 + xi)), 12)
    0.5
    """

    def excess(xi: float) -> float:
        return float(xi - np.mean(moments * xi / (moments + xi)) / gamma - ridge) if xi > 0 else -ridge

    return float(brentq(excess, ridge, ridge + np.mean(moments) / gamma)) if ridge > 0 else 0.0


def _primal(
    design: Design,
    target: np.ndarray,
    ridge: float,
    scales: np.ndarray,
    axes: np.ndarray,
    residual: Callable[[np.ndarray], float],
    rtol: float,
) -> Fit:
    rows, dim = design.queries.shape
    if scales[0] <= dim * np.finfo(float).eps * scales[-1]:
        raise NumericalError(
            "the context estimates span fewer than D dimensions to rounding; try a smaller alpha or a ridge"
        )
    whitening = (axes / np.sqrt(scales)) @ axes.T
    per_dim = rows / dim

    def to_weights(v: np.ndarray) -> np.ndarray:
        return v.reshape(dim, dim) @ whitening

    def normal(v: np.ndarray) -> np.ndarray:
        W = to_weights(v)
        return ((design.normal(W) / per_dim + ridge * W) @ whitening).ravel()

    right = (target @ whitening).ravel()
    return _conjugate_gradients(normal, right, to_weights, residual, rtol, rows / dim**2)


def _direct(
    design: Design,
    labels: np.ndarray,
    penalty: float,
    residual: Callable[[np.ndarray], float],
    rtol: float,
) -> Fit:
    kernel = design.kernel()
    kernel[np.diag_indices_from(kernel)] += penalty
    try:
        # The transpose of a symmetric matrix is itself, in the order that LAPACK overwrites in place.
        factor = cho_factor(kernel.T, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        raise NumericalError("the prompts are linearly dependent to rounding; try a smaller alpha") from None
    a = cho_solve(factor, labels)
    # One refinement: the factors lose digits with the condition number, the residual does not.
    a += cho_solve(factor, labels - design.forward(design.adjoint(a)) - penalty * a)
    W = design.adjoint(a)
    reached = residual(W)
    if not reached <= rtol:
        raise NumericalError(
            f"relative residual {reached:.1e} by Cholesky, asked for {rtol:g}: the problem is "
            "ill-conditioned; try a gamma farther from 1, a smaller alpha, a ridge or a larger rtol"
        )
    return Fit(W, 0, reached)


def _conjugate_gradients(
    operator: Callable[[np.ndarray], np.ndarray],
    right: np.ndarray,
    to_weights: Callable[[np.ndarray], np.ndarray],
    residual: Callable[[np.ndarray], float],
    rtol: float,
    gamma: float,
) -> Fit:
    """Run SciPy's `cg`, again from where it stopped if the true residual has not followed its own."""
    steps = 0

    def count(x: np.ndarray) -> None:
        nonlocal steps
        steps += 1
        # NaN spreads to all entries at once, and no residual of it is ever small.
        if not np.isfinite(x[0]):
            raise NumericalError("the iteration leaves the range of float64; try a smaller sigma")

    system = LinearOperator((right.size, right.size), matvec=operator, dtype=np.float64)
    x, goal = np.zeros_like(right), rtol
    while True:
        x, unfinished = cg(system, right, x0=x, rtol=goal, maxiter=MAX_ITERATIONS - steps, callback=count)
        W = to_weights(x)
        reached = residual(W)
        if reached <= rtol:
            return Fit(W, steps, reached)
        if unfinished:
            raise NumericalError(
                f"relative residual {reached:.1e} after {steps} iterations, asked for {rtol:g}, at "
                f"gamma = {gamma:.6g}; convergence is slow near gamma = 1 and, below it, at large alpha: "
                "try a gamma farther from 1, a smaller alpha, a ridge or a larger rtol"
            )
        goal *= 0.5 * rtol / reached
        if not goal >= np.finfo(float).eps:
            raise NumericalError(
                f"relative residual {reached:.1e} after {steps} iterations, asked for {rtol:g}, which "
                "rounding does not allow here; try a larger rtol"
            )
