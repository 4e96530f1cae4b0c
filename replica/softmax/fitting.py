"""Fitting the weights: trust-region Newton-Krylov on the Hessian-vector product, from several starts.

Neither loss is convex, so a fit reports every start and how many distinct minima they ended in. The rescaled
loss can be driven to 0 by alpha -> 0 without fitting B, so the normalized loss always stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from scipy.optimize import NonlinearConstraint, minimize
from scipy.sparse.linalg import LinearOperator

from replica.exceptions import InputError
from replica.softmax.lipschitz import largest_magnitude
from replica.softmax.losses import LARGEST, Hessian, evaluate, forward, log, log_loss
from replica.softmax.problem import Loss, Problem, check_integer, frobenius, loss_kind, on_sphere

DISTINCT = 1e-4
"""Minima are the same if |F - F'|_F / sqrt(m) is below this, and log alpha too for the rescaled loss."""

CURVATURE_TOLERANCE = 1e-3
"""An eigenvalue below minus this times the largest one makes a saddle; Lanczos is asked for 1e-4."""


class FitStatus(StrEnum):
    """How one start of a fit ended."""

    OK = "ok"
    SADDLE = "saddle"
    MAX_ITERATIONS = "max_iterations"
    NOT_CONVERGED = "not_converged"
    NONFINITE = "nonfinite"

    @property
    def advice(self) -> str:
        """What it means, and what to try next."""
        return _ADVICE[self]


_ADVICE = {
    FitStatus.OK: "the gradient cosine or the fit norm is at most the tolerance",
    FitStatus.SADDLE: "the gradient vanishes but the Hessian has a negative eigenvalue; start elsewhere",
    FitStatus.MAX_ITERATIONS: "stopped by the number of iterations; raise it or start nearer",
    FitStatus.NOT_CONVERGED: "no step lowers the loss, cosine and fit norm exceed the tolerance; loosen it",
    FitStatus.NONFINITE: "the loss at the start is not finite; start nearer to the origin",
}


@dataclass(frozen=True)
class Iterate:
    """What is known during a fit: the start (from 0), the iteration, the objective as a logarithm, |X|_F."""

    start: int
    iteration: int
    log_objective: float
    norm: float


@dataclass(frozen=True, eq=False)
class Run:
    """One start and where it ended.

    Parameters
    ----------
    X: (d1, d2). The weights at the end.
    status: see `FitStatus`.
    iterations: of the trust region.
    log_objective: of the loss with its regularization.
    log_loss_normalized, log_loss_rescaled: both losses at X, whichever was minimized.
    gradient_cosine: residual of the conditions of a minimum, |grad + multiplier X|_F together with
        multiplier (radius - |X|_F), over (|K| w + sqrt(regularization)) sqrt(2 objective), with w = 1 for L_N
        and w = max_j alpha_j at X for L_R: a cosine between residuals and their derivatives, so that neither
        alpha -> 0 nor a few heavy rows pass for a minimum.
    fit_norm: sqrt(2 objective) / w, which vanishes at an exact fit only; the cosine does not there.
    multiplier: of the ball constraint, over exp(log_objective); 0 inside the ball.
    curvature: smallest eigenvalue of the Hessian over the largest |eigenvalue|, to about 1e-4, both on the
        tangent of the sphere where the constraint is active. None where the gradient does not vanish.
    distance: |X - X_start|_F.
    minimum: number of the distinct minimum it ended in, from 0, best first; None unless the status is ok.
    """

    X: np.ndarray
    status: FitStatus
    iterations: int
    log_objective: float
    log_loss_normalized: float
    log_loss_rescaled: float
    gradient_cosine: float
    fit_norm: float
    multiplier: float
    curvature: float | None
    distance: float
    minimum: int | None = None


@dataclass(frozen=True, eq=False)
class Fit:
    """All starts of a fit.

    Parameters
    ----------
    kind: the loss that was minimized.
    runs: one per start, in the order of the starts.
    n_minima: how many distinct minima the converged starts ended in; more starts may find more.
    """

    kind: Loss
    runs: tuple[Run, ...]
    n_minima: int

    @property
    def best(self) -> Run:
        """The converged run of the smallest objective; among all runs if none converged."""
        converged = [run for run in self.runs if run.status is FitStatus.OK]
        return min(converged or self.runs, key=lambda run: run.log_objective)


def fit(
    problem: Problem,
    X: Any = None,
    kind: str = Loss.NORMALIZED,
    *,
    starts: int = 1,
    start_radius: float = 1.0,
    seed: int = 0,
    regularization: float = 0.0,
    radius: float | None = None,
    tolerance: float = 1e-8,
    max_iterations: int = 200,
    progress: Callable[[Iterate], None] | None = None,
) -> Fit:
    """Minimize L(X) + regularization / 2 |X|_F^2, optionally over |X|_F <= radius, from one or more starts.

    The trust region of Newton-CG (scipy's trust-ncg) runs without the constraint first: where it ends inside
    the ball that is the answer, otherwise scipy's trust-constr starts anew inside the ball. A run is `ok` if
    its `gradient_cosine` or its `fit_norm` is at most `tolerance` and no eigenvalue of the Hessian is clearly
    negative.

    Parameters
    ----------
    problem: the data.
    X: (d1, d2). The first start; left out, a random one.
    kind: "normalized" or "rescaled".
    starts: how many, from 1. Random ones are uniform on |X|_F = start_radius.
    start_radius: [0, inf). seed: of the random starts.
    regularization: [0, inf). Weight of |X|_F^2 / 2.
    radius: (0, inf). Of the ball; left out, there is no constraint.
    tolerance: (0, inf). On `Run.gradient_cosine` and `Run.fit_norm`. A trust region compares values of the
        loss, which resolve a gradient to the root of eps and little below.
    max_iterations: from 1.
    progress: called after every iteration.

    Raises
    ------
    InputError: an unfit X or a value outside its range.

    Examples
    --------
    >>> from replica.softmax.problem import random_instance
    >>> instance = random_instance(20, 2, seed=0, radius=2.0, planted=True)
    >>> result = fit(instance.problem, instance.X, starts=3)
    >>> result.best.status.value, result.best.log_loss_normalized < -23, result.n_minima
    ('ok', True, 1)
    """
    kind = loss_kind(kind)
    for name, count, least in (
        ("starts", starts, 1),
        ("max_iterations", max_iterations, 1),
        ("seed", seed, 0),
    ):
        check_integer(name, count, least)
    for name, value in (("start_radius", start_radius), ("regularization", regularization)):
        if not 0 <= value < np.inf:
            raise InputError(f"{name} = {value!r} is outside the allowed range [0, inf)")
    for name, positive in (("radius", 1.0 if radius is None else radius), ("tolerance", tolerance)):
        if not 0 < positive < np.inf:
            raise InputError(f"{name} = {positive!r} is outside the allowed range (0, inf)")
    generator = np.random.default_rng(np.random.SeedSequence([seed]))
    points = [] if X is None else [problem.weights(X)]
    points += [on_sphere(generator, problem.shape[2:], start_radius) for _ in range(starts - len(points))]
    runs = []
    for number, start in enumerate(points):

        def report(iteration: int, objective: _Objective, x: np.ndarray, number: int = number) -> None:
            if progress is not None:
                norm = frobenius(x)
                progress(Iterate(number, iteration, objective.log_value(x), norm))

        objective = _Objective(problem, kind, start, regularization, radius, tolerance)
        runs.append(_run(objective, max_iterations, report))
    return _count(problem, kind, runs)


Report = Callable[[int, "_Objective", np.ndarray], None]
T = TypeVar("T")


class _LastPoint(Generic[T]):
    """A function of x that keeps its last value: scipy asks for value, slope and many products in turn."""

    def __init__(self, function: Callable[[np.ndarray], T]) -> None:
        self.function = function
        self._kept: tuple[np.ndarray, T] | None = None

    def __call__(self, x: np.ndarray) -> T:
        if self._kept is None or not np.array_equal(self._kept[0], x):
            self._kept = x.copy(), self.function(x)
        return self._kept[1]


class _State(NamedTuple):
    """The objective over its unit, its gradient, and the logarithm of the largest weight of a row."""

    value: float
    slope: np.ndarray
    log_row_weight: float


class _Objective:
    """The regularized loss over exp(log_unit), its loss at the start, as a function of x = X.ravel()."""

    def __init__(
        self,
        problem: Problem,
        kind: Loss,
        start: np.ndarray,
        regularization: float,
        radius: float | None,
        tolerance: float,
    ) -> None:
        self.problem, self.kind, self.start = problem, kind, start
        self.regularization, self.radius, self.tolerance = regularization, radius, tolerance
        self.log_unit = 0.0
        with suppress(OverflowError):
            at_start = log_loss(problem, start, kind)
            if kind is Loss.RESCALED and np.isfinite(at_start):
                self.log_unit = at_start
        self.ridge = float(np.exp(np.log(regularization) - self.log_unit)) if regularization else 0.0
        self.state = _LastPoint(self._state)
        self.hessian = _LastPoint(self._hessian)

    def started_at(self, start: np.ndarray) -> _Objective:
        """The same with the loss at another start as its unit."""
        return _Objective(self.problem, self.kind, start, self.regularization, self.radius, self.tolerance)

    def _state(self, x: np.ndarray) -> _State:
        # An infinite value is a step too long, to a trust region.
        beyond = _State(np.inf, np.zeros_like(x), 0.0)
        try:
            at = evaluate(self.problem, x.reshape(self.start.shape), self.kind, wrt=("X",))
        except OverflowError:
            return beyond
        gradient = at.gradients["X"]
        if max(at.log_loss, gradient.log_norm) - self.log_unit > LARGEST:
            return beyond
        slope = gradient.over_scale.ravel() * np.exp(gradient.log_scale - self.log_unit)
        value = float(np.exp(at.log_loss - self.log_unit))
        if self.ridge:
            with np.errstate(over="ignore"):
                value += self.ridge / 2 * float(x @ x)
        return _State(value, slope + self.ridge * x, at.log_row_weight)

    def _hessian(self, x: np.ndarray) -> LinearOperator:
        raw = Hessian(self.problem, x.reshape(self.start.shape), self.kind)
        unit = float(np.exp(raw.log_scale - self.log_unit))
        return _operator(x.size, lambda v: unit * (raw @ v) + self.ridge * v)

    def log_value(self, x: np.ndarray) -> float:
        return float(log(self.state(x).value)) + self.log_unit

    def multiplier(self, x: np.ndarray) -> float:
        """Of the ball constraint, over the unit; 0 away from the sphere."""
        norm = frobenius(x)
        if self.radius is None or norm < self.radius * (1 - 1e-3):
            return 0.0
        return max(0.0, -float(self.state(x).slope @ x) / norm**2)

    def residuals(self, x: np.ndarray) -> tuple[float, float]:
        """`Run.gradient_cosine` and `Run.fit_norm` at x."""
        state, multiplier = self.state(x), self.multiplier(x)
        gap = multiplier * ((self.radius or 0.0) - frobenius(x))
        slope = float(np.hypot(np.linalg.norm(state.slope + multiplier * x), gap))
        size = float(np.sqrt(2 * state.value))
        weight = float(np.exp(np.clip((state.log_row_weight - self.log_unit) / 2, -LARGEST, LARGEST)))
        steepest = (self.problem.kronecker_norm * weight + np.sqrt(self.ridge)) * size
        return slope / steepest if steepest else 0.0, size / weight

    def converged(self, x: np.ndarray) -> bool:
        return min(self.residuals(x)) <= self.tolerance

    def curvature(self, x: np.ndarray) -> float:
        """`Run.curvature` at x, of the Lagrangian on the tangent of the sphere where that is active."""
        hessian, multiplier = self.hessian(x), self.multiplier(x)
        normal = x / np.linalg.norm(x) if multiplier > 0 else np.zeros_like(x)

        def tangent(v: np.ndarray) -> np.ndarray:
            v = v - normal * (normal @ v)
            v = hessian @ v + multiplier * v
            return v - normal * (normal @ v)

        top = largest_magnitude(_operator(x.size, tangent), tolerance=1e-4)
        if top == 0:
            return 0.0
        # Shifted, the smallest eigenvalue is the largest one, which Lanczos finds without inverses.
        flipped = largest_magnitude(_operator(x.size, lambda v: top * v - tangent(v)), tolerance=1e-4)
        return 1 - flipped / top


def _run(objective: _Objective, max_iterations: int, report: Report) -> Run:
    start, radius = objective.start, objective.radius
    x = start.ravel()
    if not np.isfinite(objective.state(x).value):
        return Run(
            X=start,
            status=FitStatus.NONFINITE,
            iterations=0,
            log_objective=np.nan,
            log_loss_normalized=np.nan,
            log_loss_rescaled=np.nan,
            gradient_cosine=np.nan,
            fit_norm=np.nan,
            multiplier=0.0,
            curvature=None,
            distance=0.0,
        )
    x, iterations = _minimize(
        objective,
        x,
        max_iterations,
        report,
        method="trust-ncg",
        hessp=lambda x, v: objective.hessian(x) @ v,
        options={"gtol": 0.0},
    )
    if radius is not None and np.linalg.norm(x) > radius:
        # From half way out at most: an interior-point method needs room around its start.
        inside = start * min(1.0, 0.5 * radius / (frobenius(start) or 1.0))
        objective = objective.started_at(inside)
        x, iterations = _minimize(
            objective,
            inside.ravel(),
            max_iterations,
            report,
            method="trust-constr",
            hess=objective.hessian,
            constraints=[_ball(radius, x.size)],
            options={"gtol": 0.0, "xtol": 1e-15, "barrier_tol": 1e-15},
        )
        # Rounding may leave the ball by an eps.
        x = x * min(1.0, radius / (frobenius(x) or 1.0))
    curvature = None
    if objective.converged(x):
        curvature = objective.curvature(x)
        status = FitStatus.SADDLE if curvature < -CURVATURE_TOLERANCE else FitStatus.OK
    else:
        status = FitStatus.MAX_ITERATIONS if iterations >= max_iterations else FitStatus.NOT_CONVERGED
    X = x.reshape(start.shape)
    gradient_cosine, fit_norm = objective.residuals(x)
    return Run(
        X=X,
        status=status,
        iterations=iterations,
        log_objective=objective.log_value(x),
        log_loss_normalized=log_loss(objective.problem, X, Loss.NORMALIZED),
        log_loss_rescaled=log_loss(objective.problem, X, Loss.RESCALED),
        gradient_cosine=gradient_cosine,
        fit_norm=fit_norm,
        multiplier=objective.multiplier(x) / (objective.state(x).value or 1.0),
        curvature=curvature,
        distance=frobenius(X - start),
    )


def _minimize(
    objective: _Objective,
    x: np.ndarray,
    max_iterations: int,
    report: Report,
    *,
    options: dict[str, float],
    **method: Any,
) -> tuple[np.ndarray, int]:
    """Run a method of scipy, whose own tolerances are off, until the objective calls it converged."""
    if objective.converged(x):
        return x, 0
    iterations = 0

    def watch(x: np.ndarray, *_: Any) -> None:
        nonlocal iterations
        iterations += 1
        report(iterations, objective, x)
        if objective.converged(x):
            raise StopIteration

    def value_and_slope(x: np.ndarray) -> tuple[float, np.ndarray]:
        state = objective.state(x)
        return state.value, state.slope

    result = minimize(
        value_and_slope, x, jac=True, callback=watch, options=options | {"maxiter": max_iterations}, **method
    )
    return result.x, iterations


def _operator(size: int, product: Callable[[np.ndarray], np.ndarray]) -> LinearOperator:
    return LinearOperator((size, size), matvec=lambda v: product(np.ravel(v)), dtype=np.dtype(np.float64))


def _ball(radius: float, size: int) -> NonlinearConstraint:
    """|X|_F <= radius, squared so that it is smooth at the origin."""
    return NonlinearConstraint(
        lambda x: x @ x / 2,
        -np.inf,
        radius**2 / 2,
        jac=lambda x: x[None, :],
        hess=lambda _, multiplier: _operator(size, lambda v: multiplier[0] * v),
    )


def _count(problem: Problem, kind: Loss, runs: Sequence[Run]) -> Fit:
    """Number the distinct minima, best first."""
    minima: list[np.ndarray] = []
    numbers: dict[int, int] = {}
    converged = [index for index, run in enumerate(runs) if run.status is FitStatus.OK]
    for index in sorted(converged, key=lambda index: runs[index].log_objective):
        same = (number for number, X in enumerate(minima) if _same(problem, kind, X, runs[index].X))
        numbers[index] = next(same, len(minima))
        if numbers[index] == len(minima):
            minima.append(runs[index].X)
    numbered = (replace(run, minimum=numbers.get(index)) for index, run in enumerate(runs))
    return Fit(kind, tuple(numbered), len(minima))


def _same(problem: Problem, kind: Loss, X: np.ndarray, Y: np.ndarray) -> bool:
    """Whether two minima predict the same: weights may differ by what the loss does not see."""
    squares = growth = 0.0
    for one, other in zip(forward(problem, X), forward(problem, Y), strict=True):
        squares += float(np.sum((one.F - other.F) ** 2))
        growth = max(growth, float(np.abs(one.log_alpha - other.log_alpha).max()))
    alike = np.sqrt(squares / problem.shape[0]) < DISTINCT
    return bool(alike and (kind is Loss.NORMALIZED or growth < DISTINCT))
