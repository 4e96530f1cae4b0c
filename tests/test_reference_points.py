"""Solutions against values computed in multiple precision by another road, `reference/mp_reference.py`."""

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from replica import Parameters, Status, solve

REFERENCE = Path(__file__).parent / "reference"
PROTOCOLS = ("TM", "IDG", "ODG")
PARTS = ("algorithmic", "memorization", "structural")
LAW = ("covariance", "variance")
ORDER = ("q", "m", "chi", "q_hat", "m_hat", "chi_hat")


@cache
def oracle() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mp_reference", REFERENCE / "mp_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def expected(store: str) -> dict[str, np.ndarray]:
    """Every committed number of a file as an array over its points, by a slash-separated name."""

    def named(point: dict[str, Any]) -> dict[str, float]:
        values = {f"parameters/{name}": value for name, value in point["parameters"].items()}
        for name in ("effective_ridge", "training_error"):
            if name in point:
                values[name] = float(point[name])
        for name, value in point.get("order_parameters", {}).items():
            values[f"order_parameters/{name}"] = float(value)
        for protocol in PROTOCOLS:
            values[f"errors/{protocol}"] = float(point["errors"][protocol])
            for group, names in (("decomposition", PARTS), ("prediction", LAW)):
                for name, value in zip(names, point[group][protocol], strict=True):
                    values[f"{group}/{protocol}/{name}"] = float(value)
        return values

    rows = [named(point) for point in oracle().load(REFERENCE / store)]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


@cache
def solution(store: str) -> Any:
    points = expected(store)
    return solve(Parameters(**{name: points[f"parameters/{name}"] for name in oracle().NAMES}))


def computed(store: str, name: str) -> np.ndarray:
    value = solution(store)
    first, *keys = name.split("/")
    value = getattr(value, first)
    for key in keys:
        value = value[key]
    return np.asarray(value)


ERRORS = [f"errors/{protocol}" for protocol in PROTOCOLS]
SHARES = [f"decomposition/{protocol}/{part}" for protocol in PROTOCOLS for part in PARTS]
LAWS = [f"prediction/{protocol}/{moment}" for protocol in PROTOCOLS for moment in LAW]
INNER = ["training_error", *(f"order_parameters/{name}" for name in ORDER)]
COMMON = ["effective_ridge", *ERRORS, *SHARES, *LAWS]

CASES = [
    *(("random_points.json", name) for name in [*COMMON, *INNER]),
    *(("low_rank_icl_points.json", name) for name in COMMON),
]

# What is allowed is rounding of the solver, amplified by up to 1/|gamma - 1| <= 1e3 near the threshold.
RELATIVE = 1e-12


@pytest.mark.parametrize(("store", "name"), CASES)
def test_solver_agrees_with_the_reference(store: str, name: str) -> None:
    want, have = expected(store)[name], computed(store, name)
    assert have.shape == want.shape
    scale = np.abs(want)
    if name.startswith("decomposition"):
        # Relative to the total, or to the part where it is larger: two parts of TM may nearly cancel.
        scale = np.maximum(scale, expected(store)["errors/" + name.split("/")[1]])
    with np.errstate(invalid="ignore"):
        close = (have == want) | (np.abs(have - want) <= RELATIVE * scale)
    # Infinities must be exactly that: an infinite scale would let anything pass.
    close &= np.isfinite(have) == np.isfinite(want)
    off = [
        (oracle().load(REFERENCE / store)[i]["parameters"], have[i], want[i]) for i in np.flatnonzero(~close)
    ]
    assert not off


def test_every_random_point_is_solved() -> None:
    assert np.all(solution("random_points.json").status == Status.OK)
    # The bound that the status promises.
    assert np.all(solution("random_points.json").residual <= 1e-10)


# Fewer digits than the store asks for cost half the time; float64 is all that these values have.
@pytest.mark.parametrize("index", range(6))
def test_reference_reproduces_the_public_points(index: int) -> None:
    point = oracle().load(oracle().PUBLIC)[index]
    result = oracle().solve(point["parameters"], digits=20)
    for name in ("effective_ridge", "errors", "decomposition", "prediction"):
        have = [float(value) for value in oracle().leaves(result[name])]
        want = list(oracle().leaves(point[name]))
        # Both round the same reals, and the parameters were decimals to whoever made the file.
        np.testing.assert_allclose(have, want, rtol=1e-14, atol=0)


@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize("gamma", [0.03, 1e-4, 1e-9, 1e-20])
def test_few_prompts_cost_no_digits(gamma: float, ridge: float) -> None:
    point = {
        "alpha": 3.0,
        "alpha_test": 5.0,
        "kappa": 0.7,
        "rho": 0.4,
        "gamma": gamma,
        "sigma": 0.3,
        "ridge": ridge,
    }
    want, have = oracle().solve(point, digits=40), solve(Parameters(**point))
    assert have.status == Status.OK
    assert have.effective_ridge == pytest.approx(float(want["effective_ridge"]), rel=RELATIVE)
    for name in ("errors", "decomposition", "prediction"):
        leaves = list(oracle().leaves(have.to_dict()[name]))
        np.testing.assert_allclose(
            leaves, [float(v) for v in oracle().leaves(want[name])], rtol=RELATIVE, atol=0
        )


def test_random_points_are_the_drawn_ones() -> None:
    assert [point["parameters"] for point in oracle().load(oracle().STORE)] == oracle().draw()


def test_random_points_sit_where_errors_hide() -> None:
    p = {name: expected("random_points.json")[f"parameters/{name}"] for name in oracle().NAMES}
    edge = (np.abs(p["rho"] - p["kappa"]) <= 1e-6) & (np.abs(p["rho"] / p["kappa"] - 1) <= 1e-6)
    for regime in (
        p["ridge"] > 0,
        (p["ridge"] == 0) & (p["gamma"] > 1),
        (p["ridge"] == 0) & (p["gamma"] < 1),
    ):
        assert np.sum(regime & ~edge) >= 50
        assert np.sum(regime & edge) >= 10
        assert np.any(regime & (p["rho"] == p["kappa"]))
        assert np.any(regime & (p["alpha"] == np.inf))
        assert np.any(regime & (p["alpha_test"] == np.inf) & (p["alpha"] < np.inf))
        assert np.any(regime & (p["kappa"] == np.inf))
        assert np.any(regime & (np.abs(p["gamma"] - 1) < 5e-3))


@pytest.mark.slow
def test_random_points_regenerate() -> None:
    points = oracle().load(oracle().STORE)
    for index in np.random.default_rng(7).choice(len(points), size=40, replace=False):
        point = dict(points[index])
        assert oracle().text(oracle().solve(point.pop("parameters"))) == point


@pytest.mark.slow
def test_reference_passes_its_own_checks() -> None:
    points = oracle().load(oracle().STORE)
    for index in np.random.default_rng(8).choice(len(points), size=12, replace=False):
        point = points[index]["parameters"]
        result = oracle().solve(point)
        for check, (tolerance, _) in oracle().CHECKS.items():
            if oracle().applies(check, point):
                assert check(point, result) <= tolerance
