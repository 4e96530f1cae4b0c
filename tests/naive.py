"""Context estimates the slow and obvious way, from their demonstrations."""

import numpy as np


def naive_estimates(tasks: np.ndarray, length: int, sigma: float, rng: np.random.Generator) -> np.ndarray:
    """`what = (D/L) sum_l y_l x_l` for tasks (n, D), from ten thousand (L, D) inputs at a time."""
    count, dim = tasks.shape
    estimates = np.empty((count, dim))
    for low in range(0, count, 10_000):
        w = tasks[low : low + 10_000]
        x = rng.standard_normal((len(w), length, dim)) / np.sqrt(dim)
        y = np.einsum("nld,nd->nl", x, w) + sigma * rng.standard_normal((len(w), length))
        estimates[low : low + 10_000] = dim / length * np.einsum("nl,nld->nd", y, x)
    return estimates
