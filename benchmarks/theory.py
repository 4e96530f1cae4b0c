"""Speed of the theory: against a bare square root, a loop of general root finding, and start-up.

A pass is the best of 15 runs of `np.sqrt` over a contiguous float64 array of a million entries, which moves
the memory of two rows of a solution.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.optimize import root

SIZE = 1000
CASES: dict[str, tuple[dict[str, float], int]] = {
    "ridge = 0, gamma = 1.5 (closed)": ({"gamma": 1.5, "ridge": 0.0}, 220),
    "ridge = 0, gamma = 0.6 (minimum norm)": ({"gamma": 0.6, "ridge": 0.0}, 1000),
    "ridge = 0.1, gamma = 1.5": ({"gamma": 1.5, "ridge": 0.1}, 1000),
    "ridge = 1e-6, gamma = 0.9": ({"gamma": 0.9, "ridge": 1e-6}, 1000),
}


def best(function: Callable[[], Any], repeats: int) -> float:
    """The shortest of several runs, in seconds."""

    def once() -> float:
        start = time.perf_counter()
        function()
        return time.perf_counter() - start

    return min(once() for _ in range(repeats))


def grid(**fixed: float) -> Any:
    from replica import Parameters

    return Parameters.grid(
        alpha=8.0,
        kappa=np.linspace(0.05, 2, SIZE),
        rho=np.geomspace(0.02, 1, SIZE),
        sigma=0.3,
        **fixed,
    )


def six_conditions() -> Callable[[np.ndarray, tuple[float, ...]], list[float]]:
    """The stationarity conditions as a function of the six variables, for a general root finder."""
    from replica.engine.program import compiled
    from replica.theory import symbols as sym
    from replica.theory.action import action
    from replica.theory.equations import ORDER_PARAMETERS
    from replica.theory.spectrum import gap, lowered, resolvent_inverse

    penalty = (sym.z - sym.eta) * sym.q_hat / sym.gamma
    conditions = [v - lowered(r.subs(sym.ridge, penalty)) for v, r in action().stationarity().items()]
    variables = [*ORDER_PARAMETERS.values()]
    law = (sym.noise, sym.eta, sym.rho, sym.inverse_kappa, sym.gamma, sym.z, sym.u)
    function = compiled((*variables, *law), conditions, sym.definitions)

    def evaluate(values: np.ndarray, point: tuple[float, ...]) -> list[float]:
        noise, eta, rho, kappa, gamma, ridge = point
        z = eta + gamma * ridge / values[3]
        u = resolvent_inverse(z, 1 / kappa, gap(kappa, rho))
        return [float(c) for c in function(*values, noise, eta, rho, 1 / kappa, gamma, z, u)]

    return evaluate


def loop_per_point(gamma: float, ridge: float, points: int = 60) -> float:
    """Seconds a point of `scipy.optimize.root` on the six conditions, started 10% off the answer."""
    from replica import Parameters, solve

    rng = np.random.default_rng(0)
    parameters = Parameters(
        alpha=8.0,
        kappa=rng.uniform(0.05, 2, points),
        rho=rng.uniform(0.05, 1, points),
        gamma=gamma,
        sigma=0.3,
        ridge=ridge,
    )
    answers = np.stack(list(solve(parameters).order_parameters.values()), axis=-1)
    evaluate = six_conditions()
    start = time.perf_counter()
    solved = 0
    for kappa, rho, answer in zip(parameters.kappa, parameters.rho, answers, strict=True):
        point = (0.09, 1.09 / 8, rho, kappa, gamma, ridge)
        solved += root(evaluate, 1.1 * answer, args=(point,)).success
    elapsed = time.perf_counter() - start
    if solved < points // 2:
        raise RuntimeError(f"the loop solved only {solved} of {points} points; the ratio would mean nothing")
    return elapsed / points


def start_up(code: str) -> float:
    return best(lambda: subprocess.run([sys.executable, "-c", code], check=True, capture_output=True), 5)


def rows() -> Iterator[tuple[str, float, str]]:
    """What was measured, the ratio, and the bound it is held against."""
    from replica import solve

    numbers = np.random.default_rng(0).random(SIZE * SIZE)
    one_pass = best(lambda: np.sqrt(numbers), 15)
    solve(grid(gamma=1.5, ridge=0.1))
    seconds = {}
    for name, (fixed, bound) in CASES.items():
        seconds[name] = best(lambda fixed=fixed: solve(grid(**fixed)), 3)
        yield f"a million points, {name}: passes", seconds[name] / one_pass, f"at most {bound}"
    yield (
        "peak memory of all the above, MB",
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "under 800",
    )
    names = list(CASES)
    for name, bound in ((names[0], 2000), (names[2], 300)):
        fixed = CASES[name][0]
        ratio = loop_per_point(**fixed) / (seconds[name] / SIZE**2)
        yield f"a loop of scipy.optimize.root over solve, {name}", ratio, f"at least {bound}"

    point = "alpha=2, kappa=1.5, rho=.9, gamma=1.5, sigma=.3, ridge=.1"
    first = start_up(f"from replica import Parameters, solve; solve(Parameters({point}))")
    yield (
        "a first solve over `import sympy, scipy.optimize`",
        first / start_up("import sympy, scipy.optimize"),
        "under 2",
    )
    shown = start_up(
        "import sys; sys.argv = ['replica', '--help']\nfrom replica.cli.main import main\nmain()"
    )
    yield "`replica --help` over `import click`", shown / start_up("import click"), "under 3"
