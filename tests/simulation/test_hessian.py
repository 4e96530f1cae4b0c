"""Eigenvalues of the Hessian: against sampled contexts, and against the limiting spectrum."""

import numpy as np
import pytest

from replica.parameters import Parameters
from replica.simulation.hessian import hessian_eigenvalues
from replica.simulation.sampling import draw_context_estimates, draw_tasks
from replica.simulation.sizes import Sizes, entropy
from replica.theory import hessian

POINT = {"alpha": 2.0, "kappa": 0.5, "rho": 0.75, "gamma": 2.0, "sigma": 0.4}


@pytest.mark.parametrize("fluctuations", [True, False], ids=["estimated", "given"])
def test_eigenvalues_are_those_of_the_second_moment_of_contexts(fluctuations: bool) -> None:
    params, dim, count = Parameters(**POINT), 8, 400_000
    sizes = Sizes.of(params, dim)
    rng = np.random.default_rng(entropy(params, dim, 1, 5))
    tasks = draw_tasks(sizes, rng).vectors
    contexts = tasks
    if fluctuations:
        chosen = np.repeat(tasks, count // len(tasks), axis=0)
        contexts = draw_context_estimates(chosen, sizes.length, params.sigma, rng)
    sampled = np.linalg.eigvalsh(contexts.T @ contexts / len(contexts))
    computed = hessian_eigenvalues(params, dim, 2, 5, fluctuations=fluctuations)[1]
    # Fourth moments of the estimates make a relative error of about 3 / sqrt(count).
    rtol = 5 * 3 / np.sqrt(count) if fluctuations else 1e-12
    np.testing.assert_allclose(computed, sampled, rtol=rtol, atol=1e-12)


@pytest.mark.parametrize("fluctuations", [True, False], ids=["estimated", "given"])
def test_they_follow_the_limiting_spectrum(fluctuations: bool) -> None:
    params, dim = Parameters(**POINT), 200
    computed = hessian_eigenvalues(params, dim, 4, 0, fluctuations=fluctuations)
    limit = hessian(params, fluctuations=fluctuations)
    edges = np.linspace(*limit.edges, 9)
    excited = computed[:, -round(limit.bulk_weight * dim) :]
    counts = np.mean([np.histogram(np.clip(row, edges[0], edges[-1]), edges)[0] for row in excited], axis=0)
    # Rigid eigenvalues: the count of a bin is right to O(1), whatever the dimension. The noise floor moves
    # with tr R_k, which fluctuates by about sqrt(2/(kappa rho)) / D.
    assert np.abs(counts - dim * np.diff(limit.cumulative(edges))).max() < 3
    np.testing.assert_allclose(computed[:, 0], limit.smallest, rtol=0.05, atol=1e-12)
