"""Solving grids: identities of the answer, statuses, regimes and broadcasting."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import brentq
from seeds import outputs_under_hash_seeds
from strategies import points

from replica import Parameters, Status, solve
from replica.parameters import PROTOCOLS

EPS = np.finfo(float).eps

POINT = {"alpha": 2.0, "kappa": 1.5, "rho": 0.9, "gamma": 1.5, "sigma": 0.3}


def random_grid(size: int, seed: int, **fixed: object) -> Parameters:
    rng = np.random.default_rng(seed)

    def spread(low: float, high: float) -> np.ndarray:
        return np.exp(rng.uniform(np.log(low), np.log(high), size))

    values = {
        "alpha": spread(1e-3, 1e6),
        "alpha_test": spread(1e-3, 1e6),
        "kappa": spread(1e-2, 1e2),
        "rho": spread(1e-3, 1),
        "gamma": spread(0.1, 100),
        "sigma": rng.uniform(0, 3, size),
        "ridge": np.where(rng.random(size) < 0.5, 0, spread(1e-12, 1e3)),
    }
    return Parameters(**values | fixed)


@settings(max_examples=300, deadline=None)
@given(points)
def test_identities_of_an_answer(point: dict[str, float]) -> None:
    solution = solve(Parameters(**point))
    noise = point["sigma"] ** 2
    assert solution.status == Status.OK
    assert solution.residual < 1e-13
    for protocol in PROTOCOLS:
        error, parts, moments = (
            table[protocol] for table in (solution.errors, solution.decomposition, solution.prediction)
        )
        # Some twenty roundings on either side, on the scale of the parts: those of TM may exceed their sum.
        scale = sum(abs(part) for part in parts.values())
        assert abs(sum(parts.values()) - error) <= 20 * EPS * scale
        from_moments = noise + 1 - 2 * moments["covariance"] + moments["variance"]
        assert abs(from_moments - error) <= 20 * EPS * (1 + noise + moments["variance"])
        assert error >= noise * (1 - 1e-15)
        assert moments["covariance"] ** 2 <= (1 + noise) * moments["variance"] * (1 + 1e-15)
    for part in ("algorithmic", "structural"):
        assert solution.decomposition["TM"][part] == solution.decomposition["IDG"][part]
    assert solution.effective_ridge >= 0
    assert solution.training_error >= 0
    if point["rho"] == 1:
        assert solution.errors["IDG"] == pytest.approx(solution.errors["ODG"], rel=1e-14)


@settings(max_examples=100, deadline=None)
@given(points)
def test_the_memorized_error_is_gamma_v_at_equal_contexts(point: dict[str, float]) -> None:
    solution = solve(Parameters(**point | {"alpha_test": None}))
    assert solution.errors["TM"] == pytest.approx(point["gamma"] * solution.noise_level, rel=1e-13)


def test_memorization_is_not_always_the_easiest() -> None:
    """TM <= IDG <= ODG is no identity, so nothing may assume it."""
    solution = solve(random_grid(20_000, seed=5))
    assert np.any(solution.errors["IDG"] < solution.errors["TM"])
    assert np.any(solution.errors["ODG"] < solution.errors["IDG"])


def test_vectorised_equals_a_loop_of_scalar_root_finding() -> None:
    grid = random_grid(200, seed=3, ridge=np.exp(np.linspace(-25, 6, 200)))
    solution = solve(grid)
    for index in range(grid.size):
        p = dict(grid[index].items())
        eta = (1 + p["sigma"] ** 2) / p["alpha"]

        def equation(log_xi: float, p: dict[str, float] = p, eta: float = eta) -> float:
            xi = np.exp(log_xi)
            z, inverse = eta + xi, 1 / p["kappa"]
            shift = z + (p["kappa"] - p["rho"]) / (p["kappa"] * p["rho"])
            root = np.sqrt(shift**2 + 4 * z * inverse)
            f = 2 / (shift + root) if shift > 0 else (root - shift) / (2 * z * inverse)
            on_all = p["rho"] * f + (1 - p["rho"]) / z
            return p["gamma"] - 1 + xi * on_all - p["gamma"] * p["ridge"] / xi

        xi = np.exp(brentq(equation, -60, 60, xtol=1e-15, rtol=1e-15))
        # Where the average hardly moves with xi, its rounding is amplified in the root.
        assert solution.effective_ridge[index] == pytest.approx(xi, rel=1e-11)


def test_a_grid_equals_its_points() -> None:
    grid = random_grid(300, seed=8)
    together = solve(grid)
    for index in range(0, grid.size, 7):
        alone = solve(grid[index])
        for protocol in PROTOCOLS:
            # Vector and scalar square roots may round differently in the last place.
            assert alone.errors[protocol] == pytest.approx(together.errors[protocol][index], rel=1e-14)


@pytest.mark.parametrize(
    "shapes",
    [
        {},
        {"kappa": (5,)},
        {"kappa": (3, 1), "rho": (1, 4)},
        {"alpha": (2, 1, 1), "sigma": (3,), "ridge": (4, 1)},
    ],
)
def test_broadcasting(shapes: dict[str, tuple[int, ...]]) -> None:
    values = POINT | {"ridge": 0.1}
    arrays = {
        name: values[name] * np.linspace(0.9, 1.1, int(np.prod(shape))).reshape(shape)
        for name, shape in shapes.items()
    }
    arrays |= {"rho": np.minimum(arrays["rho"], 1)} if "rho" in arrays else {}
    solution = solve(Parameters(**values | arrays))
    expected = np.broadcast_shapes(*shapes.values()) if shapes else ()
    for array in (
        solution.status,
        solution.residual,
        *solution.errors.values(),
        *solution.order_parameters.values(),
    ):
        assert np.shape(array) == expected
    assert solution.to_dataset()["errors"].shape == (3, *expected)


def test_a_dataset_shares_the_numbers_under_their_names() -> None:
    solution = pickle.loads(pickle.dumps(solve(Parameters.grid(**POINT | {"kappa": [0.5, 1.5]}))))
    dataset = solution.to_dataset()
    named = {
        ("protocol", "part"): ("decomposition", solution.decomposition),
        ("protocol", "moment"): ("prediction", solution.prediction),
    }
    for (outer, inner), (name, tree) in named.items():
        assert list(tree) == list(dataset[outer].values)
        for one, branch in tree.items():
            assert list(branch) == list(dataset[inner].values)
            for other, array in branch.items():
                inside = dataset[name].sel({outer: one, inner: other}).values
                assert np.array_equal(inside, array)
                assert np.shares_memory(inside, array)
    with pytest.raises(KeyError, match="XDG"):
        solution.errors["XDG"]


def test_every_status_of_the_model_in_one_call() -> None:
    cases = [
        ({}, Status.OK),
        ({"gamma": 1.0}, Status.INTERPOLATION_THRESHOLD),
        ({"gamma": 1.0, "ridge": 1e-3}, Status.OK),
        ({"alpha": np.inf}, Status.ILL_POSED),
        ({"alpha": np.inf, "gamma": 1.0}, Status.ILL_POSED),
        ({"alpha": np.inf, "gamma": 0.7}, Status.OK),
        ({"alpha": np.inf, "gamma": 0.9}, Status.ILL_POSED),
        ({"alpha": np.inf, "rho": 1.0}, Status.OK),
        ({"alpha": np.inf, "rho": 1.0, "gamma": 1.0}, Status.INTERPOLATION_THRESHOLD),
        ({"alpha": np.inf, "rho": 1.0, "kappa": 1.0}, Status.ILL_POSED),
        ({"alpha": np.inf, "ridge": 0.1}, Status.OK),
        ({"alpha": 1e-300}, Status.NONFINITE),
    ]
    names = [*POINT, "ridge"]
    rows = [{**POINT, "ridge": 0.0, **change} for change, _ in cases]
    solution = solve(Parameters(**{name: [row[name] for row in rows] for name in names}))
    assert [Status(code) for code in solution.status] == [status for _, status in cases]
    ok = solution.status == Status.OK
    threshold = solution.status == Status.INTERPOLATION_THRESHOLD
    for protocol in PROTOCOLS:
        for array in (
            solution.errors[protocol],
            *solution.decomposition[protocol].values(),
            solution.prediction[protocol]["variance"],
        ):
            assert np.all(np.isfinite(array[ok]))
            assert np.all(np.isposinf(array[threshold]))
            assert np.all(np.isnan(array[~ok & ~threshold]))
        assert np.all(np.isnan(solution.prediction[protocol]["covariance"][~ok]))
    for array in (solution.residual, solution.effective_ridge, solution.training_error, solution.noise_level):
        assert np.all(np.isnan(array[~ok]))
    assert solution.counts()["ill_posed"] == 4


def test_minimum_norm_reports_the_singular_variables() -> None:
    solution = solve(Parameters(**POINT | {"gamma": 0.6}))
    o = solution.order_parameters
    assert (o["q_hat"], o["m_hat"], o["chi_hat"], o["chi"]) == (0, 0, 0, np.inf)
    assert solution.training_error == 0
    assert solution.effective_ridge > 0


@pytest.mark.parametrize("gamma", [0.4, 0.95, 1.05, 3.0])
@pytest.mark.parametrize("kappa", [0.5, 0.9, 1.5])
def test_a_vanishing_ridge_meets_the_ridgeless_branch(gamma: float, kappa: float) -> None:
    """Both closed branches are the limit of the root: the distance shrinks in proportion to the ridge."""
    point = POINT | {"gamma": gamma, "kappa": kappa}
    limit = solve(Parameters(**point)).errors["ODG"]
    near, nearer = (solve(Parameters(**point, ridge=r)).errors["ODG"] - limit for r in (1e-6, 1e-8))
    assert abs(near) < 1e-2 * limit
    assert nearer / near == pytest.approx(1e-2, rel=0.05)


@pytest.mark.parametrize(("name", "at", "beyond"), [("kappa", np.inf, 1e9), ("alpha_test", np.inf, 1e9)])
def test_infinite_values_are_limits(name: str, at: float, beyond: float) -> None:
    for gamma in (0.6, 1.5):
        point = POINT | {"gamma": gamma}
        infinite, large, larger = (
            solve(Parameters(**point | {name: value})).errors["IDG"] for value in (at, beyond, 2 * beyond)
        )
        assert abs(large - infinite) < 1e-7
        assert (larger - infinite) / (large - infinite) == pytest.approx(0.5, rel=1e-3)


def test_infinite_context_with_ridge_is_a_limit() -> None:
    infinite, large = (
        solve(Parameters(**POINT | {"alpha": alpha, "alpha_test": 5.0}, ridge=0.1)).errors["ODG"]
        for alpha in (np.inf, 1e8)
    )
    assert large == pytest.approx(infinite, rel=1e-6)


@pytest.mark.parametrize("gamma", [0.5, 1.5])
def test_nothing_jumps_at_the_transition(gamma: float) -> None:
    """The errors are smooth through rho = kappa: second differences at 1e-4 are of order 1e-8."""
    rho = 0.6 + np.linspace(-5e-4, 5e-4, 11)
    errors = solve(Parameters(**POINT | {"kappa": 0.6, "rho": rho, "gamma": gamma})).errors["IDG"]
    assert np.max(np.abs(np.diff(errors, 2))) < 1e-6


def test_numbers_and_fingerprint_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "import json\nfrom replica import Parameters, solve\nfrom replica.theory import fingerprint\n"
        "s = solve(Parameters(alpha=2, kappa=[.5, 1.5], rho=.9, gamma=[.7, 1.5], sigma=.3, ridge=.01))\n"
        "print(json.dumps([fingerprint(), [e.tolist() for e in s.errors.values()], s.residual.tolist()]))"
    )
    outputs = outputs_under_hash_seeds(code)
    assert len(outputs) == 1
    assert len(json.loads(outputs.pop())[0]) == 16


def test_representations_are_short() -> None:
    one, many = solve(Parameters(**POINT)), solve(Parameters(**POINT | {"kappa": [0.5, 1.5]}, ridge=0))
    assert repr(one) == "<Solution ok: TM=1.11227, IDG=1.44156, ODG=1.59668>"
    assert repr(many) == "<Solution 2 (kappa): 2 ok>"
    with pytest.raises(ValueError, match="no single point"):
        many.to_dict()


@pytest.mark.parametrize("kappa", [0.6, 5.0, np.inf])
def test_infinite_context_without_ridge_is_explicit_up_to_its_threshold(kappa: float) -> None:
    """xi = (kappa - gamma)(rho - gamma)/(gamma kappa rho), met by the root at long contexts."""
    rho = 0.6
    for gamma in (0.2, 0.5, 0.6 * (1 - 1e-9)):
        point = POINT | {"kappa": kappa, "rho": rho, "gamma": gamma}
        limit = solve(Parameters(**point | {"alpha": np.inf}))
        share = 1.0 if np.isinf(kappa) else (kappa - gamma) / kappa
        assert limit.status == Status.OK
        assert limit.effective_ridge == pytest.approx(share * (rho - gamma) / (gamma * rho), rel=1e-15)
    point |= {"gamma": 0.2}
    near, nearer = (
        solve(Parameters(**point | {"alpha": alpha})).effective_ridge
        - solve(Parameters(**point | {"alpha": np.inf})).effective_ridge
        for alpha in (1e5, 1e7)
    )
    assert nearer / near == pytest.approx(1e-2, rel=1e-3)
