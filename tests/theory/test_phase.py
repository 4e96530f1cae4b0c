"""Where points stand with respect to the transition, and where log IDG rises fastest."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from replica import InputError, Parameters, Status, solve
from replica.theory.long_context import steepest_distance
from replica.theory.phase import phase, steepest

POINT = {"kappa": 0.5, "rho": 0.5, "gamma": 1.5, "sigma": 0.3}


@pytest.mark.parametrize("change", [{}, {"sigma": 0.0}, {"gamma": 0.8}, {"ridge": 0.01}], ids=str)
def test_the_steepest_place_maximises_the_slope(change: dict[str, float]) -> None:
    point = {**POINT, "alpha": 100.0, **change}
    place = steepest(Parameters(**point))

    def slope(rho: float) -> float:
        ends = [np.log(solve(Parameters(**point | {"rho": rho + h})).errors["IDG"]) for h in (1e-4, -1e-4)]
        return float(ends[0] - ends[1]) / 2e-4

    found = minimize_scalar(
        lambda rho: -slope(rho), bounds=(0.3, 0.7), method="bounded", options={"xatol": 1e-9}
    )
    # The difference has an error of h^2, and a maximum is found to the root of its rounding, 1e-6.
    assert place.rho == pytest.approx(found.x, abs=1e-5)
    assert place.slope == pytest.approx(-found.fun, rel=1e-5)
    assert not place.on_bound
    assert place.distance == pytest.approx(place.rho - 0.5, abs=1e-15)


@pytest.mark.parametrize(("sigma", "exponent"), [(0.3, 1.0), (0.0, 0.5)])
@pytest.mark.parametrize("gamma", [1.5, 4.0])
def test_the_steepest_place_tends_to_the_transition(gamma: float, sigma: float, exponent: float) -> None:
    """Like 1/alpha with noise and alpha^(-1/2) without; the expansion is good to a relative eta^(1/2)."""
    alphas = np.array([1e6, 4e6, 16e6])
    point = {"kappa": 0.5, "rho": 0.5, "gamma": gamma, "sigma": sigma}
    distance = steepest(Parameters(alpha=alphas, **point)).distance
    predicted = [steepest_distance(0.5, gamma, (1 + sigma**2) / a, noiseless=sigma == 0) for a in alphas]
    off = np.abs(distance / predicted - 1)
    assert np.all(off < 0.05)
    # With noise the first omitted term is tau against the leading tau^2; without, two orders are known.
    assert off[:-1] / off[1:] == pytest.approx(2 if sigma else 4, rel=0.1)
    slopes = np.log(distance[:-1] / distance[1:]) / np.log(4)
    assert slopes == pytest.approx(exponent, abs=0.01)


def test_the_distance_with_noise_in_closed_form() -> None:
    for kappa, gamma in ((0.5, 1.5), (0.2, 3.0)):
        small = 1e-10
        closed = -kappa * (9 * kappa - 2 * gamma) * small
        # Exact but for the second order in eta of 1/(1/kappa + x) - kappa, whose rounding is 1e-16/1e-10.
        assert steepest_distance(kappa, gamma, small) == pytest.approx(closed, rel=1e-5)


def test_nothing_is_steepest_inside_without_a_transition() -> None:
    place = steepest(Parameters(alpha=1.0, **POINT))
    assert place.on_bound
    assert place.rho in (1e-3, 1.0)


def test_a_line_through_the_transition() -> None:
    grid = Parameters(alpha=1e4, **POINT | {"rho": np.array([0.3, 0.5, 0.9])})
    located = phase(grid)
    assert list(located.asymptotic.tasks) == ["task-rich", "critical", "task-poor"]
    np.testing.assert_array_equal(located.distance, grid.rho - 0.5)
    width = np.sqrt(0.5 * 1e4 / 1.09)
    np.testing.assert_allclose(located.scaling_variable, [(1 / 0.3 - 2) * width, 0, (1 / 0.9 - 2) * width])
    assert len(set(located.steepest.rho)) == 1
    rows = located.to_dicts()
    assert [row["parameters"]["rho"] for row in rows] == [0.3, 0.5, 0.9]
    assert [row["exponents"]["IDG"] for row in rows] == [0.0, 0.5, 1.0]
    assert rows[2]["exact"]["IDG"] == solve(grid).errors["IDG"][2]
    assert rows[2]["asymptotic"]["IDG"] == pytest.approx(rows[2]["exact"]["IDG"], rel=1e-2)


def test_points_without_an_answer_keep_their_status() -> None:
    located = phase(Parameters(alpha=[1e3, 1e-300], **POINT | {"gamma": np.array([1.0, 1.5])}))
    assert list(located.status) == [Status.INTERPOLATION_THRESHOLD, Status.NONFINITE]
    assert np.all(np.isnan(located.steepest.rho))
    assert np.all(np.isnan(located.steepest_asymptotic[:1]))


@pytest.mark.parametrize(
    ("change", "words"),
    [({"alpha": np.inf}, "alpha = inf"), ({"alpha": 2.0, "alpha_test": 3.0}, "alpha_test = 3")],
)
def test_contexts_must_be_finite_and_equal(change: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        phase(Parameters(**POINT | change))
