"""What experiments show besides errors: predictions, spectra of the Hessian, ends of gradient descent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from replica import theory
from replica.exceptions import InputError
from replica.parameters import PROTOCOLS, Parameters
from replica.simulation import Sizes
from replica.simulation.gradient_descent import gradient_descent
from replica.simulation.hessian import hessian_eigenvalues
from replica.simulation.predictions import sample_predictions
from replica.sweep.config import Config, Experiment
from replica.theory.solution import PARTS

CONTEXTS = {"given": False, "estimated": True}
"""Whether pre-training is given the tasks, or estimates them from contexts, which fluctuates."""


@dataclass(frozen=True)
class Measured:
    """A task over the grid of a config that asks for experiments."""

    config: Config
    name: ClassVar[str]
    """What the task is called in stores."""

    def __post_init__(self) -> None:
        if self.config.experiment is None:
            raise InputError(
                f"the config has no [experiment] table; a {self.name} needs its dims and repeats"
            )

    @property
    def experiment(self) -> Experiment:
        """What to measure."""
        assert self.config.experiment is not None
        return self.config.experiment

    @property
    def constants(self) -> dict[str, Any]:
        """What decides the experiments besides the config, by the name that stores tell it under."""
        return {}

    @property
    def axes(self) -> Mapping[str, np.ndarray]:
        return {**self.config.grid, **self.experiment.grid}

    @property
    def identity(self) -> dict[str, Any]:
        # Where the theory alone is swept decides nothing here.
        config = replace(self.config, grid=self.axes, experiment=replace(self.experiment, grid={})).to_dict()
        config["experiment"] |= self.constants
        return {"task": self.name, "config": config, "equations": theory.fingerprint()}

    def parameters(self, values: Mapping[str, np.ndarray]) -> Parameters:
        """The outer product of some values of each axis."""
        return Parameters.grid(**self.config.parameters, **values)


class Predictions(Measured):
    """Labels of fresh prompts, and the parts of the predictions for them about the theory's gain."""

    name = "sample of predictions"
    PROMPTS: ClassVar[int] = 4000
    """Fresh prompts per protocol and repeat."""

    @property
    def constants(self) -> dict[str, Any]:
        return {"prompts": self.PROMPTS}

    def evaluate(self, values: Mapping[str, np.ndarray]) -> xr.Dataset:
        """Sample every point of the outer product of some values of each axis."""
        parameters, asked = self.parameters(values), self.experiment
        shape = (len(PROTOCOLS), len(asked.dims), asked.repeats, self.PROMPTS, *parameters.shape)
        labels = np.full(shape, np.nan)
        parts = np.full((len(PARTS), *shape), np.nan)
        solution = theory.solve(parameters)
        for index in np.ndindex(*parameters.shape):
            if not np.asarray(solution.ok)[index]:
                continue
            point = parameters[index]
            for d, dim in enumerate(asked.dims):
                gain = float(theory.solve(Sizes.of(point, dim).realized(point)).signal_gain)
                for repeat in range(asked.repeats):
                    made = sample_predictions(point, dim, self.PROMPTS, repeat, asked.seed, gain=gain)
                    for p, protocol in enumerate(PROTOCOLS):
                        labels[p, d, repeat, :, *index] = made[protocol].labels
                        parts[:, p, d, repeat, :, *index] = made[protocol].parts
        frame = solution.to_dataset()[["status"]]
        frame = frame.assign_coords(
            protocol=[str(p) for p in PROTOCOLS], dim=list(asked.dims), part=list(PARTS)
        )
        dims = ("protocol", "dim", "repeat", "prompt", *parameters.dims)
        frame["label"] = (dims, labels, {"long_name": "label y of a fresh prompt"})
        frame["part_prediction"] = (("part", *dims), parts, {"long_name": "parts of the prediction yhat"})
        return frame


class Spectra(Measured):
    """Eigenvalues of the pre-training Hessian in units of 2/D, tasks given or estimated."""

    name = "spectrum of the Hessian"

    def evaluate(self, values: Mapping[str, np.ndarray]) -> xr.Dataset:
        """Sample every point of the outer product of some values of each axis."""
        parameters, asked = self.parameters(values), self.experiment
        shape = (len(CONTEXTS), len(asked.dims), asked.repeats, max(asked.dims), *parameters.shape)
        # Smaller D have fewer eigenvalues.
        eigenvalues = np.full(shape, np.nan)
        for index in np.ndindex(*parameters.shape):
            for d, dim in enumerate(asked.dims):
                for c, fluctuations in enumerate(CONTEXTS.values()):
                    eigenvalues[c, d, :, :dim, *index] = hessian_eigenvalues(
                        parameters[index], dim, asked.repeats, asked.seed, fluctuations=fluctuations
                    )
        frame = theory.solve(parameters).to_dataset()[["status"]]
        frame = frame.assign_coords(contexts=list(CONTEXTS), dim=list(asked.dims))
        dims = ("contexts", "dim", "repeat", "number", *parameters.dims)
        frame["eigenvalue"] = (dims, eigenvalues, {"long_name": "eigenvalues in units of 2/D, ascending"})
        return frame


class DescentEnds(Measured):
    """Errors where gradient descent ends, by the size of its start; theory and experiments."""

    name = "end of gradient descent"
    STARTS: ClassVar[tuple[float, ...]] = (0.0, 0.5, 1.0, 1.5, 2.0)
    """Sizes of the start, the square root of tr W0 W0^T, in experiments."""

    @property
    def constants(self) -> dict[str, Any]:
        return {"starts": list(self.STARTS)}

    def evaluate(self, values: Mapping[str, np.ndarray]) -> xr.Dataset:
        """Solve and simulate every point of the outer product of some values of each axis."""
        parameters, asked = self.parameters(values), self.experiment
        shape = (len(CONTEXTS), len(PROTOCOLS), len(asked.dims), len(self.STARTS), *parameters.shape)
        measured = np.full((3, *shape), np.nan)
        expected = []
        for c, fluctuations in enumerate(CONTEXTS.values()):
            end = theory.gradient_descent(parameters, fluctuations=fluctuations)
            expected.append([[end.from_zero[p] for p in PROTOCOLS], [end.kept[p] for p in PROTOCOLS]])
            for index in np.ndindex(*parameters.shape):
                for d, dim in enumerate(asked.dims):
                    done = gradient_descent(
                        parameters[index],
                        self.STARTS,
                        dim,
                        asked.repeats,
                        asked.seed,
                        fluctuations=fluctuations,
                    )
                    for p, protocol in enumerate(PROTOCOLS):
                        measured[:, c, p, d, :, *index] = np.array(done.means[protocol]).T
        frame = theory.solve(parameters).to_dataset()[["status"]]
        frame = frame.assign_coords(
            contexts=list(CONTEXTS),
            protocol=[str(p) for p in PROTOCOLS],
            dim=list(asked.dims),
            start=list(self.STARTS),
        )
        lead, axes = ("contexts", "protocol"), parameters.dims
        meanings = ("error at the end from zero", "what each unit of start^2 adds to the error")
        for k, (name, meaning) in enumerate(zip(("from_zero", "kept"), meanings, strict=True)):
            array = np.array([pair[k] for pair in expected])
            frame[name] = ((*lead, *axes), array, {"long_name": meaning})
        for name, array in zip(("mean", "stderr", "n"), measured, strict=True):
            frame[name] = ((*lead, "dim", "start", *axes), array, {"long_name": f"{name} of the experiments"})
        return frame
