"""Losses, gradients and Hessian-vector products against independent forms of them."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import attention_arrays

from replica.softmax import (
    Hessian,
    KroneckerOperator,
    Loss,
    Problem,
    StoredMatrix,
    evaluate,
    gradient,
    hessian_product,
    log_loss,
    loss,
    random_instance,
)

KINDS = tuple(Loss)
STEP = 1e-30
"""Of the complex step; its error is STEP^2, so that rounding alone is left."""

Arrays = dict[str, np.ndarray]
each_kind = pytest.mark.parametrize("kind", KINDS)


def written_out(arrays: Arrays, kind: str) -> complex:
    """The loss as defined, without any care for its range; takes complex arrays."""
    U = np.exp(arrays["A1"] @ arrays["X"] @ arrays["A2"].T)
    alpha = U.sum(axis=1, keepdims=True)
    residual = U / alpha - arrays["B"] if kind == "normalized" else U - alpha * arrays["B"]
    return complex((residual**2).sum() / 2)


def complex_step(arrays: Arrays, kind: str, name: str) -> np.ndarray:
    slopes = np.empty_like(arrays[name])
    for index in np.ndindex(slopes.shape):
        moved = arrays[name].astype(complex)
        moved[index] += STEP * 1j
        slopes[index] = written_out(arrays | {name: moved}, kind).imag / STEP
    return slopes


def problem_of(arrays: Arrays) -> Problem:
    return Problem(arrays["A1"], arrays["A2"], arrays["B"])


@each_kind
@settings(deadline=None, max_examples=60)
@given(arrays=attention_arrays())
def test_gradients_equal_the_complex_step(kind: Loss, arrays: Arrays) -> None:
    result = evaluate(problem_of(arrays), arrays["X"], kind)
    # A residual alpha |f - b| is a difference that may cancel, and so is a gradient: its terms are of the
    # size of a residual times alpha (1 + |b|) times the factors among A1, A2, X.
    residual = np.exp(result.log_row_weight / 2) * (1 + np.linalg.norm(arrays["B"]))
    factors = np.prod([1 + np.linalg.norm(arrays[name]) for name in ("A1", "A2", "X")])
    value = written_out(arrays, kind).real
    assert result.loss == pytest.approx(value, rel=1e-12, abs=(1e-14 * residual * factors) ** 2)
    for name, scaled in result.gradients.items():
        expected = complex_step(arrays, kind, name)
        assert np.abs(scaled.value - expected).max() <= 1e-13 * residual**2 * factors
        assert np.linalg.norm(scaled.value) == pytest.approx(
            np.exp(result.log_gradient_norms[name]), rel=1e-12
        )


@each_kind
@settings(deadline=None, max_examples=60)
@given(arrays=attention_arrays())
def test_hessian_products_equal_the_complex_step_of_the_gradient(kind: Loss, arrays: Arrays) -> None:
    def slope(X: np.ndarray) -> np.ndarray:
        """The gradient by its chain rule through U, with complex X."""
        A1, A2, B = arrays["A1"], arrays["A2"], arrays["B"]
        U = np.exp(A1 @ X @ A2.T)
        alpha = U.sum(axis=1, keepdims=True)
        if kind is Loss.NORMALIZED:
            F = U / alpha
            G = F * (F - B) - F * (F * (F - B)).sum(axis=1, keepdims=True)
        else:
            Q = U - alpha * B
            G = U * (Q - (B * Q).sum(axis=1, keepdims=True))
        return A1.T @ G @ A2

    problem, X, V = problem_of(arrays), arrays["X"], arrays["V"]
    expected = slope(X + STEP * 1j * V).imag / STEP
    found = hessian_product(problem, X, V, kind).value
    result = evaluate(problem, X, kind, wrt=())
    # Terms of second derivatives, which cancel: |K|^2 |V| times alpha^2 (1 + |b|)^2.
    size = np.exp(result.log_row_weight) * (1 + np.linalg.norm(arrays["B"])) ** 2
    size *= (np.linalg.norm(arrays["A1"]) * np.linalg.norm(arrays["A2"])) ** 2 * np.linalg.norm(V)
    assert np.abs(found - expected).max() <= 1e-13 * size * (1 + np.abs(X).max())
    again = Hessian(problem, X, kind)
    assert (again @ V.ravel()) * np.exp(again.log_scale) == pytest.approx(found.ravel(), abs=1e-15 * size)


@each_kind
@pytest.mark.parametrize("order", ["row-major", "column-major"])
def test_derivatives_equal_those_through_the_dense_kronecker_matrix(kind: Loss, order: str) -> None:
    instance = random_instance(5, 3, m=4, seed=3, radius=2.0)
    problem, X = instance.problem, instance.X
    letter = "C" if order == "row-major" else "F"
    pair = (problem.A1, problem.A2) if order == "row-major" else (problem.A2, problem.A1)
    K = np.kron(*pair)
    S = (K @ X.ravel(order=letter)).reshape(problem.B.shape, order=letter)
    U = np.exp(S)
    alpha = U.sum(axis=1, keepdims=True)
    gradient_rows, hessian = np.empty_like(U), np.zeros((U.size, U.size))
    places = np.arange(U.size).reshape(U.shape, order=letter)
    for j, (u, b) in enumerate(zip(U, problem.B, strict=True)):
        f = u / u.sum()
        if kind is Loss.NORMALIZED:
            J, c = np.diag(f) - np.outer(f, f), f - b
            gradient_rows[j] = J @ c
            centred = c - f @ c
            # The third derivative of log sum exp, contracted with c.
            third = np.diag(f * centred) - np.outer(f * centred, f) - np.outer(f, f * centred)
            block = J @ J + third
        else:
            J, q = np.diag(u) - np.outer(b, u), u - alpha[j] * b
            gradient_rows[j] = J.T @ q
            block = J.T @ J + np.diag(gradient_rows[j])
        hessian[np.ix_(places[j], places[j])] = block
    slope = (K.T @ gradient_rows.ravel(order=letter)).reshape(X.shape, order=letter)
    assert gradient(problem, X, kind) == pytest.approx(slope, rel=1e-12, abs=1e-13 * np.abs(slope).max())
    V = np.random.default_rng(0).standard_normal(X.shape)
    product = (K.T @ (hessian @ (K @ V.ravel(order=letter)))).reshape(X.shape, order=letter)
    found = hessian_product(problem, X, V, kind).value
    assert found == pytest.approx(product, rel=1e-12, abs=1e-13 * np.abs(product).max())


@pytest.mark.parametrize("order", ["row-major", "column-major"])
def test_the_operator_is_the_kronecker_matrix(order: str) -> None:
    generator = np.random.default_rng(5)
    A1, A2 = generator.standard_normal((4, 3)), generator.standard_normal((5, 2))
    K = np.kron(A1, A2) if order == "row-major" else np.kron(A2, A1)
    operator = KroneckerOperator(A1, A2, order)  # type: ignore[arg-type]
    # Sums of three products of numbers of order one.
    assert operator @ np.eye(6) == pytest.approx(K, abs=1e-14)
    assert operator.T @ np.eye(20) == pytest.approx(K.T, abs=1e-14)
    X = generator.standard_normal((3, 2))
    if order == "row-major":
        # Rows j n .. (j + 1) n - 1 are the single softmax regression of row j.
        block = (operator @ X.ravel())[2 * 5 : 3 * 5]
        assert block == pytest.approx(A2 @ (X.T @ A1[2]), abs=1e-14)


@each_kind
@pytest.mark.parametrize("block_rows", [1, 3, 7, 100])
def test_row_blocks_change_nothing(kind: Loss, block_rows: int) -> None:
    instance = random_instance(6, 2, m=7, seed=2, radius=3.0)
    problem, X = instance.problem, instance.X
    whole, parts = (evaluate(problem, X, kind, block_rows=rows) for rows in (None, block_rows))
    # Sums in another order.
    assert parts.log_loss == pytest.approx(whole.log_loss, abs=1e-14)
    for name in whole.gradients:
        expected = whole.gradients[name].value
        assert parts.gradients[name].value == pytest.approx(expected, abs=1e-14 * np.abs(expected).max())
    V = np.ones_like(X)
    expected = hessian_product(problem, X, V, kind).value
    found = hessian_product(problem, X, V, kind, block_rows=block_rows).value
    assert found == pytest.approx(expected, abs=1e-14 * np.abs(expected).max())
    blocked, kept = Hessian(problem, X, kind, block_rows=block_rows), Hessian(problem, X, kind)
    assert blocked.log_scale == kept.log_scale
    assert blocked @ V.ravel() == pytest.approx(kept @ V.ravel(), rel=1e-12)


def test_one_key_makes_the_softmax_constant() -> None:
    problem = Problem([[1.0], [2.0]], [[3.0]], [[0.5], [1.0]])
    result = evaluate(problem, [[0.7]])
    # A loss is the exponential of its logarithm.
    assert result.loss == pytest.approx(0.125, rel=1e-15)
    assert (result.gradients["X"].value == 0).all()
    assert (hessian_product(problem, [[0.7]], [[1.0]]).value == 0).all()


def test_at_zero_weights_the_softmax_is_uniform() -> None:
    problem = random_instance(4, 2, seed=0).problem
    X = np.zeros((2, 2))
    assert loss(problem, X) == pytest.approx(0.5 * ((0.25 - problem.B) ** 2).sum(), rel=1e-15)
    assert (gradient(problem, X, wrt="A1") == 0).all()


@each_kind
def test_an_exact_fit_has_zero_loss_and_gradient(kind: Loss) -> None:
    problem = Problem([[1.0]], [[0.0], [0.0]], [[0.5, 0.5]])
    result = evaluate(problem, [[1.0]], kind)
    assert result.log_loss == -np.inf
    assert result.loss == 0
    assert all((scaled.value == 0).all() for scaled in result.gradients.values())


def test_both_losses_share_their_zeros() -> None:
    instance = random_instance(6, 2, seed=4, radius=2.0, planted=True)
    # Residuals of a few eps.
    assert log_loss(instance.problem, instance.planted) < 2 * np.log(1e-14)
    assert log_loss(instance.problem, instance.planted, "rescaled") < 2 * np.log(1e-13)


def heavy_row(X: float) -> tuple[Problem, np.ndarray]:
    """Row 0 has logits (X, X) and fits exactly, row 1 has logits (0, 0) and does not."""
    return Problem([[1.0], [0.0]], [[1.0], [1.0]], [[0.5, 0.5], [1.0, 0.0]]), np.array([[X]])


def test_a_heavy_row_that_fits_does_not_hide_the_others() -> None:
    problem, X = heavy_row(5000.0)
    result = evaluate(problem, X, "rescaled")
    # Row 1: alpha = 2, c = (-1/2, 1/2).
    assert result.loss == pytest.approx(0.5 * 4 * 0.5, rel=1e-15)
    assert result.gradients["B"].value[1] == pytest.approx([2.0, -2.0], rel=1e-15)


def test_beyond_the_doubles_only_the_raw_values_are_refused() -> None:
    problem = Problem([[1.0]], [[800.0], [799.0]], [[0.0, 1.0]])
    X = [[1.0]]
    result = evaluate(problem, X, "rescaled")
    # u = e^800 (1, 1/e), alpha = u_0 + u_1, q = (u_0, u_1 - alpha) = (u_0, -u_0): L = u_0^2.
    assert result.log_loss == pytest.approx(1600.0, abs=1e-12)
    with pytest.raises(OverflowError, match=r"rescaled loss is not representable; its logarithm is 1600"):
        loss(problem, X, "rescaled")
    with pytest.raises(OverflowError, match=r"logarithm of its norm is 16"):
        gradient(problem, X, "rescaled")
    with pytest.raises(OverflowError, match=r"logarithm of its norm is 16"):
        _ = hessian_product(problem, X, [[1.0]], "rescaled").value
    assert 0 < loss(problem, X) < 1


def test_below_the_doubles_the_raw_loss_is_refused_as_well() -> None:
    problem = Problem([[1.0]], [[-800.0], [-799.0]], [[0.0, 1.0]])
    assert log_loss(problem, [[1.0]], "rescaled") == pytest.approx(-1600.0, abs=1e-12)
    with pytest.raises(OverflowError, match="logarithm is -1600"):
        loss(problem, [[1.0]], "rescaled")


def test_any_finite_logits_do_for_the_normalised_loss() -> None:
    problem = Problem([[1e150]], [[1e150], [-1e150]], [[0.0, 1.0]])
    assert loss(problem, [[1.0]]) == 1.0
    assert np.isfinite(gradient(problem, [[1.0]])).all()


@pytest.mark.slow
def test_row_blocks_keep_the_memory_small() -> None:
    """n = 20000, d = 64 from stored labels of 3.2 GB, within 2 GB."""
    # In another process, because the peak of a child counts from the memory of its parent.
    code = "from benchmarks.softmax import peak_memory; print(peak_memory())"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert float(done.stdout) < 2e9


def test_stored_labels_give_what_those_in_memory_give(tmp_path: Path) -> None:
    instance = random_instance(6, 2, m=5, seed=7)
    problem, X = instance.problem, instance.X
    for layout, order in (("c.npy", "C"), ("f.npy", "F")):
        np.save(tmp_path / layout, np.array(problem.B, order=order))  # type: ignore[call-overload]
        stored = Problem(problem.A1, problem.A2, StoredMatrix(tmp_path / layout))
        assert loss(stored, X, block_rows=2) == pytest.approx(loss(problem, X), rel=1e-15)
        assert stored.labels.norm == pytest.approx(problem.labels.norm, rel=1e-15)
