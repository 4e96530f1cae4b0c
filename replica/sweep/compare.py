"""Theory and experiments side by side: over the grid of a config, or on somebody's own measurements.

A comparison is a dataset over the grid with the theory at the ratios that each D realizes, the measured means
with their standard errors and repeats, the ratio extrapolated to infinite D, and a verdict for each protocol.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from replica import theory
from replica.engine import Status
from replica.exceptions import InputError
from replica.parameters import NAMES, PROTOCOLS, Parameters, Protocol, validated
from replica.simulation import Estimate, Sizes, simulate
from replica.simulation.population import PARTS
from replica.sweep.measured import Measured
from replica.sweep.verdict import Verdict, judge

NEAR_THRESHOLD = 0.1
"""Within this distance of gamma = 1 finite-size corrections and tails grow."""
CLOSE = "close to gamma = 1, where corrections and tails are large"
ALONE = "one D alone cannot tell whether a distance shrinks like 1/D"
"""What a row is warned of."""
MEASURED = ("mean", "stderr", "n")


class Comparison(Measured):
    """A sweep of theory and experiments over the grid of a config with an `[experiment]` table."""

    name = "comparison"

    def evaluate(self, values: Mapping[str, np.ndarray]) -> xr.Dataset:
        """Solve and simulate every point of the outer product of some values of each axis.

        The experiments are decomposed about the theory's gain of the signal at their own ratios.
        """
        dims, repeats, seed = self.experiment.dims, self.experiment.repeats, self.experiment.seed
        parameters = self.parameters(values)
        solution = theory.solve(parameters)
        measured = np.full((len(MEASURED), len(PROTOCOLS), len(dims), *parameters.shape), np.nan)
        expected = np.full(measured.shape[1:], np.nan)
        realized = np.full((len(NAMES), *measured.shape[2:]), np.nan)
        parts = np.full((2, len(PROTOCOLS), len(PARTS), *measured.shape[2:]), np.nan)
        status = np.array(solution.status)
        for index in np.ndindex(*parameters.shape):
            if not Status(int(status[index])).is_answer:
                continue
            point = parameters[index]
            for d, dim in enumerate(dims):
                at_dim = theory.solve(Sizes.of(point, dim).realized(point))
                # Without an answer there is no gain, and the parts stay unknown.
                gain = float(at_dim.signal_gain) if at_dim.ok else None
                done = simulate(point, dim, repeats, seed, n_jobs=1, gain=gain)
                realized[:, d, *index] = [value for _, value in done.realized.items()]
                if done.status == "not_converged":
                    status[index] = Status.NOT_CONVERGED
                for p, protocol in enumerate(PROTOCOLS):
                    expected[p, d, *index] = at_dim.errors[protocol]
                    measured[:, p, d, *index] = done.means[protocol]
                    if done.decomposition is not None:
                        for k, repeated in enumerate(done.decomposition[protocol].values()):
                            parts[:, p, k, d, *index] = Estimate.of(repeated)[:2]
        frame = solution.to_dataset()[["errors", "status"]]
        frame["status"].values[...] = status
        made = _judged(frame, np.array(dims), expected, measured)
        made = made.assign_coords(part=list(PARTS), parameter=list(NAMES))
        where: tuple[str, ...] = ("parameter", "dim", *parameters.dims)
        made["realized"] = (
            where,
            realized,
            {"long_name": "ratios that the integers of the experiments make"},
        )
        where = ("protocol", "part", "dim", *parameters.dims)
        for name, array in zip(("part_mean", "part_stderr"), parts, strict=True):
            made[name] = (where, array, {"long_name": f"{name[5:]} of the parts of the experiments"})
        return made


def compare_measured(path: Path) -> xr.Dataset:
    """Hold measurements from a CSV file against the theory at the file's own ratios.

    Parameters
    ----------
    path: a file with the columns alpha, alpha_test, kappa, rho, gamma, sigma, ridge, dim, protocol, mean,
        stderr, n; alpha_test, ridge and n may be missing. Rows whose ratios could come from one point by
        rounding to integers at their own dim are the same point at several dims.

    Raises
    ------
    InputError: no such file, a missing column, or a value that is not allowed, by row and column.
    """
    points = _grouped(_records(path))
    dims = np.array(sorted({dim for point in points for dim in point.dims}))
    shape = (len(PROTOCOLS), len(dims), len(points))
    expected, measured = np.full(shape, np.nan), np.full((len(MEASURED), *shape), np.nan)
    for i, point in enumerate(points):
        for dim, records in point.dims.items():
            d = int(np.searchsorted(dims, dim))
            solution = theory.solve(point.at(dim))
            for protocol, record in records.items():
                p = PROTOCOLS.index(Protocol(protocol))
                expected[p, d, i] = solution.errors[protocol]
                measured[:, p, d, i] = record.mean, record.stderr, record.n
    shown = [point.at(max(point.dims)) for point in points]
    table = {name: [getattr(parameters, name) for parameters in shown] for name in NAMES}
    frame = theory.solve(Parameters(**table)).to_dataset()[["errors", "status"]]
    frame = frame.swap_dims(dict.fromkeys(frame["status"].dims, "point"))
    return _judged(frame, dims, expected, measured)


def measured_identity(path: Path) -> dict[str, Any]:
    """What a stored comparison with measurements says of their origin: the file's name and hash."""
    source = {"measured": path.name, "sha256": sha256(path.read_bytes()).hexdigest()}
    return {"task": "measured", "config": source, "equations": theory.fingerprint()}


def _judged(frame: xr.Dataset, dims: np.ndarray, expected: np.ndarray, measured: np.ndarray) -> xr.Dataset:
    """Add the measurements, the theory beside them and what follows to a dataset of the theory."""
    axes, grid, size = frame["status"].dims, frame["status"].shape, frame["status"].size
    results = np.full((4, len(PROTOCOLS), size), np.nan)
    verdict = np.full((len(PROTOCOLS), size), Verdict.UNDECIDED, dtype=np.int8)
    # Every combination of a protocol and a point, whatever the grid's shape.
    flat = (len(PROTOCOLS), len(dims), size)
    wanted, (mean, stderr, n) = expected.reshape(flat), measured.reshape(len(MEASURED), *flat)
    for p, i in np.ndindex(len(PROTOCOLS), size):
        known = np.isfinite(wanted[p, :, i]) & np.isfinite(mean[p, :, i])
        if known.any():
            judgement = judge(dims[known], *(a[p, known, i] for a in (wanted, mean, stderr, n)))
            results[:, p, i] = judgement.value, judgement.stderr, judgement.allowed, judgement.z
            verdict[p, i] = judgement.verdict
    results, verdict = results.reshape(4, len(PROTOCOLS), *grid), verdict.reshape(len(PROTOCOLS), *grid)
    names = ("ratio", "ratio_stderr", "ratio_allowed", "z")
    meanings = (
        "experiment over theory, extrapolated to infinite D",
        "standard error of the ratio",
        "largest distance of the ratio from 1 that still agrees",
        "distance of the ratio from 1 in standard errors",
    )
    frame = frame.assign_coords(dim=("dim", dims))
    frame["theory"] = (("protocol", "dim", *axes), expected, {"long_name": "theory at the realized ratios"})
    for name, values in zip(MEASURED, measured, strict=True):
        frame[name] = (("protocol", "dim", *axes), values, {"long_name": f"{name} of the experiments"})
    for name, values, meaning in zip(names, results, meanings, strict=True):
        frame[name] = (("protocol", *axes), values, {"long_name": meaning})
    attributes = {
        "long_name": "verdict",
        "flag_values": np.array([v.value for v in Verdict], dtype=np.int8),
        "flag_meanings": " ".join(v.label for v in Verdict),
    }
    frame["verdict"] = (("protocol", *axes), verdict, attributes)
    return frame


def rows(comparison: xr.Dataset) -> Iterator[dict[str, Any]]:
    """A comparison row by row, one for each protocol at each point that was measured."""
    if "dim" not in comparison:
        return  # Every point raised, so that nothing was measured.
    axes = comparison["status"].dims
    dims = comparison["dim"].values
    for index in np.ndindex(*comparison["status"].shape):
        point = comparison.isel(dict(zip(axes, index, strict=True)))
        parameters = {name: float(point[name]) for name in NAMES}
        near = abs(parameters["gamma"] - 1) < NEAR_THRESHOLD and parameters["ridge"] == 0
        for protocol in PROTOCOLS:
            row = point.sel(protocol=protocol)
            known = np.isfinite(row["mean"].values) & np.isfinite(row["theory"].values)
            if not known.any():
                continue
            warnings = [CLOSE] * near + [ALONE] * (len(dims[known]) == 1)
            yield {
                "protocol": str(protocol),
                "parameters": parameters,
                "dim": dims[known].tolist(),
                **{name: row[name].values[known].tolist() for name in ("theory", *MEASURED)},
                **{name: float(row[name]) for name in ("ratio", "ratio_stderr", "ratio_allowed", "z")},
                "verdict": Verdict(int(row["verdict"])).label,
                "warning": "; ".join(warnings) or None,
            }


def without_theory(comparison: xr.Dataset) -> dict[str, int]:
    """How many points have no finite theory, and so no row, by the name of their status."""
    status = comparison["status"].values
    found = {answer.label: int(np.sum(status == answer)) for answer in Status if answer.is_answer}
    return {name: count for name, count in found.items() if count and name != Status.OK.label}


def summary(table: list[dict[str, Any]]) -> dict[str, int]:
    """How many rows have which verdict; all four are named."""
    return {v.label: sum(row["verdict"] == v.label for row in table) for v in Verdict}


@dataclass(frozen=True)
class _Record:
    """A line of a file of measurements."""

    line: int
    parameters: Parameters
    dim: int
    protocol: str
    mean: float
    stderr: float
    n: float

    @property
    def ratios(self) -> tuple[float, ...]:
        return tuple(value for _, value in self.parameters.items())


_ROUNDED = {"alpha": 1, "alpha_test": 1, "kappa": 1, "rho": 1, "gamma": 2}
"""parameter -> power of D that turns it into the integer of an experiment."""


@dataclass(frozen=True)
class _MeasuredPoint:
    """The lines of one point: dim -> protocol -> line."""

    dims: dict[int, dict[str, _Record]]

    def at(self, dim: int) -> Parameters:
        """The ratios at one of its dims."""
        return next(iter(self.dims[dim].values())).parameters

    def distance(self, other: _MeasuredPoint) -> float:
        """How far apart in units of what rounding explains; inf if these are different points."""
        if self.dims.keys() & other.dims.keys():
            return np.inf
        worst = 0.0
        for mine, theirs in product(self.dims, other.dims):
            for (name, a), (_, b) in zip(self.at(mine).items(), other.at(theirs).items(), strict=True):
                if a != b:
                    power = _ROUNDED.get(name)
                    halves = 0.5 * (mine**-power + theirs**-power) if power else 0.0
                    worst = max(worst, abs(a - b) / halves if halves else np.inf)
        return worst if worst <= 1 + 1e-9 else np.inf


def _grouped(records: list[_Record]) -> list[_MeasuredPoint]:
    """Lines of equal ratios belong together; points of different dims are one if rounding explains it."""
    exact: dict[tuple[float, ...], _MeasuredPoint] = {}
    for record in records:
        held = exact.setdefault(record.ratios, _MeasuredPoint({})).dims.setdefault(record.dim, {})
        if record.protocol in held:
            earlier = held[record.protocol].line
            raise InputError(f"row {record.line} repeats the point, dim and protocol of row {earlier}")
        held[record.protocol] = record
    points: list[_MeasuredPoint] = []
    for point in exact.values():
        nearest = min(points, key=point.distance, default=point)
        if nearest is not point and np.isfinite(point.distance(nearest)):
            nearest.dims.update(point.dims)
        else:
            points.append(point)
    return points


def _records(path: Path) -> list[_Record]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            columns = [name.strip() for name in reader.fieldnames or []]
            reader.fieldnames = columns
            required = [*NAMES, "dim", "protocol", "mean", "stderr"]
            missing = [name for name in required if name not in (*columns, "alpha_test", "ridge")]
            if missing:
                raise InputError(
                    f"{str(path)!r} has no column {missing[0]!r}; it has {', '.join(columns) or 'none'}"
                )
            records = [_record(line, row) for line, row in enumerate(reader, start=2)]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the measurements {str(path)!r} cannot be read: {error}") from None
    if not records:
        raise InputError(f"{str(path)!r} holds no measurement; give at least one row")
    return records


def _record(line: int, row: Mapping[str, str | None]) -> _Record:
    def number(column: str, allowed: str, holds: Any, missing: float | None = None) -> float:
        text = (row.get(column) or "").strip()
        if not text and missing is not None:
            return missing
        try:
            value = float(text)
        except ValueError:
            raise InputError(
                f"row {line}, column {column}: {text!r} is not a number; allowed range {allowed}"
            ) from None
        if not holds(value):
            raise InputError(f"row {line}, column {column}: {text} is outside the allowed range {allowed}")
        return value

    protocol = (row.get("protocol") or "").strip()
    if protocol not in PROTOCOLS:
        raise InputError(
            f"row {line}, column protocol: {protocol!r} is unknown; allowed are {', '.join(PROTOCOLS)}"
        )
    ratios: dict[str, Any] = {}
    for name in NAMES:
        text = (row.get(name) or "").strip()
        if text or name not in ("alpha_test", "ridge"):
            try:
                ratios[name] = validated(name, number(name, "the real numbers", lambda value: True))
            except InputError as error:
                raise error if str(error).startswith("row") else InputError(f"row {line}: {error}") from None
    return _Record(
        line,
        Parameters(**ratios),
        int(number("dim", "the integers from 1", lambda value: value >= 1 and value.is_integer())),
        protocol,
        number("mean", "(0, inf)", lambda value: 0 < value < np.inf),
        number("stderr", "[0, inf)", lambda value: 0 <= value < np.inf),
        number("n", "[1, inf)", lambda value: 1 <= value < np.inf, missing=np.nan),
    )
