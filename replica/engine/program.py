"""Symbolic expressions compiled to numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Any

import sympy as sp
from sympy.printing.numpy import NumPyPrinter


class _Printer(NumPyPrinter):
    """Integer powers as repeated products: numpy's general power costs as much as thirty products."""

    def _print_Pow(self, expr: sp.Pow, rational: bool = False) -> str:
        base, exponent = expr.args
        if base.is_Symbol and exponent.is_Integer and 2 <= abs(exponent) <= 4:
            product = "*".join([self._print(base)] * abs(int(exponent)))
            return f"({product})" if exponent > 0 else f"(1/({product}))"
        return super()._print_Pow(expr, rational=rational)


def compiled(
    arguments: Sequence[sp.Symbol],
    outputs: Iterable[sp.Expr],
    definitions: Mapping[sp.Symbol, sp.Expr] | None = None,
) -> Callable[..., list[Any]]:
    """Compile expressions to one numpy function that shares all common subexpressions.

    Parameters
    ----------
    arguments: the symbols in calling order.
    outputs: a flat list of expressions in the arguments and the defined symbols.
    definitions: symbol -> expression for intermediate quantities, in any order.

    Returns
    -------
    A function of broadcasting float64 arrays that returns a list, one entry an output; entries have the shape
    of whatever they depend on and broadcast against each other.
    """
    definitions = dict(definitions or {})
    outputs = list(outputs)
    names = list(definitions)

    def eliminate(expressions: Sequence[sp.Expr]) -> tuple[list[tuple[sp.Symbol, sp.Expr]], list[sp.Expr]]:
        shared, reduced = sp.cse(
            [*definitions.values(), *expressions], sp.numbered_symbols("_x"), order="canonical"
        )
        steps = dict(shared) | dict(zip(names, reduced, strict=False))
        needed = {symbol: expression.free_symbols & steps.keys() for symbol, expression in steps.items()}
        ordered = TopologicalSorter({key: sorted(value, key=str) for key, value in needed.items()})
        return [(symbol, steps[symbol]) for symbol in ordered.static_order()], reduced[len(names) :]

    printer = _Printer({"fully_qualified_modules": False, "inline": True, "allow_unknown_functions": True})
    return sp.lambdify(list(arguments), outputs, modules="numpy", printer=printer, cse=eliminate)
