"""The figures. Each file has `data(...)`, which computes or reads, and `draw(...)`, which only draws.

A figure's file defines

- `CONFIG`: the name of the shipped config whose store it reads, and
  `data(store) -> xarray.Dataset`: what is drawn, from an opened store; raises `InputError` naming what is
  missing,
- or, where no sweep stands behind it, only `data(*, quick=False) -> xarray.Dataset`, which computes it,
- `draw(dataset) -> matplotlib.figure.Figure`,
- `caption(dataset) -> str`: what is seen and with which parameters.

`FIGURES` names them all; nothing is imported until a figure is asked for.
"""

from importlib import import_module
from types import ModuleType

FIGURES = {
    "phase-diagram": "TM, IDG and ODG errors over the (kappa, rho) plane",
    "softmax-lipschitz": "Lipschitz constants of attention regression and their bounds",
    "softmax-shift": "a step of the weights or the data as a shift of the labels",
    "softmax-gradient-step": "gradient steps as shifts of the labels, one and many",
    "softmax-fit": "fits of attention regression from several starts, both losses",
}
"""name -> what it shows, in a line."""


def load(name: str) -> ModuleType:
    """The module of a figure in `FIGURES`."""
    return import_module(f"replica.figures.{name.replace('-', '_')}")
