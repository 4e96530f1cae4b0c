"""Speed and memory of the simulation: against dense normal equations, and against its bare products.

`python -m benchmarks.simulation DIM ...` runs one experiment at each of these dimensions in a process of its
own and prints time and peak memory: `make bench-large`.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from joblib import effective_n_jobs
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dsyrk
from threadpoolctl import threadpool_limits

from replica.parameters import Parameters
from replica.simulation import Sizes, simulate
from replica.simulation.design import Design
from replica.simulation.least_squares import minimize
from replica.simulation.rows import Rows, Team
from replica.simulation.sampling import Prompts, draw_prompts, draw_tasks

POINT = Parameters(alpha=2, kappa=1.5, rho=0.9, gamma=1.5, sigma=0.3)
THREADS = int(effective_n_jobs(-1))
LARGE_MEMORY = {300: "under 1200", 500: "under 4000"}


Result = TypeVar("Result")


def timed(function: Callable[[], Result], repeats: int) -> tuple[float, Result]:
    """The shortest of several runs, in seconds, and what the last one returned."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return min(times), result


def drawn(dim: int, team: Team) -> tuple[Prompts, Rows]:
    sizes = Sizes.of(POINT, dim)
    rows = Rows(sizes.prompts, team)
    seeds = np.random.SeedSequence(0)
    tasks = draw_tasks(sizes, np.random.default_rng(1))
    return draw_prompts(tasks, sizes, POINT.sigma, seeds, rows), rows


def dense(prompts: Prompts) -> np.ndarray:
    """The minimizer by normal equations, the design formed in row blocks that are added up."""
    dim = prompts.queries.shape[1]
    # Fortran order, which dsyrk updates in place.
    normal = np.zeros((dim**2, dim**2), order="F")
    right = np.zeros(dim**2)
    for low in range(0, len(prompts.labels), 4096):
        block = slice(low, low + 4096)
        phi = np.einsum("mi,mj->mij", prompts.queries[block], prompts.estimates[block])
        phi = phi.reshape(-1, dim**2)
        normal = dsyrk(1.0, phi.T, beta=1.0, c=normal, overwrite_c=True)
        right += phi.T @ prompts.labels[block]
    factor = cho_factor(normal, overwrite_a=True, check_finite=False)
    return cho_solve(factor, right).reshape(dim, dim)


def against_dense(dim: int, team: Team) -> float:
    """Seconds of dense normal equations over seconds of the fit, on the same data and all cores."""
    prompts, rows = drawn(dim, team)

    def matrix_free() -> np.ndarray:
        design = Design(prompts.queries, prompts.estimates, rows)
        return minimize(design, prompts.labels, 0.0).W

    with threadpool_limits(1, user_api="blas"):
        mine, W = timed(matrix_free, 3)
    theirs, expected = timed(lambda: dense(prompts), 2)
    difference = np.linalg.norm(W - expected) / np.linalg.norm(expected)
    if difference > 1e-5:
        raise RuntimeError(f"the two solutions differ by {difference:.1e}; the ratio would mean nothing")
    return theirs / mine


class TimedDesign(Design):
    """Notes when each iteration starts: from one to the next is all that an iteration does."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.starts: list[float] = []

    def normal(self, W: np.ndarray) -> np.ndarray:
        self.starts.append(time.perf_counter())
        return super().normal(W)


def over_products(dim: int, team: Team) -> float:
    """Seconds of one iteration over those of its two products of matrices, the shortest of each.

    The products run in row blocks on all cores with one BLAS thread each: on a free machine that is as fast
    as BLAS with threads of its own, which slows down out of proportion on a busy one.
    """
    prompts, rows = drawn(dim, team)
    design = TimedDesign(prompts.queries, prompts.estimates, rows)
    W = np.eye(dim)
    product, total = np.empty_like(prompts.queries), np.empty((team.size, dim, dim))

    def block_products(worker: int, strip: int, block: slice, first: bool) -> None:
        np.matmul(prompts.queries[block], W, out=product[block])
        np.matmul(prompts.queries[block].T, prompts.estimates[block], out=total[worker])

    with threadpool_limits(1, user_api="blas"):
        bare, _ = timed(lambda: rows.each_block(block_products), 15)
        minimize(design, prompts.labels, 0.0, rtol=1e-3)
    return min(np.diff(design.starts)) / bare


def rows() -> Iterator[tuple[str, float, str]]:
    """What was measured, the ratio, and the bound it is held against."""
    with Team(THREADS) as team:
        for dim, bound in ((60, 4), (100, 15)):
            yield (
                f"dense normal equations over the fit, D = {dim}",
                against_dense(dim, team),
                f"at least {bound}",
            )
        for dim in (200, 300):
            yield (
                f"an iteration over its two bare products, D = {dim}",
                over_products(dim, team),
                "at most 1.35",
            )
    start = time.perf_counter()
    for alpha in np.geomspace(0.5, 100, 12):
        params = Parameters(alpha=alpha, kappa=1.5, rho=0.9, gamma=1.5, sigma=0.3)
        simulate(params, 60, 5, 0, gain=0.5)
    yield "12 points of 5 repeats at D = 60, seconds", time.perf_counter() - start, "under 40"


def large(dim: int) -> None:
    """One experiment in this process: a line with its time, its fit and its peak memory."""
    start = time.perf_counter()
    done = simulate(POINT, dim, 1, 0)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(
        f"  D = {dim}: {seconds:.0f} s, {peak:.0f} MB ({LARGE_MEMORY.get(dim, 'no bound')}), "
        f"{done.iterations[0]:.0f} iterations to {done.residual[0]:.1e}, TM {done.errors['TM'][0]:.6f}",
        flush=True,
    )


if __name__ == "__main__":
    for word in sys.argv[1:]:
        # A peak of memory is that of a process, so each dimension has its own.
        code = f"from benchmarks.simulation import large; large({int(word)})"
        subprocess.run([sys.executable, "-c", code], check=True)
