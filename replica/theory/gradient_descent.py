"""Where gradient descent ends when the pre-training loss leaves directions free: there it keeps its start.

Without a ridge, gradient descent from W0 ends at the minimizer nearest to W0: it keeps W0 on the null space
of the Hessian of the training loss and finds the least-norm minimizer off it. Let the entries of W0 be i.i.d.
of variance start^2/D, so that tr W0 W0^T = start^2. With N the mean over the rows of W of the projector onto
the null space, and B and eta~ as for the errors,

    e_B(start) = e_B(0) + start^2 [ tr(B N) + eta~ tr N ],    N = lim xi (R_k + eta + xi)^-1,

where the limit is ridge -> 0 and xi the effective ridge. Derived for this project.

- gamma > 1 with context fluctuations (eta > 0): xi = 0 and N = 0, the start is forgotten.
- gamma < 1 with them: fewer prompts than weights, xi > 0.
- Without them (eta = 0) tasks span only p = min(kappa, rho) of the space. For gamma < p again xi > 0. For
  gamma > p, gamma -> inf included, N is the projector onto the orthogonal complement of the tasks, where the
  loss is flat however many prompts there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from replica.engine.action import Average
from replica.engine.program import compiled
from replica.engine.status import Status
from replica.exceptions import InputError
from replica.parameters import Parameters, Protocol
from replica.theory.errors import over_tasks
from replica.theory.solve import solve
from replica.theory.spectrum import gap, lowered, resolvent_inverse
from replica.theory.symbols import definitions, eta_test, gamma, inverse_kappa, rho, s, u, xi, z


@dataclass(frozen=True, eq=False)
class Descent:
    """Errors at the end of gradient descent, as functions of the size of its start.

    Arrays have the shape of the grid.

    Attributes
    ----------
    parameters: the point or grid asked for.
    status: int8 codes of `replica.Status`; values are NaN where there is no answer, and those that diverge
        are infinite at the interpolation threshold.
    from_zero: protocol -> error of the minimizer of least norm, label noise included.
    kept: protocol -> what each unit of start^2 adds to the error.
    """

    parameters: Parameters
    status: Any
    from_zero: Mapping[Protocol, Any]
    kept: Mapping[Protocol, Any]

    def errors(self, start: Any) -> dict[Protocol, Any]:
        """TM, IDG and ODG errors for a start with tr W0 W0^T = start^2.

        Parameters
        ----------
        start: >= 0, finite, broadcasting with the grid.

        Raises
        ------
        InputError: a start that is negative or not finite.
        """
        sizes = np.asarray(start, dtype=np.float64)
        bad = ~((sizes >= 0) & (sizes < np.inf))
        if bad.any():
            raise InputError(f"start = {sizes[bad][0]:g} is outside the allowed range [0, inf)")
        return {p: self.from_zero[p] + sizes**2 * self.kept[p] for p in self.from_zero}


def gradient_descent(parameters: Parameters, *, fluctuations: bool = True) -> Descent:
    """The errors that gradient descent on the pre-training loss converges to, by the size of its start.

    Exact in the limit D -> infinity at fixed ratios. A positive ridge leaves nothing free: then nothing is
    kept, and the errors are those of `solve`.

    Parameters
    ----------
    parameters: one point or a grid.
    fluctuations: whether pre-training estimates tasks from contexts of length alpha D. If not, the model is
        given them, as at alpha = inf; test prompts have length alpha_test D in either case.

    Returns
    -------
    `Descent`. Its status is `INTERPOLATION_THRESHOLD` where an error diverges: at gamma = 1 with
    fluctuations, without them at gamma = min(kappa, rho), and above it at kappa = rho, where the tasks
    excite directions of the family arbitrarily little.

    Examples
    --------
    >>> point = Parameters(alpha=4, kappa=1.5, rho=0.5, gamma=2, sigma=0.3)
    >>> end = gradient_descent(point, fluctuations=False)
    >>> {str(p): round(float(e), 4) for p, e in end.errors(start=2.0).items()}
    {'TM': 0.8074, 'IDG': 0.8224, 'ODG': 3.2999}
    """
    taught = parameters
    if not fluctuations:
        values = dict(parameters.items())
        taught = Parameters(**values | {"alpha": np.full_like(values["alpha"], np.inf)[()]})
    solution = solve(taught)
    status, effective = np.array(solution.status), solution.effective_ridge
    ill_posed = status == Status.ILL_POSED
    determined = (parameters.ridge > 0) | (effective == 0) | (status == Status.INTERPOLATION_THRESHOLD)
    with np.errstate(all="ignore"):
        weights = _free_weights(taught, effective)
        unexcited = _unexcited(taught)
    from_zero, kept = {}, {}
    for protocol, weight in zip(Protocol, weights, strict=True):
        error, free = unexcited[protocol]
        from_zero[protocol] = np.where(ill_posed, error, solution.errors[protocol])[()]
        kept[protocol] = np.where(ill_posed, free, np.where(determined, 0.0, weight))[()]
    diverges = np.any([np.isinf(error) for error in from_zero.values()], axis=0)
    status = np.where(ill_posed, np.where(diverges, Status.INTERPOLATION_THRESHOLD, Status.OK), status)
    return Descent(parameters, status.astype(np.int8)[()], from_zero, kept)


@cache
def _compiled_weights() -> Callable[..., list[Any]]:
    null = xi / (s + z)
    outputs = [lowered(over_tasks(protocol, null) + eta_test * Average(null, s)) for protocol in Protocol]
    return compiled((xi, eta_test, rho, inverse_kappa, gamma, z, u), outputs, definitions)


def _free_weights(parameters: Parameters, effective_ridge: Any) -> list[Any]:
    """tr(B N) + eta~ tr N of each protocol where the effective ridge is positive."""
    kappa, rho = parameters.kappa, parameters.rho
    z = parameters.implicit_ridge + effective_ridge
    u = resolvent_inverse(z, 1.0 / kappa, gap(kappa, rho))
    return _compiled_weights()(
        effective_ridge, _test_ridge(parameters), rho, 1.0 / kappa, parameters.gamma, z, u
    )


def _test_ridge(parameters: Parameters) -> Any:
    """eta~ = (1 + sigma^2) / alpha_test."""
    return (1.0 + parameters.sigma**2) / parameters.alpha_test


def _unexcited(parameters: Parameters) -> dict[Protocol, tuple[Any, Any]]:
    """(error of the least-norm minimizer, tr(B N) + eta~ tr N) at eta = xi = 0, gamma >= p = min(kappa, rho).

    There W = Q + sqrt(v) Z (R_k^+)^(1/2) with Q the projector onto the tasks, R_k^+ the pseudo-inverse and
    v = sigma^2/(gamma - p), as for least squares with p D^2 unknowns, and N = I - Q. Traces follow from
    tr R_k^+ = p/|1/rho - 1/kappa|, the Marchenko-Pastur mean of 1/s over the bulk.
    """
    kappa, rho, noise = parameters.kappa, parameters.rho, parameters.sigma**2
    eta_test = _test_ridge(parameters)
    p = np.minimum(kappa, rho)
    v = np.where(noise > 0, noise / (parameters.gamma - p), 0.0)
    # Without noise, or without fluctuations of the test contexts, an infinite trace has no effect.
    inverse = np.where(v > 0, v * p / np.abs(gap(kappa, rho)), 0.0)
    from_context = eta_test * p + np.where(eta_test > 0, eta_test * inverse, 0.0)
    amplified = {Protocol.TM: v * p, Protocol.IDG: inverse / rho, Protocol.ODG: inverse}
    missed = {Protocol.TM: 0.0, Protocol.IDG: np.maximum(rho - kappa, 0.0) / rho, Protocol.ODG: 1.0 - p}
    return {
        protocol: (
            noise + missed[protocol] + amplified[protocol] + from_context,
            missed[protocol] + eta_test * (1.0 - p),
        )
        for protocol in Protocol
    }
