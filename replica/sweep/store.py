"""The NetCDF-4 file that a sweep leaves: reading it, making it, and what it says of its origin."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Protocol

import h5netcdf
import h5py
import numpy as np
import xarray as xr

from replica import __version__
from replica.exceptions import InputError
from replica.sweep.files import replacing
from replica.sweep.grid import Box, Boxed, Grid
from replica.sweep.parts import STATUSES

ENGINE: Literal["h5netcdf"] = "h5netcdf"
IDENTITY = ("task", "config", "equations")
"""What decides the numbers of a sweep; runs that agree in it may be joined."""
PACKAGES = ("numpy", "scipy", "sympy", "xarray", "h5netcdf")


def fingerprint(facts: Mapping[str, Any]) -> str:
    """A hash of facts that JSON can hold, equal whatever the order of the keys."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, allow_nan=False).encode()).hexdigest()[:16]


def versions() -> dict[str, str]:
    """The versions of what computes here."""
    return {"replica": __version__, "python": platform.python_version()} | {
        name: version(name) for name in PACKAGES
    }


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
        # HDF5 describes what it cannot parse in its own terms; only the operating system's reasons help.
        number = error.errno if isinstance(error, OSError) else None
        reason = f": {os.strerror(number)}" if number else ""
        raise InputError(f"{str(path)!r} is not a whole NetCDF-4 file and is not used{reason}") from None
    if not set(IDENTITY) <= set(dataset.attrs):
        dataset.close()
        raise InputError(f"{str(path)!r} is a NetCDF-4 file but not the result of a sweep")
    return dataset


def origin(dataset: xr.Dataset) -> dict[str, Any]:
    """What a stored result says of its origin."""
    facts = {}
    for name, value in dataset.attrs.items():
        # What is not JSON was added by somebody else.
        with suppress(TypeError, ValueError):
            facts[name] = json.loads(value)
    return facts


def identity(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an origin that decides the numbers."""
    return {name: facts[name] for name in IDENTITY}


def save(dataset: xr.Dataset, path: Path, identity: Mapping[str, Any]) -> None:
    """Keep a result that needed no run as one NetCDF-4 file, with its identity and the current versions."""
    told = facts(identity, [versions()])
    kept = dataset.assign_attrs({name: json.dumps(value, allow_nan=False) for name, value in told.items()})
    with replacing(path) as temporary:
        kept.to_netcdf(temporary, engine=ENGINE)


def facts(identity: Mapping[str, Any], history: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """What a result says of its origin: its identity, its seeds, and the versions that made it in turn."""
    config = identity["config"]
    return {
        **identity,
        "fingerprints": {
            "sweep": fingerprint(identity),
            "config": fingerprint(config),
            "equations": identity["equations"],
        },
        "seeds": [config["experiment"]["seed"]] if "experiment" in config else [],
        "versions": history[-1],
        "earlier_versions": history[:-1],
    }


def same(found: Mapping[str, Any], wanted: Mapping[str, Any], where: Path) -> None:
    """Refuse to join two sweeps that differ.

    Raises
    ------
    InputError: their identities differ; both fingerprints and the differing keys are named.
    """
    if found == wanted:
        return
    one, other = _flat(found), _flat(wanted)
    keys = [key for key in {**one, **other} if one.get(key) != other.get(key)]
    told = ", ".join(f"{key} ({_brief(one.get(key))} there, {_brief(other.get(key))} here)" for key in keys)
    raise InputError(
        f"{str(where)!r} holds another sweep (fingerprint {fingerprint(found)} there, {fingerprint(wanted)} "
        f"here) and differs in {told}; give --overwrite to start anew or another output"
    )


def _flat(facts: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(facts, Mapping):
        return {prefix: facts}
    return {
        key: value
        for name, inner in facts.items()
        for key, value in _flat(inner, f"{prefix}.{name}" if prefix else name).items()
    }


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return "nothing" if value is None else text if len(text) <= 60 else f"{text[:50]}... of {len(value)}"


class Piece(Protocol):
    """A box of results, such as a `Part`."""

    @property
    def start(self) -> int: ...

    @property
    def stop(self) -> int: ...

    @property
    def names(self) -> set[str]: ...

    def load(self) -> xr.Dataset: ...

    def variables(self) -> Mapping[Any, xr.Variable]: ...


@dataclass(frozen=True)
class Slab(Boxed):
    """A box of a stored result."""

    dataset: xr.Dataset
    box: Box

    @property
    def names(self) -> set[str]:
        return {str(name) for name in self.dataset.variables}

    def load(self) -> xr.Dataset:
        axes = self.dataset["status"].dims
        return self.dataset.isel(dict(zip(axes, self.box.index, strict=True))).load().drop_encoding()

    def variables(self) -> Mapping[Any, xr.Variable]:
        return self.load().variables


def assemble(path: Path, grid: Grid, pieces: Sequence[Piece], facts: Mapping[str, Any]) -> None:
    """Stream results into one NetCDF-4 file, one box in memory at a time.

    Parameters
    ----------
    path: the file to make.
    grid: the grid that the pieces cover completely; a later piece replaces an earlier one.
    facts: written as attributes, each a JSON string.
    """
    output = Output(path, grid, pieces)
    try:
        for piece in pieces:
            output.write(piece)
        output.describe(facts)
        output.close()
    except BaseException:
        output.abandon()
        raise


class Output:
    """A NetCDF-4 file over a grid that is filled box by box.

    Parameters
    ----------
    path: the file to make.
    grid: the points.
    pieces: between them they have every variable that the file will hold.
    """

    def __init__(self, path: Path, grid: Grid, pieces: Iterable[Piece]) -> None:
        template = _template(grid, pieces)
        axes = {name: (name, values, template[name].attrs) for name, values in grid.axes.items()}
        frame = template.drop_dims(list(axes)).assign_coords(axes)
        frame.to_netcdf(path, engine=ENGINE)
        self._grid = grid
        self._swept = [template[name] for name in template.variables if name not in frame.variables]
        with h5netcdf.File(path, "r+") as file:
            for variable in self._swept:
                _declare(file, variable, grid)
        # h5netcdf looks at a variable's type and dimensions anew for each box; HDF5 itself need not.
        self._file = h5py.File(path, "r+")

    def write(self, piece: Piece) -> None:
        """Fill the box of a piece; what the piece lacks is filled too."""
        held, box = piece.variables(), self._grid.box(piece.start, piece.stop)
        inside = dict(zip(self._grid.axes, box.index, strict=True))
        for variable in self._swept:
            place = tuple(inside.get(str(dim), slice(None)) for dim in variable.dims)
            self._file[variable.name][place] = (
                held[variable.name].transpose(*variable.dims).values
                if variable.name in held
                else FILL.get(variable.dtype.kind, 0)
            )

    def sync(self) -> None:
        """Wait until what is written is on the disk."""
        os.fsync(self._file.id.get_vfd_handle())

    def describe(self, facts: Mapping[str, Any]) -> None:
        """Write facts as attributes, each a JSON string."""
        for name, value in facts.items():
            self._file.attrs[name] = json.dumps(value, allow_nan=False)

    def close(self) -> None:
        """Let the file go."""
        self._file.close()

    def abandon(self) -> None:
        """Let the file go, whose contents nobody needs, even if the disk is full."""
        if self._file:
            # HDF5 crashes the process later if it cannot write its last words, so they get room.
            os.ftruncate(self._file.id.get_vfd_handle(), 0)
            with suppress(OSError, RuntimeError):
                self._file.close()


FILL = {"f": np.nan, "U": "", "O": ""}
"""What stands for a value that a piece lacks, by kind of number."""


def _template(grid: Grid, pieces: Iterable[Piece]) -> xr.Dataset:
    """Every variable that any piece holds, cut to one point of the grid."""
    template = xr.Dataset()
    for piece in pieces:
        if not piece.names <= set(template.variables):
            point = piece.load().isel(dict.fromkeys(grid.axes, slice(0, 1)))
            template = template.merge(point.drop_vars(template.variables, errors="ignore"))
    template["status"].attrs |= {
        "flag_values": list(STATUSES),
        "flag_meanings": " ".join(STATUSES.values()),
    }
    return template


def _declare(file: h5netcdf.File, variable: xr.DataArray, grid: Grid) -> None:
    """Make room for a variable over the whole grid, described as xarray describes its variables."""
    for dim, length in variable.sizes.items():
        if dim not in file.dimensions:
            file.dimensions[dim] = length
    text = variable.dtype.kind in "UO"
    made = file.create_variable(
        variable.name,
        variable.dims,
        h5py.string_dtype() if text else variable.dtype,
        fillvalue=np.nan if variable.dtype.kind == "f" else None,
        # Every point is written later; filling the file first would write it twice. Text has to be filled.
        **({} if text else {"fill_time": "never"}),
    )
    for name, value in variable.attrs.items():
        # CF: lists such as flag_values have the type of their variable; JSON in a part lost it.
        made.attrs[name] = np.asarray(value, variable.dtype) if isinstance(value, list) else value
    others = [str(name) for name in variable.coords if name not in variable.dims]
    if others and variable.name not in variable.coords:
        made.attrs["coordinates"] = " ".join(others)
