"""Random tasks and prompts; a context estimate is drawn from its exact law without its demonstrations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replica.simulation.rows import Rows
from replica.simulation.sizes import Sizes


@dataclass(frozen=True)
class Tasks:
    """The task family of one experiment.

    Parameters
    ----------
    basis: (D, r), orthonormal columns that span the family; `basis @ basis.T` is the projector P.
    vectors: (M0, D), the pre-training tasks.
    """

    basis: np.ndarray
    vectors: np.ndarray


@dataclass(frozen=True)
class Prompts:
    """The pre-training set, one row per prompt.

    Parameters
    ----------
    queries: (M, D), the inputs x.
    estimates: (M, D), the context estimates `what`.
    labels: (M,), the noisy labels y of the queries.
    """

    queries: np.ndarray
    estimates: np.ndarray
    labels: np.ndarray


def draw_tasks(sizes: Sizes, rng: np.random.Generator) -> Tasks:
    """Draw `w_t = sqrt(D/r) A v_t` with `v_t ~ N(0, I_r)`, and A from the QR decomposition of a Gaussian."""
    basis = np.linalg.qr(rng.standard_normal((sizes.dim, sizes.rank))).Q
    factors = rng.standard_normal((sizes.tasks, sizes.rank))
    factors *= np.sqrt(sizes.dim / sizes.rank)
    return Tasks(basis, factors @ basis.T)


def draw_context_estimates(
    tasks: np.ndarray, length: int, sigma: float, rng: np.random.Generator
) -> np.ndarray:
    r"""Draw `what = (D/L) sum_l y_l x_l` given the task, exactly, in O(D) operations for any L >= 1.

    With `y_l = w.x_l + sigma e_l`, `x_l ~ N(0, I/D)` and `u = w/|w|`, split `x_l = (g_l u + h_l) / sqrt(D)`:
    `g_l ~ N(0, 1)`, and `h_l` an independent standard Gaussian of the complement of u. As vectors of length L
    `y = s g + sigma e` with `s = |w|/sqrt(D)`, and

        what = (sqrt(D)/L) [ (g.y) u + sum_l y_l h_l ].

    Given y, the sum over l is `|y|` times one standard Gaussian `h` of the complement. What remains is the
    joint law of `g.y` and `|y|`. Split e along g: `e.g = |g| z` with `z ~ N(0, 1)`, and `|e|^2 = z^2 + k^2`
    with `k^2 ~ chi^2_{L-1}` (0 at L = 1), both independent of g and of each other. With
    `c^2 = |g|^2 ~ chi^2_L`

        g.y = c b,    |y|^2 = b^2 + sigma^2 k^2,    b = s c + sigma z,

    so three scalars and one vector make the estimate.

    Parameters
    ----------
    tasks: (n, D), the task w of each prompt.
    length: L >= 1.
    sigma: >= 0, standard deviation of the label noise.
    rng: the source of randomness.

    Returns
    -------
    (n, D), one estimate per row.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> tasks = np.ones((100_000, 4))
    >>> what = draw_context_estimates(tasks, length=8, sigma=0.5, rng=rng)
    >>> print(what.mean(axis=0).round(2))
    [1. 1. 1. 1.]
    """
    count, dim = tasks.shape
    norms = np.linalg.norm(tasks, axis=1)
    directions = tasks / norms[:, None]
    c = np.sqrt(rng.chisquare(length, count))
    b = norms / np.sqrt(dim) * c + sigma * rng.standard_normal(count)
    k = np.sqrt(rng.chisquare(length - 1, count)) if length > 1 else np.zeros(count)
    estimates = rng.standard_normal((count, dim))
    along = np.einsum("ij,ij->i", estimates, directions)
    # One pass does both: take the component along u out of h, and put in that of the estimate.
    across = np.hypot(b, sigma * k)
    estimates *= across[:, None]
    directions *= (c * b - across * along)[:, None]
    estimates += directions
    estimates *= np.sqrt(dim) / length
    return estimates


def draw_prompts(
    tasks: Tasks, sizes: Sizes, sigma: float, seeds: np.random.SeedSequence, rows: Rows
) -> Prompts:
    """Draw the pre-training set, each prompt on a task chosen uniformly from the M0.

    Parameters
    ----------
    tasks: the family and its pre-training tasks.
    sizes: the integers of the experiment.
    sigma: >= 0, standard deviation of the label noise.
    seeds: each strip of rows draws from a child of its own, whichever thread works on it.
    rows: `sizes.prompts` rows and the threads that work on them.

    Returns
    -------
    `Prompts`, filled block by block.
    """
    queries = np.empty((sizes.prompts, sizes.dim))
    estimates = np.empty((sizes.prompts, sizes.dim))
    labels = np.empty(sizes.prompts)
    generators = [np.random.default_rng(child) for child in seeds.spawn(rows.strips)]

    def fill(worker: int, strip: int, block: slice, first: bool) -> None:
        rng = generators[strip]
        x = queries[block]
        rng.standard_normal(out=x)
        x /= np.sqrt(sizes.dim)
        chosen = tasks.vectors[rng.integers(sizes.tasks, size=len(x))]
        np.einsum("ij,ij->i", x, chosen, out=labels[block])
        labels[block] += sigma * rng.standard_normal(len(x))
        estimates[block] = draw_context_estimates(chosen, sizes.length, sigma, rng)

    rows.each_block(fill)
    return Prompts(queries, estimates, labels)
