"""The equations as LaTeX, as text, and as a Python module that stands alone.

Everything is printed from the objects that are solved: `action().expression`, its stationarity, the
reduction, the averages, `errors`, and the expansions of `long_context`. The order is fixed and sympy's
printers sort terms, so the text is the same under any hash seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import sympy as sp
from sympy.printing.latex import LatexPrinter
from sympy.printing.printer import Printer
from sympy.printing.pycode import PythonCodePrinter
from sympy.printing.str import StrPrinter

from replica.engine.action import Average
from replica.exceptions import InputError
from replica.parameters import PROTOCOLS, Protocol
from replica.theory import equations, errors, saddle, spectrum
from replica.theory.action import action
from replica.theory.long_context import Case, Samples, Tasks, U, expansion, scaling
from replica.theory.symbols import (
    chi_hat,
    definitions,
    eta,
    eta_test,
    excess,
    gamma,
    inverse_kappa,
    m_hat,
    n,
    noise,
    off_range,
    q_hat,
    rho,
    ridge,
    s_range,
    t,
    xi,
    y,
    z,
)

FORMATS = ("latex", "text", "python")
PARTS = ("action", "stationarity", "reduction", "errors", "long-context")


class Equation(NamedTuple):
    """One equation and the line that says where it comes from."""

    left: sp.Expr | str
    right: sp.Expr
    origin: str


def printed(form: str = "latex", part: str = "all") -> str:
    """The equations that are solved, as text to print.

    Parameters
    ----------
    form: "latex" (for the body of an article, no package needed), "text" or "python" (a module that needs
        nothing but the standard library; with part "errors" or "all" it holds `solve`).
    part: one of `PARTS`, or "all".

    Raises
    ------
    InputError: unknown form or part.

    Examples
    --------
    >>> print(printed("text", "stationarity").splitlines()[9])
    chi = <(eta + s)/(gamma*lambda + qhat*(eta + s))>
    """
    if form not in FORMATS:
        raise InputError(f"format = {form!r} is unknown; allowed are {', '.join(FORMATS)}")
    if part not in (*PARTS, "all"):
        raise InputError(f"part = {part!r} is unknown; allowed are {', '.join(PARTS)}, all")
    chosen = PARTS if part == "all" else (part,)
    if form == "python":
        return _module(chosen)
    write = _latex_part if form == "latex" else _text_part
    return "\n\n".join(write(name, _EQUATIONS[name]()) for name in chosen)


# What is printed.


def action_equations() -> list[Equation]:
    """The action itself."""
    return [
        Equation(
            sp.Symbol("Phi"),
            action().expression,
            "replica-symmetric free energy, stationary in q, m, chi and their conjugates; < > averages over "
            "the eigenvalues s of R_k on R^D, < >_P over those on range(P)",
        )
    ]


def stationarity_equations() -> list[Equation]:
    """One condition a variable."""
    return [
        Equation(variable, right, f"derivative of the action with respect to the partner of {variable}")
        for variable, right in action().stationarity().items()
    ]


def reduction_equations() -> list[Equation]:
    """The six variables in one unknown, the averages, and the scalar equation."""
    reduced = saddle.reduction()
    scalar, slope = saddle.scalar_equation()
    lines = [
        Equation(z, eta + xi, "argument of every average; xi = gamma lambda / qhat is the effective ridge"),
        *(
            Equation(variable, right, "stationarity solved with mhat = qhat and v = chihat / qhat^2")
            for variable, right in reduced.explicit.items()
        ),
        Equation(
            sp.Integer(0),
            spectrum.resolvent_equation,
            "Marchenko-Pastur law on range(P); u = 1/<1/(s + z)>_P",
        ),
        *(Equation(symbol, definitions[symbol], origin) for symbol, origin in _DEFINED.items()),
        *(
            Equation(
                Average(s_range**power / (s_range + z) ** order, s_range),
                spectrum.range_average(power, order),
                "partial fractions and implicit derivatives of the law, rearranged to positive terms",
            )
            for power, order in ((0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (2, 2), (3, 2))
        ),
        Equation(
            "G", scalar, "G(xi) = 0 says qhat = gamma lambda / xi; at lambda = 0, xi = 0 where gamma >= 1"
        ),
        Equation(
            "G", saddle.scalar_equation_of_few_prompts(), "the same, without cancellation at small gamma"
        ),
        Equation(xi * sp.Symbol("G'"), slope, "its slope, positive, so the root is unique"),
    ]
    return lines


_DEFINED = {
    t: "u - z, by the law above",
    n: "u times the root of the discriminant of the law above",
}


def errors_equations() -> list[Equation]:
    """Errors, parts, moments and the rest of what is reported, in averages."""
    lines = [
        Equation(eta, (1 + noise) / sp.Symbol("alpha"), "implicit ridge of finite contexts"),
        Equation(eta_test, (1 + noise) / sp.Symbol("alpha_test"), "the same at inference"),
        Equation("training error", chi_hat / gamma, "per prompt"),
        Equation("a", errors.signal_gain(), "gain of the signal, E W = a P"),
    ]
    for protocol in PROTOCOLS:
        tasks = {"TM": "R_k", "IDG": "P/rho", "ODG": "I"}[protocol]
        lines += [
            Equation(
                f"e_{protocol}", errors.error(protocol), f"E (y - yhat)^2 for tasks of second moment {tasks}"
            ),
            Equation(f"m_{protocol}", errors.covariance(protocol), "E y yhat = tr(W B)"),
            Equation(f"q_{protocol}", errors.variance(protocol), "E yhat^2 = tr(W C W^T)"),
        ]
        if protocol is Protocol.TM:
            lines += [
                Equation(
                    f"memorization {term}",
                    expression,
                    "of the memorization part of TM, whose error is the sum of both terms",
                )
                for term, expression in errors.memorization_terms().items()
            ]
        else:
            lines += [
                Equation(f"{part}_{protocol}", expression, "part of the error; definitions of this project")
                for part, expression in errors.decomposition(protocol).items()
            ]
    return lines


def long_context_equations() -> list[Equation]:
    """Leading terms in eta = (1 + sigma^2)/alpha at ridge = 0, and the scaling function of IDG."""
    lines = [
        Equation(f"e_{protocol}", _amplitude(protocol, case), _regime(protocol, case))
        for samples in (Samples.OVERDETERMINED, Samples.UNDERDETERMINED, Samples.CRITICAL)
        for tasks in Tasks
        for noiseless in (False, True)
        for case in [Case(tasks, samples, noiseless)]
        for protocol in PROTOCOLS
    ]
    w = sp.Symbol("w")
    lines.append(
        Equation(
            U,
            (w + sp.sqrt(w**2 + 4)) / 2,
            "u (kappa/eta)^(1/2) near rho = kappa for gamma > 1; w = (1/rho - 1/kappa) (kappa/eta)^(1/2)",
        )
    )
    for noiseless in (False, True):
        series = scaling(Protocol.IDG, noiseless=noiseless)
        origin = (
            f"around rho = kappa, gamma > 1, sigma {'=' if noiseless else '>'} 0; relative corrections of "
        )
        lines.append(
            Equation("e_IDG", series.expression(sp.sqrt(eta * inverse_kappa)), f"{origin}order eta^(1/2)")
        )
    return lines


def _amplitude(protocol: Protocol, case: Case) -> sp.Expr:
    """The leading term, in factors that are positive in their regime."""
    expression = sp.factor(_named(expansion(protocol, case).expression(eta)), deep=True)
    inside = dict(zip((_kappa, rho), _INSIDE[case.tasks], strict=True))
    inside[gamma] = sp.Rational(19 if case.samples is Samples.OVERDETERMINED else 10, 13)
    held: dict[sp.Expr, sp.Symbol] = {}

    def positive(factor: sp.Add) -> sp.Expr:
        sign = sp.sign(factor.subs(inside))
        return sign * held.setdefault(sign * factor, sp.Dummy(positive=True))

    # Roots of products come apart only where sympy knows that the factors are positive.
    expression = expression.replace(lambda part: part.is_Add, positive)
    return expression.xreplace({symbol: factor for factor, symbol in held.items()})


_INSIDE = {
    Tasks.RICH: (sp.Rational(7, 11), sp.Rational(3, 11)),
    Tasks.CRITICAL: (sp.Rational(5, 11), sp.Rational(5, 11)),
    Tasks.POOR: (sp.Rational(3, 11), sp.Rational(7, 11)),
}
"""kappa and rho inside each regime, where they tell the sign of a factor; none vanishes there by accident."""


def _regime(protocol: Protocol, case: Case) -> str:
    """Which limit a leading term is of, and the order of what is left out."""
    spanned = {Tasks.RICH: "rho", Tasks.CRITICAL: "kappa", Tasks.POOR: "kappa"}[case.tasks]
    prompts = {
        Samples.OVERDETERMINED: "gamma > 1",
        Samples.UNDERDETERMINED: f"{spanned} < gamma < 1",
        Samples.CRITICAL: f"gamma = {spanned} < 1",
    }[case.samples]
    order = {Tasks.RICH: "rho < kappa", Tasks.CRITICAL: "rho = kappa", Tasks.POOR: "rho > kappa"}[case.tasks]
    power = expansion(protocol, case).remainder
    left_out = power if power.is_integer and power >= 0 else f"({power})"
    return f"{order}, {prompts}, sigma {'=' if case.noiseless else '>'} 0; left out: order eta^{left_out}"


_EQUATIONS: dict[str, Callable[[], list[Equation]]] = {
    "action": action_equations,
    "stationarity": stationarity_equations,
    "reduction": reduction_equations,
    "errors": errors_equations,
    "long-context": long_context_equations,
}


# For people.

_kappa, _sigma = sp.symbols("kappa sigma", positive=True)


def _named(expression: sp.Expr) -> sp.Expr:
    """With kappa and sigma themselves and the named differences written out."""
    shown = {inverse_kappa: 1 / _kappa, noise: _sigma**2, off_range: 1 - rho, excess: gamma - 1, y: 1 / z}
    return sp.sympify(expression).subs(shown)


class _PositiveFirst(Printer):
    """Sums begin with a term without a minus, if there is one: rho - kappa, not -kappa + rho."""

    def _as_ordered_terms(self, expression: sp.Expr, order: str | None = None) -> list[sp.Expr]:
        terms = super()._as_ordered_terms(expression, order)
        first = next((term for term in terms if not term.as_coeff_Mul()[0].is_negative), terms[0])
        return [first, *(term for term in terms if term is not first)]


class _Text(_PositiveFirst, StrPrinter):
    """Averages as < >, over range(P) as < >_P, whose eigenvalue is s like any other."""

    def _print_Average(self, expression: Average) -> str:
        integrand, variable = expression.args
        return f"<{self._print(integrand)}>" + ("_P" if variable == s_range else "")

    def _print_Symbol(self, symbol: sp.Symbol) -> str:
        return "s" if symbol == s_range else super()._print_Symbol(symbol)


class _Latex(_PositiveFirst, LatexPrinter):
    """The same in LaTeX."""

    # Away from "_latex", with which an average prints itself without saying what it averages over.
    printmethod = "_replica_latex"

    def _print_Average(self, expression: Average, exp: str | None = None) -> str:
        integrand, variable = expression.args
        inside = rf"\left\langle {self._print(integrand)} \right\rangle"
        inside += "_{P}" if variable == s_range else ""
        return inside if exp is None else rf"{inside}^{{{exp}}}"

    def _print_Symbol(self, symbol: sp.Symbol, style: str = "plain") -> str:
        return "s" if symbol == s_range else super()._print_Symbol(symbol, style)


_LATEX_SYMBOLS = {eta_test: r"\tilde{\eta}", sp.Symbol("alpha_test"): r"\tilde{\alpha}"}
_WIDTH = 90
"""Characters of text after which a sum goes on in the next line of LaTeX."""


def _text_part(name: str, lines: Iterable[Equation]) -> str:
    printer = _Text()
    blocks = []
    for left, right, origin in lines:
        shown = left if isinstance(left, str) else printer.doprint(_named(left))
        blocks.append(f"# {origin}\n{shown} = {printer.doprint(_named(right))}")
    return f"# {name}\n\n" + "\n\n".join(blocks)


def _latex_part(name: str, lines: Iterable[Equation]) -> str:
    printer = _Latex({"symbol_names": _LATEX_SYMBOLS})
    blocks = [f"% {name}"]
    for left, right, origin in lines:
        shown = _latex_name(left) if isinstance(left, str) else printer.doprint(_named(left))
        rows = _rows(printer, _named(right))
        if len(rows) == 1:
            body = f"{shown} = {rows[0]}"
        else:
            # The array of plain LaTeX: no package has to be loaded.
            rest = " \\\\\n".join(rf"\displaystyle \quad {row}" for row in rows[1:])
            body = f"\\begin{{array}}{{l}}\n\\displaystyle {shown} = {rows[0]} \\\\\n{rest}\n\\end{{array}}"
        blocks.append(f"% {origin}\n\\begin{{equation}}\n{body}\n\\end{{equation}}")
    return "\n\n".join(blocks)


def _rows(printer: _Latex, expression: sp.Expr) -> list[str]:
    """A sum in LaTeX, broken between its terms where it is long."""
    rows, length = [""], 0
    text = _Text()
    for term in printer._as_ordered_terms(expression):
        shown = printer.doprint(term)
        size = len(text.doprint(term))
        if rows[-1] and length + size > _WIDTH:
            rows.append("")
            length = 0
        first = rows == [""]
        sign = "" if first or shown.startswith("-") else "+ "
        rows[-1] = f"{rows[-1]} {sign}{shown}".strip()
        length += size
    return rows


def _latex_name(name: str) -> str:
    base, _, index = name.partition("_")
    base = base if len(base) == 1 else rf"\mathrm{{{base.replace(' ', '~')}}}"
    return rf"{base}_{{\mathrm{{{index}}}}}" if index else base


# For the machine.

_ARGUMENTS = {ridge: "ridge", q_hat: "q_hat", m_hat: "m_hat", chi_hat: "chi_hat", s_range: "s"}
_AVERAGES = "eigenvalues"


class _Python(PythonCodePrinter):
    """Averages as means over a list of eigenvalues."""

    def _print_Average(self, expression: Average) -> str:
        integrand, variable = expression.args
        return f"average(lambda {self._print(variable)}: {self._print(integrand)}, {_AVERAGES})"

    def _print_Symbol(self, symbol: sp.Symbol) -> str:
        return _ARGUMENTS.get(symbol) or super()._print_Symbol(symbol)


def _code(expression: sp.Expr) -> str:
    return _Python().doprint(expression)


_HEAD = '''"""Low-rank in-context learning in the limit of high dimension, printed from what replica solves.

Errors are mean squared errors on a fresh prompt, label noise included; everything is dimensionless. Ratios:
alpha = L/D, kappa = M0/D, rho = r/D, gamma = M/D^2; eta = (1 + sigma^2)/alpha.
"""

import math
'''


def _module(parts: Iterable[str]) -> str:
    chosen = list(parts)
    blocks = [_HEAD]
    if {"action", "stationarity"} & set(chosen):
        blocks.append(_AVERAGE)
    if "action" in chosen:
        blocks.append(_python_action())
    if "stationarity" in chosen:
        blocks.append(_python_stationarity())
    if {"reduction", "errors"} & set(chosen):
        blocks.append(_python_saddle())
    if "errors" in chosen:
        blocks.append(_python_solve())
    if "long-context" in chosen:
        blocks.append(_python_long_context())
    return "\n\n".join(blocks).rstrip()


_AVERAGE = '''def average(function, eigenvalues):
    """Mean of a function over eigenvalues s of R_k on R^D."""
    return sum(map(function, eigenvalues)) / len(eigenvalues)
'''
_VARIABLES = "q, m, chi, q_hat, m_hat, chi_hat, *, sigma2, eta, gamma, ridge, eigenvalues"


def _python_action() -> str:
    return (
        f"def action({_VARIABLES}):\n"
        '    """The replica-symmetric free energy."""\n'
        f"    return {_code(action().expression)}\n"
    )


def _python_stationarity() -> str:
    conditions = "".join(
        f'        "{_code(variable)}": {_code(right)},\n'
        for variable, right in action().stationarity().items()
    )
    return (
        f"def stationarity({_VARIABLES}):\n"
        '    """What each variable equals where the action is stationary."""\n'
        f"    return {{\n{conditions}    }}\n"
    )


def _assignments(values: Iterable[tuple[sp.Symbol | str, sp.Expr]], indent: int) -> str:
    return "".join(
        f"{' ' * indent}{left if isinstance(left, str) else _code(left)} = {_code(right)}\n"
        for left, right in values
    )


def _python_saddle() -> str:
    scalar, slope = saddle.scalar_equation()
    few = saddle.scalar_equation_of_few_prompts()
    reduced = saddle.reduction()
    averages = _assignments(definitions.items(), 4)
    named = ", ".join(_code(symbol) for symbol in definitions)
    arguments = "z, kappa, rho, gamma"
    return f'''def spectrum({arguments}):
    """1/kappa, u = 1/f(z) and what follows from it.

    u is the positive root of 0 = {_Text().doprint(_named(spectrum.resolvent_equation))}.
    """
    kappa_inv = 1 / kappa
    d = 1 / rho if kappa == math.inf else (kappa - rho) / (kappa * rho)
    larger = (abs(z + d) + math.sqrt((z + d) ** 2 + 4 * z * kappa_inv)) / 2
    u = larger if z + d >= 0 else z * kappa_inv / larger
{averages}    return kappa_inv, u, {named}


def effective_ridge(eta, kappa, rho, gamma, ridge):
    """The root xi of the scalar equation, by Newton's method from below: monotone, as it is concave."""
    if ridge == 0 and gamma >= 1:
        return 0.0
    # q_hat <= gamma, and q_hat >= 0 with <1/(s + z)> <= 1/z.
    xi = max(ridge, (1 - gamma) * eta / gamma)
    if xi == 0:
        raise ValueError("alpha must be finite or ridge positive")
    while True:
        z = eta + xi
        kappa_inv, u, {named} = spectrum({arguments})
        equation = {_code(few)} if gamma < 0.5 else {_code(scalar)}
        slope = {_code(slope)}
        advanced = xi * (1 - equation / slope)
        if not advanced > xi:
            return xi
        xi = advanced


def saddle_point(alpha, kappa, rho, gamma, sigma, ridge=0.0):
    """eta, xi, q_hat and v at the saddle point; the rest is explicit in them."""
    if ridge == 0 and gamma == 1:
        raise ValueError("the errors diverge at gamma = 1 without ridge")
    sigma2 = sigma**2
    eta = (1 + sigma2) / alpha
    xi = effective_ridge(eta, kappa, rho, gamma, ridge)
    z = eta + xi
    kappa_inv, u, {named} = spectrum({arguments})
    q_hat = {_code(spectrum.lowered(reduced.explicit[q_hat]))} if gamma >= 1 else gamma * ridge / xi
    v = {_code(equations.level())}
    return eta, xi, q_hat, v
'''


def _python_solve() -> str:
    lines = ""
    for name, expression in equations.results().items():
        singular = sp.denom(sp.together(expression)).subs(q_hat, 0) == 0
        # The minimum-norm solution has q_hat = 0 and chi infinite.
        guard = " if q_hat else math.inf" if singular else ""
        lines += f'        "{name}": {_code(expression)}{guard},\n'
    named = ", ".join(_code(symbol) for symbol in definitions)
    return f'''def solve(alpha, kappa, rho, gamma, sigma, ridge=0.0, alpha_test=None):
    """Errors, their parts, moments and order parameters by dotted name."""
    sigma2 = sigma**2
    eta, xi, q_hat, v = saddle_point(alpha, kappa, rho, gamma, sigma, ridge)
    eta_test = (1 + sigma2) / (alpha if alpha_test is None else alpha_test)
    z = eta + xi
    kappa_inv, u, {named} = spectrum(z, kappa, rho, gamma)
    return {{
        "effective_ridge": xi,
{lines}    }}
'''


def _python_long_context() -> str:
    lines = ""
    for samples, test in ((Samples.OVERDETERMINED, "gamma > 1"), (Samples.UNDERDETERMINED, "gamma < 1")):
        for tasks, order in (
            (Tasks.RICH, "rho < kappa"),
            (Tasks.CRITICAL, "rho == kappa"),
            (Tasks.POOR, "True"),
        ):
            for noiseless, noise_test in ((True, "sigma == 0"), (False, "True")):
                values = ", ".join(
                    f'"{protocol}": '
                    + _code(expansion(protocol, Case(tasks, samples, noiseless)).expression(eta))
                    for protocol in PROTOCOLS
                )
                conditions = [c for c in (test, order, noise_test) if c != "True"]
                lines += f"    if {' and '.join(conditions)}:\n        return {{{values}}}\n"
    return f'''def long_context(alpha, kappa, rho, gamma, sigma):
    """Leading terms of the errors for alpha = alpha_test -> infinity at ridge = 0 and rho < 1."""
    if gamma == 1 or (gamma < 1 and gamma <= min(kappa, rho)):
        raise ValueError("gamma must be above min(kappa, rho) and not 1")
    sigma2, kappa_inv = sigma**2, 1 / kappa
    eta = (1 + sigma2) / alpha
{lines}    raise ValueError("no regime")
'''
