"""The in-context shift: labels under which the old weights have the residuals of the new ones.

From S_t to S_{t+1} = S_t + delta, row by row, the labels move by Delta = B~ - B with

    normalized  B~ = B + F_t - F_{t+1}
                so that F_t - B~ = F_{t+1} - B
    rescaled    b~ = f_t - (alpha_{t+1} / alpha_t) (f_{t+1} - b)
                so that alpha_t (f_t - b~) = alpha_{t+1} (f_{t+1} - b)

(the two shift statements of arXiv:2307.02419 in closed form; the bounds were proved for this project).
Residuals and losses agree, gradients do not. B~ keeps row sums of one but may leave the simplex. It is an
identity with a bound, no evidence about a trained model.

A small step keeps its digits: with a = f_t o expm1(delta) the move is -f_t o expm1(delta - log(1 + sum a)),
or b sum a - a, instead of a difference of nearly equal numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from replica.exceptions import InputError
from replica.softmax.lipschitz import jacobian_bound, softmax_bounds
from replica.softmax.losses import (
    evaluate,
    exponential,
    log,
    logit_gradient,
    logits,
    row_dot,
    softmax,
)
from replica.softmax.problem import (
    ROW_SUM_TOLERANCE,
    Loss,
    Problem,
    check_integer,
    frobenius,
    loss_kind,
    matrix,
)

SIMPLEX_TOLERANCE = 1e-12
"""How far below zero rounding may put an entry of B~ that lies on the simplex, times its largest entry."""


class Step(NamedTuple):
    """From (A1, A2, X) to (A1_next, A2_next, X_next), all validated."""

    problem: Problem
    X: np.ndarray
    A1_next: np.ndarray
    A2_next: np.ndarray
    X_next: np.ndarray
    changes_data: bool


class StepBlock(NamedTuple):
    """Rows of a step: labels, softmax and log alpha before and after, and the move of the labels.

    `move` is B~ - B divided row by row by exp(log_unit), which is 0 wherever a double holds the move.
    """

    rows: slice
    B: np.ndarray
    S: np.ndarray
    S_next: np.ndarray
    delta: np.ndarray
    F: np.ndarray
    F_next: np.ndarray
    log_alpha: np.ndarray
    log_alpha_next: np.ndarray
    move: np.ndarray
    log_unit: np.ndarray


def _step(problem: Problem, X: Any, X_next: Any, A1_next: Any, A2_next: Any) -> Step:
    X = problem.weights(X)
    moved = []
    for name, old, new in (("A1", problem.A1, A1_next), ("A2", problem.A2, A2_next)):
        array = old if new is None else matrix(f"{name}_next", new)
        if array.shape != old.shape:
            raise InputError(
                f"{name}_next of shape {array.shape} does not fit {name}; allowed is shape {old.shape}"
            )
        moved.append(array)
    changes = not (np.array_equal(moved[0], problem.A1) and np.array_equal(moved[1], problem.A2))
    X_next = X if X_next is None else problem.weights(X_next, "X_next")
    return Step(problem, X, moved[0], moved[1], X_next, changes)


def _blocks(step: Step, kind: Loss, block_rows: int | None) -> Iterator[StepBlock]:
    problem, X = step.problem, step.X
    with np.errstate(over="ignore", invalid="ignore"):
        P, P_next = problem.A1 @ X, step.A1_next @ step.X_next
        # S_{t+1} - S_t without cancellation, as the sum of its three changes.
        changes = [
            ((step.A1_next - problem.A1) @ step.X_next, step.A2_next),
            (problem.A1 @ (step.X_next - X), step.A2_next),
            (P, step.A2_next - problem.A2),
        ]
    changes = [(left, right) for left, right in changes if left.any() and right.any()]
    for rows in problem.blocks(block_rows):
        S, S_next = logits(P[rows], problem.A2), logits(P_next[rows], step.A2_next)
        delta = np.zeros_like(S)
        for left, right in changes:
            delta += logits(left[rows], right)
        B = problem.B[rows]
        F, log_alpha = softmax(S.copy())
        F_next, log_alpha_next = softmax(S_next.copy())
        move, log_unit = _move(kind, delta, F, F_next, B, log_alpha_next - log_alpha)
        yield StepBlock(rows, B, S, S_next, delta, F, F_next, log_alpha, log_alpha_next, move, log_unit)


def _move(
    kind: Loss, delta: np.ndarray, F: np.ndarray, F_next: np.ndarray, B: np.ndarray, log_growth: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """B~ - B over exp(log_unit), row by row, and log_unit."""
    if kind is Loss.NORMALIZED and F.shape[1] == 1:
        return np.zeros_like(F), np.zeros(len(F))
    # Rows that move little in the form without cancellation, the others as the difference of residuals.
    near = np.abs(delta).max(axis=1, keepdims=True) <= 1
    small = np.where(near, delta, 0.0)
    grown = F * np.expm1(small)
    total = grown.sum(axis=1, keepdims=True)
    if kind is Loss.NORMALIZED:
        return np.where(near, -F * np.expm1(small - np.log1p(total)), F - F_next), np.zeros(len(F))
    # Far below the largest double, which leaves room for the squares of norms.
    log_unit = np.where(log_growth > 150, log_growth, 0.0)
    after = (F_next - B) * np.exp(log_growth - log_unit)[:, None]
    return np.where(near, B * total - grown, (F - B) * np.exp(-log_unit)[:, None] - after), log_unit


@dataclass(frozen=True, eq=False)
class Shift:
    """One step of the weights or of the data, seen as a shift of the labels.

    Parameters
    ----------
    kind: the loss.
    log_norm: logarithm of |B~ - B|_F.
    logit_step: |S_{t+1} - S_t|_F.
    log_bounds: logarithms of bounds on |B~ - B|_F, by name. Normalized: `interval` (from interval bounds on
        f along the segment of logits), `half` (1/2 |Delta S|_F), `weights` (1/2 |K| |X_{t+1} - X_t|_F, only
        where the data stay), `saturation` (sqrt(2 m)). Rescaled: `interval`, `step` ((max f + |b| |f|)
        phi(|delta|_inf) |delta|), `step_simple` (the same with max f = |f| = 1), `R_form` (M |X_{t+1} -
        X_t|_F, or M / R |Delta S|_F where the data change, M = R (1 + sqrt(n) |b|) exp(2 R^2) / n).
    R, log_M: the R of the R-form and the logarithm of its M.
    residual_identity: largest entry of the difference of both residuals, over the largest residual or 1.
    in_simplex: whether every row of B~ lies on the simplex up to rounding.
    log_loss_now, log_loss_next: of (S_t, B) and of (S_{t+1}, B).
    log_loss_shifted: of (S_t, B~), equal to `log_loss_next`.
    linear_norm: |J Delta S|_F, the linear part of the normalized move; None for the rescaled loss.
    remainder, remainder_bound: |Delta - linear part|_F and 1/2 sqrt(sum_j |delta_j|^4); None likewise.
    gradient_mismatch, gradient_mismatch_bound: |grad L_N(S_t; B~) - grad L_N(S_{t+1}; B)|_F, which is not
        zero, and |K| sqrt(sum_j |c_j|^2 |delta_j|^2 / 2) with the residuals c of step t + 1; None for the
        rescaled loss or where the data change.
    """

    kind: Loss
    log_norm: float
    logit_step: float
    log_bounds: dict[str, float]
    R: float
    log_M: float
    residual_identity: float
    in_simplex: bool
    log_loss_now: float
    log_loss_next: float
    log_loss_shifted: float
    linear_norm: float | None
    remainder: float | None
    remainder_bound: float | None
    gradient_mismatch: float | None
    gradient_mismatch_bound: float | None

    @property
    def norm(self) -> float:
        """|B~ - B|_F.

        Raises
        ------
        OverflowError: a double does not hold it; its logarithm is named.
        """
        return exponential(self.log_norm, f"the shift of the {self.kind} loss")

    @property
    def bounds(self) -> dict[str, float]:
        """The bounds themselves; infinite where a double does not hold one, which still is a bound."""
        with np.errstate(over="ignore"):
            return {name: float(np.exp(value)) for name, value in self.log_bounds.items()}

    @property
    def ratios(self) -> dict[str, float | None]:
        """|B~ - B|_F over each bound; None where the bound is 0, never 0/0."""
        return {
            name: None if value == -np.inf else float(np.exp(self.log_norm - value))
            for name, value in self.log_bounds.items()
        }


def label_shift(
    problem: Problem,
    X: Any,
    X_next: Any = None,
    kind: str = Loss.NORMALIZED,
    *,
    A1_next: Any = None,
    A2_next: Any = None,
    R: float | None = None,
    block_rows: int | None = None,
) -> Shift:
    """The shift of the labels that stands for a step of the weights, of the data, or of both.

    Parameters
    ----------
    problem: the data before the step.
    X, X_next: (d1, d2). Weights before and after; left out, the latter follow the former.
    kind: "normalized" or "rescaled".
    A1_next, A2_next: the data after the step; left out, as before.
    R: of the R-form; left out, the smallest that its assumptions allow.
    block_rows: rows of S held at a time.

    Raises
    ------
    InputError: unfit arrays, unknown loss, an R below |K|, |X|_F or |X_next|_F, block_rows below 1.
    OverflowError: a logit is not finite.

    Examples
    --------
    >>> problem = Problem([[1.0], [2.0]], [[0.0], [1.0]], [[0.5, 0.5], [0.5, 0.5]])
    >>> step = label_shift(problem, [[0.3]], [[0.4]])
    >>> print(f"{step.norm:.6f} <= {step.bounds['half']:.6f}", step.in_simplex)
    0.071441 <= 0.111803 True
    """
    kind = loss_kind(kind)
    step = _step(problem, X, X_next, A1_next, A2_next)
    R, log_M = _r_form(step, R)
    m = problem.shape[0]
    totals: dict[str, np.ndarray] = {}

    def keep(name: str, rows: slice, values: np.ndarray) -> None:
        totals.setdefault(name, np.empty(m))[rows] = values

    identity, in_simplex = 0.0, True
    mismatch = np.zeros(problem.shape[2:])
    for block in _blocks(step, kind, block_rows):
        rows, B, log_unit = block.rows, block.B, block.log_unit
        length = np.linalg.norm(block.delta, axis=1)
        keep("delta", rows, length)
        keep("log_move", rows, log(np.linalg.norm(block.move, axis=1)) + log_unit)
        # Everything in units of alpha_t exp(log_unit), so that nothing overflows.
        unit = np.exp(-log_unit)[:, None]
        growth = np.zeros(len(B)) if kind is Loss.NORMALIZED else block.log_alpha_next - block.log_alpha
        residual_next = (block.F_next - B) * np.exp(growth - log_unit)[:, None]
        shifted = B * unit + block.move
        residual_shifted = block.F * unit - shifted
        identity = max(
            identity,
            float(np.abs(residual_next - residual_shifted).max() / max(1.0, np.abs(residual_next).max())),
        )
        in_simplex = in_simplex and not log_unit.any() and _on_simplex(shifted)
        weight = np.zeros(len(B)) if kind is Loss.NORMALIZED else 2 * block.log_alpha
        weight_next = weight if kind is Loss.NORMALIZED else 2 * block.log_alpha_next
        keep("loss_now", rows, weight + 2 * log(np.linalg.norm(block.F - B, axis=1)))
        keep("loss_next", rows, weight_next + 2 * log(np.linalg.norm(block.F_next - B, axis=1)))
        keep("loss_shifted", rows, weight + 2 * (log(np.linalg.norm(residual_shifted, axis=1)) + log_unit))
        for name, values in _row_bounds(kind, block, problem.labels.norm[rows], length).items():
            keep(f"bound {name}", rows, values)
        if kind is Loss.NORMALIZED:
            linear, remainder = _expansion(block)
            keep("linear", rows, np.linalg.norm(linear, axis=1))
            keep("remainder", rows, np.linalg.norm(remainder, axis=1))
            keep("mismatch_bound", rows, np.linalg.norm(block.F_next - B, axis=1) * length / np.sqrt(2))
            if not step.changes_data:
                residual = block.F_next - B
                G_next = logit_gradient(kind, block.F_next, residual, B)
                G = logit_gradient(kind, block.F, residual, B)
                mismatch += problem.A1[rows].T @ ((G - G_next) @ problem.A2)

    def log_total(name: str) -> float:
        return float(logsumexp(2 * totals[name]) / 2)

    logit_step = float(np.linalg.norm(totals["delta"]))
    weight_step = frobenius(step.X_next - step.X)
    log_bounds = {
        name.removeprefix("bound "): log_total(name) for name in totals if name.startswith("bound ")
    }
    normalized = kind is Loss.NORMALIZED
    if normalized:
        if not step.changes_data:
            log_bounds["weights"] = float(log(0.5 * problem.kronecker_norm * weight_step))
        log_bounds["saturation"] = float(np.log(2 * m) / 2)
    else:
        reach = logit_step / R if step.changes_data and R > 0 else weight_step
        log_bounds["R_form"] = log_M + float(log(reach)) if reach else -np.inf
    same_data = normalized and not step.changes_data
    return Shift(
        kind=kind,
        log_norm=log_total("log_move"),
        logit_step=logit_step,
        log_bounds=log_bounds,
        R=R,
        log_M=log_M,
        residual_identity=identity,
        in_simplex=in_simplex,
        log_loss_now=_log_half_sum(totals["loss_now"]),
        log_loss_next=_log_half_sum(totals["loss_next"]),
        log_loss_shifted=_log_half_sum(totals["loss_shifted"]),
        linear_norm=float(np.linalg.norm(totals["linear"])) if normalized else None,
        remainder=float(np.linalg.norm(totals["remainder"])) if normalized else None,
        remainder_bound=float(np.linalg.norm(totals["delta"] ** 2) / 2) if normalized else None,
        gradient_mismatch=float(np.linalg.norm(mismatch)) if same_data else None,
        gradient_mismatch_bound=(
            problem.kronecker_norm * float(np.linalg.norm(totals["mismatch_bound"])) if same_data else None
        ),
    )


def shifted_labels(
    problem: Problem,
    X: Any,
    X_next: Any = None,
    kind: str = Loss.NORMALIZED,
    *,
    A1_next: Any = None,
    A2_next: Any = None,
) -> np.ndarray:
    """B~ itself, (m, n). Parameters and exceptions as in `label_shift`, and

    Raises
    ------
    OverflowError: a double does not hold B~ of the rescaled loss; the logarithm of |B~ - B|_F is named.
    """
    kind = loss_kind(kind)
    step = _step(problem, X, X_next, A1_next, A2_next)
    shifted = np.empty(problem.shape[:2])
    log_norms = []
    for block in _blocks(step, kind, None):
        log_norms.append(log(np.linalg.norm(block.move, axis=1)) + block.log_unit)
        with np.errstate(over="ignore", invalid="ignore"):
            shifted[block.rows] = block.B + block.move * np.exp(block.log_unit)[:, None]
    # Names the logarithm in the same words as the norm does.
    exponential(float(logsumexp(2 * np.concatenate(log_norms)) / 2), f"the shift of the {kind} loss")
    return shifted


def gradient_step(problem: Problem, X: Any, size: float, kind: str = Loss.NORMALIZED) -> np.ndarray:
    """X - size dL/dX, (d1, d2).

    To first order the labels then move by size Theta (F - B), Theta = blockdiag(J) K K^T blockdiag(J), for
    the normalized loss.

    Raises
    ------
    InputError: an unfit X, an unknown loss, a step size that is not finite.
    OverflowError: a logit or the weights after the step are not finite, or a double does not hold the
        gradient of the rescaled loss.
    """
    if not np.isfinite(size):
        raise InputError(f"step size = {size!r} is outside the allowed range: finite numbers")
    X = problem.weights(X)
    slope = evaluate(problem, X, kind, wrt=("X",)).gradients["X"].value
    with np.errstate(over="ignore"):
        X_next = X - size * slope
    if not np.isfinite(X_next).all():
        raise OverflowError(f"weights not finite after a gradient step of size {size:g}")
    return X_next


@dataclass(frozen=True, eq=False)
class LabelSequence:
    """Several gradient steps as a sequence of labels for the weights at the start.

    Parameters
    ----------
    problem: the data.
    kind: the loss that is descended and whose labels are shifted.
    path: (steps + 1, d1, d2). The weights X_0, X_1, ...
    shifts: from X_0 to each of X_1, X_2, ...: labels B~_k that give X_0 the residuals of X_k.
    increments: |B~_k - B~_{k-1}|_F, (steps,).
    """

    problem: Problem
    kind: Loss
    path: np.ndarray
    shifts: tuple[Shift, ...]

    def labels(self, index: int) -> np.ndarray:
        """B~_k, (m, n); B itself for index 0."""
        return shifted_labels(self.problem, self.path[0], self.path[index], self.kind)

    @cached_property
    def increments(self) -> np.ndarray:
        labels = [self.labels(index) for index in range(len(self.path))]
        return np.array([np.linalg.norm(b - a) for a, b in pairwise(labels)])


def repeated_steps(
    problem: Problem,
    X: Any,
    size: float,
    steps: int,
    kind: str = Loss.NORMALIZED,
    *,
    R: float | None = None,
    block_rows: int | None = None,
) -> LabelSequence:
    """Gradient steps X_{k+1} = X_k - size dL/dX_k, each seen from X_0 as labels B~_k.

    Parameters
    ----------
    problem: the data. X: (d1, d2), the start. size: of each step.
    steps: how many, from 1.
    kind, R, block_rows: as in `label_shift`.

    Raises
    ------
    InputError, OverflowError: as in `gradient_step` and `label_shift`; fewer than one step. What overflows
        after the start names the step.

    Examples
    --------
    >>> problem = Problem([[1.0], [2.0]], [[0.0], [1.0]], [[0.5, 0.5], [0.5, 0.5]])
    >>> sequence = repeated_steps(problem, [[0.3]], 0.5, 3)
    >>> [f"{shift.norm:.4f}" for shift in sequence.shifts]
    ['0.0634', '0.1125', '0.1484']
    """
    check_integer("steps", steps, 1)
    path, shifts = [problem.weights(X)], []
    for number in range(1, steps + 1):
        try:
            path.append(gradient_step(problem, path[-1], size, kind))
            shifts.append(label_shift(problem, path[0], path[-1], kind, R=R, block_rows=block_rows))
        except OverflowError as error:
            if len(path) == 1:
                raise  # At the start, where no step has been taken that could be shorter.
            raise OverflowError(
                f"gradient step {number} of {steps}: {error}; take a step size below {size:g}"
            ) from None
    return LabelSequence(problem, loss_kind(kind), np.array(path), tuple(shifts))


def _r_form(step: Step, R: float | None) -> tuple[float, float]:
    """R and log M with M = R (1 + sqrt(n) max_j |b_j|) exp(2 R^2) / n."""
    norms = {f"|{name}|_F": frobenius(X) for name, X in (("X", step.X), ("X_next", step.X_next))}
    if step.changes_data:
        norms["|K_next|"] = float(np.linalg.norm(step.A1_next, 2) * np.linalg.norm(step.A2_next, 2))
    R = step.problem.radius(norms, R)
    n = step.problem.shape[1]
    beta = float(step.problem.labels.norm.max())
    return R, float(log(R) + np.log1p(np.sqrt(n) * beta) + 2 * R * R - np.log(n))


def _row_bounds(kind: Loss, block: StepBlock, beta: np.ndarray, length: np.ndarray) -> dict[str, np.ndarray]:
    """Logarithms of bounds on each row of the move; `length` is |delta_j|."""
    lo, hi = np.minimum(block.S, block.S_next), np.maximum(block.S, block.S_next)
    if kind is Loss.NORMALIZED:
        slope = jacobian_bound(*softmax_bounds(lo, hi))
        return {"interval": log(np.minimum(slope * length, np.sqrt(2))), "half": log(length / 2)}
    top = hi.max(axis=1)
    u = np.exp(hi - top[:, None])
    growth = np.abs(block.delta).max(axis=1)
    # log phi(z), phi(z) = (e^z - 1) / z, with e^z taken out.
    safe = np.where(growth > 0, growth, 1.0)
    log_phi = np.where(growth > 0, growth + np.log(-np.expm1(-safe) / safe), 0.0)
    log_length = log(length)
    F = block.F
    return {
        "interval": top - block.log_alpha + log(1 + beta * np.linalg.norm(u, axis=1)) + log_length,
        "step": log(F.max(axis=1) + beta * np.linalg.norm(F, axis=1)) + log_phi + log_length,
        "step_simple": log(1 + beta) + log_phi + log_length,
    }


def _expansion(block: StepBlock) -> tuple[np.ndarray, np.ndarray]:
    """The linear part -J delta of the normalized move, and what remains."""
    linear = -block.F * (block.delta - row_dot(block.F, block.delta))
    return linear, block.move - linear


def _on_simplex(rows: np.ndarray) -> bool:
    tolerance = SIMPLEX_TOLERANCE * max(1.0, float(np.abs(rows).max()))
    return bool(rows.min() >= -tolerance and (np.abs(rows.sum(axis=1) - 1) <= ROW_SUM_TOLERANCE).all())


def _log_half_sum(log_squares: np.ndarray) -> float:
    return float(logsumexp(log_squares) - np.log(2))
