"""The finished boxes of a sweep, on disk while it runs.

A sweep into `FILE.nc` keeps them in the folder `FILE.nc.parts` beside it. Each is a numpy archive, written
under another name, synced and renamed, so a part that bears its name is whole; the archive carries checksums.
A part is an `xarray.Dataset` over a box of the grid whose variable `status` says what became of each point.
Its name says of which sweep it is, in which run it was made, and which points it holds: a part of another
sweep is ignored, and a part of a later run replaces what an earlier one said of the same points.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from replica.engine import Status
from replica.exceptions import InputError
from replica.sweep.files import replacing
from replica.sweep.grid import Box, Boxed

RAISED, MISSING = -1, -2
STATUSES = {status.value: status.label for status in Status} | {RAISED: "raised", MISSING: "missing"}
"""What the integers of `status` mean: those of the engine, and what a sweep adds to them."""
ANSWERS = tuple(status.label for status in Status if status.is_answer)
"""The statuses that are answers; every other one is a failure, except that a missing point was not tried."""

GROUPS = ("coords", "data_vars")


def states(status: np.ndarray) -> dict[str, int]:
    """How many points have each status, by name; names that do not occur are left out."""
    values, counts = np.unique(status, return_counts=True)
    return {STATUSES[value]: count for value, count in zip(values.tolist(), counts.tolist(), strict=True)}


def failed(status: np.ndarray) -> np.ndarray:
    """Elementwise whether a point was tried and has no answer."""
    return ~np.isin(status, [value for value, name in STATUSES.items() if name in (*ANSWERS, "missing")])


def raised(values: Mapping[str, np.ndarray], error: Exception) -> xr.Dataset:
    """The result at a single point whose evaluation raised an exception."""
    dims, shape = tuple(values), (1,) * len(values)
    return xr.Dataset(
        {
            "status": (dims, np.full(shape, RAISED, np.int8)),
            "reason": (dims, np.full(shape, f"{type(error).__name__}: {error}")),
        },
        dict(values),
    )


def joined(pieces: Sequence[xr.Dataset], axis: str) -> xr.Dataset:
    """Neighbouring boxes as one; what a piece lacks is filled."""
    whole = xr.concat(pieces, axis, data_vars="minimal", coords="minimal", compat="override", join="exact")
    if "reason" in whole:
        whole["reason"] = whole["reason"].fillna("")
    return whole


@dataclass(frozen=True)
class Finished(Boxed):
    """A finished box in memory, and the seconds it took."""

    box: Box
    dataset: xr.Dataset
    seconds: float

    @property
    def names(self) -> set[str]:
        return {str(name) for name in self.dataset.variables}

    def load(self) -> xr.Dataset:
        return self.dataset

    def variables(self) -> Mapping[Any, xr.Variable]:
        return self.dataset.variables

    @property
    def status(self) -> np.ndarray:
        """What became of its points, in flat order."""
        return self.dataset["status"].values.ravel()


@dataclass(frozen=True)
class Part:
    """A finished box on disk."""

    path: Path
    start: int
    stop: int

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The variables without their values, and under `attrs` how long the box took."""
        return json.loads(self._arrays("schema")["schema"].item())

    @property
    def seconds(self) -> float:
        """How long the box took."""
        return self.schema["attrs"]["seconds"]

    @property
    def names(self) -> set[str]:
        """The variables it holds."""
        return {name for group in GROUPS for name in self.schema[group]}

    def load(self) -> xr.Dataset:
        """Read the box as a dataset, which takes longer than reading its `variables`."""
        return xr.Dataset(self.variables()).set_coords(list(self.schema["coords"]))

    def variables(self) -> Mapping[Any, xr.Variable]:
        """Read the box.

        Raises
        ------
        InputError: the file is damaged.
        """
        arrays = self._arrays()
        return {
            name: xr.Variable(variable["dims"], arrays[f"{group}/{name}"], variable["attrs"])
            for group in GROUPS
            for name, variable in self.schema[group].items()
        }

    def _arrays(self, *members: str) -> dict[str, np.ndarray]:
        try:
            with self.path.open("rb") as file, np.load(file) as archive:
                return {name: archive[name] for name in members or archive.files}
        except Exception as error:
            raise InputError(f"the part {str(self.path)!r} is damaged: {error}") from None


class Shelf(NamedTuple):
    """Where one run puts its parts; sent to the workers, which must see the same folder."""

    folder: Path
    sweep: str
    run: int

    def put(self, finished: Finished) -> Part:
        """Keep a finished box on disk."""
        name = f"{self.sweep}-{self.run:04d}-{finished.start:012d}-{finished.stop:012d}.npz"
        schema = finished.dataset.to_dict(data=False) | {"attrs": {"seconds": finished.seconds}}
        arrays = {"schema": np.array(json.dumps(schema))}
        for group in GROUPS:
            for key, variable in getattr(finished.dataset, group).items():
                # numpy writes objects, here strings, by pickling only.
                values = variable.values.astype(str) if variable.dtype.kind == "O" else variable.values
                arrays[f"{group}/{key}"] = values
        with replacing(self.folder / name) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        return Part(self.folder / name, finished.start, finished.stop)


def parts_of(sweep: str, folder: Path) -> list[Part]:
    """The parts of a sweep in a folder, in the order of the runs that made them."""
    found = sorted(folder.glob(f"{sweep}-*.npz"))
    return [Part(path, *map(int, path.stem.split("-")[-2:])) for path in found]


def next_run(parts: Sequence[Part]) -> int:
    """The number of the run that follows those which made some parts."""
    return 1 + max((int(part.path.stem.split("-")[-3]) for part in parts), default=0)
