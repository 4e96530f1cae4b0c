"""Optimal choices: against brute force, on bounds, and the trade-off near rho = kappa."""

from typing import Any

import numpy as np
import pytest

from replica.exceptions import InputError, NumericalError
from replica.parameters import PROTOCOLS, Parameters
from replica.theory import solve
from replica.theory.optimize import Optimum, optimize

POINT = {"alpha": 2.0, "kappa": 1.5, "rho": 0.9, "gamma": 1.5, "sigma": 0.3}
MIXED = {"IDG": 0.7, "ODG": 0.3}


def best(weights: dict[str, float], over: dict[str, tuple[float, float]], **changes: float) -> Optimum:
    fixed = {name: value for name, value in (POINT | changes).items() if name not in over}
    return optimize(weights, over, **fixed)


def criterion(weights: dict[str, float], **changes: Any) -> np.ndarray:
    errors = solve(Parameters(**POINT | changes)).errors
    return np.asarray(sum(weight * errors[protocol] for protocol, weight in weights.items()))


@pytest.mark.parametrize("weights", [MIXED, {"TM": 1.0}, {"TM": 2.0, "ODG": 5.0}])
@pytest.mark.parametrize(
    "changes", [{}, {"gamma": 0.6, "alpha": 20.0}, {"kappa": 0.4, "alpha": 300.0, "alpha_test": 5.0}]
)
def test_optimal_ridge_equals_brute_force(weights: dict[str, float], changes: dict[str, float]) -> None:
    found = best(weights, {"ridge": (1e-6, 10.0)}, **changes)
    grid = np.geomspace(1e-6, 10.0, 100_000)
    values = criterion(weights, ridge=grid, **changes)
    lowest = values.argmin()
    spacing = grid[1] / grid[0] - 1
    assert found.choice["ridge"] == pytest.approx(grid[lowest], rel=spacing)
    # No worse than the grid but for rounding.
    assert found.criterion <= values[lowest] * (1 + 1e-15)
    # Half a spacing off a minimum changes the criterion by a relative 1e-8 at most here.
    assert found.criterion == pytest.approx(values[lowest], rel=1e-8)
    assert found.position == {"ridge": "interior"}
    assert found.criterion == criterion(weights, ridge=found.choice["ridge"], **changes)


def test_two_parameters_equal_brute_force() -> None:
    found = best(MIXED, {"rho": (0.01, 1.0), "ridge": (0.0, 10.0)}, alpha=1000.0, kappa=0.5)
    rho, ridge = np.geomspace(0.01, 1.0, 400)[:, None], np.geomspace(1e-4, 10.0, 400)
    values = criterion(MIXED, alpha=1000.0, kappa=0.5, rho=rho, ridge=ridge)
    row, column = np.unravel_index(values.argmin(), values.shape)
    assert found.choice["rho"] == pytest.approx(rho[row, 0], rel=0.012)  # spacings of the grid
    assert found.choice["ridge"] == pytest.approx(ridge[column], rel=0.03)
    assert values.min() * (1 - 1e-4) < found.criterion <= values.min()
    assert set(found.position.values()) == {"interior"}


def test_the_lowest_of_several_minima_is_found() -> None:
    # Without a ridge the error has a minimum on either side of the threshold gamma = 1.
    grid = np.geomspace(0.05, 1.2, 4001)
    values = criterion({"IDG": 1.0}, gamma=grid, alpha=20.0)
    minima = np.flatnonzero((values[1:-1] < values[:-2]) & (values[1:-1] < values[2:])) + 1
    assert len(minima) == 1
    assert values[minima[0]] < values[-1]
    found = best({"IDG": 1.0}, {"gamma": (0.05, 1.2)}, alpha=20.0)
    assert found.choice["gamma"] == pytest.approx(grid[minima[0]], rel=grid[1] / grid[0] - 1)
    assert found.position["gamma"] == "interior"
    # With more prompts allowed the other side wins.
    assert best({"IDG": 1.0}, {"gamma": (0.05, 3.0)}, alpha=20.0).position["gamma"] == "upper"


def test_bounds_are_met_exactly_and_said() -> None:
    longer = best(MIXED, {"alpha_test": (0.5, 77.7)})
    assert (longer.choice, longer.position) == ({"alpha_test": 77.7}, {"alpha_test": "upper"})
    # Many prompts on an easy family: context fluctuations regularize more than enough.
    none = best({"IDG": 1.0}, {"ridge": (0.0, 10.0)}, rho=0.2, gamma=1000.0)
    assert (none.choice, none.position) == ({"ridge": 0.0}, {"ridge": "lower"})
    some = best({"IDG": 1.0}, {"ridge": (0.01, 10.0)}, rho=0.2, gamma=1000.0)
    assert (some.choice, some.position) == ({"ridge": 0.01}, {"ridge": "lower"})
    both = best(MIXED, {"kappa": (0.1, 30.0), "gamma": (2.0, 50.0)})
    assert both.choice == {"kappa": 30.0, "gamma": 50.0}
    assert both.position == {"kappa": "upper", "gamma": "upper"}
    one = best(MIXED, {"ridge": (1e-6, 10.0), "gamma": (0.1, 10.0)})
    assert one.position == {"ridge": "interior", "gamma": "upper"}


def test_an_optimum_next_to_a_bound_is_not_on_it() -> None:
    inside = best(MIXED, {"ridge": (1e-6, 10.0)}).choice["ridge"]
    narrow = best(MIXED, {"ridge": (inside * 0.999, 1.0)})
    assert narrow.position["ridge"] == "interior"
    # The bottom is flat: rounding of the criterion hides a relative 1e-7 of its place.
    assert narrow.choice["ridge"] == pytest.approx(inside, rel=1e-6)
    assert best(MIXED, {"ridge": (inside * 1.001, 1.0)}).position["ridge"] == "lower"


def test_an_ill_posed_bound_is_reported_as_approached() -> None:
    # At alpha = inf only ridge = 0 itself has no answer; without any noise the error falls towards it.
    found = best({"TM": 1.0}, {"ridge": (0.0, 1.0)}, alpha=np.inf, sigma=0.0)
    assert found.position == {"ridge": "lower"}
    assert 0 < found.choice["ridge"] < 1e-9
    assert found.solution.ok


def test_weights_matter_by_their_ratio() -> None:
    one, other = (
        best({"IDG": 7 * s, "ODG": 3 * s}, {"rho": (0.01, 1.0)}, kappa=0.5, alpha=1e3) for s in (1, 8)
    )
    assert one.choice == other.choice
    assert other.criterion == 8 * one.criterion
    assert one.weights == {"TM": 0.0, "IDG": 7.0, "ODG": 3.0}


@pytest.mark.parametrize("weight", [0.9, 0.5, 0.1])
@pytest.mark.parametrize("kappa", [0.3, 0.5])
def test_the_best_rank_tends_to_the_number_of_tasks(weight: float, kappa: float) -> None:
    tilt = 1 - 2 * (1 - weight) * kappa / (weight + (1 - weight) * kappa)
    limit = 2 * tilt / np.sqrt(1 - tilt**2) * kappa**1.5
    distances = []
    for alpha in (1e6, 1e8):
        found = best({"IDG": weight, "ODG": 1 - weight}, {"rho": (0.01, 1.0)}, kappa=kappa, alpha=alpha)
        assert found.position["rho"] == "interior"
        eta = found.solution.parameters.implicit_ridge
        distances.append((kappa - found.choice["rho"]) / np.sqrt(eta) - limit)
    # The next order is eta^(1/2): a hundred times the alpha, a tenth of the distance. The order after it
    # changes that by a few eta^(1/2) = 1e-3 over the coefficient of the first, which is 0.05 to 0.7.
    assert distances[0] / distances[1] == pytest.approx(10, rel=0.05)
    assert abs(distances[1]) < np.sqrt(eta)


def test_a_fixed_ridge_keeps_the_best_rank_off_the_window() -> None:
    ranks = [
        best({"IDG": 0.5, "ODG": 0.5}, {"rho": (0.01, 1.0)}, kappa=0.5, alpha=alpha, ridge=0.1).choice["rho"]
        for alpha in (1e4, 1e6)
    ]
    assert ranks[0] == pytest.approx(ranks[1], rel=1e-3)
    assert ranks[1] < 0.4


def test_errors_and_status_are_those_of_the_optimum() -> None:
    found = best(MIXED, {"kappa": (0.1, 1.0)}, ridge=0.05)
    again = solve(found.solution.parameters)
    assert found.solution.parameters.alpha_test == 2.0
    report = found.to_dict()
    assert report["status"] == "ok"
    assert report["errors"] == {str(p): again.errors[p] for p in PROTOCOLS}
    assert report["criterion"] == found.criterion


def test_nothing_finite_is_a_numerical_failure() -> None:
    with pytest.raises(NumericalError, match=r"finite nowhere .*2001 interpolation_threshold"):
        best(MIXED, {"rho": (0.1, 1.0)}, gamma=1.0)


@pytest.mark.parametrize(
    ("weights", "over", "changes", "message"),
    [
        (
            {"IDG": -0.1},
            {"ridge": (0, 1)},
            {},
            r"weight of IDG = -0.1 is outside the allowed range \[0, inf\)",
        ),
        ({"IDG": np.nan}, {"ridge": (0, 1)}, {}, "weight of IDG = nan"),
        ({"IDG": np.inf}, {"ridge": (0, 1)}, {}, "weight of IDG = inf"),
        ({"IDG": 0.0}, {"ridge": (0, 1)}, {}, "no weight is positive"),
        ({}, {"ridge": (0, 1)}, {}, "no weight is positive"),
        ({"ICL": 1.0}, {"ridge": (0, 1)}, {}, "'ICL': allowed protocols are TM, IDG, ODG"),
        (MIXED, {"ridge": (1, 0)}, {}, "bounds of ridge = 1:0 are not increasing"),
        (MIXED, {"ridge": (1, 1)}, {}, "bounds of ridge = 1:1 are not increasing"),
        (MIXED, {"rho": (0.5, 1.5)}, {}, r"rho = 1.5 is outside the allowed range \(0, 1\]"),
        (MIXED, {"kappa": (0, 1)}, {}, r"kappa = 0 is outside the allowed range \(0, inf\]"),
        (MIXED, {"kappa": (1, np.inf)}, {}, "bounds of kappa = 1:inf are not finite"),
        (MIXED, {"ridge": (np.nan, 1)}, {}, "ridge = nan"),
        (MIXED, {"sigma": (0, 1)}, {}, "'sigma' cannot be optimized; allowed are ridge, kappa, rho"),
        (MIXED, {"rigde": (0, 1)}, {}, "'rigde' cannot be optimized"),
        (MIXED, {}, {}, "0 parameters to optimize; allowed are one or two"),
        (MIXED, {"ridge": (0, 1), "kappa": (1, 2), "rho": (0.1, 1)}, {}, "3 parameters to optimize"),
        (MIXED, {"ridge": (0, 1)}, {"beta": 1.0}, "'beta' is no parameter"),
        (MIXED, {"ridge": (0, 1)}, {"gamma": -1.0}, "gamma = -1 is outside"),
        (MIXED, {"ridge": (0, 1)}, {"gamma": [1.0, 2.0]}, "no single number"),
    ],
)
def test_bad_input(weights: Any, over: Any, changes: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        best(weights, over, **changes)


def test_a_parameter_has_one_role() -> None:
    with pytest.raises(InputError, match=r"ridge is both fixed at 0\.1 and optimized"):
        optimize(MIXED, {"ridge": (0, 1)}, **POINT, ridge=0.1)
    with pytest.raises(InputError, match="gamma is neither fixed nor optimized"):
        optimize(MIXED, {"ridge": (0, 1)}, alpha=1, kappa=1, rho=1, sigma=0)
