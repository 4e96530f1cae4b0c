"""The Marchenko-Pastur averages: positive forms against partial fractions and against the density itself."""

import numpy as np
import pytest
import sympy as sp
from curve import on_the_curve
from mpmath import mp, mpf

from replica.engine.action import Average
from replica.theory import spectrum
from replica.theory.symbols import definitions, eta, inverse_kappa, n, off_range, rho, s, s_range, t, u, y, z

PAIRS = list(spectrum._POSITIVE)
GENERIC = {"z": 0.37, "kappa": 1.7, "rho": 0.6}


def test_u_and_t_solve_the_marchenko_pastur_equation() -> None:
    f = 1 / u
    assert on_the_curve(z * f + (f / rho) / (1 + f * inverse_kappa) - 1) == 0
    assert on_the_curve(spectrum.resolvent_equation) == 0


@pytest.mark.parametrize(("power", "order"), PAIRS)
def test_positive_forms_equal_partial_fractions(power: int, order: int) -> None:
    difference = spectrum.by_partial_fractions(power, order) - spectrum.range_average(power, order)
    assert on_the_curve(difference) == 0


def test_spread_of_the_gain_is_a_variance() -> None:
    variance = spectrum.range_average(2, 2) - spectrum.range_average(1, 1) ** 2
    assert on_the_curve(variance - spectrum.gain_spread) == 0


def test_gains_weighted_by_the_eigenvalue() -> None:
    """<s> = 1 on R^D makes s a weight; a is the unweighted mean of s/(s + z) on range(P)."""
    mean = spectrum.range_average(1, 1)
    weighted = [rho * spectrum.range_average(1 + k, k) for k in range(3)]
    shift = weighted[1] - mean
    square = weighted[2] - 2 * mean * weighted[1] + mean**2
    assert on_the_curve(weighted[0] - 1) == 0
    assert on_the_curve(shift - spectrum.weighted_gain_shift) == 0
    assert on_the_curve(square - spectrum.weighted_gain_square) == 0
    assert on_the_curve(square - shift**2 - spectrum.weighted_gain_spread) == 0


GAINS = [
    spectrum.gain_spread,
    spectrum.weighted_gain_shift,
    spectrum.weighted_gain_square,
    spectrum.weighted_gain_spread,
]


@pytest.mark.parametrize("expression", [*spectrum._POSITIVE.values(), *GAINS])
def test_positive_forms_have_only_positive_terms(expression: sp.Expr) -> None:
    numerator, denominator = sp.fraction(sp.together(expression))
    for part in (numerator, denominator):
        assert all(coefficient > 0 for coefficient in sp.Poly(part, u, t, n, z, rho, inverse_kappa).coeffs())


def density_average(power: int, order: int, z: float, kappa: float, rho: float) -> mpf:
    """<s^power/(s + z)^order> on range(P) from the Marchenko-Pastur density and its atom.

    s = x/rho where x follows the law of ratio y = rho/kappa on [(1 - sqrt y)^2, (1 + sqrt y)^2].
    """
    with mp.workdps(30):
        y = mpf(rho) / mpf(kappa)
        low, high = (1 - mp.sqrt(y)) ** 2, (1 + mp.sqrt(y)) ** 2

        def integrand(theta: mpf) -> mpf:
            x = low + (high - low) * mp.sin(theta / 2) ** 2
            weight = ((high - low) / 2 * mp.sin(theta)) ** 2 / (2 * mp.pi * y * x)
            value = x / mpf(rho)
            return weight * value**power / (value + mpf(z)) ** order

        atom = max(mpf(0), 1 - 1 / y) * (mpf(z) ** -order if power == 0 else 0)
        return mp.quad(integrand, [0, mp.pi / 2, mp.pi]) + atom


@pytest.mark.parametrize(("power", "order"), [*PAIRS, (1, 0)])
@pytest.mark.parametrize("ratio", [0.4, 1.0, 2.5], ids=["rich", "critical", "poor"])
def test_averages_equal_integrals_over_the_density(power: int, order: int, ratio: float) -> None:
    point = GENERIC | {"kappa": GENERIC["rho"] / ratio}
    numbers = {z: point["z"], inverse_kappa: 1 / point["kappa"], rho: point["rho"]}
    numbers[u] = spectrum.resolvent_inverse(
        point["z"], 1 / point["kappa"], spectrum.gap(point["kappa"], point["rho"])
    ).item()
    expression = spectrum.range_average(power, order).subs(n, definitions[n])
    value = expression.subs(t, definitions[t]).subs(numbers)
    # Double precision against 30 digits.
    assert float(value) == pytest.approx(float(density_average(power, order, **point)), rel=1e-13)


def test_lowering_splits_range_and_complement() -> None:
    lowered = spectrum.lowered(Average((s + eta) / (s + z) ** 2, s))
    on_range = spectrum.range_average(1, 2) + eta * spectrum.range_average(0, 2)
    assert sp.simplify(lowered - rho * on_range - off_range * eta * y**2) == 0
    assert spectrum.lowered(Average(s_range / (s_range + z), s_range)) == t / u


def test_lowering_refuses_other_poles() -> None:
    with pytest.raises(ValueError, match="poles"):
        spectrum.lowered(Average(1 / (s + 2 * z), s))


@pytest.mark.parametrize("kappa", [0.3, 0.6 - 1e-9, 0.6, 0.6 + 1e-9, 0.6 * (1 + 1e-15), 5.0, np.inf])
@pytest.mark.parametrize("z", [1e-12, 1e-6, 0.37, 1e6])
def test_resolvent_keeps_its_digits_across_the_transition(kappa: float, z: float) -> None:
    rho_ = 0.6
    with mp.workdps(60):
        inverse = mpf(0) if np.isinf(kappa) else 1 / mpf(kappa)
        shift = mpf(z) + 1 / mpf(rho_) - inverse
        exact = (shift + mp.sqrt(shift**2 + 4 * mpf(z) * inverse)) / 2
    computed = spectrum.resolvent_inverse(z, 1 / np.float64(kappa), spectrum.gap(kappa, rho_))
    assert abs(float(mpf(float(computed)) / exact - 1)) < 1e-15
