"""The printed equations: they parse, they run, and they are those that are solved."""

import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from seeds import outputs_under_hash_seeds

from replica import InputError, Parameters, solve
from replica.theory import equations
from replica.theory.long_context import long_context
from replica.theory.printing import PARTS, printed

POINTS = [
    entry["parameters"]
    for entry in json.loads(
        (Path(__file__).parents[1] / "reference" / "low_rank_icl_points.json").read_text()
    )
]


@cache
def module() -> dict[str, Callable[..., Any]]:
    """The printed module, run with nothing of replica in reach."""
    text = printed("python")
    assert set(re.findall(r"^(?:import|from) .*$", text, re.MULTILINE)) == {"import math"}
    names: dict[str, Any] = {}
    exec(compile(text, "printed", "exec"), names)
    return names


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_the_module_reproduces_the_solution(point: dict[str, float]) -> None:
    solution = solve(Parameters(**point))
    values = module()["solve"](**point)
    assert values["effective_ridge"] == pytest.approx(float(solution.effective_ridge), rel=1e-12)
    assert set(values) == {*equations.results(), "effective_ridge"}
    flat = {
        **{f"errors.{p}": e for p, e in solution.errors.items()},
        **{
            f"decomposition.{p}.{k}": e
            for p, parts in solution.decomposition.items()
            for k, e in parts.items()
        },
        **{f"memorization.{k}": e for k, e in solution.memorization.items()},
        **{f"{k}.{p}": e for p, moments in solution.prediction.items() for k, e in moments.items()},
        **{f"order_parameters.{k}": e for k, e in solution.order_parameters.items()},
        "training_error": solution.training_error,
        "noise_level": solution.noise_level,
        "effective_ridge": solution.effective_ridge,
    }
    assert set(flat) == set(values)
    for name, value in values.items():
        assert value == pytest.approx(float(flat[name]), rel=1e-12), name


def test_the_module_runs_without_replica(tmp_path: Path) -> None:
    (tmp_path / "equations.py").write_text(printed("python", "errors"))
    code = (
        "import sys\nfrom equations import solve\n"
        "assert not any(name.startswith('replica') for name in sys.modules)\n"
        "print(solve(2, 1.5, 0.9, 1.5, 0.3)['errors.IDG'])"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n{code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout) == pytest.approx(1.4415581027908977, rel=1e-12)


@pytest.mark.parametrize("part", PARTS)
def test_every_part_is_a_module_of_its_own(part: str) -> None:
    names: dict[str, Any] = {}
    exec(compile(printed("python", part), part, "exec"), names)
    wanted = {"action": "action", "stationarity": "stationarity", "reduction": "saddle_point"}
    assert callable(names[wanted.get(part, {"errors": "solve"}.get(part, "long_context"))])


def test_the_printed_action_is_stationary_where_it_says() -> None:
    """Central differences of the printed action against its printed conditions, at a generic point."""
    fixed = {"sigma2": 0.09, "eta": 0.4, "gamma": 1.6, "ridge": 0.2, "eigenvalues": [0.0, 0.5, 0.5, 3.0]}
    point = {"q": 1.5, "m": 0.7, "chi": 2.0, "q_hat": 1.3, "m_hat": 1.1, "chi_hat": 0.2}
    right = module()["stationarity"](**point, **fixed)
    # Each pair enters as q q_hat/2, -m m_hat, -chi chi_hat/2, so the slope is that factor times the defect.
    pairs = [("q", "q_hat", 0.5), ("m", "m_hat", -1.0), ("chi", "chi_hat", -0.5)]
    for one, other, factor in [*pairs, *((b, a, f) for a, b, f in pairs)]:
        ends = [module()["action"](**point | {other: point[other] + step}, **fixed) for step in (1e-5, -1e-5)]
        # The error of the difference is h^2 and 1e-16/h, some 1e-10 of either.
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(factor * (point[one] - right[one]), abs=1e-8)


@pytest.mark.parametrize("sigma", [0.0, 0.3])
@pytest.mark.parametrize("gamma", [0.7, 1.5])
@pytest.mark.parametrize("rho", [0.3, 0.5, 0.9])
def test_the_printed_long_contexts(rho: float, gamma: float, sigma: float) -> None:
    point = {"alpha": 100.0, "kappa": 0.5, "rho": rho, "gamma": gamma, "sigma": sigma}
    leading = long_context(Parameters(**point)).leading
    for protocol, value in module()["long_context"](**point).items():
        assert value == pytest.approx(float(leading[protocol]), rel=1e-12)


def leading_terms() -> list[tuple[str, str, str]]:
    """Regime, protocol and formula of each leading term in the text."""
    blocks = re.findall(
        r"^# (.*); left out: .*\ne_(\w+) = (.*)$", printed("text", "long-context"), re.MULTILINE
    )
    assert len(blocks) == 3 * 18
    return blocks


def test_the_long_contexts_in_text_are_those_that_are_solved() -> None:
    """Each formula at a point of the regime that stands above it."""
    for regime, protocol, formula in leading_terms():
        conditions = regime.replace(" = ", " == ").split(", ")
        points = [
            {"kappa": kappa, "rho": rho, "gamma": gamma, "sigma": sigma}
            for kappa, rho in ((0.6, 0.35), (0.6, 0.6), (0.6, 0.85))
            for gamma in (1.7, 0.7, min(kappa, rho))
            for sigma in (0.0, 0.4)
        ]
        point = next(
            point for point in points if all(eval(condition, dict(point)) for condition in conditions)
        )
        alpha = 100.0
        expected = long_context(Parameters(alpha=alpha, **point)).leading[protocol]
        value = eval(formula, point | {"eta": (1 + point["sigma"] ** 2) / alpha, "sqrt": math.sqrt})
        assert value == pytest.approx(float(expected), rel=1e-12), (regime, protocol)


def test_signs_read_well() -> None:
    """No sum in brackets begins with a minus, and a leading term, which is positive, needs none at all."""
    for regime, protocol, formula in leading_terms():
        assert not re.search(r"^-|sqrt\(1/", formula), (regime, protocol, formula)
    for part in PARTS:
        assert not re.search(r"\((?!-[\d/]+\))-", printed("text", part))
        assert r"\left(-" not in printed("latex", part)


def test_the_module_refuses_what_has_no_answer() -> None:
    with pytest.raises(ValueError, match="diverge"):
        module()["solve"](2.0, 1.5, 0.9, 1.0, 0.3)
    with pytest.raises(ValueError, match="alpha must be finite"):
        module()["solve"](math.inf, 1.5, 0.9, 0.7, 0.0)
    with pytest.raises(ValueError, match="gamma must be"):
        module()["long_context"](2.0, 0.8, 0.9, 0.5, 0.3)


def equations_of(text: str) -> list[str]:
    """The lines of mathematics of printed LaTeX."""
    lines = []
    for body in re.findall(r"\\begin\{equation\}\n(.*?)\n\\end\{equation\}", text, re.DOTALL):
        rows = re.sub(r"\\(begin|end)\{array\}(\{l\})?", "", body).strip().split("\\\\\n")
        lines += [row.replace(r"\displaystyle", "").strip() for row in rows]
    return lines


@pytest.mark.parametrize("part", PARTS)
def test_latex_parses_line_by_line(part: str) -> None:
    from matplotlib.mathtext import MathTextParser

    parser = MathTextParser("path")
    lines = equations_of(printed("latex", part))
    assert lines
    for line in lines:
        parser.parse(f"${line}$")
    if part in ("action", "stationarity"):
        assert any(r"\left\langle" in line and r"\right\rangle" in line for line in lines)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no TeX is installed")
def test_latex_compiles_in_an_article(tmp_path: Path) -> None:
    body = printed("latex")
    (tmp_path / "a.tex").write_text(
        f"\\documentclass{{article}}\\begin{{document}}\n{body}\n\\end{{document}}\n"
    )
    done = subprocess.run(
        ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "a.tex"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.parametrize(
    "parts",
    [PARTS[:-1], pytest.param(PARTS[-1:], marks=pytest.mark.slow)],
    ids=["quick", "long-context"],
)
def test_the_text_does_not_depend_on_the_hash_seed(parts: tuple[str, ...]) -> None:
    code = (
        "from replica.theory.printing import printed\n"
        f"for part in {parts}:\n"
        "    for form in ('latex', 'text', 'python'):\n        print(printed(form, part))"
    )
    assert len(outputs_under_hash_seeds(code)) == 1


def test_every_equation_says_where_it_comes_from() -> None:
    for form, mark in (("latex", "%"), ("text", "#")):
        blocks = printed(form).split("\n\n")
        assert all(block.startswith(mark) for block in blocks)


def test_what_is_printed_is_what_is_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doubling an equation where it is kept doubles it in print."""
    altered = {name: 2 * e for name, e in equations.results().items()}
    monkeypatch.setattr(equations, "results", lambda: altered)
    names: dict[str, Any] = {}
    exec(printed("python", "errors"), names)
    doubled = names["solve"](2.0, 1.5, 0.9, 1.5, 0.3)["errors.IDG"]
    assert doubled == pytest.approx(2 * module()["solve"](2.0, 1.5, 0.9, 1.5, 0.3)["errors.IDG"], rel=1e-15)


def test_no_point_is_lost_where_contexts_are_extreme() -> None:
    """The printed Newton iteration against the bracketed root at random parameters."""
    rng = np.random.default_rng(4)
    for _ in range(50):
        low, high = np.log([1e-2, 1e-2, 0.05, 0.1, 1e-8]), np.log([1e4, 1e2, 1.0, 10.0, 1e2])
        alpha, kappa, rho, gamma, ridge = (float(x) for x in np.exp(rng.uniform(low, high)))
        point = {"alpha": alpha, "kappa": kappa, "rho": rho, "gamma": gamma, "sigma": 0.5, "ridge": ridge}
        exact = solve(Parameters(**point)).errors["ODG"]
        # The scalar equation loses digits in either root finder where its slope is small.
        assert module()["solve"](**point)["errors.ODG"] == pytest.approx(float(exact), rel=1e-11)


@pytest.mark.parametrize(("form", "part"), [("word", "all"), ("latex", "appendix")])
def test_unknown_forms_and_parts_are_refused(form: str, part: str) -> None:
    with pytest.raises(InputError, match="is unknown; allowed are"):
        printed(form, part)
