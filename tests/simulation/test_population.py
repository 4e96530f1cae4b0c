"""Exact population errors against Monte Carlo on test prompts made from their definition."""

import numpy as np
import pytest
from naive import naive_estimates

from replica.parameters import PROTOCOLS, Protocol
from replica.simulation.population import PARTS, decompose, population_error, task_moments
from replica.simulation.sampling import Tasks, draw_tasks
from replica.simulation.sizes import Sizes

SIZES = Sizes(dim=8, length=10, length_test=6, tasks=5, rank=3, prompts=1)
SIGMA = 0.4
COUNT = 400_000


@pytest.fixture(scope="module")
def tasks() -> Tasks:
    return draw_tasks(SIZES, np.random.default_rng(0))


@pytest.fixture(scope="module")
def model(tasks: Tasks) -> np.ndarray:
    """No symmetric matrix, so that a transposition shows."""
    noise = np.random.default_rng(1).standard_normal((8, 8))
    return 0.6 * tasks.basis @ tasks.basis.T + 0.2 * noise


def prompts(protocol: Protocol, tasks: Tasks) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fresh queries, estimates and labels."""
    rng = np.random.default_rng([2, PROTOCOLS.index(protocol)])
    w = {
        Protocol.TM: lambda: tasks.vectors[rng.integers(5, size=COUNT)],
        Protocol.IDG: lambda: np.sqrt(8 / 3) * rng.standard_normal((COUNT, 3)) @ tasks.basis.T,
        Protocol.ODG: lambda: rng.standard_normal((COUNT, 8)),
    }[protocol]()
    what = naive_estimates(w, int(SIZES.length_test), SIGMA, rng)
    x = rng.standard_normal((COUNT, 8)) / np.sqrt(8)
    y = np.einsum("ij,ij->i", x, w) + SIGMA * rng.standard_normal(COUNT)
    return x, what, y


def within(sample: np.ndarray, value: float) -> bool:
    """Whether the mean of a sample is within 4 standard errors of a value."""
    return abs(sample.mean() - value) < 4 * sample.std() / np.sqrt(len(sample))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_population_error_is_the_mean_error_on_fresh_prompts(
    protocol: Protocol, tasks: Tasks, model: np.ndarray
) -> None:
    x, what, y = prompts(protocol, tasks)
    squares = (y - np.einsum("ij,jk,ik->i", x, model, what, optimize=True)) ** 2
    exact = population_error(model, task_moments(tasks)[protocol], SIZES.length_test, SIGMA)
    assert within(squares, exact)
    # The test sees two per cent: it can fail.
    assert not within(squares, 1.02 * exact)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_parts_are_the_powers_of_the_parts_of_the_prediction(
    protocol: Protocol, tasks: Tasks, model: np.ndarray
) -> None:
    gain = 0.5
    projector = tasks.basis @ tasks.basis.T
    moment = task_moments(tasks)[protocol]
    parts = decompose(protocol, model, projector, gain, moment, SIZES.length_test, SIGMA)
    assert tuple(parts) == PARTS
    total = population_error(model, moment, SIZES.length_test, SIGMA)
    assert sum(parts.values()) == pytest.approx(total, rel=1e-14)  # a sum of four

    x, what, y = prompts(protocol, tasks)

    def predictions(W: np.ndarray) -> np.ndarray:
        return np.einsum("ij,jk,ik->i", x, W, what, optimize=True)

    signal = predictions(gain * projector)
    memory = predictions((model - gain * projector) @ projector)
    structure = predictions(model @ (np.eye(8) - projector))
    assert within((y - signal) ** 2, parts["algorithmic"])
    assert within(structure**2, parts["structural"])
    crossed = 2 * (memory * structure - (y - signal) * (memory + structure))
    if protocol is Protocol.TM:
        assert parts["cross"] == 0
        assert within(memory**2 + crossed, parts["memorization"])
    else:
        assert within(memory**2, parts["memorization"])
        assert within(crossed, parts["cross"])


def test_infinite_test_contexts_are_the_limit_of_long_ones(tasks: Tasks, model: np.ndarray) -> None:
    moment = task_moments(tasks)[Protocol.IDG]
    limit = population_error(model, moment, np.inf, SIGMA)
    long, longer = (population_error(model, moment, length, SIGMA) - limit for length in (1e6, 2e6))
    assert long > 0
    assert long / longer == pytest.approx(2, rel=1e-6)  # linear in 1/L~; differences of 1e-5 keep ten digits
