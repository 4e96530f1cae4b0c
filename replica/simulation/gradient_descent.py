"""Where gradient descent on the pre-training loss ends, by the size of its start; tasks estimated or given.

Without a ridge the minimizers of the loss form a plane, and gradient descent ends at the one nearest to its
start. Dense algebra, for dimensions of a few tens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lstsq
from threadpoolctl import threadpool_limits

from replica.exceptions import InputError
from replica.parameters import PROTOCOLS, Parameters, Protocol
from replica.simulation import memory
from replica.simulation.experiment import Estimate
from replica.simulation.population import population_error, task_moments
from replica.simulation.sampling import Tasks, draw_context_estimates, draw_tasks
from replica.simulation.sizes import Sizes, checked_integer, entropy


@dataclass(frozen=True, eq=False)
class DescentExperiment:
    """What `gradient_descent` returns.

    Attributes
    ----------
    parameters: the point as asked for.
    realized: the point that the integers make; theory is to be compared there.
    fluctuations: whether tasks were estimated from contexts in pre-training, or given.
    dim, repeats, seed: as asked for.
    starts: (n,), the sizes of the start.
    errors: {protocol: (n, repeats)}, population errors, label noise included.
    """

    parameters: Parameters
    realized: Parameters
    fluctuations: bool
    dim: int
    repeats: int
    seed: int
    starts: np.ndarray
    errors: Mapping[Protocol, np.ndarray]

    @property
    def means(self) -> dict[Protocol, list[Estimate]]:
        """The error of each protocol, one estimate per start."""
        return {protocol: [Estimate.of(row) for row in rows] for protocol, rows in self.errors.items()}


def gradient_descent(
    params: Parameters,
    starts: Sequence[float],
    dim: int,
    repeats: int,
    seed: int,
    *,
    fluctuations: bool = True,
) -> DescentExperiment:
    """Train from random starts to the end of gradient descent, and average the population errors.

    The start is `W0 = start G / sqrt(D)` with G of standard Gaussian entries, so that `Tr W0 W0^T / D` is
    about start^2. All starts of a repeat share G, the tasks and the prompts.

    Parameters
    ----------
    params: one point with ridge = 0, as for `replica.simulation.simulate`.
    starts: sizes of the start, each in [0, inf).
    dim: D >= 2; memory grows as gamma D^4.
    repeats: >= 1.
    seed: >= 0. Each repeat draws from `SeedSequence([seed, dim, repeat, hash of params])`.
    fluctuations: if false, pre-training puts the task itself in the place of its estimate; the length of test
        prompts is alpha_test D in either case.

    Returns
    -------
    `DescentExperiment`.

    Raises
    ------
    InputError: a value outside its range, a ridge, or more memory needed than there is.

    Examples
    --------
    >>> params = Parameters(alpha=4, kappa=1.5, rho=0.5, gamma=2, sigma=0.3)
    >>> lifted = gradient_descent(params, [0, 2], dim=12, repeats=3, seed=0)
    >>> flat = gradient_descent(params, [0, 2], dim=12, repeats=3, seed=0, fluctuations=False)
    >>> [[round(mean.mean, 2) for mean in made.means["ODG"]] for made in (lifted, flat)]
    [[1.53, 1.53], [0.79, 2.78]]
    """
    sizes = Sizes.of(params, dim)
    repeats = checked_integer("repeats", repeats, 1)
    seed = checked_integer("seed", seed, 0)
    if params.ridge != 0:
        raise InputError(f"ridge = {params.ridge:g} leaves no direction free; allowed value 0")
    sizes_of_start = np.asarray(starts, dtype=np.float64).reshape(-1)
    bad = ~((sizes_of_start >= 0) & (sizes_of_start < np.inf))
    if bad.any():
        raise InputError(f"start = {sizes_of_start[bad][0]:g} is outside the allowed range [0, inf)")
    _check_memory(sizes)
    errors = {protocol: np.empty((len(sizes_of_start), repeats)) for protocol in PROTOCOLS}
    with threadpool_limits(limits=1, user_api="blas"):
        for repeat in range(repeats):
            rng = np.random.default_rng(entropy(params, sizes.dim, repeat, seed))
            tasks = draw_tasks(sizes, rng)
            settled, kept = _ends(tasks, sizes, params.sigma, fluctuations, rng)
            for protocol, moment in task_moments(tasks).items():
                for row, start in enumerate(sizes_of_start):
                    errors[protocol][row, repeat] = population_error(
                        settled + start * kept, moment, sizes.length_test, params.sigma
                    )
    return DescentExperiment(
        params, sizes.realized(params), fluctuations, sizes.dim, repeats, seed, sizes_of_start, errors
    )


def _ends(
    tasks: Tasks, sizes: Sizes, sigma: float, fluctuations: bool, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """`settle` for one draw of prompts and of a start of unit size."""
    dim, count = sizes.dim, sizes.prompts
    chosen = tasks.vectors[rng.integers(sizes.tasks, size=count)]
    queries = rng.standard_normal((count, dim)) / np.sqrt(dim)
    labels = np.einsum("ij,ij->i", queries, chosen) + sigma * rng.standard_normal(count)
    start = rng.standard_normal((dim, dim)) / np.sqrt(dim)
    if fluctuations:
        contexts = draw_context_estimates(chosen, sizes.length, sigma, rng)
        return settle(queries, contexts, labels, start, np.eye(dim))
    spanned = min(sizes.rank, sizes.tasks)
    axes = np.linalg.svd(tasks.vectors, full_matrices=False)[2][:spanned].T
    return settle(queries, chosen, labels, start, axes)


def settle(
    queries: np.ndarray, contexts: np.ndarray, labels: np.ndarray, start: np.ndarray, axes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where gradient descent on `sum_mu (y_mu - x_mu^T W what_mu)^2` ends.

    The end is linear in labels and start: W0 plus the least-norm fit to what W0 leaves unexplained.

    Parameters
    ----------
    queries, contexts: (M, D), the inputs x and what stands for the task, `what`.
    labels: (M,), y.
    start: (D, D), W0.
    axes: (D, k), orthonormal columns that span the contexts. To fit in these alone changes nothing and leaves
        no rank to be told from rounding.

    Returns
    -------
    Two (D, D): the end from zero, and what the end keeps of the start. The end from W0 is their sum.
    """
    features = np.einsum("ij,ik->ijk", queries, contexts @ axes).reshape(len(queries), -1)
    predictions = np.einsum("ij,ij->i", queries @ start, contexts)
    targets = np.column_stack([labels, predictions])
    fits = lstsq(features, targets, overwrite_a=True, lapack_driver="gelsy")[0]
    settled, explained = (fit.reshape(len(start), -1) @ axes.T for fit in fits.T)
    return settled, start - explained


def _check_memory(sizes: Sizes) -> None:
    need, room = 16 * sizes.prompts * sizes.dim**2, memory.available()
    if room is not None and need > room:
        raise InputError(
            f"dim = {sizes.dim} with {sizes.prompts} prompts takes {need / 1e9:.3g} GB of memory as a dense "
            f"problem; {room / 1e9:.3g} GB are available"
        )
