"""A stored result as a table: a row for each point, a column for each number at it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
import xarray as xr

from replica.sweep.grid import Grid
from replica.sweep.parts import STATUSES

ROWS = 2**14
"""Rows in memory at a time."""


def grid_of(dataset: xr.Dataset) -> Grid:
    """The grid that a result covers, which is the one its `status` spans."""
    return Grid({str(dim): dataset[dim].values for dim in dataset["status"].dims})


def table(dataset: xr.Dataset) -> pd.DataFrame:
    """All points of a result, in the order of the grid.

    Returns
    -------
    The axes, the parameters that are fixed, the status by its name and the results; a result with a dimension
    of its own, such as the protocol, has a column for each of its labels (`errors.TM`).
    """
    axes = dataset["status"].dims
    fixed = [name for name in dataset.coords if name not in dataset.dims]
    columns: dict[str, np.ndarray] = {}
    for name in [*axes, *fixed, *dataset.data_vars]:
        variable = dataset[name]
        inner = [dim for dim in variable.dims if dim not in axes]
        full = variable.broadcast_like(dataset["status"]).transpose(*inner, *axes)
        values = full.values.reshape(*(variable.sizes[dim] for dim in inner), -1)
        if name == "status":
            values = _named(values, STATUSES)
        elif "flag_meanings" in variable.attrs:
            meanings = variable.attrs["flag_meanings"].split()
            values = _named(values, dict(zip(variable.attrs["flag_values"], meanings, strict=True)))
        for place in np.ndindex(*values.shape[:-1]):
            labels = [str(dataset[dim].values[i]) for dim, i in zip(inner, place, strict=True)]
            columns[".".join([str(name), *labels])] = values[place]
    return pd.DataFrame(columns)


def _named(values: np.ndarray, meanings: Mapping[int, str]) -> np.ndarray:
    return np.vectorize(meanings.__getitem__, otypes=[object])(values)


def tables(dataset: xr.Dataset) -> Iterator[pd.DataFrame]:
    """The table of a result in pieces of bounded size."""
    grid = grid_of(dataset)
    for box in grid.boxes(ROWS):
        yield table(dataset.isel(dict(zip(grid.axes, box.index, strict=True))).load())
