"""The label shift: its identity, its bounds on random draws, its expansion, its limits."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import attention_arrays

from replica.exceptions import InputError
from replica.softmax import (
    Loss,
    Problem,
    evaluate,
    gradient,
    gradient_step,
    label_shift,
    loss,
    random_instance,
    repeated_steps,
    shifted_labels,
)

each_kind = pytest.mark.parametrize("kind", tuple(Loss))


def steps(seed: int) -> tuple[Problem, np.ndarray, dict[str, Any]]:
    """A problem, weights, and a step of the weights, of the data or of both, of size 1e-6 to 10."""
    generator = np.random.default_rng(seed)
    m, n, d1, d2 = (int(size) for size in generator.integers(1, [5, 6, 4, 4]))
    A1, A2 = generator.standard_normal((m, d1)), generator.standard_normal((n, d2))
    if seed % 2:
        B = 10 ** generator.uniform(-2, 0.5) * generator.standard_normal((m, n))
    else:
        B = generator.dirichlet(np.full(n, 10 ** generator.uniform(-1, 1)), size=m)
    X = 10 ** generator.uniform(-1, 0.5) * generator.standard_normal((d1, d2))
    size = 10 ** generator.uniform(-6, 1)
    step: dict[str, Any] = {}
    if seed % 3 != 1:
        step["X_next"] = X + size * generator.standard_normal((d1, d2))
    if seed % 3 != 0:
        step["A1_next"] = A1 + size * generator.standard_normal((m, d1))
        step["A2_next"] = A2 + size * generator.standard_normal((n, d2))
    return Problem(A1, A2, B), X, step


def ratio_of(value: float, bound: float) -> float:
    """The logarithm of value / bound; -inf where the value is not positive."""
    return float(np.log(value / bound)) if value > 0 else -np.inf


# How near |B~ - B| comes to its bounds over the draws. The R-form replaces every logit by R^2.
REACHED = {
    "normalized interval": 0.95,
    "normalized half": 0.9,
    "normalized weights": 0.9,
    "normalized saturation": 0.9,
    "normalized remainder": 0.2,
    "normalized gradient_mismatch": 0.1,
    "rescaled interval": 0.9,
    "rescaled step": 0.9,
    "rescaled step_simple": 0.9,
}


@pytest.mark.parametrize("draws", [600, pytest.param(10_000, marks=pytest.mark.slow)])
def test_every_bound_holds_and_is_reached(draws: int) -> None:
    largest: dict[str, float] = {}
    for seed in range(draws):
        problem, X, step = steps(seed)
        ratios: dict[str, float] = {}
        for kind in Loss:
            shift = label_shift(problem, X, kind=kind, **step)
            ratios |= {f"{kind} {name}": shift.log_norm - bound for name, bound in shift.log_bounds.items()}
            # Rounding of the logits, which grow by |Delta S|.
            assert shift.residual_identity < 1e-15 * (100 + shift.logit_step)
        normalized = label_shift(problem, X, **step)
        assert normalized.remainder is not None
        assert normalized.remainder_bound is not None
        # The remainder is a difference of two moves, each with a few eps.
        remainder = normalized.remainder - 1e-14 * normalized.norm
        ratios["normalized remainder"] = ratio_of(remainder, normalized.remainder_bound)
        if normalized.gradient_mismatch is not None:
            assert normalized.gradient_mismatch_bound is not None
            ratios["normalized gradient_mismatch"] = ratio_of(
                normalized.gradient_mismatch, normalized.gradient_mismatch_bound
            )
        for name, ratio in ratios.items():
            # Where a bound is attained both sides carry a few eps.
            assert not ratio > 1e-12, (seed, name)
            largest[name] = max(largest.get(name, -np.inf), ratio)
    for name, reached in REACHED.items():
        assert np.exp(largest[name]) >= reached, name


@each_kind
@settings(deadline=None, max_examples=60)
@given(arrays=attention_arrays())
def test_old_weights_with_new_labels_have_the_new_residuals(
    kind: Loss, arrays: dict[str, np.ndarray]
) -> None:
    problem = Problem(arrays["A1"], arrays["A2"], arrays["B"])
    X, X_next = arrays["X"], arrays["X"] + 0.1 * arrays["V"]
    shift = label_shift(problem, X, X_next, kind)
    labels = shifted_labels(problem, X, X_next, kind)
    assert np.linalg.norm(labels - problem.B) == pytest.approx(shift.norm, rel=1e-9, abs=1e-14)
    relabelled = Problem(arrays["A1"], arrays["A2"], labels)
    expected = loss(problem, X_next, kind)
    # The rounding of the labels, times the weights alpha_t of their rows.
    weight = np.exp(evaluate(problem, X, kind, wrt=()).log_row_weight / 2)
    slack = 1e-13 * weight * (1 + np.abs(labels).max() + np.abs(problem.B).max())
    assert np.sqrt(2 * loss(relabelled, X, kind)) == pytest.approx(np.sqrt(2 * expected), abs=slack)
    assert np.exp(shift.log_loss_next) == pytest.approx(expected, rel=1e-11)
    assert np.exp(shift.log_loss_now) == pytest.approx(loss(problem, X, kind), rel=1e-11)


@each_kind
def test_a_tiny_step_keeps_its_digits(kind: Loss) -> None:
    """At 1e-9 the difference of two softmaxes would keep 7 digits; the linear part is exact to 1e-9."""
    instance = random_instance(6, 3, seed=1, radius=2.0)
    problem, X = instance.problem, instance.X
    direction = np.random.default_rng(0).standard_normal(X.shape)
    large, small = (label_shift(problem, X, X + size * direction, kind).norm for size in (1e-7, 1e-9))
    assert small / large == pytest.approx(1e-2, rel=1e-5)
    doubled = label_shift(problem, X, X + 2e-9 * direction, kind).norm
    # X + 1e-9 V rounds to eps / 1e-9 = 2e-7 of the step.
    assert doubled / small == pytest.approx(2, rel=1e-6)


def test_the_slopes_of_a_gradient_step() -> None:
    """The linear part grows as the size, the remainder as its square."""
    instance = random_instance(10, 3, seed=2, radius=2.0)
    problem, X = instance.problem, instance.X
    sizes = np.geomspace(1e-4, 1e-2, 5)
    shifts = [label_shift(problem, X, gradient_step(problem, X, size)) for size in sizes]
    linear = np.polyfit(np.log(sizes), np.log([s.linear_norm for s in shifts]), 1)[0]
    remainder = np.polyfit(np.log(sizes), np.log([s.remainder for s in shifts]), 1)[0]
    assert linear == pytest.approx(1, abs=1e-6)
    # The next order is smaller by the size itself.
    assert remainder == pytest.approx(2, abs=0.02)


def test_the_linear_part_is_theta_applied_to_the_residual() -> None:
    instance = random_instance(4, 2, m=3, seed=3, radius=2.0)
    problem, X = instance.problem, instance.X
    K = np.kron(problem.A1, problem.A2)
    U = np.exp((K @ X.ravel()).reshape(problem.B.shape))
    F = U / U.sum(axis=1, keepdims=True)
    J = np.zeros((12, 12))
    for j, f in enumerate(F):
        J[4 * j : 4 * j + 4, 4 * j : 4 * j + 4] = np.diag(f) - np.outer(f, f)
    theta = J @ K @ K.T @ J
    size = 1e-3
    expected = size * theta @ (F - problem.B).ravel()
    shift = label_shift(problem, X, gradient_step(problem, X, size))
    assert shift.linear_norm == pytest.approx(np.linalg.norm(expected), rel=1e-10)
    moved = shifted_labels(problem, X, gradient_step(problem, X, size)) - problem.B
    assert shift.remainder is not None
    assert np.linalg.norm(moved.ravel() - expected) == pytest.approx(shift.remainder, rel=1e-6)


def test_a_large_step_saturates() -> None:
    # Both rows jump from one key to the other.
    problem = Problem([[1.0], [2.0]], [[1.0], [-1.0]], [[0.5, 0.5], [0.5, 0.5]])
    shift = label_shift(problem, [[50.0]], [[-50.0]])
    assert shift.norm == pytest.approx(np.sqrt(2 * 2), rel=1e-14)
    assert shift.bounds["saturation"] == pytest.approx(shift.norm, rel=1e-14)


@each_kind
def test_labels_keep_their_row_sums_and_may_leave_the_simplex(kind: Loss) -> None:
    instance = random_instance(5, 2, seed=4, radius=1.0)
    problem, X = instance.problem, instance.X
    for size, inside in ((1e-3, True), (30.0, False)):
        X_next = X + size * np.eye(2)
        labels = shifted_labels(problem, X, X_next, kind)
        assert labels.sum(axis=1) == pytest.approx(np.ones(5), abs=1e-12 * np.abs(labels).max())
        assert label_shift(problem, X, X_next, kind).in_simplex is inside
        assert bool((labels >= 0).all()) is inside


def test_gradients_do_not_match() -> None:
    instance = random_instance(5, 2, seed=5, radius=1.0)
    problem, X = instance.problem, instance.X
    X_next = X + 0.5
    shift = label_shift(problem, X, X_next)
    relabelled = Problem(problem.A1, problem.A2, shifted_labels(problem, X, X_next))
    difference = np.linalg.norm(gradient(relabelled, X) - gradient(problem, X_next))
    assert shift.gradient_mismatch == pytest.approx(difference, rel=1e-12)
    assert difference > 1e-3 * np.linalg.norm(gradient(problem, X_next))


@each_kind
def test_no_step_is_no_shift_and_has_no_ratio(kind: Loss) -> None:
    instance = random_instance(5, 2, seed=6)
    shift = label_shift(instance.problem, instance.X, instance.X, kind)
    assert shift.norm == shift.logit_step == 0
    assert shift.in_simplex
    ratios = shift.ratios
    assert ratios.pop("saturation", 0.0) == 0
    assert set(ratios.values()) == {None}


def test_one_key_never_shifts_the_normalised_labels() -> None:
    problem = Problem([[1.0], [2.0]], [[3.0]], [[0.5], [1.0]])
    shift = label_shift(problem, [[0.7]], [[0.9]])
    assert shift.norm == 0
    assert shift.bounds["interval"] == 0
    assert shift.ratios["interval"] is None


def test_a_shift_beyond_the_doubles_keeps_its_logarithm() -> None:
    problem = Problem([[1.0]], [[1.0], [0.0]], [[0.5, 0.5]])
    shift = label_shift(problem, [[0.0]], [[2000.0]], "rescaled")
    # Delta u = (e^2000 - 1, 0), alpha_t = 2, b = (1/2, 1/2): |Delta| = e^2000 / 2 * |(1/2, -1/2)|.
    assert shift.log_norm == pytest.approx(2000 - np.log(2) - np.log(2) / 2, rel=1e-15)
    with pytest.raises(OverflowError, match=r"the shift of the rescaled loss .* its logarithm is 1998\.9"):
        _ = shift.norm
    with pytest.raises(OverflowError, match=r"its logarithm is 1998\.9"):
        shifted_labels(problem, [[0.0]], [[2000.0]], "rescaled")
    assert not shift.in_simplex
    assert shift.residual_identity < 1e-15
    assert shift.log_loss_shifted == pytest.approx(shift.log_loss_next, rel=1e-15)
    assert all(value >= shift.log_norm for value in shift.log_bounds.values())
    assert label_shift(problem, [[0.0]], [[2000.0]]).norm == pytest.approx(np.sqrt(0.5), rel=1e-15)


@each_kind
def test_repeated_steps_are_a_sequence_of_labels(kind: Loss) -> None:
    instance = random_instance(6, 2, seed=7, radius=1.0)
    problem, X = instance.problem, instance.X
    size = 0.05 if kind is Loss.NORMALIZED else 1e-4
    sequence = repeated_steps(problem, X, size, 4, kind)
    assert len(sequence.shifts) == 4
    assert sequence.path.shape == (5, 2, 2)
    assert (sequence.labels(0) == problem.B).all()
    for index in range(1, 5):
        expected = gradient_step(problem, sequence.path[index - 1], size, kind)
        assert (sequence.path[index] == expected).all()
        relabelled = Problem(problem.A1, problem.A2, sequence.labels(index))
        assert loss(relabelled, X, kind) == pytest.approx(
            loss(problem, sequence.path[index], kind), rel=1e-12
        )
    assert sequence.increments[0] == pytest.approx(sequence.shifts[0].norm, rel=1e-9)
    # Descent: the labels move towards what the weights at the start predict.
    losses = [sequence.shifts[0].log_loss_now, *(shift.log_loss_next for shift in sequence.shifts)]
    assert losses == sorted(losses, reverse=True)


def test_steps_that_are_too_long_name_where_they_overflow() -> None:
    instance = random_instance(40, 3, seed=0, radius=2.0)
    X_1 = gradient_step(instance.problem, instance.X, 0.5, "rescaled")
    with pytest.raises(OverflowError) as alone:
        gradient_step(instance.problem, X_1, 0.5, "rescaled")
    with pytest.raises(OverflowError) as refused:
        repeated_steps(instance.problem, instance.X, 0.5, 10, "rescaled")
    assert str(refused.value) == (f"gradient step 2 of 10: {alone.value}; take a step size below 0.5")
    with pytest.raises(OverflowError, match=r"^weights not finite after a gradient step of size 1e\+308$"):
        repeated_steps(Problem([[1.0]], [[9.0], [0.0]], [[0.0, 1.0]]), [[9.0]], 1e308, 2, "rescaled")
    # Finite weights, whose logits are not.
    with pytest.raises(OverflowError, match=r"^gradient step 1 of 2: logits not finite; take a step size"):
        repeated_steps(Problem([[1.0]], [[9.0], [0.0]], [[0.0, 1.0]]), [[0.0]], 5e306, 2, "rescaled")
    # At the start no step is to blame.
    with pytest.raises(OverflowError, match=r"^the gradient of the rescaled loss in X is not rep"):
        repeated_steps(Problem([[1.0]], [[800.0], [0.0]], [[0.0, 1.0]]), [[1.0]], 0.5, 2, "rescaled")


def test_row_blocks_change_nothing() -> None:
    problem, X, step = steps(2)
    for kind in Loss:
        whole, parts = (label_shift(problem, X, kind=kind, block_rows=rows, **step) for rows in (None, 1))
        assert parts.log_norm == pytest.approx(whole.log_norm, abs=1e-14)
        assert parts.log_bounds == pytest.approx(whole.log_bounds, abs=1e-14)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"X_next": np.ones((3, 2))}, r"X_next of shape \(3, 2\) does not fit .* allowed is shape \(2, 2\)"),
        (
            {"A1_next": np.ones((4, 2))},
            r"A1_next of shape \(4, 2\) does not fit A1; allowed is shape \(5, 2\)",
        ),
        ({"A2_next": [[np.inf]]}, r"A2_next of shape \(1, 1\) holds inf; allowed are finite numbers"),
        ({"R": 0.5}, r"R = 0.5 is outside the allowed range .* R-form assumes that R bounds"),
        ({"X_next": 1e3 * np.ones((2, 2)), "R": 100.0}, r"R bounds \|X_next\|_F = 2000"),
        ({"X_next": 1e200 * np.ones((2, 2)), "A1_next": 1e110 * np.ones((5, 2))}, "logits not finite"),
    ],
)
def test_bad_input(step: dict[str, Any], message: str) -> None:
    instance = random_instance(5, 2, seed=0)
    with pytest.raises((InputError, OverflowError), match=message):
        label_shift(instance.problem, instance.X, **step)


@pytest.mark.parametrize(("size", "count"), [(np.nan, 1), (0.1, 0), (0.1, 1.5)])
def test_bad_repeated_steps(size: float, count: int) -> None:
    instance = random_instance(5, 2, seed=0)
    with pytest.raises(InputError, match=r"step size = nan|steps = (0|1\.5) is outside"):
        repeated_steps(instance.problem, instance.X, size, count)
