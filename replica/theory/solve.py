"""Solving the low-rank model over a grid of parameters."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from replica.engine.blocks import blocks, taken
from replica.engine.roots import find_root, tighten
from replica.engine.status import Status
from replica.parameters import NAMES, Parameters
from replica.theory.equations import compiled_equations, results
from replica.theory.solution import Solution, solution_of
from replica.theory.spectrum import gap, resolvents

RESIDUAL_BOUND = 1e-10
"""A point is `ok` only if every stationarity condition holds to this relative residual."""

_BLOCK = 16384
"""Points solved at a time, so that the intermediate arrays stay in the cache."""


def solve(parameters: Parameters) -> Solution:
    """Solve the saddle point at every point of a grid, with errors, their parts and the law of predictions.

    Parameters
    ----------
    parameters: one point or a broadcasting grid.

    Returns
    -------
    A `Solution` of grid-shaped arrays. What became of each point is in its `status`; no point raises or
    warns.

    Notes
    -----
    Exact in the limit D -> infinity at fixed alpha = L/D, kappa = M0/D, rho = r/D, gamma = M/D^2. A finite
    model differs by about c/D, with c between 0 and 8 at moderate parameters; nearer to gamma = 1 and at low
    rank it is larger.

    Examples
    --------
    >>> from replica import Parameters, solve
    >>> grid = Parameters.grid(alpha=8, kappa=0.7, rho=[0.2, 0.4, 0.8], gamma=3, sigma=0.3)
    >>> solve(grid).errors["IDG"].round(4)
    array([0.1795, 0.2494, 0.6042])
    """
    shape = parameters.shape or (1,)
    names = (*results(), "effective_ridge", "residual")
    values = np.empty((len(names), *shape))
    status = np.empty(shape, dtype=np.int8)
    arrays = [np.atleast_1d(value) for _, value in parameters.items()]
    with np.errstate(all="ignore"):
        for index in blocks(shape, _BLOCK):
            point = _Point(*(taken(array, index, len(shape)) for array in arrays))
            rows = dict(zip(names, values[:, *index], strict=True))
            _solve_block(point, rows, status[index])
    values, status = values.reshape(-1, *parameters.shape), status.reshape(parameters.shape)
    return solution_of(parameters, status, names, values)


class _Point(NamedTuple):
    """The seven parameters of a block, in the order of `NAMES`."""

    alpha: Any
    alpha_test: Any
    kappa: Any
    rho: Any
    gamma: Any
    sigma: Any
    ridge: Any


assert _Point._fields == NAMES


def _solve_block(point: _Point, rows: dict[str, np.ndarray], status: np.ndarray) -> None:
    """Fill the rows and the statuses of one block in place."""
    equations = compiled_equations()
    alpha, alpha_test, kappa, rho, gamma, sigma, ridge = point
    noise = sigma * sigma
    eta, eta_test = (1.0 + noise) / alpha, (1.0 + noise) / alpha_test
    inverse_kappa, distance = 1.0 / kappa, gap(kappa, rho)

    status[...] = _regime(point)
    exact = (ridge == 0) & (np.isinf(alpha) | (gamma > 1))
    explicit = exact & (gamma < 1)
    # Not of the block's shape unless it has to be: a grid's z then stays as small as its alpha and sigma.
    xi = np.where(explicit, _spanned(kappa, rho, gamma), 0.0) if explicit.any() else np.zeros(gamma.shape)
    unknown = (status == Status.OK) & ~exact
    if unknown.any():
        xi = np.broadcast_to(xi, status.shape).copy()
        given = (eta, kappa, rho, gamma, ridge)
        if unknown.all():
            xi[...], status[...] = _effective_ridge(*given)
        else:
            chosen = (np.broadcast_to(array, status.shape)[unknown] for array in given)
            xi[unknown], status[unknown] = _effective_ridge(*chosen)
    z, y, u = resolvents(eta + xi, inverse_kappa, distance)
    (above,) = equations.q_hat(xi, eta, rho, inverse_kappa, gamma, z, y, u)
    q_hat = np.where(gamma >= 1, above, gamma * ridge / xi)

    values = equations.values(xi, q_hat, noise, eta, eta_test, rho, inverse_kappa, gamma, z, y, u)
    for name, value in zip(results(), values, strict=True):
        rows[name][...] = value
    rows["effective_ridge"][...] = xi
    rows["residual"][...] = _residual(rows, noise, eta, rho, inverse_kappa, distance, gamma, ridge)
    _judge(rows, status)


def _regime(point: _Point) -> Any:
    """The status that the parameters alone decide."""
    ridgeless = point.ridge == 0
    commute = (point.gamma < np.minimum(point.kappa, point.rho)) | ((point.rho == 1) & (point.kappa > 1))
    ill_posed = ridgeless & np.isinf(point.alpha) & ~commute
    threshold = np.where(ridgeless & (point.gamma == 1), Status.INTERPOLATION_THRESHOLD, Status.OK)
    return np.where(ill_posed, Status.ILL_POSED, threshold)


def _effective_ridge(eta: Any, kappa: Any, rho: Any, gamma: Any, ridge: Any) -> tuple[Any, Any]:
    """The root xi of the scalar equation and its status, where ridge > 0 or gamma < 1."""
    equations = compiled_equations()
    inverse_kappa, distance = 1.0 / kappa, gap(kappa, rho)

    def arguments(
        xi: Any, eta: Any, rho: Any, inverse_kappa: Any, distance: Any, *rest: Any
    ) -> tuple[Any, ...]:
        return xi, eta, rho, inverse_kappa, *rest, *resolvents(eta + xi, inverse_kappa, distance)

    def chosen(few: Any, many: Any, gamma: Any) -> Any:
        return np.where(gamma < 0.5, few, many)

    def tangent(xi: Any, *given: Any) -> tuple[Any, Any]:
        many, few, slope = equations.tangent(*arguments(xi, *given))
        return chosen(few, many, given[-2]), slope

    def scalar(xi: Any, *given: Any) -> Any:
        many, few = equations.scalar(*arguments(xi, *given))
        return chosen(few, many, given[-2])

    given = (eta, rho, inverse_kappa, distance, gamma, ridge)
    low, high = tighten(tangent, *_bracket(eta, kappa, rho, gamma, ridge), given)
    return find_root(scalar, low, high, given)


def _bracket(eta: Any, kappa: Any, rho: Any, gamma: Any, ridge: Any) -> tuple[Any, Any]:
    """Bounds on the effective ridge.

    The mean of s is 1, so 1/(1 + z) <= <1/(s + z)> <= 1/z (Jensen). Either bound turns the scalar equation
    into gamma xi^2 + ((gamma - 1) c - gamma ridge) xi - gamma ridge c = 0 with c = 1 + eta or c = eta.
    """

    def root(c: Any) -> Any:
        linear = (gamma - 1.0) * c - gamma * ridge
        size = np.abs(linear) + np.sqrt(linear * linear + 4.0 * gamma * gamma * ridge * c)
        return np.where(linear <= 0, size / (2.0 * gamma), 2.0 * gamma * ridge * c / size)

    return np.maximum(root(eta), _spanned(kappa, rho, gamma) - eta), root(1.0 + eta)


def _spanned(kappa: Any, rho: Any, gamma: Any) -> Any:
    """A bound on z from below, which is the effective ridge itself at alpha = inf and ridge = 0.

    As q_hat is not negative, gamma >= <s/(s + z)> = 1/(1/kappa + u). The bound is positive where
    gamma < min(kappa, rho); elsewhere 0 is returned.
    """
    finite = np.isfinite(kappa)
    share = np.where(finite, (np.where(finite, kappa, 1.0) - gamma) / np.where(finite, kappa, 1.0), 1.0)
    return np.maximum(share, 0.0) * np.maximum(rho - gamma, 0.0) / (gamma * rho)


def _residual(
    rows: dict[str, np.ndarray],
    noise: Any,
    eta: Any,
    rho: Any,
    inverse_kappa: Any,
    distance: Any,
    gamma: Any,
    ridge: Any,
) -> Any:
    """The largest relative residual of the six conditions at the reported values."""
    q, m, chi, q_hat, m_hat, chi_hat = (
        rows[f"order_parameters.{name}"] for name in ("q", "m", "chi", "q_hat", "m_hat", "chi_hat")
    )
    # The minimum-norm solution sends q_hat to 0: judge its conditions in the variables that stay regular.
    singular = q_hat == 0
    xi = np.where(singular, rows["effective_ridge"], gamma * ridge / q_hat)
    z, y, u = resolvents(eta + xi, inverse_kappa, distance)
    regular = (
        np.where(singular, gamma, chi * q_hat),
        q_hat,
        np.where(singular, 1.0, m_hat / q_hat),
        np.where(singular, rows["noise_level"], chi_hat / (q_hat * q_hat)),
    )
    residuals = compiled_equations().residuals(q, m, *regular, noise, eta, rho, inverse_kappa, gamma, z, y, u)
    worst = np.zeros(q.shape)
    for residual in residuals:
        np.maximum(worst, np.abs(residual), out=worst)
    return worst


def _judge(rows: dict[str, np.ndarray], status: np.ndarray) -> None:
    """Turn what is not finite or not stationary into a status, and blank what has no answer."""
    residual = rows["residual"]
    finite = np.isfinite(residual + rows["errors.TM"] + rows["errors.IDG"] + rows["errors.ODG"])
    status[(status == Status.OK) & ~finite] = Status.NONFINITE
    status[(status == Status.OK) & (residual > RESIDUAL_BOUND)] = Status.NOT_CONVERGED
    failed = status != Status.OK
    if not failed.any():
        return
    threshold = status == Status.INTERPOLATION_THRESHOLD
    for name, row in rows.items():
        row[failed] = np.nan
        if name.startswith(("errors", "decomposition", "memorization.variance", "variance")):
            row[threshold] = np.inf
