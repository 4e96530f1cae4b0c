"""Fits: recovery, constraints, and statuses that say what happened."""

from typing import Any

import numpy as np
import pytest

from replica.exceptions import InputError
from replica.softmax import (
    FitStatus,
    Iterate,
    Loss,
    Problem,
    fit,
    gradient,
    hessian_product,
    log_loss,
    loss,
    random_instance,
)

each_kind = pytest.mark.parametrize("kind", tuple(Loss))


@each_kind
def test_planted_weights_are_recovered_from_nearby(kind: Loss) -> None:
    """n = 500, d = 16."""
    instance = random_instance(500, 16, seed=1, radius=4.0, planted=True)
    assert instance.planted is not None
    start = instance.planted + 0.02 * instance.X
    assert loss(instance.problem, start) > 1e-6
    result = fit(instance.problem, start, kind)
    run = result.best
    assert run.status is FitStatus.OK
    assert result.n_minima == 1
    assert np.exp(run.log_loss_normalized) < 1e-10
    # A loss of 1e-10 and below over a curvature of a few tenths.
    assert pytest.approx(instance.planted, abs=1e-5) == run.X


@pytest.mark.slow
@each_kind
def test_from_far_away_every_start_says_how_it_ended(kind: Loss) -> None:
    instance = random_instance(500, 16, seed=1, radius=8.0, planted=True)
    result = fit(instance.problem, None, kind, starts=4, start_radius=30.0, max_iterations=60)
    for run in result.runs:
        converged = min(run.gradient_cosine, run.fit_norm) <= 1e-8
        assert converged == (run.status in (FitStatus.OK, FitStatus.SADDLE))
        assert (run.minimum is not None) == (run.status is FitStatus.OK)
        assert run.log_loss_normalized == pytest.approx(log_loss(instance.problem, run.X), rel=1e-12)


@each_kind
def test_the_end_is_a_stationary_point_of_the_regularised_loss(kind: Loss) -> None:
    instance = random_instance(20, 3, seed=2, radius=2.0)
    problem = instance.problem
    run = fit(problem, instance.X, kind, regularization=0.1).best
    assert run.status is FitStatus.OK
    slope = gradient(problem, run.X, kind) + 0.1 * run.X
    # The stated tolerance of the cosine, times the sizes it is measured against.
    assert np.linalg.norm(slope) <= 1e-8 * 100 * np.exp(run.log_objective)
    assert np.exp(run.log_objective) == pytest.approx(
        loss(problem, run.X, kind) + 0.05 * np.linalg.norm(run.X) ** 2, rel=1e-12
    )
    free = fit(problem, instance.X, kind).best
    assert np.linalg.norm(run.X) < np.linalg.norm(free.X)


@each_kind
def test_the_ball_constraint_is_met_with_its_multiplier(kind: Loss) -> None:
    instance = random_instance(30, 3, seed=3, radius=4.0, planted=True)
    assert instance.planted is not None
    problem, start = instance.problem, 0.9 * instance.planted
    run = fit(problem, start, kind, radius=2.0).best
    assert run.status is FitStatus.OK
    norm = np.linalg.norm(run.X)
    assert norm <= 2.0
    if run.multiplier > 0:
        assert norm == pytest.approx(2.0, rel=1e-6)
        slope = gradient(problem, run.X, kind) / loss(problem, run.X, kind)
        # Antiparallel to X with the multiplier as length, to the accuracy of an interior-point method.
        assert slope == pytest.approx(-run.multiplier * run.X, abs=1e-6 * np.abs(slope).max())
    # No point of the ball nearby is better.
    generator = np.random.default_rng(0)
    for _ in range(50):
        other = run.X + 0.05 * generator.standard_normal(run.X.shape)
        other *= min(1.0, 2.0 / float(np.linalg.norm(other)))
        assert log_loss(problem, other, kind) >= run.log_objective - 1e-9


def test_the_constraint_binds_for_a_distant_planted_solution() -> None:
    instance = random_instance(30, 3, seed=3, radius=4.0, planted=True)
    run = fit(instance.problem, instance.planted, radius=2.0).best
    assert run.multiplier > 0


def test_a_wide_ball_changes_nothing() -> None:
    instance = random_instance(20, 2, seed=4, radius=1.0)
    free, wide = (fit(instance.problem, instance.X, radius=radius).best for radius in (None, 1e3))
    assert (free.X == wide.X).all()
    assert wide.multiplier == 0


def test_distinct_minima_are_counted() -> None:
    """The rescaled loss of this instance has a minimum near the origin besides its exact fit."""
    instance = random_instance(60, 3, seed=1, radius=8.0, planted=True)
    assert instance.planted is not None
    problem = instance.problem
    near = fit(problem, instance.planted + 0.01 * instance.X, "rescaled").best
    far = fit(problem, 0.3 * instance.X, "rescaled").best
    assert near.status is far.status is FitStatus.OK
    assert near.log_loss_normalized < -20
    # alpha -> 0 lowers L_R without a fit: L_N stays of order one.
    assert far.log_loss_normalized > 0
    assert near.log_objective < far.log_objective
    together = fit(problem, instance.planted + 0.01 * instance.X, "rescaled", starts=3, start_radius=2.4)
    assert together.n_minima == 2
    assert [run.minimum for run in together.runs] == [0, 1, 1]
    assert together.best is together.runs[0]


def test_weights_that_the_loss_does_not_see_make_one_minimum() -> None:
    """A column of ones in A2 shifts whole rows of S, which the softmax ignores."""
    generator = np.random.default_rng(0)
    A1, A2 = generator.standard_normal((8, 2)), np.column_stack([generator.standard_normal(6), np.ones(6)])
    problem = Problem(A1, A2, generator.dirichlet(np.ones(6), size=8))
    result = fit(problem, starts=4, seed=1)
    assert result.n_minima == 1
    assert np.linalg.norm(result.runs[0].X - result.runs[1].X) > 0.1


def test_a_maximum_is_a_saddle_not_a_minimum() -> None:
    # f = (e^x, e^-x, 1) / Z is stationary at x = 0 by symmetry, with second derivative 2/9 (2 - 3 b) = -2/9.
    problem = Problem([[1.0]], [[1.0], [-1.0], [0.0]], [[1.0, 1.0, -1.0]])
    assert gradient(problem, [[0.0]]) == pytest.approx(0, abs=1e-16)
    assert hessian_product(problem, [[0.0]], [[1.0]]).value == pytest.approx(-2 / 9, rel=1e-14)
    run = fit(problem, [[0.0]]).best
    assert run.status is FitStatus.SADDLE
    assert run.curvature == pytest.approx(-1)
    assert run.iterations == 0
    assert run.minimum is None
    assert "negative eigenvalue" in run.status.advice


def test_statuses_of_runs_that_do_not_arrive() -> None:
    instance = random_instance(40, 4, seed=5, radius=6.0)
    short = fit(instance.problem, instance.X, max_iterations=1).best
    assert short.status is FitStatus.MAX_ITERATIONS
    assert short.curvature is None
    strict = fit(instance.problem, instance.X, tolerance=1e-30).best
    # Rounding ends the descent before such a tolerance.
    assert strict.status is FitStatus.NOT_CONVERGED
    beyond = fit(instance.problem, np.full((4, 4), 1.7e308)).best
    assert beyond.status is FitStatus.NONFINITE
    assert np.isnan(beyond.log_objective)


def test_starts_are_seeded_and_the_first_is_the_one_given() -> None:
    instance = random_instance(15, 2, seed=6)
    one, same, other = (fit(instance.problem, starts=2, seed=seed) for seed in (1, 1, 2))
    assert all((a.X == b.X).all() for a, b in zip(one.runs, same.runs, strict=True))
    assert (one.runs[0].X != other.runs[0].X).any()
    result = fit(instance.problem, instance.X, max_iterations=1)
    assert result.runs[0].distance == pytest.approx(np.linalg.norm(result.runs[0].X - instance.X))


def test_progress_tells_every_iteration() -> None:
    instance = random_instance(15, 2, seed=6)
    seen: list[Iterate] = []
    result = fit(instance.problem, starts=2, seed=1, progress=seen.append)
    assert [len([i for i in seen if i.start == start]) for start in (0, 1)] == [
        run.iterations for run in result.runs
    ]
    assert seen[-1].log_objective == pytest.approx(result.runs[1].log_objective, abs=1e-12)
    assert seen[0].log_objective > seen[-1].log_objective


@each_kind
def test_one_key_has_nothing_to_fit(kind: Loss) -> None:
    problem = Problem([[1.0], [2.0]], [[3.0]], [[1.0], [1.0]])
    run = fit(problem, [[0.7]], kind).best
    assert run.status is FitStatus.OK
    assert run.log_loss_normalized == -np.inf


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"starts": 0}, "starts = 0 is outside the allowed range: integers from 1"),
        ({"max_iterations": 0}, "max_iterations = 0 is outside"),
        ({"start_radius": -1.0}, r"start_radius = -1.0 is outside the allowed range \[0, inf\)"),
        ({"regularization": np.nan}, r"regularization = nan is outside"),
        ({"radius": 0.0}, r"radius = 0.0 is outside the allowed range \(0, inf\)"),
        ({"tolerance": 0.0}, r"tolerance = 0.0 is outside"),
        ({"X": np.ones((3, 3))}, r"X of shape \(3, 3\) does not fit"),
        ({"kind": "cubic"}, "loss = 'cubic' is not one of"),
        ({"seed": -1}, "seed = -1 is outside the allowed range: integers from 0"),
    ],
)
def test_bad_input(options: dict[str, Any], message: str) -> None:
    problem = random_instance(5, 2, seed=0).problem
    with pytest.raises(InputError, match=message):
        fit(problem, **options)
