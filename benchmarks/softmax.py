"""Speed and memory of attention regression: against its bare products and the dense Kronecker matrix.

The bare cost is that of the matrix products of a loss and its gradient, and of one pass of `np.exp` over the
logits, without any of the row operations between them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.theory import best

N, D = 2000, 64
DENSE_BYTES = 4e9
STORED_N = 20_000


def instance(n: int, d: int) -> Any:
    from replica.softmax import random_instance

    return random_instance(n, d, seed=0, radius=2.0)


def bare(problem: Any, X: np.ndarray, all_gradients: bool) -> Callable[[], Any]:
    """The products and the exponential of a loss with its gradient in X, or in X, A1 and A2."""
    P = problem.A1 @ X

    def run() -> None:
        S = P @ problem.A2.T
        np.exp(S, out=S)
        M = S @ problem.A2
        _ = problem.A1.T @ M
        if all_gradients:
            _ = M @ X.T
            _ = S.T @ P

    return run


def dense(problem: Any, X: np.ndarray) -> Callable[[], Any]:
    """The normalized loss and its gradient in x through kron(A1, A2), which is formed beforehand."""
    K = np.kron(problem.A1, problem.A2)
    x, B = X.ravel(), problem.B

    def run() -> None:
        U = np.exp((K @ x).reshape(B.shape))
        F = U / U.sum(axis=1, keepdims=True)
        C = F - B
        G = F * (C - (F * C).sum(axis=1, keepdims=True))
        _ = K.T @ G.ravel()

    return run


def stored(folder: Path, n: int, d: int) -> None:
    """Labels of n^2 entries in a file, and the rest of a problem beside it."""
    generator = np.random.default_rng(0)
    with (folder / "B.npy").open("wb") as file:
        # Written, not mapped: mapped pages would count as memory of this process.
        header = {"descr": "<f8", "fortran_order": False, "shape": (n, n)}
        np.lib.format.write_array_header_1_0(file, header)
        for _ in range(0, n, 500):
            rows = generator.random((500, n))
            file.write((rows / rows.sum(axis=1, keepdims=True)).tobytes())
    for name, shape in (("A1", (n, d)), ("A2", (n, d)), ("X", (d, d))):
        np.save(folder / f"{name}.npy", generator.standard_normal(shape) / np.sqrt(d))


MEASURE_STORED = """
import resource, sys
from replica.softmax import evaluate, hessian_product, load
problem, X = load(sys.argv[1])
for kind in ("normalized", "rescaled"):
    evaluate(problem, X, kind, wrt=("X", "A1", "A2"), block_rows=256)
hessian_product(problem, X, X, block_rows=256)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_memory(n: int = STORED_N, d: int = D) -> float:
    """Bytes at the peak of both losses, their gradients and a Hessian product, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        stored(Path(folder), n, d)
        command = [sys.executable, "-c", MEASURE_STORED, folder]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout) * 1024


def rows() -> Iterator[tuple[str, float, str]]:
    """What was measured, the value, and the bound it is held against."""
    from replica.softmax import Loss, evaluate

    # First, because the peak of a child counts from the memory of its parent.
    yield (
        f"peak memory at n = {STORED_N}, d = {D} in blocks of 256 rows, MB",
        peak_memory() / 1e6,
        "under 2000",
    )

    made = instance(N, D)
    problem, X = made.problem, made.X
    for wrt in (("X",), ("X", "A1", "A2")):
        floor = best(bare(problem, X, len(wrt) > 1), 15)
        for kind in Loss:
            seconds = best(partial(evaluate, problem, X, kind, wrt=wrt), 15)
            what = f"{kind} loss and gradient in {', '.join(wrt)}, n = {N}, d = {D}, over the bare products"
            yield what, seconds / floor, "at most 4"

    n = int(np.sqrt(DENSE_BYTES / 8) / D)
    made = instance(n, D)
    slow = best(dense(made.problem, made.X), 3)
    fast = best(lambda: evaluate(made.problem, made.X, wrt=("X",)), 15)
    yield f"the dense Kronecker matrix of 4 GB (n = {n}, d = {D}) over evaluate", slow / fast, "at least 100"

    for name, sizes in (
        ("m n", [(1000, D), (1780, D), (3162, D)]),
        ("d", [(1000, 16), (1000, 50), (1000, 160)]),
    ):
        seconds = []
        for n, d in sizes:
            made = instance(n, d)
            seconds.append(best(partial(evaluate, made.problem, made.X, wrt=("X",)), 9))
        slope = np.log(seconds[-1] / seconds[0]) / np.log(10)
        yield f"exponent of the cost in {name} over a decade", float(slope), "about 1, or less"
