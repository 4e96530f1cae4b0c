"""The derivatives re-derived by sympy on the smallest case that shows everything: m = n = 2, d1 = d2 = 1.

`derive` differentiates the losses written out entry by entry and holds the results against the matrix
formulas of `replica.softmax.losses`, written symbolically here. Replacing every exponential by a symbol turns
each difference into a rational function, which is zero exactly if its numerator expands to zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import sympy as sp

from replica.exceptions import NumericalError
from replica.softmax.problem import Loss, loss_kind

SIZE = 2


@dataclass(frozen=True, eq=False)
class Derivation:
    """A loss of the 2 x 2 case and its derivatives, all as expressions in the entries of A1, A2, X, B.

    Parameters
    ----------
    kind: the loss.
    symbols: a1_0, a1_1, a2_0, a2_1, x, b_00, b_01, b_10, b_11, in this order.
    loss: L.
    derivatives: by name ("dL/dx", "dL/da1_0", "dL/da2_0", "dL/db_00", "d2L/dx2"), from `sympy.diff`.
    formulas: by the same names, from the matrix formulas.
    """

    kind: Loss
    symbols: tuple[sp.Symbol, ...]
    loss: sp.Expr
    derivatives: dict[str, sp.Expr]
    formulas: dict[str, sp.Expr]

    def differences(self) -> dict[str, sp.Expr]:
        """`derivatives` minus `formulas`, reduced; all zero."""
        return {
            name: reduced(derivative - self.formulas[name]) for name, derivative in self.derivatives.items()
        }


def reduced(expression: sp.Expr) -> sp.Expr:
    """The numerator of an expression as a polynomial in its symbols and exponentials, expanded."""
    logits = sorted({power.args[0] for power in expression.atoms(sp.exp)}, key=str)
    # exp(2 s) must become the square of the symbol of exp(s), so arguments are split to single logits first.
    single = sorted({s / s.as_coeff_Mul()[0] for s in logits}, key=str)
    powers = {s: sp.Symbol(f"u_{index}", positive=True) for index, s in enumerate(single)}
    rational = expression.replace(
        lambda e: isinstance(e, sp.exp),
        lambda e: powers[e.args[0] / e.args[0].as_coeff_Mul()[0]] ** e.args[0].as_coeff_Mul()[0],
    )
    numerator, _ = sp.fraction(sp.together(rational))
    return sp.expand(numerator)


@cache
def derive(kind: str = Loss.NORMALIZED) -> Derivation:
    """The derivation of one loss.

    Raises
    ------
    InputError: an unknown loss.

    Examples
    --------
    >>> set(derive("rescaled").differences().values())
    {0}
    """
    kind = loss_kind(kind)
    A1 = sp.Matrix(sp.symbols("a1_0 a1_1", real=True))
    A2 = sp.Matrix(sp.symbols("a2_0 a2_1", real=True))
    x = sp.Symbol("x", real=True)
    B = sp.Matrix(SIZE, SIZE, sp.symbols("b_00 b_01 b_10 b_11", real=True))
    U = (A1 * x * A2.T).applyfunc(sp.exp)
    alpha = U * sp.ones(SIZE, 1)
    residual = sp.Matrix(
        SIZE,
        SIZE,
        lambda j, k: (
            U[j, k] / alpha[j] - B[j, k] if kind is Loss.NORMALIZED else U[j, k] - alpha[j] * B[j, k]
        ),
    )
    loss = sum(entry**2 for entry in residual) / 2
    derivatives = {
        "dL/dx": sp.diff(loss, x),
        "dL/da1_0": sp.diff(loss, A1[0]),
        "dL/da2_0": sp.diff(loss, A2[0]),
        "dL/db_00": sp.diff(loss, B[0, 0]),
        "d2L/dx2": sp.diff(loss, x, 2),
    }
    symbols = (*A1, *A2, x, *B)
    return Derivation(kind, symbols, loss, derivatives, _formulas(kind, A1, A2, x, B, U, alpha, residual))


def _rd(P: sp.Matrix, Q: sp.Matrix) -> sp.Matrix:
    """rd(P, Q)_j in every column."""
    return _times(P, Q) * sp.ones(SIZE, SIZE)


def _formulas(
    kind: Loss,
    A1: sp.Matrix,
    A2: sp.Matrix,
    x: sp.Symbol,
    B: sp.Matrix,
    U: sp.Matrix,
    alpha: sp.Matrix,
    residual: sp.Matrix,
) -> dict[str, sp.Expr]:
    """The matrix formulas of `replica.softmax.losses`, in terms of F and C or of U and Q = U - D B."""
    T = A1 * A2.T
    if kind is Loss.NORMALIZED:
        F = residual + B
        G = _times(F, residual - _rd(F, residual))
        W = _times(F, T - _rd(F, T))
        Z = _times(F, W - _rd(F, W)) + _times(G, T - _rd(F, T)) - _times(F, _rd(G, T))
        in_B = -residual
    else:
        G = _times(U, residual - _rd(B, residual))
        W = _times(U, T) - _times(B, _rd(U, T))
        Z = _times(U, W - _rd(B, W)) + _times(G, T)
        in_B = -sp.diag(*alpha) * residual
    return {
        "dL/dx": (A1.T * G * A2)[0],
        "dL/da1_0": (G * A2 * x)[0],
        "dL/da2_0": (G.T * A1 * x)[0],
        "dL/db_00": in_B[0, 0],
        "d2L/dx2": (A1.T * Z * A2)[0],
    }


def _short(expression: sp.Expr) -> str:
    """An expression with u_jk for the exponentials, as text."""
    a1_0, a1_1, a2_0, a2_1, x = sp.symbols("a1_0 a1_1 a2_0 a2_1 x", real=True)
    names = {
        sp.exp(a * b * x): sp.Symbol(f"u_{j}{k}")
        for j, a in enumerate((a1_0, a1_1))
        for k, b in enumerate((a2_0, a2_1))
    }
    return str(sp.factor_terms(expression.subs(names)))


def _times(P: sp.Matrix, Q: sp.Matrix) -> sp.Matrix:
    """P o Q."""
    return sp.hadamard_product(P, Q).doit()


def equations(kind: str = Loss.NORMALIZED) -> str:
    """The derivation as text: objects, matrix formulas, the 2 x 2 case, and what was verified on it.

    Raises
    ------
    InputError: an unknown loss.
    NumericalError: a formula differs from its derivative.
    """
    derivation = derive(kind)
    wrong = [name for name, difference in derivation.differences().items() if difference != 0]
    if wrong:
        raise NumericalError(f"the formulas of the {kind} loss differ from sympy's for {', '.join(wrong)}")
    lines = [
        f"{derivation.kind} loss, for m = n = {SIZE}, d1 = d2 = 1",
        "",
        "S = A1 X A2^T,  U = exp(S),  alpha = U 1,  F = U / alpha,  C = F - B,  Q = U - alpha B",
        *FORMULAS[derivation.kind],
        "",
        "with u_jk = exp(a1_j a2_k x):",
        f"L = {_short(derivation.loss)}",
        *(f"{name} = {_short(value)}" for name, value in derivation.derivatives.items()),
        "",
        *(f"{name}: diff(L) - matrix formula = 0" for name in derivation.derivatives),
    ]
    return "\n".join(lines)


FORMULAS = {
    Loss.NORMALIZED: (
        "L = 1/2 |F - B|_F^2",
        "G = F o (C - rd(F, C)),  rd(P, Q)_j = sum_k P_jk Q_jk",
        "dL/dX = A1^T G A2,  dL/dA1 = G A2 X^T,  dL/dA2 = G^T A1 X,  dL/dB = -C",
        "T = A1 V A2^T,  W = F o (T - rd(F, T))",
        "Z = F o (W - rd(F, W)) + G o (T - rd(F, T)) - F o rd(G, T),  Hessian V = A1^T Z A2",
    ),
    Loss.RESCALED: (
        "L = 1/2 |U - alpha B|_F^2",
        "G = U o (Q - rd(B, Q)),  rd(P, Q)_j = sum_k P_jk Q_jk",
        "dL/dX = A1^T G A2,  dL/dA1 = G A2 X^T,  dL/dA2 = G^T A1 X,  dL/dB = -alpha Q",
        "T = A1 V A2^T,  W = U o T - B o rd(U, T)",
        "Z = U o (W - rd(B, W)) + G o T,  Hessian V = A1^T Z A2",
    ),
}
"""What is printed of the matrix formulas, by loss."""
