"""Errors and predictions against other roads to the same numbers."""

import numpy as np
import pytest
from mpmath import mp, mpf

from replica import Parameters, solve
from replica.parameters import PROTOCOLS

GENERIC = [
    {"alpha": 2.0, "alpha_test": 3.1, "kappa": 1.5, "rho": 0.9, "gamma": 1.5, "sigma": 0.3, "ridge": 0.0},
    {"alpha": 0.7, "alpha_test": 0.2, "kappa": 0.4, "rho": 0.8, "gamma": 0.6, "sigma": 1.1, "ridge": 0.0},
    {"alpha": 5.0, "alpha_test": np.inf, "kappa": 0.9, "rho": 0.3, "gamma": 0.8, "sigma": 0.2, "ridge": 0.07},
    {
        "alpha": np.inf,
        "alpha_test": 2.0,
        "kappa": np.inf,
        "rho": 0.5,
        "gamma": 2.5,
        "sigma": 0.4,
        "ridge": 3.0,
    },
]


@pytest.mark.parametrize("point", GENERIC)
def test_one_formula_for_every_protocol(point: dict[str, float]) -> None:
    """e_B of the theory, with T_B(z) as printed and its derivative taken numerically at 50 digits."""
    solution = solve(Parameters(**point))
    p = {name: mpf(value) for name, value in point.items()}
    with mp.workdps(50):
        noise = p["sigma"] ** 2
        eta, eta_test = (1 + noise) / p["alpha"], (1 + noise) / p["alpha_test"]
        inverse = 1 / p["kappa"]

        def f(z: mpf) -> mpf:
            shift = z + 1 / p["rho"] - inverse
            return 2 / (shift + mp.sqrt(shift**2 + 4 * z * inverse))

        def on_all(z: mpf) -> mpf:
            return p["rho"] * f(z) + (1 - p["rho"]) / z

        tasks = {"TM": lambda z: 1 - z * on_all(z), "IDG": f, "ODG": on_all}
        if p["ridge"] or p["gamma"] < 1:
            xi = mp.findroot(
                lambda x: p["gamma"] - 1 + x * on_all(eta + x) - p["gamma"] * p["ridge"] / x,
                mpf(float(solution.effective_ridge)),
            )
        else:
            xi = mpf(0)
        z = eta + xi
        filtered = 1 - 2 * z * on_all(z) - z**2 * mp.diff(on_all, z)

        def bias(protocol: str, eta_test: mpf) -> mpf:
            return noise - z**2 * mp.diff(tasks[protocol], z) + eta_test * filtered

        def fluctuation(function: object) -> mpf:
            return function(z) + xi * mp.diff(function, z)

        level = bias("TM", eta) / (p["gamma"] - 1 + 2 * xi * on_all(z) + xi**2 * mp.diff(on_all, z))
        for protocol in PROTOCOLS:
            spread = fluctuation(tasks[protocol]) + eta_test * fluctuation(on_all)
            exact = bias(protocol, eta_test) + level * spread
            # Double precision, with a few units lost in the root.
            assert float(solution.errors[protocol]) == pytest.approx(float(exact), rel=1e-14)
        assert float(solution.noise_level) == pytest.approx(float(level), rel=1e-14)


@pytest.mark.parametrize("sigma", [0.0, 0.3, 1.7])
@pytest.mark.parametrize("alpha", [0.05, 2.0, 1e3])
def test_full_rank_equals_the_closed_formula(alpha: float, sigma: float) -> None:
    """Lu, Letey, Zavatone-Veth, Maiti, Pehlevan, PNAS 2025, at rho = 1 on both sides of gamma = 1."""
    kappa, gamma = np.array([0.2, 0.9, 1.0, 3.0])[:, None], np.array([0.2, 0.7, 0.95, 1.05, 1.6, 9.0])
    solution = solve(Parameters(alpha=alpha, kappa=kappa, rho=1, gamma=gamma, sigma=sigma))
    x = (1 + sigma**2) / alpha

    def resolvent(ratio: np.ndarray, x: float) -> np.ndarray:
        b = x + 1 - 1 / ratio
        return 2 / (b + np.sqrt(b**2 + 4 * x / ratio))

    m, mu = resolvent(kappa, x), x * resolvent(kappa / gamma, x)
    below = (
        gamma * (1 + x) / (1 - gamma) * (1 - gamma * (1 - mu) ** 2 - (x - sigma**2) * mu / x)
        - 2 * gamma * (1 - mu)
        + sigma**2
        + 1
    )
    k = 1 / (1 - kappa * (m / (kappa + m)) ** 2)
    above = (
        (k - 1 / (gamma - 1)) * (1 + x) * (x * m) ** 2
        + (3 - 2 * gamma) / (gamma - 1) * m * x**2
        + ((1 + sigma**2) / (gamma - 1) * m + 1) * x
        + sigma**2 * m / (gamma - 1)
        + sigma**2
    )
    closed = np.where(gamma < 1, below, above)
    # The closed formula itself cancels, most at long contexts without noise.
    np.testing.assert_allclose(solution.errors["IDG"], closed, rtol=1e-10)
    np.testing.assert_allclose(solution.errors["ODG"], closed, rtol=1e-10)


NOISY = {"gamma": 2.5, "sigma": 0.3}


def long_context(alpha: float, **point: float) -> dict[str, float]:
    return {p: float(e) for p, e in solve(Parameters(alpha=alpha, **point)).errors.items()}


def test_long_contexts_with_noise() -> None:
    """Limits alpha -> infinity; the corrections are of order 1/alpha, slower at rho = kappa."""
    noise, gamma = 0.09, 2.5
    rich, poor, critical = ({"kappa": 0.8, "rho": r, **NOISY} for r in (0.3, 0.95, 0.8))
    errors = long_context(1e9, **rich)
    assert errors["TM"] == pytest.approx(noise * gamma / (gamma - 1), rel=1e-7)
    limit = noise + noise / (gamma - 1) * (0.3 * 0.8 / 0.5 + 0.7)
    assert errors["IDG"] == pytest.approx(limit, rel=1e-7)
    for point in (rich, poor):
        slope = noise * (1 - min(point["kappa"], point["rho"])) / ((gamma - 1) * (1 + noise))
        assert long_context(1e9, **point)["ODG"] / 1e9 == pytest.approx(slope, rel=1e-6)
    for point, exponent in ((rich, 0.0), (poor, 1.0), (critical, 0.5)):
        ratio = long_context(4e10, **point)["IDG"] / long_context(1e10, **point)["IDG"]
        assert np.log(ratio) / np.log(4) == pytest.approx(exponent, abs=1e-4)


def test_long_contexts_without_noise() -> None:
    for rho, exponent in ((0.3, -1.0), (0.8, -0.5), (0.95, 0.0)):
        point = {"kappa": 0.8, "rho": rho, "gamma": 2.5, "sigma": 0.0}
        first, second = long_context(1e8, **point), long_context(4e8, **point)
        slopes = {p: np.log(second[p] / first[p]) / np.log(4) for p in PROTOCOLS}
        # Corrections to the exponents are of order alpha^(-1/2) at most.
        assert slopes["TM"] == pytest.approx(-1, abs=1e-3)
        assert slopes["IDG"] == pytest.approx(exponent, abs=1e-3)
        assert slopes["ODG"] == pytest.approx(0, abs=1e-3)
