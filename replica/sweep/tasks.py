"""What a sweep evaluates at the points of its grid.

A new kind of sweep is a frozen dataclass with the members of `Task`; `run(task, path)` then does the rest,
and its command takes `run_options`, a `Display` and the `verdict` from `replica.cli.progress`, as
`replica sweep` does. Whatever a task needs at random it draws from generators seeded by the point, never by
the box.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import xarray as xr

from replica import theory
from replica.parameters import Parameters
from replica.sweep.config import Config


class Task(Protocol):
    """Anything that a sweep can run; it is sent to other processes, so it must pickle.

    The numbers at a point may depend on the task and on the point, not on the box around it.
    """

    @property
    def axes(self) -> Mapping[str, np.ndarray]:
        """The axes of the grid by name, each a 1-d array of distinct values."""

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that decides the numbers, as JSON can hold it; runs of equal identity may be joined.

        Its keys are `task`, a name; `config`, as `Config.to_dict` gives it; `equations`, a fingerprint of
        what is computed.
        """

    def evaluate(self, values: Mapping[str, np.ndarray]) -> xr.Dataset:
        """Evaluate the outer product of some values of each axis.

        Returns
        -------
        A dataset with the axes as coordinates and an integer variable `status` over them, described by its
        attributes `flag_values` and `flag_meanings`; other variables have the axes as their last dimensions.
        """


@dataclass(frozen=True)
class Theory:
    """The theory over the grid of a config."""

    config: Config

    @property
    def axes(self) -> Mapping[str, np.ndarray]:
        return self.config.grid

    @property
    def identity(self) -> dict[str, Any]:
        config = replace(self.config, experiment=None)
        return {"task": "theory", "config": config.to_dict(), "equations": theory.fingerprint()}

    def evaluate(self, values: Mapping[str, np.ndarray]) -> xr.Dataset:
        return theory.solve(Parameters.grid(**self.config.parameters, **values)).to_dataset()
