"""Reading stores: what a figure needs of one, or a sentence that says what is missing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from replica.engine import Status
from replica.exceptions import InputError


def needed(what: str, store: xr.Dataset, variables: Sequence[str], axes: Sequence[str]) -> xr.Dataset:
    """Some variables of a store over exactly these axes, loaded and in rising order along each of them.

    Infinite values of an axis have no place in a drawing; they are left out, and `left_out` says so.

    Parameters
    ----------
    what: the figure or the part of it, for the sentence.
    store: an opened store.
    variables: their names; `status` is always taken.
    axes: the axes of the grid.

    Raises
    ------
    InputError: a variable is missing, the grid spans other axes or has no finite value of one, or its
        only point has no answer.
    """
    variables = [*variables, "status"]
    for name in variables:
        if name not in store and "reason" in store:
            reasons = [reason for reason in store["reason"].values.ravel().tolist() if reason]
            raise InputError(f"{what} needs {name}, which no point of the store has; {reasons[0]}")
        if name not in store:
            raise InputError(f"{what} needs a store with {', '.join(variables)}; this one has no {name}")
    if set(store["status"].dims) != set(axes):
        found = " and ".join(sorted(map(str, store["status"].dims))) or "one point"
        wanted = f"a grid over {' and '.join(axes)}" if axes else "one point"
        raise InputError(f"{what} needs {wanted}; this store spans {found}")
    if not axes and store["status"] != Status.OK:
        raise InputError(
            f"{what} needs a point with an answer; its status is {Status(int(store['status'])).label}"
        )
    finite = {axis: np.isfinite(store[axis].values) for axis in axes}
    for axis, kept in finite.items():
        if not kept.any():
            raise InputError(f"{what} needs finite values of {axis}; this store has only inf")
    infinite = [axis for axis, kept in finite.items() if not kept.all()]
    chosen = store[variables].isel(finite).transpose(..., *axes).sortby(list(axes)).load()
    return chosen.assign_attrs(left_out=infinite)


def left_out(*datasets: xr.Dataset) -> str:
    """The axes of which `needed` left infinite values out, for a caption: " kappa = inf, ...", or nothing."""
    axes = sorted({axis for dataset in datasets for axis in dataset.attrs["left_out"]})
    return "".join(f" {axis} = inf, which the store has too, is not shown." for axis in axes)


def check_equal_contexts(what: str, dataset: xr.Dataset) -> None:
    """Refuse an alpha_test of its own.

    Raises
    ------
    InputError: alpha_test is not alpha everywhere.
    """
    if not bool((dataset["alpha_test"] == dataset["alpha"]).all()):
        raise InputError(f"{what} needs alpha_test = alpha; leave alpha_test out of the config")


def answered(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset with NaN at the points that have no finite answer, so that they are not drawn."""
    return dataset.where(dataset["status"] == Status.OK)
