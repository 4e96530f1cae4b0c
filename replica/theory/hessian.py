"""The spectrum of the pre-training Hessian: what context fluctuations do to the flat directions of the loss.

The population loss E (y - x^T W what)^2 is quadratic in W, and its Hessian is (2/D) I (x) R with

    R = R_k + eta I,    eta = (1 + sigma^2) / alpha,

where the first factor acts on the rows of W. Its spectrum, in units of 2/D, is that of the task second moment
R_k moved by eta. R_k has a null space of weight 1 - min(kappa, rho): directions that no pre-training task
excites. Estimating tasks from finite contexts lifts them to eta; with tasks given exactly (alpha = inf) they
stay flat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from replica.parameters import Parameters
from replica.theory.spectrum import gap

_SMALL_RATIO = 1e-2
"""Ratio of Marchenko-Pastur scales below which the closed cumulative loses digits to its power series."""
_SERIES = 9
"""Terms of that series: the first one left out is below 1e-18."""


@dataclass(frozen=True, eq=False)
class Hessian:
    """The limiting spectrum of R, a bulk and an atom of total weight 1.

    Attributes are numbers or arrays that broadcast against each other.

    Attributes
    ----------
    kappa: distinct pre-training tasks over D.
    rho: rank of the task family over D.
    atom: place of the atom, eta; 0 without context fluctuations.
    """

    kappa: Any
    rho: Any
    atom: Any

    @property
    def bulk_weight(self) -> Any:
        """Weight of the bulk, min(kappa, rho): the directions that the pre-training tasks span."""
        return np.minimum(self.kappa, self.rho)

    @property
    def atom_weight(self) -> Any:
        """Weight of the atom, 1 - min(kappa, rho)."""
        return 1.0 - self.bulk_weight

    @property
    def edges(self) -> tuple[Any, Any]:
        """Both ends of the bulk, eta + (1/sqrt(rho) -+ 1/sqrt(kappa))^2; equal at kappa = inf."""
        low, high = self._task_edges
        return low + self.atom, high + self.atom

    @property
    def smallest(self) -> Any:
        """The smallest eigenvalue: the atom, or the lower edge where tasks span the space."""
        return np.where(self.atom_weight > 0, self.atom, self.edges[0])[()]

    def density(self, x: Any) -> Any:
        """Density of the bulk on R^D, kappa rho sqrt((high - x)(x - low)) / (2 pi (x - eta)).

        Parameters
        ----------
        x: eigenvalues, broadcasting with the attributes.

        Returns
        -------
        Of the broadcast shape; it integrates to `bulk_weight`. At kappa = inf the bulk is a second atom:
        infinite at its place and 0 elsewhere.

        Examples
        --------
        >>> tasks = hessian(Parameters(alpha=2, kappa=1.5, rho=0.9, gamma=1, sigma=0.3), fluctuations=False)
        >>> tasks.density([0.01, 1.0, 4.0]).round(6)
        array([0.      , 0.329935, 0.      ])
        """
        low, high = self._task_edges
        s = np.asarray(x, dtype=np.float64) - self.atom
        inside = (s > low) & (s < high)
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = self.kappa * self.rho / (2.0 * np.pi)
            density = np.where(inside, scale * np.sqrt((high - s) * (s - low)) / s, 0.0)
        return np.where((low == high) & (s == low), np.inf, density)[()]

    def cumulative(self, x: Any) -> Any:
        """Weight of the eigenvalues up to x, atom included; to rounding, also next to the edges.

        On the angle theta in s = 1/rho + 1/kappa - 2 cos(theta) / sqrt(rho kappa) the density is smooth, and
        its integral is elementary.

        Parameters
        ----------
        x: eigenvalues, broadcasting with the attributes.

        Returns
        -------
        Of the broadcast shape, from 0 to 1.

        Examples
        --------
        >>> lifted = hessian(Parameters(alpha=2, kappa=1.5, rho=0.5, gamma=1, sigma=0.3))
        >>> lifted.cumulative([0.5, 0.6, 10.0])
        array([0. , 0.5, 1. ])
        """
        low, high = self._task_edges
        s = np.asarray(x, dtype=np.float64) - self.atom
        angle = 2.0 * np.arctan2(np.sqrt(np.maximum(s - low, 0.0)), np.sqrt(np.maximum(high - s, 0.0)))
        ratio = np.sqrt(np.minimum(self.kappa / self.rho, self.rho / self.kappa))
        share = np.where(s >= high, 1.0, np.where(s > low, _bulk_share(angle, ratio), 0.0))
        return (self.atom_weight * (s >= 0) + self.bulk_weight * share)[()]

    @property
    def _task_edges(self) -> tuple[Any, Any]:
        roots = 1.0 / np.sqrt(self.rho) + 1.0 / np.sqrt(self.kappa)
        # The difference of the two roots, without its cancellation next to kappa = rho.
        return (gap(self.kappa, self.rho) / roots) ** 2, roots**2


def hessian(parameters: Parameters, *, fluctuations: bool = True) -> Hessian:
    """The spectrum of the population Hessian of the pre-training loss, in units of 2/D.

    Parameters
    ----------
    parameters: one point or a grid; only alpha, sigma, kappa and rho matter.
    fluctuations: whether pre-training estimates tasks from contexts of length alpha D. If not, the model is
        given them, as at alpha = inf.

    Returns
    -------
    `Hessian`, whose attributes and methods follow the shape of the parameters.

    Examples
    --------
    >>> point = Parameters(alpha=2, kappa=1.5, rho=0.9, gamma=1, sigma=0.3)
    >>> float(hessian(point).smallest), float(hessian(point, fluctuations=False).smallest)
    (0.545, 0.0)
    """
    atom = parameters.implicit_ridge if fluctuations else np.zeros_like(parameters.implicit_ridge)[()]
    return Hessian(parameters.kappa, parameters.rho, atom)


def _bulk_share(angle: Any, ratio: Any) -> Any:
    """Share of the bulk below an angle: (2/pi) int_0^angle sin^2 / (1 - 2 ratio cos + ratio^2).

    The integrand is sum_k ratio^k [cos(k angle) - cos((k + 2) angle)] / 2, an elementary function.
    """
    r = np.where(ratio < _SMALL_RATIO, 1.0, ratio)
    turn = np.arctan2(r * np.sin(angle), 1.0 - r * np.cos(angle))
    closed = angle + np.sin(angle) / r - turn * (1.0 / r**2 - 1.0)
    r = np.minimum(ratio, _SMALL_RATIO)
    series = angle - np.sin(2 * angle) / 2
    for k in range(1, _SERIES):
        series = series + r**k * (np.sin(k * angle) / k - np.sin((k + 2) * angle) / (k + 2))
    return np.where(ratio < _SMALL_RATIO, series, closed) / np.pi
