"""The action, its reduction and the residual."""

import numpy as np
import pytest
import sympy as sp

from replica.engine.action import on_atoms
from replica.theory import saddle, spectrum
from replica.theory.action import action
from replica.theory.equations import compiled_equations
from replica.theory.symbols import (
    chi,
    chi_hat,
    definitions,
    eta,
    gamma,
    inverse_kappa,
    m,
    m_hat,
    noise,
    q,
    q_hat,
    rho,
    ridge,
    s,
    u,
    xi,
    z,
)

R = sp.Rational
# Three atoms of mean 1 with rational weights, one of them the zero off range(P).
ATOMS = {s: [(R(0), R(1, 4)), (R(1, 2), R(1, 2)), (R(3), R(1, 4))]}
VALUES = {noise: R(9, 100), eta: R(3, 7), gamma: R(8, 5), ridge: R(2, 11)}
POINT = dict(
    zip((q, m, chi, q_hat, m_hat, chi_hat), (R(3, 2), R(5, 7), R(2), R(4, 3), R(9, 8), R(1, 5)), strict=True)
)


@pytest.mark.parametrize("variable", POINT, ids=str)
def test_stationarity_is_the_derivative_of_the_action(variable: sp.Symbol) -> None:
    """Central differences at 40 digits: the error is h^2 times a third derivative of order one."""
    phi = on_atoms(action().expression, ATOMS).subs(VALUES)
    partner = {a: b for pair in action().pairs for a, b in (pair, pair[::-1])}[variable]
    step = R(1, 10**12)
    ends = [phi.subs(POINT | {partner: POINT[partner] + sign * step}) for sign in (1, -1)]
    difference = sp.N((ends[0] - ends[1]) / (2 * step), 40)
    derivative = on_atoms(action().gradient[variable], ATOMS).subs(VALUES | POINT)
    assert abs(difference - derivative) < 1e-20


@pytest.mark.parametrize("gamma_", [R(3, 10), R(8, 5)])
def test_the_reduction_satisfies_all_six_conditions_exactly(gamma_: sp.Rational) -> None:
    numbers = {noise: R(9, 100), eta: R(3, 7), gamma: gamma_, xi: R(5, 13) if gamma_ > 1 else R(4)}
    defects = saddle.reduction().defects(action())
    assert len(defects) == 6
    for defect in defects.values():
        exact = on_atoms(defect.subs(definitions).subs(z, eta + xi), ATOMS).subs(numbers)
        assert sp.nsimplify(exact) == 0


def test_a_wrong_reduction_is_noticed() -> None:
    right = saddle.reduction()
    wrong = type(right)(right.unknown, right.eliminated, {**right.explicit, m_hat: 2 * right.explicit[m_hat]})
    numbers = {noise: R(9, 100), eta: R(3, 7), gamma: R(8, 5), xi: R(5, 13)}
    defects = [
        on_atoms(d.subs(definitions).subs(z, eta + xi), ATOMS).subs(numbers)
        for d in wrong.defects(action()).values()
    ]
    assert any(sp.nsimplify(defect) != 0 for defect in defects)


def test_the_slope_of_the_scalar_equation_is_its_derivative() -> None:
    equation, slope = (e.subs(definitions).subs(definitions) for e in saddle.scalar_equation())
    d = 1 / rho - inverse_kappa
    shift = z + d
    inverse = (shift + sp.sqrt(shift**2 + 4 * z * inverse_kappa)) / 2
    numbers = {eta: 0.3, gamma: 0.8, ridge: 0.05, rho: 0.6, inverse_kappa: 2.2}
    explicit = [e.subs(u, inverse).subs(z, eta + xi).subs(numbers) for e in (equation, slope)]
    for value in (0.01, 0.7, 20.0):
        exact = (xi * explicit[0].diff(xi)).subs(xi, value)
        assert float(explicit[1].subs(xi, value)) == pytest.approx(float(exact), rel=1e-12)


def test_the_scalar_equation_of_few_prompts_is_the_same() -> None:
    forms = saddle.scalar_equation()[0], saddle.scalar_equation_of_few_prompts()
    numbers = {
        eta: R(3, 7),
        gamma: R(1, 10**9),
        ridge: R(2, 11),
        rho: R(3, 5),
        inverse_kappa: R(11, 5),
        xi: R(10**9),
    }
    at = numbers[eta] + numbers[xi]
    inverse = sp.Symbol("inverse", positive=True)
    law = spectrum.resolvent_equation.subs(numbers).subs({z: at, u: inverse})
    root = sp.nsolve(law, inverse, at, prec=60)
    values = [form.subs(definitions).subs(definitions).subs({u: root, z: at}).subs(numbers) for form in forms]
    # Both are of the size of gamma; the plain form loses 9 of the 60 digits.
    assert abs(values[0] - values[1]) < 1e-48 * abs(values[1])


def test_the_residual_conditions_do_not_divide_by_q_hat() -> None:
    for residual in saddle.relative_residuals():
        assert residual.subs(q_hat, 0).is_finite is not False
        assert not residual.subs(q_hat, 0).has(sp.zoo, sp.nan)


@pytest.mark.parametrize("wrong", range(6))
def test_the_residual_sees_each_variable(wrong: int) -> None:
    """Moving any one variable by 1e-6 moves the largest residual far above the bound of 1e-10."""
    from replica import Parameters, solve

    point = Parameters(alpha=2.0, kappa=0.8, rho=0.5, gamma=1.7, sigma=0.3, ridge=0.1)
    solution = solve(point)
    o = solution.order_parameters
    regular = [o["q"], o["m"], o["chi"] * o["q_hat"], o["q_hat"], 1.0, o["chi_hat"] / o["q_hat"] ** 2]
    law = (0.09, 1.09 / 2, 0.5, 1 / 0.8, 1.7)
    at = 1.09 / 2 + solution.effective_ridge
    inverse = spectrum.resolvent_inverse(at, 1 / 0.8, spectrum.gap(0.8, 0.5))

    def residual(values: list[float]) -> float:
        return max(abs(r) for r in compiled_equations().residuals(*values, *law, at, 1 / at, inverse))

    assert residual(regular) < 1e-15
    regular[wrong] *= 1 + 1e-6
    assert residual(regular) > 1e-8
    assert np.isfinite(residual(regular))
