"""The figures. Each file has `data(...)`, which reads or computes, and `draw(...)`, which only draws.

A figure's file defines

- `STORES`: the stores that it reads, name -> (shipped config, task), where the task is a class such as
  `replica.sweep.Theory`. `NAME.nc` is what `replica.sweep.run` makes of it on that config, or on the config's
  quick variant,
- `data(*stores)`: what is drawn, from the opened stores in that order, as a dataset or a mapping of them;
  raises `InputError` naming what is missing,
- `draw(drawn) -> matplotlib.figure.Figure`, of what `data` returned,
- `caption(drawn) -> str`: what is seen and with which parameters.

A figure behind which there is no sweep has no `STORES`; its `data(*, quick=False) -> xarray.Dataset` computes
what is drawn.

`FIGURES` names them all; nothing is imported until a figure is asked for.
"""

from importlib import import_module
from types import ModuleType

FIGURES = {
    "decomposition": "algorithmic, memorization and structural parts of the errors",
    "predictions": "predictions given the label, and the parts they are made of",
    "implicit-regularization": "what estimating tasks from contexts does to the loss and to its minimum",
    "phase-transition": "errors across rho = kappa as contexts grow long",
    "phase-diagram": "TM, IDG and ODG errors over the (kappa, rho) plane",
    "scaling": "powers of the context length, and the collapse around rho = kappa",
    "trade-off": "ODG against IDG error as the rank passes the diversity of tasks",
    "sample-size": "errors through the interpolation threshold for several ridges",
    "comparison": "theory against experiments at several D, with residuals",
    "softmax-lipschitz": "Lipschitz constants of attention regression and their bounds",
    "softmax-shift": "a step of the weights or the data as a shift of the labels",
    "softmax-gradient-step": "gradient steps as shifts of the labels, one and many",
    "softmax-fit": "fits of attention regression from several starts, both losses",
}
"""name -> what it shows, in a line."""


def load(name: str) -> ModuleType:
    """The module of a figure in `FIGURES`."""
    return import_module(f"replica.figures.{name.replace('-', '_')}")
