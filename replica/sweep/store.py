"""The file a sweep leaves, and the parts it is made of while the sweep runs.

A sweep into `FILE.nc` keeps its finished boxes as part files in the folder `FILE.nc.parts` beside it; each is
a numpy archive, written under another name, synced and renamed, so a file that bears its name is whole. When
all points are there, the parts are streamed into one NetCDF-4 file, which is synced and renamed to `FILE.nc`,
and the folder goes. Nothing here knows what is swept: a part is an `xarray.Dataset` over a box of the grid
whose variable `status` says what became of each point.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import h5netcdf
import h5py
import numpy as np
import xarray as xr

from replica.engine import Status
from replica.exceptions import InputError
from replica.sweep.grid import Box, Grid

ENGINE: Literal["h5netcdf"] = "h5netcdf"
RAISED, MISSING = -1, -2
STATUSES = {status.value: status.label for status in Status} | {RAISED: "raised", MISSING: "missing"}
"""What the integers of `status` mean: those of the engine, and what a sweep adds to them."""
ANSWERS = tuple(status.label for status in Status if status.is_answer)
"""The statuses that are answers; every other one is a failure."""


def fingerprint(identity: Mapping[str, Any]) -> str:
    """The hash of everything that decides the numbers of a sweep; equal whatever the order of the keys."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True, allow_nan=False).encode()).hexdigest()


def read(path: str | Path) -> xr.Dataset:
    """Open a stored result; its variables are loaded when they are used, and `close()` lets the file go.

    Raises
    ------
    InputError: no such file, or not a whole result of a sweep.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no stored result at {str(path)!r}")
    try:
        dataset = xr.open_dataset(path, engine=ENGINE)
    except Exception as error:
        raise InputError(f"{str(path)!r} is not a whole NetCDF-4 file: {error}") from None
    if "fingerprints" not in dataset.attrs:
        dataset.close()
        raise InputError(f"{str(path)!r} is a NetCDF-4 file but not the result of a sweep")
    return dataset


def parts_folder(path: Path) -> Path:
    """Where a sweep into `path` keeps its parts while it runs."""
    return path.with_name(f"{path.name}.parts")


def states(status: np.ndarray) -> dict[str, int]:
    """How many points have each status, by name; names that do not occur are left out."""
    values, counts = np.unique(status, return_counts=True)
    return {STATUSES[value]: count for value, count in zip(values.tolist(), counts.tolist(), strict=True)}


def failed(status: np.ndarray) -> np.ndarray:
    """Elementwise whether a point was tried and has no answer."""
    return ~np.isin(status, [value for value, name in STATUSES.items() if name in (*ANSWERS, "missing")])


def raised(values: Mapping[str, np.ndarray], error: Exception) -> xr.Dataset:
    """The result at a single point whose evaluation raised an exception."""
    shape = (1,) * len(values)
    reason = f"{type(error).__name__}: {error}"
    return xr.Dataset(
        {
            "status": (tuple(values), np.full(shape, RAISED, np.int8)),
            "reason": (tuple(values), np.full(shape, reason)),
        },
        dict(values),
    )


def joined(pieces: Sequence[xr.Dataset], axis: str) -> xr.Dataset:
    """Neighbouring boxes as one; what a piece lacks is filled."""
    whole = xr.concat(pieces, axis, data_vars="minimal", coords="minimal", compat="override", join="exact")
    if "reason" in whole:
        whole["reason"] = whole["reason"].fillna("")
    return whole


class Part(NamedTuple):
    """A finished box on disk."""

    path: Path
    start: int
    stop: int

    def names(self) -> set[str]:
        """The variables it holds."""
        schema, _ = self._open("schema")
        return {name for group in GROUPS for name in schema[group]}

    def load(self) -> xr.Dataset:
        """Read the box.

        Raises
        ------
        InputError: the file is damaged.
        """
        schema, arrays = self._open()
        for group in GROUPS:
            for name, variable in schema[group].items():
                variable["data"] = arrays[f"{group}/{name}"]
        return xr.Dataset.from_dict(schema)

    def _open(self, *members: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        try:
            with np.load(self.path) as archive:
                arrays = {name: archive[name] for name in members or archive.files}
        except Exception as error:
            raise InputError(f"the part {str(self.path)!r} is damaged: {error}") from None
        return json.loads(arrays.pop("schema").item()), arrays


GROUPS = ("coords", "data_vars")


def write_part(folder: Path, box: Box, dataset: xr.Dataset) -> Part:
    """Keep a finished box on disk."""
    part = Part(folder / f"{box.start:012d}-{box.stop:012d}.npz", box.start, box.stop)
    arrays = {"schema": np.array(json.dumps(dataset.to_dict(data=False)))}
    for group in GROUPS:
        for name, variable in getattr(dataset, group).items():
            # numpy writes objects, here strings, by pickling only.
            values = variable.values.astype(str) if variable.dtype.kind == "O" else variable.values
            arrays[f"{group}/{name}"] = values
    with replacing(part.path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    return part


def assemble(path: Path, grid: Grid, parts: Sequence[Part], attributes: Mapping[str, Any]) -> None:
    """Stream parts into one NetCDF-4 file, one part in memory at a time.

    Parameters
    ----------
    path: the file to make.
    grid: the grid that the parts cover completely; a later part replaces an earlier one.
    attributes: written as JSON strings.
    """
    template = _template(grid, parts)
    axes = {name: (name, values, template[name].attrs) for name, values in grid.axes.items()}
    frame = template.drop_dims(list(axes)).assign_coords(axes)
    frame.attrs = {name: json.dumps(value, allow_nan=False) for name, value in attributes.items()}
    frame.to_netcdf(path, engine=ENGINE)
    swept = [template[name] for name in template.variables if name not in frame.variables]
    with h5netcdf.File(path, "r+") as file:
        for variable in swept:
            _declare(file, variable)
        for part in parts:
            held, box = part.load(), grid.box(part.start, part.stop)
            inside = dict(zip(grid.axes, box.index, strict=True))
            for variable in swept:
                place = tuple(inside.get(str(dim), slice(None)) for dim in variable.dims)
                file[variable.name][place] = (
                    held[variable.name].transpose(*variable.dims).values
                    if variable.name in held
                    else FILL.get(variable.dtype.kind, 0)
                )


FILL = {"f": np.nan, "U": ""}
"""What stands for a value that a part lacks, by kind of number."""


def _template(grid: Grid, parts: Iterable[Part]) -> xr.Dataset:
    """Every variable that any part holds, cut to one point of the grid."""
    template = xr.Dataset()
    for part in parts:
        if not part.names() <= set(template.variables):
            point = part.load().isel(dict.fromkeys(grid.axes, slice(0, 1)))
            template = template.merge(point.drop_vars(template.variables, errors="ignore"))
    template["status"].attrs |= {
        "flag_values": list(STATUSES),
        "flag_meanings": " ".join(STATUSES.values()),
    }
    return template


def _declare(file: h5netcdf.File, variable: xr.DataArray) -> None:
    """Make room for a variable over the whole grid, described as xarray describes its variables."""
    for dim, length in variable.sizes.items():
        if dim not in file.dimensions:
            file.dimensions[dim] = length
    kind = variable.dtype.kind
    made = file.create_variable(
        variable.name,
        variable.dims,
        h5py.string_dtype() if kind == "U" else variable.dtype,
        fillvalue=np.nan if kind == "f" else None,
        # Every point is written later; filling the file first would write it twice. Text has to be filled.
        **({} if kind == "U" else {"fill_time": "never"}),
    )
    for name, value in variable.attrs.items():
        # CF: lists such as flag_values have the type of their variable; JSON in a part lost it.
        made.attrs[name] = np.asarray(value, variable.dtype) if isinstance(value, list) else value
    others = [str(name) for name in variable.coords if name not in variable.dims]
    if others and variable.name not in variable.coords:
        made.attrs["coordinates"] = " ".join(others)


@contextmanager
def replacing(target: Path, folder: Path | None = None) -> Iterator[Path]:
    """A path in `folder` (beside `target` if not given) for a file that becomes `target` once it is whole."""
    temporary = (folder or target.parent) / f"{target.name}.{os.getpid()}.tmp"
    try:
        yield temporary
        _sync(temporary)
        temporary.replace(target)
        _sync(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
