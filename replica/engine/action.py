"""An action with its order parameters, and the stationarity conditions that follow by differentiation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sympy as sp


class Average(sp.Function):
    """`Average(g, s)`: the mean of g over the law of the random variable s, left unevaluated.

    The variable names its law. Constant factors and signs come out of the mean, derivatives pass under it.

    >>> s, x = sp.symbols("s x")
    >>> Average(1 / (s + x), s).diff(x)
    -Average((s + x)**(-2), s)
    """

    nargs = 2

    @classmethod
    def eval(cls, integrand: sp.Expr, variable: sp.Symbol) -> sp.Expr | None:
        constant, rest = sp.factor_terms(integrand, sign=True).as_independent(variable, as_Add=False)
        if constant == 1:
            return None
        return constant if rest == 1 else constant * cls(rest, variable)

    def _eval_derivative(self, symbol: sp.Symbol) -> sp.Expr:
        integrand, variable = self.args
        return Average(sp.diff(integrand, symbol), variable)

    def _latex(self, printer: sp.printing.latex.LatexPrinter, exp: str | None = None) -> str:
        inside = rf"\left\langle {printer.doprint(self.args[0])} \right\rangle"
        return inside if exp is None else rf"{inside}^{{{exp}}}"


def on_atoms(expression: sp.Expr, atoms: Mapping[sp.Symbol, Sequence[tuple[sp.Expr, sp.Expr]]]) -> sp.Expr:
    """Evaluate every average for discrete laws: variable -> pairs of (value, weight)."""
    return expression.replace(
        Average,
        lambda integrand, variable: sum(
            weight * integrand.subs(variable, value) for value, weight in atoms[variable]
        ),
    )


@dataclass(frozen=True)
class Action:
    """A function to be made stationary over pairs of an order parameter and its conjugate.

    Parameters
    ----------
    expression: may hold `Average`s.
    pairs: (order parameter, conjugate), each bilinear in the expression, so that the derivative with
        respect to one member of a pair is linear in the other.
    """

    expression: sp.Expr
    pairs: tuple[tuple[sp.Symbol, sp.Symbol], ...]

    @property
    def variables(self) -> tuple[sp.Symbol, ...]:
        """Order parameters, then their conjugates."""
        return tuple(pair[0] for pair in self.pairs) + tuple(pair[1] for pair in self.pairs)

    @property
    def gradient(self) -> dict[sp.Symbol, sp.Expr]:
        """variable -> derivative of the action with respect to its partner, whose zero determines it."""
        partner = {one: other for pair in self.pairs for one, other in (pair, pair[::-1])}
        return {variable: sp.diff(self.expression, partner[variable]) for variable in self.variables}

    def stationarity(self) -> dict[sp.Symbol, sp.Expr]:
        """Each condition solved for its variable: variable -> right-hand side.

        Raises
        ------
        ValueError: a condition is not linear in its variable with a constant coefficient.
        """
        solved = {}
        for variable, condition in self.gradient.items():
            coefficient = sp.diff(condition, variable)
            if not coefficient.is_number or coefficient == 0:
                raise ValueError(f"the condition of {variable} is not linear in it: {condition}")
            solved[variable] = -(condition - coefficient * variable) / coefficient
        return solved

    def jacobian(self) -> sp.Matrix:
        """Derivative of the gradient, rows and columns in the order of `variables`; may hold `Average`s."""
        return sp.Matrix(
            [[sp.diff(condition, other) for other in self.variables] for condition in self.gradient.values()]
        )


@dataclass(frozen=True)
class Reduction:
    """Every variable of an action made explicit in one unknown.

    Parameters
    ----------
    unknown: the symbol that is left.
    eliminated: (parameter, expression): the scalar equation, solved for a parameter that enters it linearly.
        Substituting it makes every condition an identity.
    explicit: variable -> expression in the unknown and the parameters, later ones free to use earlier ones.
    """

    unknown: sp.Symbol
    eliminated: tuple[sp.Symbol, sp.Expr]
    explicit: Mapping[sp.Symbol, sp.Expr]

    def defects(self, action: Action) -> dict[sp.Symbol, sp.Expr]:
        """variable -> its stationarity condition after substitution; all vanish if the reduction is right.

        Averages stay unevaluated: apply `on_atoms` to see an exact zero on a discrete law.
        """
        defects = {v: v - right for v, right in action.stationarity().items()}
        parameter, expression = self.eliminated
        for variable, value in [(parameter, expression), *reversed(list(self.explicit.items()))]:
            defects = {v: defect.subs(variable, value) for v, defect in defects.items()}
        return defects
