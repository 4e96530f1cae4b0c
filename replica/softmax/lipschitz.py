"""Lipschitz constants of the gradient in X: bounds from above in logarithms, estimates from below.

The Hessian in x is K^T blockdiag(H_j) K with K = kron(A1, A2) and |K| = |A1| |A2| (spectral norms), so a
bound h_j on |H_j| gives the constant |K|^2 max_j h_j. The row bounds were proved for this project:

    normalized  h_j = l_j^2 + r_j l_j,  l = min(max f, max 2 f (1 - f)),  r = max_k |c_k - f.c|
    rescaled    h_j = (max u + |b| |u|)^2 + max_k u_k |q_k - b.q|,  q = u - alpha b

Bounds that do not see the point follow from the worst case of these:

    normalized, everywhere        h_j = 0.52 + osc(b_j) / 2
    rescaled, where |S| <= Lam    h_j = e^(2 Lam) (2 + 3 sqrt(n) |b_j| + 2 n |b_j|^2 + n |b_j|_inf)

In between stands the box: interval bounds on f and u over lo <= S <= hi. A point is the box lo = hi; its
value is not a constant of any region.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from scipy.special import expit, logsumexp

from replica.exceptions import InputError
from replica.softmax.losses import Hessian, evaluate, log, logits, projected
from replica.softmax.problem import (
    ROW_SUM_TOLERANCE,
    Loss,
    Problem,
    check_integer,
    frobenius,
    loss_kind,
    on_sphere,
)

GLOBAL_CONSTANT = 0.52
"""The part of the normalized row bound that does not depend on b; l^2 + r l is at most 1/2 at b = 0."""

Box = Callable[[slice], tuple[np.ndarray, np.ndarray]]
"""From rows to the bounds lo <= S <= hi of these rows, each (rows, n)."""


def log_global(problem: Problem, kind: str = Loss.NORMALIZED) -> float:
    """The logarithm of the constant that holds for every X; infinite for the rescaled loss, which has none.

    Normalized: |A1|^2 |A2|^2 max_j (0.52 + osc(b_j) / 2), polynomial in the norms, so that the exponential of
    arXiv:2307.02419 is slack for this loss. For n = 1 the softmax is constant and so is the loss: 0.
    """
    if loss_kind(kind) is Loss.RESCALED:
        return np.inf
    return _log_constant(problem, log(_row_ceiling(problem)))


def log_ball(problem: Problem, radius: float, kind: str = Loss.NORMALIZED) -> float:
    """The logarithm of a constant of the set |X|_F <= radius.

    Rescaled: |A1|^2 |A2|^2 e^(2 Lam) max_j (2 + 3 sqrt(n) |b_j| + 2 n |b_j|^2 + n |b_j|_inf), with Lam the
    largest logit on the ball, max_i |a1_i| max_j |a2_j| radius. b = 0 attains 2 e^(2 Lam) for m = n = 1, so
    this exponential is real. Normalized: the global constant.

    Raises
    ------
    InputError: a negative or non-finite radius.
    """
    if loss_kind(kind) is Loss.NORMALIZED:
        _check_radius(radius)
        return log_global(problem, kind)
    n = problem.shape[1]
    beta, largest = problem.labels.norm, problem.labels.max_abs
    rows = 2 + 3 * np.sqrt(n) * beta + 2 * n * beta**2 + n * largest
    return _log_constant(problem, np.log(rows) + 2 * logit_bound(problem, radius))


def log_r_form(problem: Problem, radius: float, R: float | None = None) -> float:
    """The logarithm of 8 n R^2 exp(2 R^2), a constant of the rescaled loss on |X|_F <= radius.

    It is exp(O(R^2 + log n)), the form of arXiv:2307.02419, and assumes |b_j| <= 1, |K| <= R, radius <= R.

    Parameters
    ----------
    problem: the data. radius: of the ball.
    R: left out, the smallest that the assumptions allow.

    Raises
    ------
    InputError: one of the assumptions is false.
    """
    _check_radius(radius)
    R = problem.radius({"radius": radius}, R)
    longest = float(problem.labels.norm.max())
    if longest > 1 + ROW_SUM_TOLERANCE:
        raise InputError(f"max_j |b_j| = {longest:g} is outside the allowed range [0, 1] of the R-form")
    return float(np.log(8 * problem.shape[1]) + 2 * log(R) + 2 * R * R)


def log_box(problem: Problem, box: Box, kind: str = Loss.NORMALIZED, block_rows: int | None = None) -> float:
    """The logarithm of a constant of the set lo <= S <= hi, from interval bounds on f and u.

    Parameters
    ----------
    problem: the data.
    box: gives lo and hi for rows of S; see `ball` and `segment`.
    kind: "normalized" or "rescaled".
    block_rows: rows held at a time.
    """
    kind = loss_kind(kind)
    m = problem.shape[0]
    rows_log = np.empty(m)
    for rows in problem.blocks(block_rows):
        lo, hi = box(rows)
        B = problem.B[rows]
        rows_log[rows] = _log_normalized(lo, hi, B) if kind is Loss.NORMALIZED else _log_rescaled(lo, hi, B)
    if kind is Loss.NORMALIZED:
        rows_log = np.minimum(rows_log, log(_row_ceiling(problem)))
    return _log_constant(problem, rows_log)


def log_point(problem: Problem, X: Any, kind: str = Loss.NORMALIZED, block_rows: int | None = None) -> float:
    """The logarithm of a bound on the spectral norm of the Hessian at X; not a constant of any region."""
    return log_box(problem, ball(problem, X, 0.0), kind, block_rows)


def ball(problem: Problem, center: Any, radius: float) -> Box:
    """The box around the logits of |X - center|_F <= radius: |S_ij - S_ij(center)| <= |a1_i| |a2_j| radius.

    Raises
    ------
    InputError: an unfit center, a negative or non-finite radius.
    OverflowError: (on use) a logit at the center is not finite.
    """
    _check_radius(radius)
    P = projected(problem.A1, problem.weights(center, "center"))
    reach, width = radius * _row_norms(problem.A1), _row_norms(problem.A2)

    def box(rows: slice) -> tuple[np.ndarray, np.ndarray]:
        S = logits(P[rows], problem.A2)
        margin = np.outer(reach[rows], width)
        return S - margin, S + margin

    return box


def segment(problem: Problem, start: Any, stop: Any) -> Box:
    """The box around the logits of the straight line from `start` to `stop`, both (d1, d2).

    Raises
    ------
    InputError: unfit weights.
    OverflowError: (on use) a logit at an end is not finite.
    """
    ends = [projected(problem.A1, problem.weights(X, name)) for X, name in ((start, "start"), (stop, "stop"))]

    def box(rows: slice) -> tuple[np.ndarray, np.ndarray]:
        first, last = (logits(P[rows], problem.A2) for P in ends)
        return np.minimum(first, last), np.maximum(first, last)

    return box


def logit_bound(problem: Problem, radius: float) -> float:
    """Lam, a bound on |S_ij| over |X|_F <= radius that some X attains.

    Raises
    ------
    InputError: a negative or non-finite radius.
    """
    _check_radius(radius)
    longest = (_row_norms(A).max() for A in (problem.A1, problem.A2))
    return float(np.prod([*longest, radius]))


def softmax_bounds(lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Entrywise bounds of the row softmax over lo <= S <= hi, attained: f_k grows with s_k alone."""
    return expit(lo - _log_rest(hi)), expit(hi - _log_rest(lo))


def jacobian_bound(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """l per row: |J(f)| <= min(max f, max 2 f (1 - f)) over low <= f <= high, with J = diag(f) - f f^T."""
    # 2 f (1 - f) is concave with its top at 1/2.
    nearest = np.clip(0.5, low, high)
    return np.minimum(high.max(axis=1), (2 * nearest * (1 - nearest)).max(axis=1))


def largest_magnitude(operator: LinearOperator, *, seed: int = 0, tolerance: float = 1e-8) -> float:
    """The largest |eigenvalue| of a symmetric operator, approached from below by Lanczos.

    A Ritz value never exceeds the eigenvalue it approaches, so this is an estimate from below even where the
    iteration stops early; up to 16 dimensions the matrix is formed instead.

    Parameters
    ----------
    operator: symmetric, (size, size).
    seed: of the start vector.
    tolerance: relative accuracy asked for.
    """
    size = operator.shape[0]
    start = np.random.default_rng(seed).standard_normal(size)
    start /= np.linalg.norm(start)
    image = operator @ start
    if not image.any():
        # Lanczos has nothing to start from; a random vector misses no operator but zero.
        return 0.0
    if size <= 16:
        dense = operator @ np.eye(size)
        values = np.linalg.eigvalsh((dense + dense.T) / 2)
    else:
        try:
            values = eigsh(operator, k=1, which="LM", v0=start, tol=tolerance, return_eigenvectors=False)
        except ArpackNoConvergence as stopped:
            values = np.append(stopped.eigenvalues, start @ image)
    return float(np.abs(values).max())


def measured_at(problem: Problem, X: Any, kind: str = Loss.NORMALIZED, *, seed: int = 0) -> float:
    """The logarithm of the largest |eigenvalue| of the Hessian at X, (d1, d2), from below by Lanczos."""
    hessian = Hessian(problem, X, kind)
    return float(log(largest_magnitude(hessian, seed=seed))) + hessian.log_scale


def measured_between(problem: Problem, X: Any, Y: Any, kind: str = Loss.NORMALIZED) -> float | None:
    """The logarithm of |grad L(X) - grad L(Y)|_F / |X - Y|_F; None where X = Y, never 0/0."""
    X, Y = problem.weights(X), problem.weights(Y, "Y")
    distance = frobenius(X - Y)
    if distance == 0:
        return None
    one, other = (evaluate(problem, Z, kind, wrt=("X",)).gradients["X"] for Z in (X, Y))
    scale = max(one.log_scale, other.log_scale)
    difference = one.over_scale * np.exp(one.log_scale - scale)
    difference = difference - other.over_scale * np.exp(other.log_scale - scale)
    return float(log(np.linalg.norm(difference))) + scale - float(np.log(distance))


@dataclass(frozen=True)
class LipschitzPanel:
    """Bounds and estimates of the Lipschitz constant of one gradient on |X|_F <= radius, as logarithms.

    Parameters
    ----------
    kind: the loss.
    radius: of the ball, centred at 0.
    everywhere, ball, box: constants of all X, of the ball, and of the box around its logits; each bounds all
        that was measured.
    r_form: 8 n R^2 exp(2 R^2) for the rescaled loss; None for the normalized one, or where a row of B is
        longer than 1.
    point: bound on the Hessian at X only.
    lanczos_point, lanczos_ball: largest |eigenvalue| of the Hessian at X, and over the points tried.
    gradient_ratio: largest ratio over the pairs tried; None if no two of them differ.
    points: how many points of the ball were tried.
    """

    kind: Loss
    radius: float
    everywhere: float
    ball: float
    box: float
    r_form: float | None
    point: float
    lanczos_point: float
    lanczos_ball: float
    gradient_ratio: float | None
    points: int


def lipschitz_panel(
    problem: Problem,
    X: Any,
    kind: str = Loss.NORMALIZED,
    *,
    radius: float | None = None,
    R: float | None = None,
    points: int = 8,
    seed: int = 0,
) -> LipschitzPanel:
    """All bounds beside what is measured, on the ball |X|_F <= radius.

    Tried are X, points on the sphere, the centre, and the weights radius a1 a2^T / (|a1| |a2|) of both signs
    for the longest rows, which attain the largest logit; every point is also paired with a near neighbour.

    Parameters
    ----------
    problem: the data. X: (d1, d2). kind: "normalized" or "rescaled".
    radius: at least |X|_F, which it is if left out.
    R: of the R-form; left out, the smallest that its assumptions allow.
    points: how many random points of the sphere to try, from 0.
    seed: of these points.

    Raises
    ------
    InputError: an unfit X, a radius below |X|_F, an R below |K| or the radius, a negative number of points.
    OverflowError: a logit is not finite.

    Examples
    --------
    >>> from replica.softmax.problem import random_instance
    >>> instance = random_instance(6, 2, seed=0)
    >>> panel = lipschitz_panel(instance.problem, instance.X)
    >>> panel.lanczos_ball <= panel.box <= panel.ball
    True
    """
    kind = loss_kind(kind)
    X = problem.weights(X)
    norm = frobenius(X)
    radius = norm if radius is None else radius
    _check_radius(radius)
    # |X|_F as printed must be accepted as the radius again.
    if radius < norm * (1 - 1e-12):
        raise InputError(
            f"radius = {radius:g} is below |X|_F = {norm:.12g}; allowed range [{norm:.12g}, inf)"
        )
    check_integer("points", points, 0)
    check_integer("seed", seed, 0)
    has_r_form = kind is Loss.RESCALED and (problem.labels.norm <= 1 + ROW_SUM_TOLERANCE).all()
    # R is checked even where no R-form follows from it.
    R = problem.radius({"radius": radius}, R)
    # Before anything else, because it refuses logits that are not finite.
    point = log_point(problem, X, kind)
    tried = list(_tried(problem, X, radius, points, seed))
    at = [measured_at(problem, Y, kind, seed=seed) for Y in tried]
    # Neighbours lie inwards, so that a pair never leaves the ball.
    pairs = [*pairwise(tried), *((Y, (1 - 1e-4) * Y) for Y in tried)]
    ratios = [measured_between(problem, Y, Z, kind) for Y, Z in pairs]
    return LipschitzPanel(
        kind=kind,
        radius=radius,
        everywhere=log_global(problem, kind),
        ball=log_ball(problem, radius, kind),
        box=log_box(problem, ball(problem, np.zeros_like(X), radius), kind),
        r_form=log_r_form(problem, radius, R) if has_r_form else None,
        point=point,
        lanczos_point=at[0],
        lanczos_ball=max(at),
        gradient_ratio=max((ratio for ratio in ratios if ratio is not None), default=None),
        points=len(tried),
    )


def _tried(problem: Problem, X: np.ndarray, radius: float, points: int, seed: int) -> Iterator[np.ndarray]:
    yield X
    yield np.zeros_like(X)
    a1, a2 = (A[_row_norms(A).argmax()] for A in (problem.A1, problem.A2))
    if a1.any() and a2.any():
        steepest = radius * np.outer(a1 / np.linalg.norm(a1), a2 / np.linalg.norm(a2))
        yield steepest
        yield -steepest
    generator = np.random.default_rng(seed)
    for _ in range(points):
        yield on_sphere(generator, X.shape, radius)


def _row_norms(A: np.ndarray) -> np.ndarray:
    """|a_i| of each row, whose squares do not overflow."""
    scale = float(np.abs(A).max()) or 1.0
    return scale * np.linalg.norm(A / scale, axis=1)


def _check_radius(radius: float) -> None:
    if not 0 <= radius < np.inf:
        raise InputError(f"radius = {radius!r} is outside the allowed range [0, inf)")


def _row_ceiling(problem: Problem) -> np.ndarray:
    """The row bound of the normalized loss that no point exceeds; 0 where a single key makes f constant."""
    oscillation = problem.labels.oscillation
    return GLOBAL_CONSTANT + oscillation / 2 if problem.shape[1] > 1 else np.zeros_like(oscillation)


def _log_constant(problem: Problem, log_rows: np.ndarray) -> float:
    return float(2 * log(problem.kronecker_norm) + log_rows.max())


def _log_rest(S: np.ndarray) -> np.ndarray:
    """log of the sum of exp(S_i) over all i but k, for every k of each row; -inf for a single column."""
    place = S.argmax(axis=1)[:, None]
    top = np.take_along_axis(S, place, axis=1)
    # The largest term is left out before the sum and has its rest on a scale of its own: subtracting it
    # afterwards would cancel, and beside it the others may underflow.
    others = S.copy()
    np.put_along_axis(others, place, -np.inf, axis=1)
    log_others = logsumexp(others, axis=1, keepdims=True)
    E = np.exp(others - top)
    rest = top + np.log1p(E.sum(axis=1, keepdims=True) - E)
    np.put_along_axis(rest, place, log_others, axis=1)
    return rest


def _log_normalized(lo: np.ndarray, hi: np.ndarray, B: np.ndarray) -> np.ndarray:
    low, high = softmax_bounds(lo, hi)
    slope = jacobian_bound(low, high)
    below, above = low - B, high - B
    # f.c = sum_k f_k (f_k - b_k), convex in each f_k, and a mean of the c_k.
    nearest = np.clip(B / 2, low, high)
    least = np.maximum((nearest * (nearest - B)).sum(axis=1), below.min(axis=1))
    most = np.minimum(np.maximum(low * below, high * above).sum(axis=1), above.max(axis=1))
    spread = np.maximum(above.max(axis=1) - least, most - below.min(axis=1))
    return log(slope * (slope + spread))


def _log_rescaled(lo: np.ndarray, hi: np.ndarray, B: np.ndarray) -> np.ndarray:
    top = hi.max(axis=1, keepdims=True)
    low, high = np.exp(lo - top), np.exp(hi - top)
    beta = np.linalg.norm(B, axis=1)
    first = (high.max(axis=1) + beta * np.linalg.norm(high, axis=1)) ** 2
    # q_k = (1 - b_k) u_k - b_k sum of the other u, and b.q = sum_k u_k (b_k - |b|^2): linear in u.
    rest_low, rest_high = (u.sum(axis=1, keepdims=True) - u for u in (low, high))
    q_least = _least(1 - B, low, high) + _least(-B, rest_low, rest_high)
    q_most = -_least(B - 1, low, high) - _least(B, rest_low, rest_high)
    slope = B - beta[:, None] ** 2
    least, most = (
        _least(slope, low, high).sum(axis=1, keepdims=True),
        -_least(-slope, low, high).sum(axis=1, keepdims=True),
    )
    second = (high * np.maximum(q_most - least, most - q_least)).max(axis=1)
    return 2 * top[:, 0] + np.log(first + second)


def _least(slope: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The smallest value of slope * u over low <= u <= high."""
    return np.minimum(slope * low, slope * high)
