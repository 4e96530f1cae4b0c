"""The equations of the derivation, printed by the code between markers in its text.

    <!-- printed: PART; PATTERN; PATTERN ... -->
    <!-- end -->

holds the equations of one part of `replica equations` whose left side or origin matches a pattern, or all if
there is no pattern. As a script, this file brings the page up to date; a test fails where it is not.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import NamedTuple

from replica.theory.printing import printed

PAGE = Path(__file__).with_name("derivation.md")


def filled(text: str) -> str:
    """The text with everything between its markers printed anew."""
    return re.sub(
        r"(?<=<!-- printed: )([^\n]*?)( -->\n).*?(?=<!-- end -->)",
        lambda match: f"{match[1]}{match[2]}\n{_block(*match[1].split('; '))}\n\n",
        text,
        flags=re.DOTALL,
    )


def _block(part: str, *patterns: str) -> str:
    """The equations of a part in Markdown, below the command that prints them."""
    chosen, by_origin = [], False
    for equation in _equations(part):
        by_left = not patterns or any(fnmatchcase(equation.left, pattern) for pattern in patterns)
        if by_left or any(fnmatchcase(equation.origin, pattern) for pattern in patterns):
            chosen.append(equation)
            by_origin |= not by_left
    if not chosen:
        raise ValueError(f"no equation of {part} matches {patterns}")
    origin = f"*Printed by* `replica equations --part {part}`:"
    if all(_LEFT_OUT in equation.origin for equation in chosen):
        return f"{origin}\n\n{_table(chosen)}"
    # Where origins choose, the reader needs them too.
    lines = [f"{e.origin}:\n\n$$\n{e.body}\n$$" if by_origin else f"$$\n{e.body}\n$$" for e in chosen]
    return "\n\n".join([origin, *lines])


def _table(equations: list[_Equation]) -> str:
    """Leading terms, a row for each regime."""
    rows: dict[str, dict[str, str]] = {}
    for equation in equations:
        regime, order = equation.origin.split(_LEFT_OUT)
        left, right = equation.body.replace(r"\frac", r"\dfrac").split(" = ", maxsplit=1)
        power = (
            re.sub(r"eta\^\(?([^()]*)\)?", r"\\eta^{\1}", order).replace("^{1}", "").replace(r"\eta^{0}", "1")
        )
        rows.setdefault(re.sub("(rho|kappa|gamma|sigma)", r"\\\1", regime), {})[left] = (
            f"{right} + O({power})"
        )
    columns = list(next(iter(rows.values())))
    lines = [["", *(f"${left}$" for left in columns)], ["---"] * (len(columns) + 1)]
    lines += [[f"${regime}$", *(f"${row[left]}$" for left in columns)] for regime, row in rows.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


_LEFT_OUT = "; left out: order "


class _Equation(NamedTuple):
    left: str
    """Left side as text."""
    origin: str
    body: str
    """Both sides as LaTeX."""


@cache
def _equations(part: str) -> list[_Equation]:
    """The equations of a part, in their order."""
    texts = re.findall(r"^# (.*)\n(.*?) = ", printed("text", part), flags=re.MULTILINE)
    bodies = re.findall(
        r"\\begin\{equation\}\n(.*?)\n\\end\{equation\}", printed("latex", part), flags=re.DOTALL
    )
    return [
        _Equation(left, origin, _aligned(body)) for (origin, left), body in zip(texts, bodies, strict=True)
    ]


def _aligned(body: str) -> str:
    """Rows as browsers know them; `replica equations` uses the array of plain LaTeX."""
    rows = body.replace(r"\begin{array}{l}", r"\begin{aligned}").replace(r"\end{array}", r"\end{aligned}")
    return rows.replace(r"\displaystyle ", "& ")


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
