"""The Lipschitz bounds hold on random draws, are ordered, and are not vacuous."""

from typing import Any

import numpy as np
import pytest

from replica.exceptions import InputError
from replica.softmax import (
    Hessian,
    Loss,
    Problem,
    ball,
    evaluate,
    lipschitz_panel,
    log_ball,
    log_box,
    log_global,
    log_point,
    log_r_form,
    logit_bound,
    measured_at,
    measured_between,
    random_instance,
    segment,
)
from replica.softmax.lipschitz import GLOBAL_CONSTANT, jacobian_bound, largest_magnitude, softmax_bounds
from replica.softmax.losses import forward
from replica.softmax.problem import on_sphere

ROUNDING = 1e-9
"""In a logarithm: where a bound is attained, both sides are sums of products that carry a few eps each."""


def draw(seed: int) -> tuple[Problem, np.ndarray, np.random.Generator]:
    """A problem of random shape, scale and labels, signed or on the simplex, with weights."""
    generator = np.random.default_rng(seed)
    m, n, d1, d2 = (int(size) for size in generator.integers(1, [5, 6, 4, 4]))
    A1 = 10 ** generator.uniform(-1, 0.5) * generator.standard_normal((m, d1))
    A2 = generator.standard_normal((n, d2))
    if seed % 2:
        B = 10 ** generator.uniform(-2, 1) * generator.standard_normal((m, n))
    else:
        B = generator.dirichlet(np.full(n, 10 ** generator.uniform(-1, 1)), size=m)
    X = 10 ** generator.uniform(-1, 0.5) * generator.standard_normal((d1, d2))
    return Problem(A1, A2, B), X, generator


def measured_over_bound(seed: int) -> dict[str, float]:
    """By bound: the logarithm of what was measured over the bound, at most 0 if it holds."""
    problem, X, generator = draw(seed)
    radius = float(np.linalg.norm(X))
    Y = on_sphere(generator, X.shape, radius * generator.uniform())
    ratios: dict[str, float] = {}
    for kind in Loss:
        at, there = measured_at(problem, X, kind), measured_at(problem, Y, kind)
        between = measured_between(problem, X, Y, kind)
        region = max(at, there, between if between is not None else -np.inf)
        around = log_box(problem, ball(problem, np.zeros_like(X), radius), kind)
        bounds = {
            "point": (at, log_point(problem, X, kind)),
            "box of the ball": (region, around),
            "box of the segment": (region, log_box(problem, segment(problem, X, Y), kind)),
            "ball": (region, log_ball(problem, radius, kind)),
            "box below ball": (around, log_ball(problem, radius, kind)),
            "point below box": (log_point(problem, X, kind), around),
        }
        if kind is Loss.NORMALIZED:
            bounds["global"] = (region, log_global(problem))
        elif (problem.labels.norm <= 1).all():
            bounds["R-form"] = (region, log_r_form(problem, radius))
        for name, (measured, bound) in bounds.items():
            # Both are -inf where the loss is constant.
            ratios[f"{kind} {name}"] = -np.inf if measured == -np.inf else measured - bound
    return ratios


# How near the measured values come to the bounds over the draws, as factors: bounds that lie below these are
# not vacuous. The R-form replaces every logit by R^2, and is.
REACHED = {
    "normalized point": 0.5,
    "normalized box of the ball": 0.4,
    "normalized box of the segment": 0.4,
    "normalized ball": 0.3,
    "normalized global": 0.3,
    "rescaled point": 0.99,
    "rescaled box of the ball": 0.9,
    "rescaled box of the segment": 0.9,
    "rescaled ball": 0.9,
}


@pytest.mark.parametrize("draws", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_every_bound_holds_and_is_reached(draws: int) -> None:
    largest: dict[str, float] = {}
    for seed in range(draws):
        for name, ratio in measured_over_bound(seed).items():
            assert ratio <= ROUNDING, (seed, name)
            largest[name] = max(largest.get(name, -np.inf), ratio)
    for name, reached in REACHED.items():
        assert np.exp(largest[name]) >= reached, name


def test_without_labels_the_exponential_is_attained() -> None:
    """m = n = 1, b = 0: L_R = e^(2 x) / 2, whose second derivative at x = Lam is 2 e^(2 Lam)."""
    problem = Problem([[1.0]], [[1.0]], [[0.0]])
    for radius in (0.5, 3.0, 400.0):
        expected = np.log(2) + 2 * radius
        assert measured_at(problem, [[radius]], "rescaled") == pytest.approx(expected, rel=1e-15)
        assert log_ball(problem, radius, "rescaled") == pytest.approx(expected, rel=1e-15)
        box = log_box(problem, ball(problem, [[0.0]], radius), "rescaled")
        assert box == pytest.approx(expected, rel=1e-15)


def test_the_normalised_constant_is_free_of_the_radius() -> None:
    problem = random_instance(6, 2, seed=1).problem
    assert log_ball(problem, 1.0) == log_ball(problem, 1e6) == log_global(problem)
    assert log_global(problem, "rescaled") == np.inf


def test_the_row_bound_without_labels_stays_below_one_half() -> None:
    """l^2 + r l at b = 0, searched over the simplex; the 0.52 of the global bound leaves slack."""
    generator = np.random.default_rng(0)
    top = 0.0
    for n in (2, 3, 5, 20):
        # Small concentrations reach the corners and edges, where the largest values lie.
        for concentration in (0.02, 0.1, 0.5, 2.0):
            F = generator.dirichlet(np.full(n, concentration), size=20_000)
            slope = jacobian_bound(F, F)
            spread = np.abs(F - (F * F).sum(axis=1, keepdims=True)).max(axis=1)
            top = max(top, float((slope * (slope + spread)).max()))
    assert 0.49 < top <= 0.5 + 1e-12 < GLOBAL_CONSTANT


def test_the_box_shrinks_to_the_point_and_grows_to_the_ball() -> None:
    instance = random_instance(8, 3, seed=5, radius=1.0)
    problem, X = instance.problem, instance.X
    for kind in Loss:
        values = [log_box(problem, ball(problem, X, radius), kind) for radius in (0, 1e-9, 0.01, 0.1, 1)]
        assert values[0] == log_point(problem, X, kind)
        assert values[1] == pytest.approx(values[0], abs=1e-7)
        assert values == sorted(values)


def test_softmax_bounds_are_attained_and_safe_at_extreme_boxes() -> None:
    lo, hi = np.array([[-1.0, 0.0, -900.0]]), np.array([[2.0, 0.5, 800.0]])
    low, high = softmax_bounds(lo, hi)

    def softmax(S: list[float]) -> np.ndarray:
        U = np.exp(np.array(S) - max(S))
        return U / U.sum()

    assert high[0, 0] == pytest.approx(softmax([2.0, 0.0, -900.0])[0], rel=1e-14)
    assert low[0, 1] == pytest.approx(softmax([2.0, 0.0, 800.0])[1], rel=1e-14)
    assert low[0, 2] == pytest.approx(softmax([2.0, 0.5, -900.0])[2], abs=1e-300)
    assert high[0, 2] == 1


def test_the_largest_logit_is_attained_on_the_ball() -> None:
    instance = random_instance(7, 3, seed=2)
    problem = instance.problem
    a1, a2 = (A[np.linalg.norm(A, axis=1).argmax()] for A in (problem.A1, problem.A2))
    X = 2.5 * np.outer(a1, a2) / (np.linalg.norm(a1) * np.linalg.norm(a2))
    largest = max(block.max_abs_logit for block in forward(problem, X))
    assert largest == pytest.approx(logit_bound(problem, 2.5), rel=1e-14)


def test_lanczos_finds_the_largest_eigenvalue() -> None:
    instance = random_instance(30, 5, seed=3, radius=2.0)
    for kind in Loss:
        hessian = Hessian(instance.problem, instance.X, kind)
        dense = hessian @ np.eye(25)
        assert dense == pytest.approx(dense.T, abs=1e-13 * np.abs(dense).max())
        exact = np.abs(np.linalg.eigvalsh(dense)).max()
        # Lanczos was asked for 1e-8 in the residual, whose square is the error of an eigenvalue.
        assert largest_magnitude(hessian) == pytest.approx(exact, rel=1e-12)


def test_the_panel_orders_what_it_shows() -> None:
    instance = random_instance(12, 3, seed=4, radius=1.0)
    for kind in Loss:
        panel = lipschitz_panel(instance.problem, instance.X, kind, radius=2.0, points=3)
        assert panel.points == 7
        assert panel.gradient_ratio is not None
        measured = max(panel.lanczos_ball, panel.gradient_ratio)
        assert panel.lanczos_point <= panel.point + ROUNDING
        assert panel.lanczos_point <= panel.lanczos_ball
        assert measured <= panel.box <= panel.ball + ROUNDING <= panel.everywhere + 2 * ROUNDING
    assert panel.r_form is not None
    assert panel.ball < panel.r_form


def test_the_measured_rescaled_constant_grows_as_its_bound() -> None:
    instance = random_instance(10, 2, seed=0, radius=1.0)
    found = [
        lipschitz_panel(instance.problem, instance.X, "rescaled", radius=radius, points=0)
        for radius in (4.0, 8.0)
    ]
    growth = found[1].lanczos_ball - found[0].lanczos_ball
    # Both are dominated by e^(2 Lam), and Lam is linear in the radius; the factor before it is bounded.
    assert growth == pytest.approx(found[1].ball - found[0].ball, rel=0.05)


def test_a_single_key_has_constant_zero() -> None:
    problem = Problem([[1.0], [2.0]], [[3.0]], [[0.5], [1.0]])
    panel = lipschitz_panel(problem, [[0.7]])
    assert panel.everywhere == panel.ball == panel.box == panel.point == -np.inf
    assert panel.lanczos_ball == -np.inf
    assert panel.gradient_ratio == -np.inf


def test_equal_points_have_no_ratio() -> None:
    instance = random_instance(4, 2, seed=0)
    assert measured_between(instance.problem, instance.X, instance.X) is None
    at_origin = lipschitz_panel(instance.problem, np.zeros((2, 2)), points=0)
    assert at_origin.gradient_ratio is None
    assert at_origin.lanczos_point <= at_origin.point


def test_panel_agrees_with_the_gradient_itself() -> None:
    instance = random_instance(5, 2, seed=8)
    X, Y = instance.X, instance.X + 0.1
    slopes = [evaluate(instance.problem, Z, wrt=("X",)).gradients["X"].value for Z in (X, Y)]
    expected = np.linalg.norm(slopes[0] - slopes[1]) / np.linalg.norm(X - Y)
    assert np.exp(measured_between(instance.problem, X, Y)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"radius": 0.5}, r"radius = 0.5 is below \|X\|_F = 1"),
        ({"radius": np.nan}, r"radius = nan is outside the allowed range \[0, inf\)"),
        ({"points": -1}, r"points = -1 is outside the allowed range: integers from 0"),
        ({"kind": "rescaled", "R": 1.0}, r"R = 1 is outside .* the R-form assumes that R bounds \|K\|"),
        ({"kind": "cubic"}, r"loss = 'cubic' is not one of normalized, rescaled"),
    ],
)
def test_bad_input(options: dict[str, Any], message: str) -> None:
    instance = random_instance(6, 2, seed=0, radius=1.0)
    with pytest.raises(InputError, match=message):
        lipschitz_panel(instance.problem, instance.X, **options)


def test_the_r_form_refuses_long_labels() -> None:
    problem = Problem([[0.1]], [[0.1]], [[2.0]])
    with pytest.raises(InputError, match=r"max_j \|b_j\| = 2 is outside the allowed range \[0, 1\]"):
        log_r_form(problem, 1.0)
    assert lipschitz_panel(problem, [[1.0]], "rescaled").r_form is None
