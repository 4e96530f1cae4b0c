"""Eigenvalues of the pre-training Hessian for sampled tasks."""

from __future__ import annotations

import numpy as np

from replica.parameters import Parameters
from replica.simulation.sampling import draw_tasks
from replica.simulation.sizes import Sizes, checked_integer, entropy


def hessian_eigenvalues(
    params: Parameters, dim: int, repeats: int, seed: int, *, fluctuations: bool = True
) -> np.ndarray:
    """The spectrum of the population Hessian of the loss, in units of 2/D, for sampled pre-training tasks.

    It is that of the second moment of the context estimates,
    `(1 + 1/L) R_k + (D/L) (tr R_k + sigma^2) I` exactly at any D, or of R_k itself where tasks are given.
    Each eigenvalue stands for D equal ones, one per row of W.

    Parameters
    ----------
    params: one point, as for `replica.simulation.simulate`.
    dim: D >= 2.
    repeats: >= 1.
    seed: >= 0. Each repeat draws from `SeedSequence([seed, dim, repeat, hash of params])`.
    fluctuations: whether tasks are estimated from contexts in pre-training, or given.

    Returns
    -------
    (repeats, D), ascending along the second axis.

    Raises
    ------
    InputError: a value outside its range.

    Examples
    --------
    >>> params = Parameters(alpha=2, kappa=1.5, rho=0.5, gamma=2, sigma=0.3)
    >>> [
    ...     hessian_eigenvalues(params, dim=4, repeats=1, seed=0, fluctuations=fluctuations).round(2).tolist()
    ...     for fluctuations in (False, True)
    ... ]
    [[[0.0, 0.0, 1.09, 2.3]], [[0.47, 0.47, 1.69, 3.06]]]
    """
    sizes = Sizes.of(params, dim)
    repeats = checked_integer("repeats", repeats, 1)
    seed = checked_integer("seed", seed, 0)
    eigenvalues = np.zeros((repeats, sizes.dim))
    for repeat, row in enumerate(eigenvalues):
        rng = np.random.default_rng(entropy(params, sizes.dim, repeat, seed))
        vectors = draw_tasks(sizes, rng).vectors
        excited = min(sizes.tasks, sizes.rank)
        row[sizes.dim - excited :] = np.linalg.svd(vectors, compute_uv=False)[:excited][::-1] ** 2
        row /= sizes.tasks
    if fluctuations:
        power = eigenvalues.mean(axis=1, keepdims=True) + params.sigma**2
        eigenvalues = (1.0 + 1.0 / sizes.length) * eigenvalues + sizes.dim / sizes.length * power
    return eigenvalues
