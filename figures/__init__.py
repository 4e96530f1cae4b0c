"""The figures. Each file has `data(...)`, which computes or reads, and `draw(...)`, which only draws.

A figure's file defines

- `CONFIG`: the name of the shipped config whose store it reads,
- `data(store) -> xarray.Dataset`: what is drawn, from an opened store; raises `InputError` naming what is
  missing,
- `draw(dataset) -> matplotlib.figure.Figure`,
- `caption(dataset) -> str`: what is seen and with which parameters.

`FIGURES` names them all; nothing is imported until a figure is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr

FIGURES = {
    "phase-diagram": "TM, IDG and ODG errors over the (kappa, rho) plane",
}
"""name -> what it shows, in a line."""


def render(name: str, dataset: xr.Dataset, forms: Sequence[str]) -> dict[str, bytes]:
    """Draw a figure from its data: form ("png" or "pdf") -> the file's bytes, the same for the same data."""
    from replica.figures.style import drawing_style, rendered

    with drawing_style():
        figure = load(name).draw(dataset)
        return {form: rendered(figure, form) for form in forms}


def load(name: str) -> ModuleType:
    """The module of a figure in `FIGURES`."""
    return import_module(f"replica.figures.{name.replace('-', '_')}")
