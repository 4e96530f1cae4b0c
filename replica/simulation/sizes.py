"""From ratios and a dimension to integers, and from these to the random numbers of each repeat."""

from __future__ import annotations

import hashlib
import math
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from replica.exceptions import InputError
from replica.parameters import Parameters


def checked_integer(name: str, value: Any, low: int) -> int:
    """`value` as an integer of at least `low`.

    Raises
    ------
    InputError: not an integer, or below `low`.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{name} = {value!r} is not an integer; allowed range [{low}, inf)") from None
    if number < low:
        raise InputError(f"{name} = {number} is outside the allowed range [{low}, inf)")
    return number


@dataclass(frozen=True)
class Sizes:
    """The integers of one experiment.

    Parameters
    ----------
    dim: D >= 2, the input dimension.
    length, length_test: L and L~ >= 1, demonstrations per prompt; `length_test` may be infinite.
    tasks: M0 >= 1, distinct pre-training tasks.
    rank: r in [1, D], rank of the task family.
    prompts: M >= 1, pre-training prompts.

    Examples
    --------
    >>> asked = Parameters(alpha=2, kappa=0.77, rho=0.33, gamma=1.5, sigma=0.3)
    >>> sizes = Sizes.of(asked, dim=20)
    >>> sizes
    Sizes(dim=20, length=40, length_test=40, tasks=15, rank=7, prompts=600)
    >>> sizes.realized(asked)
    Parameters(alpha=2, alpha_test=2, kappa=0.75, rho=0.35, gamma=1.5, sigma=0.3, ridge=0)
    """

    dim: int
    length: int
    length_test: float
    tasks: int
    rank: int
    prompts: int

    @classmethod
    def of(cls, params: Parameters, dim: int) -> Sizes:
        """Round each ratio times its power of D to the nearest integer.

        Raises
        ------
        InputError: `params` holds more than one point, `dim` is below 2, alpha or kappa is infinite, or an
            integer comes out as 0.
        """
        dim = checked_integer("dim", dim, 2)
        if params.shape:
            raise InputError(
                f"parameters of shape {params.shape} hold {params.size} points; an experiment takes one"
            )
        for name in ("alpha", "kappa"):
            if math.isinf(getattr(params, name)):
                raise InputError(f"{name} = inf is no finite experiment; allowed range (0, inf) here")
        if params.gamma * dim**2 < 1:
            raise InputError(
                f"gamma = {params.gamma:g} makes {params.gamma * dim**2:g} prompts at dim = {dim}; "
                f"allowed range [{dim**-2:g}, inf) here"
            )
        return cls(
            dim=dim,
            length=_rounded("alpha", params.alpha, dim),
            length_test=(
                math.inf if math.isinf(params.alpha_test) else _rounded("alpha_test", params.alpha_test, dim)
            ),
            tasks=_rounded("kappa", params.kappa, dim),
            rank=_rounded("rho", params.rho, dim),
            prompts=_rounded("gamma", params.gamma, dim, power=2),
        )

    def realized(self, params: Parameters) -> Parameters:
        """The ratios that the integers make, with the noise and the ridge of `params`."""
        return Parameters(
            alpha=self.length / self.dim,
            alpha_test=self.length_test / self.dim,
            kappa=self.tasks / self.dim,
            rho=self.rank / self.dim,
            gamma=self.prompts / self.dim**2,
            sigma=params.sigma,
            ridge=params.ridge,
        )


def _rounded(name: str, ratio: float, dim: int, power: int = 1) -> int:
    number = ratio * dim**power
    if math.isinf(number):
        raise InputError(f"{name} = {ratio:g} is too large for dim = {dim}; allowed range (0, 1e300) here")
    count = round(number)
    if count == 0:
        raise InputError(
            f"{name} = {ratio:g} rounds to 0 at dim = {dim}; allowed range (0.5 / dim, ...) = "
            f"({0.5 / dim:g}, ...) here"
        )
    return count


def entropy(params: Parameters, dim: int, repeat: int, seed: int) -> tuple[int, int, int, int]:
    """The integers that seed one repeat: `numpy.random.SeedSequence(entropy(...))`.

    The last one is a hash of the float64 values of the seven parameters, so that the random numbers of a
    point do not depend on the rest of a grid.

    Parameters
    ----------
    params: one point, as asked for (not rounded).
    dim: D >= 2.
    repeat: index of the repeat, >= 0.
    seed: >= 0.

    Returns
    -------
    (seed, dim, repeat, hash); the hash has 48 bits, so that every JSON reader keeps it exact.
    """
    # Adding 0.0 makes one value of the two zeros.
    values = np.array([value for _, value in params.items()], dtype="<f8") + 0.0
    digest = hashlib.sha256(values.tobytes()).digest()
    return seed, dim, repeat, int.from_bytes(digest[:6], "little")
