"""The parameters of low-rank in-context learning and the protocols under which it is tested."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from replica.exceptions import InputError


class Protocol(StrEnum):
    """Which tasks a trained model is tested on."""

    TM = "TM"
    """Task memorization: one of the pre-training tasks."""
    IDG = "IDG"
    """In-distribution generalization: a new task of the low-rank family."""
    ODG = "ODG"
    """Out-of-distribution generalization: a new task without the low-rank structure."""


PROTOCOLS = tuple(Protocol)


class Range(NamedTuple):
    """The allowed values of one parameter and its meaning."""

    low: float
    high: float
    closed_low: bool
    closed_high: bool
    meaning: str

    def __str__(self) -> str:
        left, right = "[" if self.closed_low else "(", "]" if self.closed_high else ")"
        return f"{left}{self.low:g}, {self.high:g}{right}"

    def holds(self, values: np.ndarray) -> np.ndarray:
        """Elementwise whether `values` lie in the range; NaN never does."""
        above = values >= self.low if self.closed_low else values > self.low
        below = values <= self.high if self.closed_high else values < self.high
        return above & below


RANGES: Mapping[str, Range] = {
    "alpha": Range(0, np.inf, False, True, "demonstrations per prompt in pre-training, L/D"),
    "alpha_test": Range(0, np.inf, False, True, "demonstrations per prompt at inference, L~/D"),
    "kappa": Range(0, np.inf, False, True, "distinct pre-training tasks, M0/D"),
    "rho": Range(0, 1, False, True, "rank of the task family, r/D"),
    "gamma": Range(0, np.inf, False, False, "pre-training prompts, M/D^2"),
    "sigma": Range(0, np.inf, True, False, "standard deviation of the label noise"),
    "ridge": Range(0, np.inf, True, False, "ridge penalty; 0 is the limit from above"),
}
NAMES = tuple(RANGES)


def as_given(value: float) -> str:
    """A number as short as it can be without becoming another one.

    >>> as_given(3.0), as_given(1.0000001)
    ('3', '1.0000001')
    """
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number of things: 1 point, 2 points."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def validated(name: str, value: Any, told: str = "") -> Any:
    """Cast one parameter to float64 and hold it against its range.

    Parameters
    ----------
    name: one of `NAMES`.
    value: a real number or an array of them, any shape.
    told: what messages call it, where that is not its name.

    Returns
    -------
    A float for a scalar, else a read-only float64 array of the same shape.

    Raises
    ------
    InputError: not real numbers, empty, NaN, or outside the range; the first offending value is named.
    """
    allowed, told = RANGES[name], told or name
    try:
        raw = np.asarray(value)
        if raw.dtype.kind not in "iuf":
            raise TypeError
        array = raw.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"{told} = {value!r} is not a real number or an array of them; allowed range {allowed}"
        ) from None
    if array.size == 0:
        raise InputError(f"{told} has shape {array.shape} and holds no value; allowed range {allowed}")
    inside = allowed.holds(array)
    if not inside.all():
        offender = array.ravel()[int(np.argmin(inside.ravel()))].item()
        raise InputError(f"{told} = {as_given(offender)} is outside the allowed range {allowed}")
    if array.ndim == 0:
        return float(array)
    array.flags.writeable = False
    return array


@dataclass(frozen=True, kw_only=True, eq=False)
class Parameters:
    """One point, or a broadcasting grid of points, of the low-rank model.

    Every field is a number or an array; arrays broadcast against each other as in numpy, so two `(200,)`
    arrays are 200 pairs. `grid` makes the outer product instead.

    Parameters
    ----------
    alpha, alpha_test: (0, inf]. Demonstrations per prompt over D, in pre-training and at inference;
        `alpha_test` left out follows `alpha`.
    kappa: (0, inf]. Distinct pre-training tasks over D.
    rho: (0, 1]. Rank of the task family over D.
    gamma: (0, inf). Pre-training prompts over D^2.
    sigma: [0, inf). Standard deviation of the label noise.
    ridge: [0, inf). Ridge penalty; 0 means the limit from above, that is the minimum-norm solution.

    Raises
    ------
    InputError: a value outside its range, or shapes that do not broadcast.

    Examples
    --------
    >>> Parameters(alpha=2, kappa=1.5, rho=0.9, gamma=1.5, sigma=0.3)
    Parameters(alpha=2, alpha_test=2, kappa=1.5, rho=0.9, gamma=1.5, sigma=0.3, ridge=0)
    >>> Parameters.grid(alpha=2, kappa=[0.5, 1.5], rho=[0.1, 0.5, 0.9], gamma=1.5, sigma=0.3).shape
    (2, 3)
    """

    alpha: Any
    kappa: Any
    rho: Any
    gamma: Any
    sigma: Any
    alpha_test: Any = None
    ridge: Any = 0.0
    shape: tuple[int, ...] = field(init=False)
    dims: tuple[str, ...] = field(init=False)
    alpha_test_follows: bool = field(init=False)

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        put("alpha_test_follows", self.alpha_test is None)
        for name in NAMES:
            if name == "alpha_test" and self.alpha_test_follows:
                put(name, self.alpha)
            else:
                put(name, validated(name, getattr(self, name)))
        shape: tuple[int, ...] = ()
        for index, (name, value) in enumerate(self.items()):
            try:
                shape = np.broadcast_shapes(shape, np.shape(value))
            except ValueError:
                other = next(
                    n for n, v in list(self.items())[:index] if not _fit(np.shape(v), np.shape(value))
                )
                raise InputError(
                    f"{other} of shape {np.shape(getattr(self, other))} and {name} of shape "
                    f"{np.shape(value)} do not broadcast; allowed are shapes that numpy broadcasts"
                ) from None
        put("shape", shape)
        put("dims", tuple(self._dim(axis) for axis in range(-len(shape), 0)))

    def _dim(self, axis: int) -> str:
        """Name an axis (counted from the end): the one parameter that varies along it, else `dim_i`."""
        free = [
            (name, np.shape(value))
            for name, value in self.items()
            if not (name == "alpha_test" and self.alpha_test_follows)
        ]
        holds = [(name, shape[axis]) for name, shape in free if len(shape) >= -axis]
        varying = [name for name, length in holds if length > 1] or [name for name, _ in holds]
        return varying[0] if len(varying) == 1 else f"dim_{axis + len(self.shape)}"

    @classmethod
    def grid(cls, **values: Any) -> Parameters:
        """The outer product of all one-dimensional arrays given, in the order given; numbers stay fixed.

        Raises
        ------
        InputError: an array of two or more dimensions, or any error of the constructor.
        """
        axes = [name for name, value in values.items() if np.ndim(value) > 0]
        for name in axes:
            if np.ndim(values[name]) > 1:
                raise InputError(
                    f"{name} has shape {np.shape(values[name])}; a grid takes numbers and 1-d arrays"
                )
        columns = {
            name: np.reshape(value, [-1 if other == name else 1 for other in axes]) if name in axes else value
            for name, value in values.items()
        }
        made = cls(**columns)
        object.__setattr__(made, "dims", tuple(axes))
        return made

    def items(self) -> Iterator[tuple[str, Any]]:
        """The seven parameters and their values, in the order of `NAMES`."""
        return ((name, getattr(self, name)) for name in NAMES)

    @property
    def size(self) -> int:
        """How many points there are."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def implicit_ridge(self) -> Any:
        """eta = (1 + sigma^2) / alpha, the ridge that finite contexts induce."""
        return (1.0 + self.sigma * self.sigma) / self.alpha

    def __getitem__(self, index: Any) -> Parameters:
        """The points that numpy indexing of the broadcast grid selects."""
        chosen = {name: np.broadcast_to(value, self.shape)[index] for name, value in self.items()}
        if self.alpha_test_follows:
            del chosen["alpha_test"]
        return Parameters(**chosen)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Parameters):
            return NotImplemented
        return self.dims == other.dims and all(
            np.array_equal(mine, theirs)
            for (_, mine), (_, theirs) in zip(self.items(), other.items(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]  # arrays do not hash

    def __repr__(self) -> str:
        return f"Parameters({', '.join(f'{name}={_short(value)}' for name, value in self.items())})"


def _fit(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(a == b or 1 in (a, b) for a, b in zip(one[::-1], other[::-1], strict=False))


def _short(value: Any) -> str:
    if np.ndim(value) == 0:
        return f"{value:.12g}"
    return f"<{'x'.join(map(str, np.shape(value)))} in [{np.min(value):g}, {np.max(value):g}]>"
