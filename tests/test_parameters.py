"""Parameters: ranges, broadcasting, names of the axes."""

import numpy as np
import pytest

from replica import InputError, Parameters
from replica.parameters import NAMES

POINT = {"alpha": 2, "kappa": 1.5, "rho": 0.9, "gamma": 1.5, "sigma": 0.3}


def test_defaults_and_casting() -> None:
    point = Parameters(**POINT)
    assert dict(point.items()) == {**POINT, "alpha_test": 2.0, "ridge": 0.0}
    assert all(type(value) is float for _, value in point.items())
    assert (
        repr(point) == "Parameters(alpha=2, alpha_test=2, kappa=1.5, rho=0.9, gamma=1.5, sigma=0.3, ridge=0)"
    )
    assert point == Parameters(**{name: float(value) for name, value in POINT.items()})


@pytest.mark.parametrize("name", NAMES)
def test_nan_is_refused_everywhere(name: str) -> None:
    with pytest.raises(InputError, match=rf"^{name} = nan is outside the allowed range "):
        Parameters(**POINT | {name: np.nan})
    with pytest.raises(InputError, match=rf"^{name} = nan"):
        Parameters(**POINT | {name: [0.5, np.nan]})


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        *[
            (name, value, "(0, inf")
            for name in ("alpha", "alpha_test", "kappa", "gamma")
            for value in (0, -1)
        ],
        *[(name, np.inf, "inf)") for name in ("gamma", "sigma", "ridge")],
        *[("rho", value, "(0, 1]") for value in (0, -0.1, 1.0000001, np.inf)],
        *[(name, -1e-9, "[0, inf)") for name in ("sigma", "ridge")],
    ],
)
def test_values_outside_the_range_are_named(name: str, value: float, allowed: str) -> None:
    with pytest.raises(InputError) as caught:
        Parameters(**POINT | {name: value})
    message = str(caught.value)
    assert message.startswith(f"{name} = {value!r} is outside the allowed range")
    assert allowed in message


@pytest.mark.parametrize("name", ["alpha", "alpha_test", "kappa"])
def test_infinity_is_allowed_where_it_means_something(name: str) -> None:
    assert getattr(Parameters(**POINT | {name: np.inf}), name) == np.inf


@pytest.mark.parametrize("value", ["1", None, 1j, True, [[1], [2, 3]], {"a": 1}])
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(InputError, match=r"kappa = .* is not a real number"):
        Parameters(**POINT | {"kappa": value})


def test_an_empty_array_is_refused() -> None:
    with pytest.raises(InputError, match=r"kappa has shape \(0,\)"):
        Parameters(**POINT | {"kappa": []})


def test_shapes_that_do_not_broadcast_are_both_named() -> None:
    with pytest.raises(InputError, match=r"kappa of shape \(2,\) and rho of shape \(3,\) do not broadcast"):
        Parameters(**POINT | {"kappa": [1, 2], "rho": [0.1, 0.2, 0.3]})


def test_arrays_of_one_shape_are_pairs() -> None:
    pairs = Parameters(**POINT | {"kappa": [1, 2], "rho": [0.1, 0.2]})
    assert pairs.shape == (2,)
    assert pairs.dims == ("dim_0",)


def test_an_axis_bears_the_name_of_what_varies_along_it() -> None:
    assert Parameters(**POINT | {"kappa": np.ones((3, 1)), "rho": [0.1, 0.2]}).dims == ("kappa", "rho")
    assert Parameters(**POINT | {"alpha": [1, 2]}).dims == ("alpha",)
    assert Parameters(**POINT | {"alpha": [1, 2], "alpha_test": [1, 2]}).dims == ("dim_0",)
    assert Parameters(**POINT | {"gamma": [2.0]}).dims == ("gamma",)


def test_a_grid_keeps_order_values_and_single_values() -> None:
    grid = Parameters.grid(**POINT | {"rho": [0.9, 0.3], "kappa": [2.0]})
    assert grid.dims == ("kappa", "rho")
    assert grid.shape == (1, 2)
    assert grid.rho.ravel().tolist() == [0.9, 0.3]
    with pytest.raises(InputError, match="1-d arrays"):
        Parameters.grid(**POINT | {"rho": [[0.9, 0.3]]})


def test_the_names_of_a_grid_survive_a_copy() -> None:
    import pickle

    grid = Parameters.grid(**POINT | {"rho": [0.9, 0.3], "kappa": [2.0]})
    assert pickle.loads(pickle.dumps(grid)) == grid


def test_points_of_a_grid() -> None:
    grid = Parameters.grid(**POINT | {"alpha": [1, 4], "rho": [0.9, 0.3]})
    assert grid[1, 0] == Parameters(**POINT | {"alpha": 4})
    assert grid[1, 0].alpha_test == 4


def test_values_are_read_only() -> None:
    given = np.array([0.5, 0.7])
    grid = Parameters(**POINT | {"kappa": given})
    with pytest.raises(ValueError, match="read-only"):
        grid.kappa[0] = 3
    given[0] = 9
    assert grid.kappa[0] == 0.5
