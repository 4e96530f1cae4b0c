"""Predictions of a trained model on fresh prompts, in the parts they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from replica.parameters import Parameters, Protocol
from replica.simulation.experiment import train
from replica.simulation.rows import Team
from replica.simulation.sampling import Tasks, draw_context_estimates
from replica.simulation.sizes import Sizes, checked_integer, entropy


class Sample(NamedTuple):
    """Fresh prompts and what the model makes of them.

    Parameters
    ----------
    labels: (prompts,), noisy labels y.
    parts: (3, prompts), the algorithmic, memorization and structural parts of the predictions, which sum to
        them.
    """

    labels: np.ndarray
    parts: np.ndarray


def sample_predictions(
    params: Parameters, dim: int, prompts: int, repeat: int, seed: int, *, gain: float, rtol: float = 1e-8
) -> Mapping[Protocol, Sample]:
    """Train one model, the one of that repeat in `simulate`, and let it predict on fresh prompts.

    Predictions `yhat = x^T W what` are split as `W = a P + (W - a P) P + W (I - P)`, like their errors.

    Parameters
    ----------
    params: one point, as for `simulate`; alpha_test finite.
    dim: D >= 2.
    prompts: >= 1, fresh prompts for each protocol, each with a task of its own.
    repeat: >= 0.
    seed: >= 0; the model draws from `SeedSequence([seed, dim, repeat, hash of params])`.
    gain: a, the gain of the signal.
    rtol: as for `simulate`.

    Returns
    -------
    A `Sample` for each protocol.

    Raises
    ------
    InputError: a value outside its range.
    NumericalError: the fit does not reach a residual of `rtol`.

    Examples
    --------
    >>> params = Parameters(alpha=2, kappa=1.5, rho=0.9, gamma=1.5, sigma=0.3)
    >>> sample = sample_predictions(params, dim=20, prompts=1000, repeat=0, seed=0, gain=0.57)["IDG"]
    >>> print(round(float(np.mean((sample.labels - sample.parts.sum(axis=0)) ** 2)), 2))
    1.59
    """
    sizes = Sizes.of(params, dim)
    checked_integer("prompts", prompts, 1)
    length = checked_integer("alpha_test times dim", sizes.length_test, 1)
    words = entropy(params, sizes.dim, checked_integer("repeat", repeat, 0), checked_integer("seed", seed, 0))
    with threadpool_limits(limits=1, user_api="blas"), Team(1) as team:
        trained = train(params, sizes, words, team, rtol)
        W, tasks = trained.W, trained.tasks
        projector = tasks.basis @ tasks.basis.T
        family = W @ projector
        split = (gain * projector, family - gain * projector, W - family)
        # The first two children draw tasks and prompts of the pre-training.
        children = np.random.SeedSequence(words).spawn(2 + len(Protocol))[2:]
        made = {}
        for protocol, child in zip(Protocol, children, strict=True):
            rng = np.random.default_rng(child)
            chosen = _test_tasks(protocol, tasks, prompts, rng)
            queries = rng.standard_normal(chosen.shape) / np.sqrt(sizes.dim)
            labels = np.einsum("ij,ij->i", queries, chosen) + params.sigma * rng.standard_normal(prompts)
            estimates = draw_context_estimates(chosen, length, params.sigma, rng)
            parts = [np.einsum("ij,ij->i", queries @ part, estimates) for part in split]
            made[protocol] = Sample(labels, np.array(parts))
    return made


def _test_tasks(protocol: Protocol, tasks: Tasks, count: int, rng: np.random.Generator) -> np.ndarray:
    """(count, D), tasks as the protocol draws them."""
    dim, rank = tasks.basis.shape
    if protocol is Protocol.TM:
        return tasks.vectors[rng.integers(len(tasks.vectors), size=count)]
    if protocol is Protocol.IDG:
        return np.sqrt(dim / rank) * rng.standard_normal((count, rank)) @ tasks.basis.T
    return rng.standard_normal((count, dim))
