"""The matrix-free fit against dense least squares, on every road."""

import numpy as np
import pytest

from replica.exceptions import NumericalError
from replica.parameters import Parameters
from replica.simulation import least_squares
from replica.simulation.design import Design
from replica.simulation.least_squares import effective_ridge, minimize
from replica.simulation.population import population_error, task_moments
from replica.simulation.rows import Rows, Team
from replica.simulation.sampling import Prompts, Tasks, draw_prompts, draw_tasks
from replica.simulation.sizes import Sizes


def instance(
    dim: int, gamma: float, ridge: float, alpha: float = 2.0
) -> tuple[Sizes, Tasks, Prompts, Design]:
    params = Parameters(alpha=alpha, kappa=0.8, rho=0.6, gamma=gamma, sigma=0.3, ridge=ridge)
    sizes = Sizes.of(params, dim)
    for_tasks, for_prompts = np.random.SeedSequence([7, dim]).spawn(2)
    tasks = draw_tasks(sizes, np.random.default_rng(for_tasks))
    rows = Rows(sizes.prompts, Team(1))
    prompts = draw_prompts(tasks, sizes, params.sigma, for_prompts, rows)
    return sizes, tasks, prompts, Design(prompts.queries, prompts.estimates, rows)


def dense_design(prompts: Prompts) -> np.ndarray:
    """Phi itself, (M, D^2)."""
    return np.einsum("mi,mj->mij", prompts.queries, prompts.estimates).reshape(len(prompts.labels), -1)


def dense(prompts: Prompts, ridge: float) -> np.ndarray:
    """The minimizer by a singular value decomposition, of least norm where there are many."""
    phi, labels = dense_design(prompts), prompts.labels
    rows, dim = prompts.queries.shape
    if ridge > 0:
        phi = np.vstack([phi, np.sqrt(rows * ridge / dim) * np.eye(dim**2)])
        labels = np.concatenate([labels, np.zeros(dim**2)])
    return np.linalg.lstsq(phi, labels, rcond=1e-13)[0].reshape(dim, dim)


def test_products_of_the_design_are_those_of_its_matrix() -> None:
    sizes, _, prompts, design = instance(9, 2.0, 0.0)
    phi = dense_design(prompts)
    rng = np.random.default_rng(0)
    W, a = rng.standard_normal((9, 9)), rng.standard_normal(sizes.prompts)
    # Sums of at most 162 terms of order one: rounding stays below 1e-12.
    close = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(design.forward(W), phi @ W.ravel(), **close)
    np.testing.assert_allclose(design.adjoint(a).ravel(), phi.T @ a, **close)
    np.testing.assert_allclose(design.normal(W).ravel(), phi.T @ (phi @ W.ravel()), **close)
    np.testing.assert_allclose(design.kernel(), phi @ phi.T, **close)
    np.testing.assert_allclose(
        design.second_moment(), prompts.estimates.T @ prompts.estimates / sizes.prompts, **close
    )


@pytest.mark.parametrize("dim", [5, 16])
@pytest.mark.parametrize(
    ("gamma", "ridge", "direct_rows", "iterates"),
    [
        pytest.param(1.5, 0.0, 4096, True, id="primal"),
        pytest.param(0.7, 0.0, 4096, False, id="direct"),
        pytest.param(0.7, 0.0, 0, True, id="dual"),
        pytest.param(0.7, 0.2, 4096, True, id="ridge-primal"),
        pytest.param(2.0, 0.05, 4096, True, id="ridge-primal-overdetermined"),
        pytest.param(0.7, 1e-4, 4096, False, id="ridge-direct"),
        pytest.param(0.7, 1e-4, 0, True, id="ridge-dual"),
        pytest.param(1.0, 1e-3, 4096, True, id="ridge-at-threshold"),
    ],
)
def test_matrix_free_equals_dense(
    dim: int, gamma: float, ridge: float, direct_rows: int, iterates: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(least_squares, "DIRECT_ROWS", direct_rows)
    sizes, tasks, prompts, design = instance(dim, gamma, ridge)
    fit = minimize(design, prompts.labels, ridge, rtol=1e-12)
    expected = dense(prompts, ridge)
    assert (fit.iterations > 0) == iterates
    # A residual of 1e-12 times condition numbers of up to 1e4.
    assert np.linalg.norm(fit.W - expected) < 1e-8 * np.linalg.norm(expected)
    for moment in task_moments(tasks).values():
        mine, theirs = (population_error(W, moment, sizes.length_test, 0.3) for W in (fit.W, expected))
        assert mine == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize(("gamma", "ridge"), [(1.5, 0.0), (0.7, 0.3), (0.7, 1e-4)])
def test_the_residual_is_that_of_the_unwhitened_normal_equations(gamma: float, ridge: float) -> None:
    _, _, prompts, design = instance(12, gamma, ridge)
    fit = minimize(design, prompts.labels, ridge, rtol=1e-5)
    phi = dense_design(prompts)
    rows, dim = prompts.queries.shape
    gradient = phi.T @ (prompts.labels - phi @ fit.W.ravel()) - rows * ridge / dim * fit.W.ravel()
    expected = np.linalg.norm(gradient) / np.linalg.norm(phi.T @ prompts.labels)
    # Rounding of a residual far above rounding; by Cholesky it is at rounding and only its size is known.
    assert fit.residual == pytest.approx(expected, rel=1e-6, abs=1e-14)
    assert fit.residual <= 1e-5


def test_whitened_steps_do_not_depend_on_the_length_of_contexts() -> None:
    steps = []
    for alpha in (1.0, 1e4):
        _, _, prompts, design = instance(16, 1.5, 0.0, alpha)
        steps.append(minimize(design, prompts.labels, 0.0).iterations)
    # The bare normal equations take ten times as many at alpha = 1e4.
    assert steps[1] < 1.2 * steps[0]


def test_a_residual_out_of_reach_is_a_failure_that_says_so() -> None:
    _, _, prompts, design = instance(10, 1.1, 0.0)
    with pytest.raises(NumericalError, match="asked for 1e-17, which rounding does not allow"):
        minimize(design, prompts.labels, 0.0, rtol=1e-17)
    _, _, prompts, design = instance(10, 0.9, 0.0)
    with pytest.raises(NumericalError, match="by Cholesky, asked for 1e-17"):
        minimize(design, prompts.labels, 0.0, rtol=1e-17)


def test_running_out_of_iterations_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(least_squares, "MAX_ITERATIONS", 7)
    _, _, prompts, design = instance(10, 1.1, 0.0)
    with pytest.raises(
        NumericalError, match=r"after 7 iterations, .* at gamma = 1\.1; convergence is slow near"
    ):
        minimize(design, prompts.labels, 0.0)


def test_estimates_that_are_degenerate_to_rounding_are_refused() -> None:
    _, _, prompts, design = instance(10, 1.5, 0.0, alpha=1e18)
    with pytest.raises(NumericalError, match="span fewer than D dimensions"):
        minimize(design, prompts.labels, 0.0)


@pytest.mark.parametrize("gamma", [0.7, 1.5])
def test_extreme_ridges_reach_their_residual(gamma: float) -> None:
    _, _, prompts, design = instance(10, gamma, 0.1)
    huge = minimize(design, prompts.labels, 1e300)
    # The first order in 1/ridge; the next is smaller by another 1e300.
    expected = design.adjoint(prompts.labels) * 10 / len(prompts.labels)
    np.testing.assert_allclose(huge.W * 1e300, expected, rtol=0, atol=1e-8 * np.linalg.norm(expected))
    tiny, none = (minimize(design, prompts.labels, ridge, rtol=1e-12) for ridge in (1e-13, 0.0))
    # A ridge of 1e-13 moves W by 1e-13 times a condition number below 1e4.
    assert np.linalg.norm(tiny.W - none.W) < 1e-8 * np.linalg.norm(none.W)


def test_an_overflow_ends_the_iteration_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(least_squares, "DIRECT_ROWS", 0)
    _, _, prompts, _ = instance(10, 0.7, 0.0)
    rows = Rows(len(prompts.labels), Team(1))
    design = Design(prompts.queries, 1e200 * prompts.estimates, rows)
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(NumericalError, match="leaves the range of float64"),
    ):
        minimize(design, prompts.labels, 0.0)


@pytest.mark.parametrize("ridge", [1e-12, 1e-3, 1.0, 1e6])
@pytest.mark.parametrize("gamma", [0.2, 0.999, 5.0])
def test_effective_ridge_solves_its_equation(ridge: float, gamma: float) -> None:
    moments = np.geomspace(1e-4, 10, 30)
    xi = effective_ridge(moments, ridge, gamma)
    shrunk = np.mean(moments / (moments + xi)) / gamma
    # The difference of two numbers of size xi, each rounded and xi itself to 1e-12.
    assert xi * (1 - shrunk) == pytest.approx(ridge, rel=1e-9, abs=1e-11 * max(xi, 1))
