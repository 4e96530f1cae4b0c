"""The end of gradient descent: limits, boundaries and statuses (experiments are in tests/simulation)."""

import numpy as np
import pytest
from quadrature import bulk_integral

from replica.exceptions import InputError
from replica.parameters import PROTOCOLS, Parameters
from replica.theory import gradient_descent, hessian, solve

ALL_PROTOCOLS = pytest.mark.parametrize("protocol", PROTOCOLS)
# (kappa, rho, gamma): more prompts than needed for rich and poor tasks, between p and 1, and below p.
REGIMES = pytest.mark.parametrize(
    ("kappa", "rho", "gamma"), [(1.5, 0.5, 2.0), (0.4, 0.9, 2.0), (0.4, 0.9, 0.8), (1.5, 0.5, 0.3)]
)


def point(**changes: float) -> Parameters:
    return Parameters(
        **{"alpha": 3.0, "kappa": 1.5, "rho": 0.5, "gamma": 2.0, "sigma": 0.3, "alpha_test": 3.0} | changes
    )


@REGIMES
@pytest.mark.parametrize("fluctuations", [True, False])
def test_zero_start_is_the_limit_of_a_small_ridge(
    kappa: float, rho: float, gamma: float, fluctuations: bool
) -> None:
    ends = gradient_descent(point(kappa=kappa, rho=rho, gamma=gamma), fluctuations=fluctuations)
    alpha = 3.0 if fluctuations else np.inf
    ridges = np.array([1e-6, 5e-7, 2.5e-7])
    ridged = solve(point(kappa=kappa, rho=rho, gamma=gamma, alpha=alpha, ridge=ridges))
    for protocol in PROTOCOLS:
        distance = np.abs(ridged.errors[protocol] - ends.errors(0.0)[protocol])
        assert distance[0] < 1e-3
        # First order in the ridge; the second order spoils the ratio by the ridge times about 100.
        np.testing.assert_allclose(distance[:-1] / distance[1:], 2, rtol=2e-4)


@pytest.mark.parametrize(("kappa", "rho", "gamma"), [(1.5, 0.5, 2.0), (0.4, 0.9, 2.0), (0.4, 0.9, 0.8)])
def test_the_least_squares_noise_is_amplified_by_the_inverse_spectrum(
    kappa: float, rho: float, gamma: float
) -> None:
    given = point(kappa=kappa, rho=rho, gamma=gamma)
    p, noise, eta_test = min(kappa, rho), 0.3**2, (1 + 0.3**2) / 3
    inverse = bulk_integral(hessian(given, fluctuations=False), lambda s: 1 / s)
    v = noise / (gamma - p)
    ends = gradient_descent(given, fluctuations=False).errors(0.0)
    # The bulk integral sums 400 terms.
    assert ends["ODG"] == pytest.approx(noise + 1 - p + v * inverse + eta_test * (p + v * inverse), rel=1e-12)
    assert ends["IDG"] - ends["TM"] == pytest.approx(
        v * (inverse / rho - p) + max(1 - kappa / rho, 0), rel=1e-11
    )


def test_with_fluctuations_and_enough_prompts_the_start_is_forgotten() -> None:
    ends = gradient_descent(
        Parameters.grid(alpha=[0.1, 1e6], gamma=[1.01, 9.0], kappa=0.4, rho=0.9, sigma=0.3)
    )
    for kept in ends.kept.values():
        np.testing.assert_array_equal(kept, 0)


def test_with_fluctuations_and_few_prompts_it_is_kept_in_part() -> None:
    # gamma -> 0 leaves everything free: the error of W0 alone is start^2 (tr B + eta~).
    ends = gradient_descent(point(gamma=1e-6))
    for kept in ends.kept.values():
        assert kept == pytest.approx(1 + (1 + 0.3**2) / 3, rel=1e-5)
    # Each prompt fixes one of D^2 directions, and test noise counts the free ones, of weight 1 - gamma.
    few = point(gamma=0.3, alpha_test=1e-9)
    noise_only = gradient_descent(few).kept["TM"] * 1e-9 / (1 + 0.3**2)
    assert noise_only == pytest.approx(0.7, rel=1e-8)


def test_a_ridge_forgets_the_start() -> None:
    given = point(gamma=0.5, ridge=0.1)
    for fluctuations in (True, False):
        ends = gradient_descent(given, fluctuations=fluctuations)
        solved = solve(point(gamma=0.5, ridge=0.1, alpha=3.0 if fluctuations else np.inf))
        assert ends.errors(7.0) == solved.errors


def test_no_fluctuations_is_the_limit_of_long_contexts_where_limits_commute() -> None:
    for changes in ({"gamma": 0.3}, {"rho": 1.0, "gamma": 3.0}):
        ends = gradient_descent(point(**changes), fluctuations=False)
        long = gradient_descent(point(**changes, alpha=1e8))
        for protocol in PROTOCOLS:
            # The corrections are of order 1/alpha.
            assert long.errors(2.0)[protocol] == pytest.approx(ends.errors(2.0)[protocol], rel=1e-6)


@ALL_PROTOCOLS
def test_walk_across_the_boundaries(protocol: str) -> None:
    def errors(**changes: float) -> float:
        return gradient_descent(point(**changes), fluctuations=False).errors(2.0)[protocol]

    # rho = 1 is solved by the saddle point, rho below it by least squares on the tasks.
    assert errors(rho=1.0, gamma=3.0) == pytest.approx(errors(rho=1 - 1e-9, gamma=3.0), rel=1e-7)
    # Without label noise both sides of gamma = p = 0.5 meet; the distance to it is of first order.
    step = 1e-5
    at = errors(sigma=0.0, gamma=0.5)
    assert np.isfinite(at)
    assert errors(sigma=0.0, gamma=0.5 + step) == at
    assert errors(sigma=0.0, gamma=0.5 - step) == pytest.approx(at, rel=100 * step)


def test_every_status_in_one_call() -> None:
    given = Parameters(
        alpha=np.array([3.0, 3.0, 3.0, 3.0, 1e-300]),
        alpha_test=3.0,
        kappa=np.array([1.5, 1.5, 0.5, 1.5, 1.5]),
        rho=0.5,
        gamma=np.array([2.0, 0.5, 2.0, 1.0, 2.0]),
        sigma=0.3,
    )
    without = gradient_descent(given, fluctuations=False)
    np.testing.assert_array_equal(without.status, [0, 1, 1, 0, 0])
    np.testing.assert_array_equal(np.isinf(without.errors(1.0)["IDG"]), [False, True, True, False, False])
    # At kappa = rho the noise grows on the family only; pre-training tasks do not feel it without test noise.
    quiet = gradient_descent(point(kappa=0.5, alpha_test=np.inf), fluctuations=False)
    assert quiet.status == 1
    assert quiet.from_zero["TM"] == pytest.approx(0.09 * (1 + 0.5 / 1.5), rel=1e-15)
    with_ = gradient_descent(given)
    np.testing.assert_array_equal(with_.status, [0, 0, 0, 1, 4])
    errors = with_.errors(1.0)["ODG"]
    assert np.isinf(errors[3])
    assert np.isnan(errors[4])
    assert np.isfinite(errors[:3]).all()


@pytest.mark.parametrize("fluctuations", [True, False])
def test_a_grid_equals_its_points(fluctuations: bool) -> None:
    grid = Parameters.grid(
        alpha=[1.0, 8.0], kappa=[0.3, 2.0, np.inf], gamma=[0.2, 0.7, 3.0], rho=0.6, sigma=0.3, alpha_test=5
    )
    ends = gradient_descent(grid, fluctuations=fluctuations)
    assert ends.parameters is grid
    for index in np.ndindex(grid.shape):
        alone = gradient_descent(grid[index], fluctuations=fluctuations)
        assert ends.status[index] == alone.status
        for protocol in PROTOCOLS:
            # Blocks of points are evaluated by SIMD loops, which may round differently from scalars.
            assert ends.errors(1.5)[protocol][index] == pytest.approx(alone.errors(1.5)[protocol], rel=1e-13)


@pytest.mark.parametrize("start", [-1.0, np.nan, np.inf])
def test_bad_starts_are_refused(start: float) -> None:
    with pytest.raises(InputError, match=r"start = .* is outside the allowed range \[0, inf\)"):
        gradient_descent(point()).errors([1.0, start])
