"""Two stored results over one grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xarray as xr

from replica.exceptions import InputError
from replica.sweep import store
from replica.sweep.files import locked, replacing
from replica.sweep.grid import Box, Boxed, Grid
from replica.sweep.parts import MISSING, failed
from replica.sweep.runner import Outcome
from replica.sweep.table import grid_of
from replica.sweep.work import SLAB, check_output, parts_folder

Prefer = Literal["first", "second"]


def merge(
    first: str | Path,
    second: str | Path,
    path: str | Path,
    *,
    prefer: Prefer | None = None,
    overwrite: bool = False,
) -> Outcome:
    """Put two results of the same task, equations and fixed parameters together.

    Values of an axis are compared exactly, so no value appears twice. A point that neither result holds has
    the status `missing`; where both hold it, an answer goes before a failure.

    Parameters
    ----------
    first, second: stored results with the same axes.
    path: the file to make.
    prefer: which result counts where both have an answer and the answers differ.
    overwrite: replace `path` if it exists.

    Raises
    ------
    InputError: a file is missing or damaged, `path` exists, the results cannot be joined, or they have
        different answers at a point and none is preferred; the first such point is named.
    """
    path = Path(path).absolute()
    check_output(path, overwrite)
    with store.read(first) as one, store.read(second) as other:
        _check_joinable(one, other)
        grid = _union(grid_of(one), grid_of(other))
        pieces = [_Merged(one, other, grid, box, prefer) for box in grid.boxes(SLAB)]
        origins = store.origin(one), store.origin(other)
        with locked(parts_folder(path)) as folder, replacing(path, folder) as temporary:
            store.assemble(temporary, grid, pieces, _facts(*origins))
    with store.read(path) as merged:
        return Outcome.of(path, grid, merged["status"].values.ravel())


def _facts(*origins: Mapping[str, Any]) -> dict[str, Any]:
    """Where a merged result comes from."""
    identity = {
        "task": origins[0]["task"],
        "config": {"merged": [origin["config"] for origin in origins]},
        "equations": origins[0]["equations"],
    }
    history: list[dict[str, str]] = []
    for origin in origins:
        history += [made for made in (*origin["earlier_versions"], origin["versions"]) if made not in history]
    return store.facts(identity, [*history, store.versions()]) | {
        "seeds": sorted({seed for origin in origins for seed in origin["seeds"]}),
        "seconds": {"points": sum(origin["seconds"]["points"] for origin in origins)},
    }


def _check_joinable(one: xr.Dataset, other: xr.Dataset) -> None:
    """Refuse results that are not of one kind.

    Raises
    ------
    InputError: the tasks, the equations, the axes or what is fixed differ.
    """
    for key in ("task", "equations"):
        found = store.origin(one)[key], store.origin(other)[key]
        if found[0] != found[1]:
            raise InputError(f"the results differ in {key} ({found[0]} and {found[1]}) and are not merged")
    axes = one["status"].dims, other["status"].dims
    if set(axes[0]) != set(axes[1]):
        spans = " and ".join(f"({_names(dims)})" for dims in axes)
        raise InputError(f"the results span different axes, {spans}, and are not merged")
    for name in [name for name in one.variables if name in other.variables]:
        values = one[name], other[name]
        fixed = not set(values[0].dims) & set(axes[0])
        if fixed and not np.array_equal(*values):
            told = [np.array2string(value.values, threshold=6) for value in values]
            raise InputError(f"the results differ in {name} ({told[0]} and {told[1]}) and are not merged")


def _names(dims: Any) -> str:
    return ", ".join(map(str, dims)) or "a single point"


def _union(one: Grid, other: Grid) -> Grid:
    """The values of both grids: ascending where theirs are, else those of the second alone at the end."""
    axes = {}
    for name, values in one.axes.items():
        added = other.axes[name]
        joined = np.concatenate([values, added[~np.isin(added, values)]])
        ascending = all(np.all(axis[1:] > axis[:-1]) for axis in (values, added))
        axes[name] = np.sort(joined) if ascending else joined
    return Grid(axes)


@dataclass(frozen=True)
class _Merged(Boxed):
    """A box of the union of two results."""

    one: xr.Dataset
    other: xr.Dataset
    grid: Grid
    box: Box
    prefer: Prefer | None

    @property
    def names(self) -> set[str]:
        return {str(name) for name in (*self.one.variables, *self.other.variables)}

    def load(self) -> xr.Dataset:
        """Both results over the box, and of every point the one that counts."""
        one, other = self._over_box(self.one), self._over_box(self.other)
        answered = [(held["status"] != MISSING) & ~failed(held["status"].values) for held in (one, other)]
        conflict = answered[0] & answered[1] & self._differ(one, other)
        if self.prefer is None and conflict.any():
            raise InputError(f"{self._told(conflict)}; give --prefer to choose one of them")
        take_other = (
            (answered[1] & ~answered[0])
            | ((one["status"] == MISSING) & (other["status"] != MISSING))
            | (conflict & (self.prefer == "second"))
        )
        merged = one.copy()
        for name in self.names - set(self.grid.axes):
            if name not in one or name not in other:
                present = one if name in one else other
                filled = xr.full_like(present[name], store.FILL.get(present[name].dtype.kind, 0))
                pair = (present[name], filled) if name in one else (filled, present[name])
            else:
                pair = one[name], other[name]
            if set(pair[0].dims) >= set(self.grid.axes):
                merged[name] = xr.where(take_other, pair[1], pair[0]).transpose(*pair[0].dims)
                merged[name].attrs = pair[0].attrs
            elif set(pair[0].dims) & set(self.grid.axes):
                # A coordinate along some of the axes only, such as an alpha_test that follows alpha.
                merged[name] = pair[0].fillna(pair[1])
        return merged

    def variables(self) -> Mapping[Any, xr.Variable]:
        return self.load().variables

    def _over_box(self, dataset: xr.Dataset) -> xr.Dataset:
        """A result over the box, with fillings where it has no point."""
        filling = {
            name: MISSING if name == "status" else store.FILL.get(variable.dtype.kind, 0)
            for name, variable in dataset.variables.items()
            if name not in dataset.dims
        }
        values = self.grid.values(self.box)
        return dataset.reindex(values, fill_value=filling).transpose(..., *values).load().drop_encoding()

    def _differ(self, one: xr.Dataset, other: xr.Dataset) -> xr.DataArray:
        """Where any number of the two results differs."""
        differs = xr.zeros_like(one["status"], dtype=bool)
        for name in one.data_vars.keys() & other.data_vars.keys() - {"reason"}:
            unequal = (one[name] != other[name]) & ~(one[name].isnull() & other[name].isnull())
            differs |= unequal.any([dim for dim in unequal.dims if dim not in differs.dims])
        return differs

    def _told(self, conflict: xr.DataArray) -> str:
        first = self.box.start + int(np.argmax(conflict.values.ravel()))
        where = ", ".join(f"{name} = {value!r}" for name, value in self.grid.point(first).items())
        return f"the results have different answers at {where or 'their only point'}"
