"""Repeated finite-size experiments: errors with standard errors, never a number that did not converge."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import threadpool_limits

from replica.exceptions import InputError, NumericalError
from replica.parameters import PROTOCOLS, Parameters, Protocol
from replica.simulation import memory
from replica.simulation.design import Design
from replica.simulation.least_squares import minimize
from replica.simulation.population import PARTS, decompose, population_error, task_moments
from replica.simulation.rows import Rows, Team
from replica.simulation.sampling import Tasks, draw_prompts, draw_tasks
from replica.simulation.sizes import Sizes, checked_integer, entropy

DIFFERENCES = {
    "IDG-TM": (Protocol.IDG, Protocol.TM),
    "ODG-IDG": (Protocol.ODG, Protocol.IDG),
}
"""Paired differences: the protocols of one repeat share their W."""
SHARED_ENTRIES = 2**21
"""From this M x D on all threads work on one repeat; below, where a pass is short, each works on its own."""

_Numbers = dict[str, float]
"""What one repeat gives, by name; the parts are `protocol.part`."""


class Estimate(NamedTuple):
    """A mean over repeats.

    Parameters
    ----------
    mean: NaN where n = 0.
    stderr: standard error of the mean; NaN where n < 2.
    n: number of repeats that count.
    """

    mean: float
    stderr: float
    n: int

    @classmethod
    def of(cls, values: np.ndarray) -> Estimate:
        """Over the values that are not NaN."""
        kept = values[~np.isnan(values)]
        n = len(kept)
        return cls(
            float(np.mean(kept)) if n else math.nan,
            float(np.std(kept, ddof=1) / math.sqrt(n)) if n > 1 else math.nan,
            n,
        )


class Failure(NamedTuple):
    """A repeat that gave no number.

    Parameters
    ----------
    repeat: its index.
    seed: the integers of its `numpy.random.SeedSequence`.
    reason: what went wrong and what to try.
    """

    repeat: int
    seed: tuple[int, ...]
    reason: str


@dataclass(frozen=True, eq=False)
class Experiment:
    """What `simulate` returns. Arrays have one entry per repeat, NaN where the repeat failed.

    Parameters
    ----------
    parameters: the point as asked for.
    realized: the point that the integers make; theory is to be compared there.
    dim, repeats, seed: as asked for.
    status: "ok", "not_converged" where no repeat succeeded, or "interpolation_threshold" (ridge = 0 and
        M = D^2, where errors have no mean; not run).
    errors: {protocol: (repeats,)}, population errors, label noise included.
    training_error: (repeats,), mean squared error on the pre-training prompts.
    decomposition: {protocol: {part: (repeats,)}}, or None where no gain was given.
    iterations, residual: (repeats,), of the least-squares fits.
    failures: the repeats that failed.
    """

    parameters: Parameters
    realized: Parameters
    dim: int
    repeats: int
    seed: int
    status: str
    errors: Mapping[Protocol, np.ndarray]
    training_error: np.ndarray
    decomposition: Mapping[Protocol, Mapping[str, np.ndarray]] | None
    iterations: np.ndarray
    residual: np.ndarray
    failures: tuple[Failure, ...]

    @property
    def means(self) -> dict[Protocol, Estimate]:
        """The error of each protocol."""
        return {protocol: Estimate.of(values) for protocol, values in self.errors.items()}

    @property
    def differences(self) -> dict[str, Estimate]:
        """Differences of errors between protocols, paired by repeat."""
        return {
            name: Estimate.of(self.errors[more] - self.errors[less])
            for name, (more, less) in DIFFERENCES.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and mappings, as `replica simulate --format json` prints them."""
        report = {
            "parameters": dict(self.parameters.items()),
            "realized": dict(self.realized.items()),
            "dim": self.dim,
            "seed": self.seed,
            "repeats": self.repeats,
            "status": self.status,
            "n_failed": len(self.failures),
            "failures": [failure._asdict() for failure in self.failures],
            "errors": {protocol: mean._asdict() for protocol, mean in self.means.items()},
            "differences": {name: mean._asdict() for name, mean in self.differences.items()},
            "training_error": Estimate.of(self.training_error)._asdict(),
        }
        if self.decomposition is not None:
            report["decomposition"] = {
                protocol: {part: Estimate.of(values)._asdict() for part, values in parts.items()}
                for protocol, parts in self.decomposition.items()
            }
        for name, values in (("iterations", self.iterations), ("residual", self.residual)):
            kept = values[~np.isnan(values)]
            report[name] = {
                "mean": float(np.mean(kept)) if len(kept) else math.nan,
                "max": float(np.max(kept)) if len(kept) else math.nan,
            }
        return report

    def __repr__(self) -> str:
        means = ", ".join(
            f"{protocol} {mean.mean:.4g} +- {mean.stderr:.1g}" for protocol, mean in self.means.items()
        )
        return f"Experiment(dim={self.dim}, {self.status}, {means}, n={self.repeats - len(self.failures)})"


def simulate(
    params: Parameters,
    dim: int,
    repeats: int,
    seed: int,
    *,
    n_jobs: int = -1,
    rtol: float = 1e-8,
    gain: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Experiment:
    """Train linear attention `repeats` times on random prompts in dimension `dim` and average its errors.

    Ratios times powers of D are rounded to integers, and the ratios that these make are returned. Everything
    but the least-squares fit is exact at this D: context estimates follow their exact law, and errors are
    expectations over fresh prompts (arXiv:2510.04548, set-up), so that the spread over repeats is that of the
    pre-training set alone.

    Parameters
    ----------
    params: one point; alpha and kappa finite, and at least half a task, rank and demonstration in `dim`.
    dim: D >= 2.
    repeats: >= 1; one repeat has no standard error.
    seed: >= 0. Each repeat draws from `SeedSequence([seed, dim, repeat, hash of params])`.
    n_jobs: threads, negative counted from the number of cores as joblib does. Numbers do not depend on it;
        BLAS is held to one thread meanwhile, in the whole process.
    rtol: largest relative residual of a fit, in (0, 0.01].
    gain: where given, errors are decomposed about `gain` times the projector onto the task family.
    progress: called after each repeat, from any thread, with the number done and that of all.

    Returns
    -------
    `Experiment`. Repeats that reach no residual of `rtol` are kept out of the means and listed.

    Raises
    ------
    InputError: a value outside its range, or more memory needed than there is.

    Examples
    --------
    >>> params = Parameters(alpha=2, kappa=1.5, rho=0.9, gamma=1.5, sigma=0.3)
    >>> simulate(params, dim=20, repeats=4, seed=0)
    Experiment(dim=20, ok, TM 1.257 +- 0.07, IDG 1.687 +- 0.2, ODG 1.868 +- 0.2, n=4)
    """
    sizes = Sizes.of(params, dim)
    repeats = checked_integer("repeats", repeats, 1)
    seed = checked_integer("seed", seed, 0)
    jobs = _jobs(n_jobs)
    if not 0 < rtol <= 0.01:
        raise InputError(f"rtol = {rtol!r} is outside the allowed range (0, 0.01]")
    if gain is not None and not math.isfinite(gain):
        raise InputError(f"gain = {gain!r} is outside the allowed range (-inf, inf)")

    at_threshold = params.ridge == 0 and sizes.prompts == sizes.dim**2
    outcomes: dict[int, _Numbers | Failure] = {}
    if not at_threshold:
        workers = 1 if sizes.prompts * sizes.dim >= SHARED_ENTRIES else min(jobs, repeats)
        threads = jobs // workers
        memory.check(sizes, workers, threads)
        with threadpool_limits(limits=1, user_api="blas"), Team(workers) as outer:

            def run(worker: int, repeat: int) -> None:
                words = entropy(params, sizes.dim, repeat, seed)
                with Team(threads, outer.stop) as inner:
                    try:
                        outcomes[repeat] = _repeat(params, sizes, words, inner, rtol, gain)
                    except NumericalError as error:
                        outcomes[repeat] = Failure(repeat, words, str(error))
                if progress is not None:
                    progress(len(outcomes), repeats)

            outer.share(range(repeats), run)

    def column(name: str) -> np.ndarray:
        values = np.full(repeats, np.nan)
        for repeat, numbers in outcomes.items():
            if not isinstance(numbers, Failure):
                values[repeat] = numbers[name]
        return values

    failures = sorted(outcome for outcome in outcomes.values() if isinstance(outcome, Failure))
    decomposition = None
    if gain is not None:
        decomposition = {
            protocol: {part: column(f"{protocol}.{part}") for part in PARTS} for protocol in PROTOCOLS
        }
    return Experiment(
        parameters=params,
        realized=sizes.realized(params),
        dim=sizes.dim,
        repeats=repeats,
        seed=seed,
        status=(
            "interpolation_threshold"
            if at_threshold
            else "ok"
            if len(failures) < repeats
            else "not_converged"
        ),
        errors={protocol: column(protocol) for protocol in PROTOCOLS},
        training_error=column("training_error"),
        decomposition=decomposition,
        iterations=column("iterations"),
        residual=column("residual"),
        failures=tuple(failures),
    )


def _jobs(n_jobs: int) -> int:
    if checked_integer("n_jobs", n_jobs, -(2**31)) == 0:
        raise InputError(
            "n_jobs = 0 is outside the allowed range: positive, or negative, counted from all cores"
        )
    return int(effective_n_jobs(n_jobs))


class Trained(NamedTuple):
    """A model and what it was trained on.

    Parameters
    ----------
    tasks: the family and its pre-training tasks.
    W: (D, D), the minimizer of the pre-training loss.
    training_error: mean squared error on the pre-training prompts.
    iterations, residual: of the fit.
    """

    tasks: Tasks
    W: np.ndarray
    training_error: float
    iterations: int
    residual: float


def train(params: Parameters, sizes: Sizes, words: tuple[int, ...], team: Team, rtol: float) -> Trained:
    """Draw tasks and prompts from the seed of a repeat and fit the model to them.

    Raises
    ------
    NumericalError: the fit does not reach a residual of `rtol`.
    """
    for_tasks, for_prompts = np.random.SeedSequence(words).spawn(2)
    tasks = draw_tasks(sizes, np.random.default_rng(for_tasks))
    rows = Rows(sizes.prompts, team)
    prompts = draw_prompts(tasks, sizes, params.sigma, for_prompts, rows)
    design = Design(prompts.queries, prompts.estimates, rows)
    fit = minimize(design, prompts.labels, params.ridge, rtol)
    misses = prompts.labels - design.forward(fit.W)
    return Trained(tasks, fit.W, float(np.mean(misses * misses)), fit.iterations, fit.residual)


def _repeat(
    params: Parameters,
    sizes: Sizes,
    words: tuple[int, ...],
    team: Team,
    rtol: float,
    gain: float | None,
) -> _Numbers:
    tasks, W, training_error, iterations, residual = train(params, sizes, words, team, rtol)
    numbers: _Numbers = {
        "iterations": iterations,
        "residual": residual,
        "training_error": training_error,
    }
    for protocol, moment in task_moments(tasks).items():
        numbers[protocol] = population_error(W, moment, sizes.length_test, params.sigma)
        if gain is not None:
            projector = tasks.basis @ tasks.basis.T
            parts = decompose(protocol, W, projector, gain, moment, sizes.length_test, params.sigma)
            numbers |= {f"{protocol}.{part}": value for part, value in parts.items()}
    if not np.all(np.isfinite(list(numbers.values()))):
        raise NumericalError("the errors leave the range of float64; try a smaller sigma")
    return numbers
