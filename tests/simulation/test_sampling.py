"""The exact law of the context estimates against their definition, and samplers that are nearly right."""

from collections.abc import Callable

import numpy as np
import pytest
from naive import naive_estimates
from scipy.stats import ks_2samp

from replica.parameters import Parameters
from replica.simulation.rows import Rows, Team
from replica.simulation.sampling import draw_context_estimates, draw_prompts, draw_tasks
from replica.simulation.sizes import Sizes

Sampler = Callable[[np.ndarray, int, float, np.random.Generator], np.ndarray]

DIM = 20
SIGMA = 1.0
COUNT = 100_000
TASK = np.linspace(-1.5, 2.0, DIM)
UNIT = TASK / np.linalg.norm(TASK)


def covariance(task: np.ndarray, length: int, sigma: float) -> np.ndarray:
    """The exact covariance of the context estimate given the task."""
    dim = len(task)
    return (dim / length) * ((task @ task / dim + sigma**2) * np.eye(dim) + np.outer(task, task) / dim)


def gaussian(tasks: np.ndarray, length: int, sigma: float, rng: np.random.Generator) -> np.ndarray:
    """Wrong: the right mean and covariance, in a Gaussian law."""
    return rng.multivariate_normal(tasks[0], covariance(tasks[0], length, sigma), len(tasks))


def unpaired(tasks: np.ndarray, length: int, sigma: float, rng: np.random.Generator) -> np.ndarray:
    """Wrong: the right laws along and across the task, but independent of each other."""
    along = draw_context_estimates(tasks, length, sigma, rng) @ UNIT
    other = draw_context_estimates(tasks, length, sigma, rng)
    return other + np.outer(along - other @ UNIT, UNIT)


def one_degree_more(tasks: np.ndarray, length: int, sigma: float, rng: np.random.Generator) -> np.ndarray:
    """Wrong: the noise across the inputs has L instead of L - 1 degrees of freedom."""
    dim = tasks.shape[1]
    c = np.sqrt(rng.chisquare(length, len(tasks)))
    b = np.linalg.norm(tasks[0]) / np.sqrt(dim) * c + sigma * rng.standard_normal(len(tasks))
    h = rng.standard_normal(tasks.shape)
    h -= np.outer(h @ UNIT, UNIT)
    size = np.hypot(b, sigma * np.sqrt(rng.chisquare(length, len(tasks))))
    return np.sqrt(dim) / length * (np.outer(c * b, UNIT) + size[:, None] * h)


def smallest_p(sampler: Sampler, reference: np.ndarray, length: int) -> float:
    """The smallest of three Kolmogorov-Smirnov p-values: along the task, across it, and their product."""
    estimates = sampler(np.tile(TASK, (COUNT, 1)), length, SIGMA, np.random.default_rng(1))

    def statistics(what: np.ndarray) -> list[np.ndarray]:
        along = what @ UNIT
        across = np.einsum("ij,ij->i", what, what) - along**2
        return [along, across, along * across]

    pairs = zip(statistics(estimates), statistics(reference), strict=True)
    return min(ks_2samp(mine, theirs, method="asymp").pvalue for mine, theirs in pairs)


@pytest.fixture(scope="module", params=[5, 20])
def length(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture(scope="module")
def reference(length: int) -> np.ndarray:
    return naive_estimates(np.tile(TASK, (COUNT, 1)), length, SIGMA, np.random.default_rng(0))


def test_estimates_follow_the_law_of_their_definition(reference: np.ndarray, length: int) -> None:
    # Seeds are fixed: a right sampler stays above this in 99.7% of the seeds.
    assert smallest_p(draw_context_estimates, reference, length) > 1e-3


@pytest.mark.parametrize("wrong", [gaussian, unpaired, one_degree_more])
def test_a_sampler_that_is_nearly_right_is_found_out(
    wrong: Sampler, reference: np.ndarray, length: int
) -> None:
    assert smallest_p(wrong, reference, length) < 1e-6


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("sigma", [0.0, 0.7])
def test_moments_are_the_exact_ones(length: int, sigma: float) -> None:
    task = np.array([1.0, -2.0, 0.5, 0.0])
    rng = np.random.default_rng(2)
    estimates = draw_context_estimates(np.tile(task, (400_000, 1)), length, sigma, rng)
    left = estimates - task
    products = left[:, :, None] * left[:, None, :]
    for sample, exact in ((left, 0.0), (products, covariance(task, length, sigma))):
        error = sample.std(axis=0) / np.sqrt(len(sample))
        # 20 entries at 4.5 standard errors: one in ten thousand right samplers fails.
        assert np.all(np.abs(sample.mean(axis=0) - exact) < 4.5 * error)


def test_tasks_span_the_family_and_have_the_right_size() -> None:
    sizes = Sizes(dim=30, length=1, length_test=1, tasks=4000, rank=7, prompts=1)
    tasks = draw_tasks(sizes, np.random.default_rng(3))
    # Orthonormal, and tasks in the span, to rounding.
    np.testing.assert_allclose(tasks.basis.T @ tasks.basis, np.eye(7), atol=1e-14)
    np.testing.assert_allclose(tasks.vectors @ tasks.basis @ tasks.basis.T, tasks.vectors, atol=1e-13)
    squares = np.sum(tasks.vectors**2, axis=1)
    # |w|^2 = (D/r) chi^2_r: mean D, not normalized.
    assert abs(squares.mean() - 30) < 4 * squares.std() / np.sqrt(4000)
    assert squares.std() == pytest.approx(30 * np.sqrt(2 / 7), rel=0.05)  # 4 standard errors


def test_prompts_have_the_labels_and_the_estimates_of_their_task() -> None:
    """With long contexts `what` is the task, so labels less `x . what` are the noise."""
    params = Parameters(alpha=1e8, kappa=0.5, rho=0.5, gamma=30, sigma=0.5)
    sizes = Sizes.of(params, 20)
    tasks = draw_tasks(sizes, np.random.default_rng(4))
    rows = Rows(sizes.prompts, Team(1))
    prompts = draw_prompts(tasks, sizes, params.sigma, np.random.SeedSequence(5), rows)
    nearest = np.argmin(np.linalg.norm(prompts.estimates[:, None] - tasks.vectors[None], axis=2), axis=1)
    # sqrt(2 D / L) = 1.4e-4 times a Gaussian vector of 20 components.
    assert np.max(np.abs(prompts.estimates - tasks.vectors[nearest])) < 1e-2
    counts = np.bincount(nearest, minlength=sizes.tasks)
    expected = sizes.prompts / sizes.tasks
    # chi^2 of 9 degrees of freedom exceeds 33.7 once in ten thousand.
    assert np.sum((counts - expected) ** 2 / expected) < 33.7
    noise = prompts.labels - np.einsum("ij,ij->i", prompts.queries, prompts.estimates)
    assert noise.std() == pytest.approx(0.5, rel=4 / np.sqrt(2 * sizes.prompts))
    assert prompts.queries.std() == pytest.approx(20**-0.5, rel=4 / np.sqrt(2 * prompts.queries.size))
