"""Exact comparison of expressions in the spectral quantities."""

import sympy as sp

from replica.theory.symbols import definitions, inverse_kappa, n, rho, t, u, z


def on_the_curve(expression: sp.Expr) -> sp.Expr:
    """Eliminate f, n, rho and z, which leaves u, t and 1/kappa independent."""
    substitutions = [
        (sp.Symbol("f"), 1 / u),
        (n, definitions[n]),
        (rho, u / (t * (inverse_kappa + u))),
        (z, u - t),
    ]
    expression = sp.sympify(expression).subs(substitutions)
    # The field of rational functions normalizes far faster than `cancel`.
    field = sp.QQ.frac_field(*sorted(expression.free_symbols, key=str))
    return field.from_sympy(expression).as_expr()
