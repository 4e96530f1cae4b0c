"""Config files: which parameters are fixed, which are swept, and over what."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from replica import configs
from replica.exceptions import InputError
from replica.parameters import NAMES, RANGES, as_given, validated

MAX_AXES = 4
MAX_NUM = 10**8
"""The most values of a range; more would not fit the memory as coordinates."""
SPELLED_OUT = 100
"""The longest axis whose values are told one by one."""
OPTIONAL = {"alpha_test", "ridge"}
"""Parameters that may be left out: `alpha_test` follows `alpha`, `ridge` is 0."""


@dataclass(frozen=True)
class Experiment:
    """The finite-size experiments to run at the points of a grid.

    Parameters
    ----------
    dims: input dimensions D, each at least 2.
    repeats: independent experiments per point and dimension, at least 1.
    seed: at least 0; the experiments' only source of randomness.
    grid: the axes along which experiments run at other, usually fewer, values than the theory.
    """

    dims: tuple[int, ...]
    repeats: int
    seed: int = 0
    grid: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Config:
    """A sweep, resolved: every swept value is spelled out.

    Parameters
    ----------
    parameters: the fixed parameters by name; `alpha_test` may be absent (it then follows `alpha`).
    grid: the swept parameters by name; each becomes a read-only float64 array of distinct values, in the
        order given, from an array, a list, or a range `{start, stop, num}`.
    experiment: the experiments to run, if the config asks for any.

    Raises
    ------
    InputError: a value of the wrong type or out of range, an empty axis or one that repeats a value.

    Notes
    -----
    A table `[experiment.grid]` gives axes of `[grid]` other values for the experiments, a table `[quick]`
    gives keys of `[grid]` and `[experiment]` other values for a quick look. In both, a key that is a table
    keeps what is not given: `alpha.num = 5` takes five values over the range of `[grid]`.

    Examples
    --------
    >>> config = Config.from_dict({
    ...     "parameters": {"alpha": 8, "kappa": 0.7, "gamma": 1.5, "sigma": 0.3},
    ...     "grid": {"rho": {"start": 0.01, "stop": 1, "num": 3, "spacing": "log"}},
    ... })
    >>> config.grid["rho"].tolist()
    [0.01, 0.1, 1.0]
    """

    parameters: Mapping[str, float]
    grid: Mapping[str, np.ndarray]
    experiment: Experiment | None = None

    def __post_init__(self) -> None:
        fixed = {name: _value(f"parameters.{name}", name, given) for name, given in self.parameters.items()}
        swept = {name: _axis(f"grid.{name}", name, given) for name, given in self.grid.items()}
        object.__setattr__(self, "parameters", fixed)
        object.__setattr__(self, "grid", swept)

    @classmethod
    def load(cls, source: str | Path, *, quick: bool = False) -> Config:
        """Read a config that ships with the project, by name, or any TOML file, by path.

        Parameters
        ----------
        source: the name or the path.
        quick: as in `from_dict`.

        Raises
        ------
        InputError: no such file, not readable, not TOML, or anything `from_dict` refuses.
        """
        shipped = configs.names()
        path = configs.path(str(source)) if str(source) in shipped else Path(source)
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        except FileNotFoundError:
            raise InputError(
                f"there is no config file {str(path)!r}; give a path or one of the names {', '.join(shipped)}"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise InputError(f"the config {str(path)!r} cannot be read: {reason}") from None
        except (ValueError, RecursionError) as error:
            # Not all is a TOMLDecodeError: integers of thousands of digits, brackets nested as deep.
            raise InputError(f"the config {str(path)!r} is not TOML: {error}") from None
        try:
            return cls.from_dict(table, quick=quick)
        except InputError as error:
            raise InputError(f"in the config {str(path)!r}, {error}") from None

    @classmethod
    def from_dict(cls, table: Mapping[str, Any], *, quick: bool = False) -> Config:
        """Resolve and check a config given as nested mappings, as TOML reads it.

        Parameters
        ----------
        table: the tables `parameters`, `grid`, `experiment` and `quick`.
        quick: put the values of `quick` in their places; they are checked in any case.

        Raises
        ------
        InputError: an unknown key, a wrong type, a parameter missing, out of range, or both fixed and swept,
            an empty or repeated grid, or more than four swept parameters.
        """
        _known("", table, ("parameters", "grid", "experiment", "quick"))
        full = {key: value for key, value in table.items() if key != "quick"}
        made = cls._resolved(full)
        if "quick" not in table:
            if quick:
                raise InputError("there is no [quick] table, which a quick look needs")
            return made
        changes = _table(table, "quick")
        _known("quick.", changes, ("grid", "experiment"))
        try:
            smaller = cls._resolved(_overlaid(full, changes))
        except InputError as error:
            raise InputError(f"with [quick] in place, {error}") from None
        return smaller if quick else made

    @classmethod
    def _resolved(cls, table: Mapping[str, Any]) -> Config:
        """Resolve a config without a table `quick`."""
        fixed, swept = _table(table, "parameters"), _table(table, "grid")
        _known("parameters.", fixed, NAMES)
        _known("grid.", swept, NAMES)
        if "grid" in table and not swept:
            raise InputError("[grid] is empty; give it 1 to 4 parameters, or leave it out for a single point")
        if len(swept) > MAX_AXES:
            raise InputError(
                f"[grid] sweeps {len(swept)} parameters ({', '.join(swept)}); allowed are 1 to {MAX_AXES}"
            )
        for name in NAMES:
            if name in fixed and name in swept:
                raise InputError(
                    f"{name} is swept in [grid] and fixed in [parameters]; it may stand in one of them"
                )
            if name not in fixed and name not in swept and name not in OPTIONAL:
                raise InputError(
                    f"{name} is missing; give it in [parameters] or [grid], allowed range {RANGES[name]}"
                )
        parameters = {name: fixed[name] for name in NAMES if name in fixed}
        if "ridge" not in swept:
            parameters.setdefault("ridge", 0.0)
        made = cls(parameters, swept)
        if "experiment" not in table:
            return made
        return replace(made, experiment=_experiment(_table(table, "experiment"), swept))

    def to_dict(self) -> dict[str, Any]:
        """The config as JSON can hold it exactly; equal for two configs that ask for the same points.

        A long axis is told by its number of values, its ends and a hash.
        """
        made: dict[str, Any] = {
            "parameters": {name: _exact(value) for name, value in self.parameters.items()},
            "grid": _told_axes(self.grid),
        }
        if (asked := self.experiment) is not None:
            made["experiment"] = {"dims": list(asked.dims), "repeats": asked.repeats, "seed": asked.seed}
            if asked.grid:
                made["experiment"]["grid"] = _told_axes(asked.grid)
        return made

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, Config) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # arrays do not hash


def _known(where: str, table: Mapping[str, Any], allowed: Iterable[str]) -> None:
    allowed = list(allowed)
    for key in table:
        if key not in allowed:
            near = get_close_matches(key, allowed, n=1, cutoff=0.5)
            hint = f"did you mean {where}{near[0]}?" if near else f"allowed are {', '.join(allowed)}"
            raise InputError(f"the key {where}{key} is unknown; {hint}")


def _table(table: Mapping[str, Any], name: str, where: str = "") -> Mapping[str, Any]:
    value = table.get(name, {})
    if not isinstance(value, Mapping):
        key = f"{where}{name}"
        raise InputError(f"{key} = {value!r} is not a table; write [{key}] and its keys below")
    return value


def _overlaid(table: Any, changes: Any) -> Any:
    """A table with some of its keys replaced, and those of the tables in it."""
    if not (isinstance(table, Mapping) and isinstance(changes, Mapping)):
        return changes
    return {**table, **{key: _overlaid(table.get(key), change) for key, change in changes.items()}}


def _value(key: str, name: str, given: Any) -> float:
    """A value of a parameter."""
    if isinstance(given, bool) or not isinstance(given, int | float | np.integer | np.floating):
        raise InputError(f"{key} = {given!r} is not a number; allowed range {RANGES[name]}")
    try:
        number = float(given)
    except OverflowError:
        raise InputError(
            f"{key}{_integer_told(int(given))} is beyond double precision; allowed range {RANGES[name]}"
        ) from None
    return validated(name, number, key)


def _integer(key: str, given: Any, low: int, high: float = np.inf) -> int:
    allowed = f"[{low}, {high}{')' if high == np.inf else ']'}"
    if isinstance(given, bool) or not isinstance(given, int):
        raise InputError(f"{key} = {given!r} is not an integer; allowed range {allowed}")
    if not low <= given <= high:
        raise InputError(f"{key}{_integer_told(given)} is outside the allowed range {allowed}")
    return given


def _integer_told(number: int) -> str:
    """An integer in a sentence; Python refuses to print those of thousands of digits."""
    return f" = {number}" if number.bit_length() < 2000 else f", an integer of {number.bit_length()} bits,"


def _axis(key: str, name: str, given: Any) -> np.ndarray:
    """The values of a swept parameter, from an array, a list or a range."""
    if isinstance(given, Mapping):
        values = _range(key, name, given)
    elif isinstance(given, np.ndarray) and given.ndim == 1:
        values = validated(name, given, key)
    elif isinstance(given, list | tuple):
        values = np.array([_value(f"{key}[{i}]", name, value) for i, value in enumerate(given)])
    else:
        raise InputError(f"{key} = {given!r} is neither a list of values nor a range {{start, stop, num}}")
    if values.size == 0:
        raise InputError(f"{key} is empty; give at least one value, allowed range {RANGES[name]}")
    distinct, counts = np.unique(values, return_counts=True)
    if distinct.size < values.size:
        repeated = as_given(distinct[np.argmax(counts > 1)].item())
        raise InputError(f"{key} holds {repeated} more than once; its values must differ")
    return validated(name, values, key)


def _range(key: str, name: str, given: Mapping[str, Any]) -> np.ndarray:
    """`num` values from `start` to `stop`, both exactly included; a single value is `start`."""
    _known(f"{key}.", given, ("start", "stop", "num", "spacing"))
    for part in ("start", "stop", "num"):
        if part not in given:
            raise InputError(f"{key}.{part} is missing; a range is {{start, stop, num}}")
    start, stop = (_value(f"{key}.{end}", name, given[end]) for end in ("start", "stop"))
    num = _integer(f"{key}.num", given["num"], 1, MAX_NUM)
    spacing = given.get("spacing", "linear")
    if spacing not in ("linear", "log"):
        raise InputError(f"{key}.spacing = {spacing!r} is unknown; allowed are 'linear' and 'log'")
    for end, value in (("start", start), ("stop", stop)):
        if np.isinf(value):
            raise InputError(f"{key}.{end} = inf is infinite; ranges have finite ends, lists may hold inf")
        if spacing == "log" and value == 0:
            raise InputError(f"{key}.{end} = 0 is an end of a log range; its ends must be positive")
    values = np.geomspace(start, stop, num) if spacing == "log" else np.linspace(start, stop, num)
    # Rounding inside geomspace may miss the ends by an ulp.
    values[-1], values[0] = stop, start
    return values


def _experiment(table: Mapping[str, Any], swept: Mapping[str, Any]) -> Experiment:
    _known("experiment.", table, ("dims", "repeats", "seed", "grid"))
    for key in ("dims", "repeats"):
        if key not in table:
            raise InputError(f"experiment.{key} is missing; [experiment] needs dims and repeats")
    dims = table["dims"]
    if not isinstance(dims, list) or not dims:
        raise InputError(f"experiment.dims = {dims!r} is not a list of at least one dimension")
    sizes = tuple(_integer(f"experiment.dims[{i}]", dim, 2) for i, dim in enumerate(dims))
    if len(set(sizes)) < len(sizes):
        raise InputError(f"experiment.dims = {dims!r} holds a dimension more than once")
    repeats = _integer("experiment.repeats", table["repeats"], 1)
    thinned = _table(table, "grid", "experiment.")
    _known("experiment.grid.", thinned, swept)
    grid = {
        name: _axis(f"experiment.grid.{name}", name, _overlaid(swept[name], given))
        for name, given in thinned.items()
    }
    return Experiment(sizes, repeats, _integer("experiment.seed", table.get("seed", 0), 0), grid)


def _told_axes(axes: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {name: _told(axis) for name, axis in axes.items()}


def _told(axis: np.ndarray) -> Any:
    """An axis as an attribute of a file holds it, which has room for 64 kB only."""
    if axis.size <= SPELLED_OUT:
        return [_exact(value) for value in axis.tolist()]
    return {
        "first": _exact(axis[0].item()),
        "last": _exact(axis[-1].item()),
        "num": axis.size,
        "sha256": sha256(axis.astype("<f8").tobytes()).hexdigest(),
    }


def _exact(value: float) -> float | str:
    """A float as standard JSON holds it, which has no infinity."""
    return value if np.isfinite(value) else str(value)
