"""The slow and obvious ways to do what the simulation does fast."""

from collections.abc import Callable

import numpy as np
import pytest

Sampler = Callable[[np.ndarray, int, float, np.random.Generator], np.ndarray]


@pytest.fixture(scope="session")
def naive_estimates() -> Sampler:
    """Context estimates from their L demonstrations, (n, L, D) at a time."""

    def draw(tasks: np.ndarray, length: int, sigma: float, rng: np.random.Generator) -> np.ndarray:
        count, dim = tasks.shape
        estimates = np.empty((count, dim))
        for low in range(0, count, 10_000):
            w = tasks[low : low + 10_000]
            x = rng.standard_normal((len(w), length, dim)) / np.sqrt(dim)
            y = np.einsum("nld,nd->nl", x, w) + sigma * rng.standard_normal((len(w), length))
            estimates[low : low + 10_000] = dim / length * np.einsum("nl,nld->nd", y, x)
        return estimates

    return draw
