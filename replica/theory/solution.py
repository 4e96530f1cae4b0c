"""What a solve returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from replica.engine.status import Status
from replica.parameters import PROTOCOLS, RANGES, Parameters
from replica.theory.equations import ORDER_PARAMETERS
from replica.theory.errors import PARTS

if TYPE_CHECKING:
    import xarray as xr

TERMS = ("variance", "correlation")
MOMENTS = ("covariance", "variance")
SCALARS = ("residual", "effective_ridge", "training_error", "noise_level")


class Named(Mapping[str, Any]):
    """The rows of an array by name; where the rows have rows of their own, a mapping of mappings.

    Parameters
    ----------
    array: (n, *grid) for one sequence of n names, (n, k, *grid) for two of n and k names.
    names: of the rows along each leading axis.
    """

    def __init__(self, array: np.ndarray, *names: Sequence[str]) -> None:
        self.array, self._names, self._inner = array, tuple(names[0]), names[1:]

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        row = self.array[self._names.index(name)]
        return Named(row, *self._inner) if self._inner else row

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return repr(dict(self))


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """The solved saddle point at every point of a grid.

    All arrays have the shape of the grid, `parameters.shape`; at a single point they are numpy scalars.
    Errors include the label noise. Values are NaN wherever `status` is not `OK`; at the interpolation
    threshold errors, parts and variances are infinite.

    Attributes
    ----------
    parameters: what was solved.
    status: int8 codes of `replica.Status`.
    residual: the largest relative residual of the six stationarity conditions at the reported values.
    effective_ridge: xi = gamma ridge / q_hat, the ridge that finite data induce on top of `implicit_ridge`.
    training_error: per prompt, chi_hat / gamma.
    noise_level: v, the level of the fluctuations of W.
    signal_gain: a, where E W = a P.
    order_parameters: "q", "m", "chi", "q_hat", "m_hat", "chi_hat" -> array.
    errors: "TM", "IDG", "ODG" -> array.
    decomposition: protocol -> "algorithmic", "memorization", "structural" -> array.
    memorization: "variance", "correlation" -> array, the terms of the memorization part of TM: the variance
        of that part of the prediction and its correlation with the target, which lowers the error.
    prediction: protocol -> "covariance" (of the prediction with the noisy label), "variance" -> array.
    """

    parameters: Parameters
    status: Any
    residual: Any
    effective_ridge: Any
    training_error: Any
    noise_level: Any
    order_parameters: Named
    errors: Named
    decomposition: Named
    memorization: Named
    prediction: Named

    @property
    def signal_gain(self) -> Any:
        """a, the gain of the algorithmic signal, which is the covariance of IDG."""
        return self.prediction["IDG"]["covariance"]

    @property
    def ok(self) -> Any:
        """Where the status is `OK`."""
        return self.status == Status.OK

    def counts(self) -> dict[str, int]:
        """How many points have which status, in the order of `Status`, statuses without points left out."""
        codes, numbers = np.unique(self.status, return_counts=True)
        return {Status(code).label: int(number) for code, number in zip(codes, numbers, strict=True)}

    def to_dict(self) -> dict[str, Any]:
        """The solution as nested dictionaries of numbers; for one point only.

        Raises
        ------
        ValueError: the grid has more than one point.
        """
        if self.parameters.shape != ():
            raise ValueError(
                f"a solution of shape {self.parameters.shape} is no single point; use to_dataset"
            )
        return {
            "parameters": dict(self.parameters.items()),
            "status": Status(self.status).label,
            "residual": self.residual,
            "order_parameters": dict(self.order_parameters),
            "effective_ridge": self.effective_ridge,
            "training_error": self.training_error,
            "noise_level": self.noise_level,
            "signal_gain": self.signal_gain,
            "errors": dict(self.errors),
            "decomposition": {p: dict(parts) for p, parts in self.decomposition.items()},
            "memorization": dict(self.memorization),
            "prediction": {p: dict(moments) for p, moments in self.prediction.items()},
        }

    def to_dataset(self) -> xr.Dataset:
        """The solution as a labelled dataset.

        Returns
        -------
        A dataset with the dimensions `parameters.dims`, preceded by `protocol`, `part`, `term` and `moment`
        where they apply. An axis along which one parameter varies bears its name and values; other
        parameters are plain coordinates. Numbers are shared with the solution, not copied.
        """
        import xarray as xr

        dims = self.parameters.dims
        data: dict[str, Any] = {
            "errors": (("protocol", *dims), self.errors.array, "mean squared error, label noise included"),
            "decomposition": (
                ("protocol", "part", *dims),
                self.decomposition.array,
                "parts of the error, which sum to it",
            ),
            "memorization": (
                ("term", *dims),
                self.memorization.array,
                "terms of the memorization part of TM, which sum to it",
            ),
            "prediction": (
                ("protocol", "moment", *dims),
                self.prediction.array,
                "E y yhat with the noisy label, and E yhat^2",
            ),
            "training_error": (dims, self.training_error, "training error per prompt"),
            "effective_ridge": (dims, self.effective_ridge, "effective ridge xi"),
            "noise_level": (dims, self.noise_level, "level v of the fluctuations of W"),
            "signal_gain": (dims, self.signal_gain, "gain a of the algorithmic signal"),
            "residual": (dims, self.residual, "largest relative residual of the stationarity conditions"),
        }
        for name, array in self.order_parameters.items():
            data[name] = (dims, array, f"order parameter {name}")
        variables = {name: (where, array, {"long_name": text}) for name, (where, array, text) in data.items()}
        variables["status"] = (dims, self.status, Status.attributes())
        coordinates = coordinates_of(self.parameters)
        coordinates["protocol"] = ("protocol", [str(p) for p in PROTOCOLS])
        coordinates["part"] = ("part", list(PARTS))
        coordinates["term"] = ("term", list(TERMS))
        coordinates["moment"] = ("moment", list(MOMENTS))
        return xr.Dataset(variables, coordinates)

    def __repr__(self) -> str:
        if self.parameters.shape == ():
            errors = ", ".join(f"{p}={self.errors[p]:.6g}" for p in PROTOCOLS)
            return f"<Solution {Status(self.status).label}: {errors}>"
        shape = "x".join(map(str, self.parameters.shape))
        counts = ", ".join(f"{number} {label}" for label, number in self.counts().items())
        return f"<Solution {shape} ({', '.join(self.parameters.dims)}): {counts}>"


def coordinates_of(parameters: Parameters) -> dict[str, Any]:
    """The seven parameters as xarray coordinates of the grid that they span."""
    dims = parameters.dims
    coordinates: dict[str, Any] = {}
    for name, value in parameters.items():
        array = np.asarray(value)
        lead = len(dims) - array.ndim
        # An alpha_test that was left out lies along the axis of alpha.
        axis_name = "alpha" if name == "alpha_test" and parameters.alpha_test_follows else name
        own = [axis for axis in range(array.ndim) if array.shape[axis] > 1 or dims[lead + axis] == axis_name]
        squeezed = array.reshape([array.shape[axis] for axis in own])
        coordinates[name] = (
            tuple(dims[lead + axis] for axis in own),
            squeezed,
            {"long_name": RANGES[name].meaning},
        )
    return coordinates


def solution_of(
    parameters: Parameters, status: np.ndarray, names: Sequence[str], values: np.ndarray
) -> Solution:
    """Assemble a solution from the rows of `values`, named as in `replica.theory.equations.results`.

    Rows whose names begin alike stand together; nothing is copied.
    """
    groups = [name.split(".")[0] for name in names]

    def rows(*group: str) -> np.ndarray:
        first = groups.index(group[0])
        return values[first : first + sum(map(groups.count, group))]

    grid, protocols = parameters.shape, tuple(map(str, PROTOCOLS))
    moments = rows(*MOMENTS).reshape(len(MOMENTS), len(protocols), *grid)
    return Solution(
        parameters,
        status[()],
        order_parameters=Named(rows("order_parameters"), tuple(ORDER_PARAMETERS)),
        errors=Named(rows("errors"), protocols),
        decomposition=Named(
            rows("decomposition").reshape(len(protocols), len(PARTS), *grid), protocols, PARTS
        ),
        memorization=Named(rows("memorization"), TERMS),
        prediction=Named(moments.swapaxes(0, 1), protocols, MOMENTS),
        **{name: values[names.index(name)][()] for name in SCALARS},
    )
