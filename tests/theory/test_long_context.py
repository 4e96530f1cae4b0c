"""Long contexts: exponents, amplitudes and orders, against the exact errors and against printed limits."""

import numpy as np
import pytest
import sympy as sp

from replica import InputError, Parameters, solve
from replica.parameters import PROTOCOLS, Protocol
from replica.theory.long_context import (
    Case,
    Samples,
    Tasks,
    U,
    collapse,
    expansion,
    gap,
    long_context,
    regularized,
    scaling,
)
from replica.theory.symbols import gamma, inverse_kappa, noise, rho

RANKS = {Tasks.RICH: 0.3, Tasks.CRITICAL: 0.6, Tasks.POOR: 0.85}
KAPPA = 0.6
OVER = Samples.OVERDETERMINED
half = sp.Rational(1, 2)

# As alpha -> infinity the errors grow like alpha^exponent; from the limits known for ridge = 0, gamma > 1.
KNOWN = {
    (Tasks.RICH, False): {"TM": 0, "IDG": 0, "ODG": 1},
    (Tasks.CRITICAL, False): {"TM": 0, "IDG": half, "ODG": 1},
    (Tasks.POOR, False): {"TM": 0, "IDG": 1, "ODG": 1},
    (Tasks.RICH, True): {"TM": -1, "IDG": -1, "ODG": 0},
    (Tasks.CRITICAL, True): {"TM": -1, "IDG": -half, "ODG": 0},
    (Tasks.POOR, True): {"TM": -1, "IDG": 0, "ODG": 0},
}


@pytest.mark.parametrize("regime", KNOWN, ids=str)
def test_the_exponents_come_out(regime: tuple[Tasks, bool]) -> None:
    tasks, noiseless = regime
    for protocol in PROTOCOLS:
        (power,) = expansion(protocol, Case(tasks, OVER, noiseless)).terms
        assert isinstance(power, sp.Rational)
        assert -power == KNOWN[regime][protocol]


def amplitude(protocol: Protocol, tasks: Tasks) -> sp.Expr:
    """Of eta^exponent, with noise and gamma > 1."""
    return expansion(protocol, Case(tasks, OVER)).expression(sp.Integer(1))


def test_the_amplitudes_are_the_known_limits() -> None:
    """The limits for ridge = 0, gamma > 1, sigma > 0, as symbols."""
    kappa = 1 / inverse_kappa
    rich = noise + noise / (gamma - 1) * (rho * kappa / (kappa - rho) + 1 - rho)
    slope = noise / (gamma - 1)
    expected = {
        (Protocol.TM, Tasks.RICH): noise * gamma / (gamma - 1),
        (Protocol.TM, Tasks.POOR): noise * gamma / (gamma - 1),
        (Protocol.IDG, Tasks.RICH): rich,
        (Protocol.ODG, Tasks.RICH): slope * (1 - rho),
        (Protocol.ODG, Tasks.POOR): slope * (1 - kappa),
    }
    for (protocol, tasks), limit in expected.items():
        assert sp.simplify(amplitude(protocol, tasks) - limit) == 0


def orders(point: dict[str, float], alphas: list[float], count: int = 1) -> dict[str, np.ndarray]:
    """log2 of how much closer the expansion comes each time the small parameter is halved."""
    exact = solve(Parameters(alpha=alphas, **point)).errors
    tasks = {0.3: Tasks.RICH, 0.6: Tasks.CRITICAL, 0.85: Tasks.POOR}[point["rho"]]
    spanned = min(point["rho"], point["kappa"])
    g = point["gamma"]
    samples = (
        OVER
        if g > 1
        else Samples.CRITICAL
        if g == spanned
        else Samples.POOR
        if g < spanned
        else Samples.UNDERDETERMINED
    )
    numbers = {
        noise: sp.Float(point["sigma"] ** 2, 30),
        rho: sp.Rational(str(point["rho"])),
        inverse_kappa: 1 / sp.Rational(str(point["kappa"])),
        gamma: sp.Rational(str(g)),
    }
    found = {}
    for protocol in PROTOCOLS:
        series = expansion(protocol, Case(tasks, samples, point["sigma"] == 0), count)
        small = [(1 + point["sigma"] ** 2) / alpha for alpha in alphas]
        left = [
            abs(e - float(series.expression(x).subs(numbers)))
            for e, x in zip(exact[protocol], small, strict=True)
        ]
        found[protocol] = (
            np.log2(np.divide(left[:-1], left[1:])),
            series.remainder,
        )
    return found


@pytest.mark.parametrize("sigma", [0.0, 0.4])
@pytest.mark.parametrize("tasks", Tasks)
@pytest.mark.parametrize("gamma_", [1.7, 0.8])
def test_halving_twice_shows_the_order(gamma_: float, tasks: Tasks, sigma: float) -> None:
    point = {"kappa": KAPPA, "rho": RANKS[tasks], "gamma": gamma_, "sigma": sigma}
    for observed, remainder in orders(point, [1e6, 2e6, 4e6]).values():
        # Corrections to the order are eta^(1/2) times ratios of amplitudes, some 1e-2 here.
        assert observed == pytest.approx(float(remainder), abs=0.05)


@pytest.mark.parametrize("sigma", [0.0, 0.4])
@pytest.mark.parametrize("tasks", Tasks)
def test_a_second_term_has_an_order_of_its_own(tasks: Tasks, sigma: float) -> None:
    point = {"kappa": KAPPA, "rho": RANKS[tasks], "gamma": 1.7, "sigma": sigma}
    # Shorter contexts, so that the third power of eta stays above the rounding of the exact error.
    for observed, remainder in orders(point, [4e3, 8e3, 16e3], count=2).values():
        assert observed == pytest.approx(float(remainder), abs=0.15)


@pytest.mark.parametrize("sigma", [0.0, 0.4])
@pytest.mark.parametrize(("rho_", "gamma_"), [(0.3, 0.3), (0.6, 0.6), (0.85, 0.6), (0.85, 0.2)])
def test_few_samples(rho_: float, gamma_: float, sigma: float) -> None:
    point = {"kappa": KAPPA, "rho": rho_, "gamma": gamma_, "sigma": sigma}
    for observed, remainder in orders(point, [1e8, 2e8, 4e8]).values():
        # The triple point rho = kappa = gamma converges as slowly as eta^(1/3).
        assert observed == pytest.approx(float(remainder), abs=0.05)


SPECIAL = [
    {"kappa": 0.6, "rho": 1.0},
    {"kappa": 1.0, "rho": 1.0},
    {"kappa": 3.0, "rho": 1.0},
    {"kappa": np.inf, "rho": 1.0},
    {"kappa": np.inf, "rho": 0.4},
]


@pytest.mark.parametrize("special", SPECIAL, ids=str)
@pytest.mark.parametrize("sigma", [0.0, 0.4])
def test_full_rank_and_endless_tasks(special: dict[str, float], sigma: float) -> None:
    point = {**special, "gamma": 1.7, "sigma": sigma}
    near, far = ((Parameters(alpha=a, **point)) for a in (1e6, 4e6))
    terms = long_context(near)
    first, second = solve(near).errors, solve(far).errors
    for protocol in PROTOCOLS:
        slope = np.log(second[protocol] / first[protocol]) / np.log(4)
        # Relative corrections are of order eta^(1/2) = 1e-3 at most.
        assert slope == pytest.approx(float(terms.exponents[protocol]), abs=2e-3)
        assert first[protocol] == pytest.approx(float(terms.leading[protocol]), rel=5e-3)


def test_a_grid_of_all_regimes_in_one_call() -> None:
    grid = Parameters(
        alpha=1e10,
        kappa=0.6,
        rho=[0.3, 0.6, 0.85, 0.3, 0.3, 0.6],
        gamma=[1.7, 0.8, 1.7, 1.0, 0.9, 0.2],
        sigma=[0.4, 0.0, 0.4, 0.4, 0.4, 0.0],
        ridge=[0, 0, 0, 0, 0.1, 0],
    )
    terms = long_context(grid)
    assert list(terms.tasks) == ["task-rich", "critical", "task-poor", "task-rich", "task-rich", "critical"]
    assert list(terms.samples) == [
        "overdetermined",
        "underdetermined",
        "overdetermined",
        "interpolation-threshold",
        "regularized",
        "sample-poor",
    ]
    exact = solve(grid).errors
    for protocol in PROTOCOLS:
        for index in (0, 1, 2, 4, 5):
            alone = long_context(grid[index])
            assert alone.leading[protocol] == terms.leading[protocol][index]
            assert terms.leading[protocol][index] == pytest.approx(exact[protocol][index], rel=1e-4)
        assert np.isinf(terms.leading[protocol][3])
        assert np.isnan(terms.exponents[protocol][3])


def test_infinite_contexts_are_the_limit() -> None:
    point = {"kappa": 0.6, "rho": [0.3, 0.85], "gamma": 0.2, "sigma": 0.4}
    limit = long_context(Parameters(alpha=np.inf, **point)).leading
    exact = solve(Parameters(alpha=np.inf, **point)).errors
    for protocol in PROTOCOLS:
        np.testing.assert_allclose(limit[protocol], exact[protocol], rtol=1e-12)
    growing = long_context(Parameters(alpha=np.inf, kappa=0.6, rho=0.85, gamma=1.7, sigma=0.4)).leading
    assert np.isinf(growing["IDG"])
    assert np.isfinite(growing["TM"])


def test_a_ridge_makes_the_limit_regular() -> None:
    """Two terms, the second symbolic: what is left falls by four each time eta is halved."""
    point = {"kappa": 0.6, "rho": np.array([0.3, 0.6, 0.85]), "gamma": 0.8, "sigma": 0.4, "ridge": 0.1}
    limits, slopes = regularized(Parameters(alpha=1, **point))
    alphas = np.array([1e3, 2e3, 4e3])[:, None]
    exact = solve(Parameters(alpha=alphas, **point)).errors
    for protocol in PROTOCOLS:
        left = np.abs(exact[protocol] - limits[protocol] - slopes[protocol] * 1.16 / alphas)
        assert np.log2(left[:-1] / left[1:]) == pytest.approx(2, abs=0.05)
    with pytest.raises(InputError, match="ridge = 0"):
        regularized(Parameters(alpha=1, **point | {"ridge": 0.0}))


def test_what_no_series_describes_is_refused() -> None:
    with pytest.raises(ValueError, match="regularized"):
        expansion(Protocol.TM, Case(Tasks.RICH, Samples.REGULARIZED))
    with pytest.raises(InputError, match="alpha_test = 3 differs from alpha = 2"):
        long_context(Parameters(alpha=2, alpha_test=3, kappa=0.6, rho=0.3, gamma=1.7, sigma=0.4))


def test_the_scaling_function_is_the_known_one() -> None:
    series = scaling(Protocol.IDG)
    assert series.terms == {-1: noise / (U * (gamma - 1))}
    w = sp.Symbol("w", real=True)
    root = (w + sp.sqrt(w**2 + 4)) / 2
    assert sp.simplify(root - 1 / root - w) == 0


@pytest.mark.parametrize("sigma", [0.0, 0.4])
@pytest.mark.parametrize("gamma_", [0.8, 1.7])
def test_errors_collapse_on_the_scaling_function(gamma_: float, sigma: float) -> None:
    """The distance from the function halves when eta falls by four, as its relative order eta^(1/2) says."""
    kappa, w = 0.6, np.array([-4.0, -1.0, 0.0, 1.0, 4.0])
    worst = []
    for alpha in (1e6, 4e6):
        width = np.sqrt((1 + sigma**2) / alpha / kappa)
        grid = Parameters(
            alpha=alpha, kappa=kappa, rho=1 / (1 / kappa + w * width), gamma=gamma_, sigma=sigma
        )
        near = collapse(solve(grid), "IDG")
        worst.append(np.abs(near.rescaled / near.function - 1))
        if gamma_ > 1:
            np.testing.assert_allclose(near.variable, w, rtol=1e-9, atol=1e-12)
    assert np.all(worst[0] < 0.03)
    assert worst[0] / worst[1] == pytest.approx(2, abs=0.1)


def test_the_scaling_function_joins_the_regimes() -> None:
    """Far from the transition it has the amplitudes of the task-rich and task-poor sides close to it."""
    coefficient = scaling(Protocol.IDG, noiseless=True).terms[sp.Integer(1)]
    rich = sp.limit(coefficient * U, U, sp.oo) * inverse_kappa
    near = expansion(Protocol.IDG, Case(Tasks.RICH, OVER, True)).expression(sp.Integer(1))
    side = sp.limit(near.subs(rho, 1 / (gap + inverse_kappa)) * gap, gap, 0)
    # tau / U = tau^2 / d = eta / (kappa d) there.
    assert sp.simplify(rich - side) == 0


def test_experiments_may_be_rescaled_and_bad_points_are_refused() -> None:
    point = {"alpha": 1e4, "kappa": 0.6, "rho": 0.6, "gamma": 1.7, "sigma": 0.4}
    solution = solve(Parameters(**point))
    near = collapse(solution, "IDG")
    doubled = collapse(solution, "IDG", 2 * solution.errors["IDG"])
    assert doubled.rescaled == pytest.approx(2 * near.rescaled, rel=1e-15)
    assert near.function == 1
    for change, words in (
        ({"ridge": 0.1}, "ridge = 0.1"),
        ({"kappa": 1.5}, "kappa = 1.5"),
        ({"gamma": 0.5}, "gamma = 0.5"),
        ({"gamma": 0.4, "alpha": np.inf}, "gamma = 0.4"),
    ):
        with pytest.raises(InputError, match=words):
            collapse(solve(Parameters(**point | change)), "IDG")
