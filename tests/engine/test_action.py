"""Stationarity of a toy action that is small enough to solve on paper."""

import pytest
import sympy as sp

from replica.engine.action import Action, Average, Reduction, on_atoms

x, x_hat, s, c, lam = sp.symbols("x xhat s c lambda")
# Stationary where x = <s/(x_hat s + lambda)> and x_hat = c.
TOY = Action(x * x_hat - c * x - Average(sp.log(x_hat * s + lam), s), pairs=((x, x_hat),))


def test_average_differentiates_under_the_mean() -> None:
    assert Average(1 / (s + c), s).diff(c) == -Average(1 / (s + c) ** 2, s)
    assert Average(c * lam, s) == c * lam
    assert Average(s * c, s).diff(x) == 0


def test_each_condition_is_solved_for_its_variable() -> None:
    solved = TOY.stationarity()
    assert solved[x_hat] == c
    assert solved[x] == Average(s / (x_hat * s + lam), s)


def test_a_condition_that_is_not_linear_in_its_variable_is_refused() -> None:
    with pytest.raises(ValueError, match="not linear"):
        Action(x**2 * x_hat**2, pairs=((x, x_hat),)).stationarity()


def test_jacobian_is_the_derivative_of_the_gradient() -> None:
    assert TOY.jacobian() == sp.Matrix([[1, Average(s**2 / (lam + s * x_hat) ** 2, s)], [0, 1]])


def test_a_reduction_has_no_defects_and_a_wrong_one_has() -> None:
    right = Reduction(c, (lam, lam), {x_hat: c, x: Average(s / (c * s + lam), s)})
    wrong = Reduction(c, (lam, lam), {x_hat: 2 * c, x: Average(s / (c * s + lam), s)})
    assert set(right.defects(TOY).values()) == {0}
    assert 0 not in wrong.defects(TOY).values()


def test_averages_over_atoms_are_weighted_sums() -> None:
    atoms = {s: [(sp.Integer(1), sp.Rational(1, 3)), (sp.Integer(4), sp.Rational(2, 3))]}
    assert on_atoms(c * Average(s**2, s), atoms) == c * sp.Rational(33, 3)
