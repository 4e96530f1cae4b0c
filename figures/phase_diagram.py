"""Phase diagram: the three errors over the plane of task diversity and task rank."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

from replica.figures.stores import answered, left_out, needed
from replica.figures.style import TITLES, axis_label, drawing, fixed_parameters, is_generic
from replica.parameters import PROTOCOLS
from replica.sweep import Theory

STORES = {"phase-diagram": ("phase-diagram", Theory)}


def data(store: xr.Dataset) -> xr.Dataset:
    """Errors and status over finite kappa and rho.

    Raises
    ------
    InputError: the store lacks the errors, or does not span exactly the two axes.
    """
    return needed("the phase diagram", store, ["errors"], ["kappa", "rho"])


def draw(dataset: xr.Dataset) -> Figure:
    """Three panels on one logarithmic colour scale, with contours and the line rho = kappa."""
    figure = drawing(figsize=(9.6, 3.5))
    panels = figure.subplots(1, 3, sharex=True, sharey=True)
    known = answered(dataset)["errors"]
    errors = {p: np.ma.masked_invalid(known.sel(protocol=p).values) for p in PROTOCOLS}
    finite = np.ma.concatenate([array.ravel() for array in errors.values()]).compressed()
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (1.0, 2.0)
    high = max(high, 1.001 * low)
    norm = LogNorm(low, high)
    kappa, rho = dataset["kappa"].values, dataset["rho"].values
    scale = np.geomspace(low, high, 11)[1:-1]
    for panel, (protocol, values) in zip(panels, errors.items(), strict=True):
        # What has no answer shows as hatching instead of a colour.
        panel.set_facecolor("0.85")
        panel.patch.set_hatch("////")
        panel.patch.set_edgecolor("0.6")
        mesh = panel.pcolormesh(
            _edges(kappa), _edges(rho), values.T, norm=norm, cmap="cividis", rasterized=True
        )
        if min(values.shape) > 1:
            panel.contour(kappa, rho, values.T, levels=scale, colors="white", linewidths=0.6)
        start, stop = max(kappa[0], rho[0]), min(kappa[-1], rho[-1])
        if start < stop:
            path = np.geomspace(start, stop, 200)
            panel.plot(path, path, color="black", linewidth=2.6)
            panel.plot(path, path, color="white", linewidth=1.2, linestyle=(0, (4, 2)))
            _name_regimes(panel)
        panel.set_title(TITLES[protocol])
        panel.set_xlabel(axis_label("kappa"))
    panels[0].set_ylabel(axis_label("rho"))
    bar = figure.colorbar(mesh, ax=panels, pad=0.01, aspect=25)
    bar.set_label("mean squared error (dimensionless)")
    bar.ax.hlines(scale, 0, 1, color="white", linewidth=0.6)
    bar.ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    bar.ax.yaxis.set_major_formatter(ScalarFormatter())
    bar.ax.yaxis.set_minor_formatter(NullFormatter())
    return figure


def _edges(values: np.ndarray) -> np.ndarray:
    """Where the cells around some values end: halfway to their neighbours."""
    if len(values) == 1:
        return np.outer(values, [0.95, 1.05]).ravel()
    middle = (values[1:] + values[:-1]) / 2
    return np.array([2 * values[0] - middle[0], *middle, 2 * values[-1] - middle[-1]])


def _name_regimes(panel: Axes) -> None:
    """Say on which side of the line the tasks outnumber the dimensions of their family."""
    halo = [withStroke(linewidth=1.0, foreground="black")]
    for x, y, text in (
        (0.03, 0.95, r"task-poor, $\rho > \kappa$"),
        (0.97, 0.04, r"task-rich, $\rho < \kappa$"),
    ):
        panel.text(
            x,
            y,
            text,
            transform=panel.transAxes,
            color="white",
            fontsize=7.5,
            path_effects=halo,
            ha="left" if x < 0.5 else "right",
            va="top" if y > 0.5 else "bottom",
        )


def caption(dataset: xr.Dataset) -> str:
    """What is seen, and with which parameters."""
    unsettled, points = int((dataset["status"] != 0).sum()), dataset["status"].size
    hatched = f" Hatched: {unsettled} of {points} points have no finite answer." if unsettled else ""
    growth = (
        ": below it the pre-training tasks span the family, and as contexts grow, alpha_test = alpha, IDG "
        "tends to a finite limit, larger the nearer the line; above it they do not, and IDG grows like alpha"
        if is_generic(dataset)
        else ", below which the pre-training tasks span the family"
    )
    return (
        "Mean squared error of a linear-attention model on a fresh prompt, label noise included, over task "
        "diversity kappa = M0/D and task rank rho = r/D, in the limit of high dimension. Left: tasks it "
        "was pre-trained on (TM); middle: new tasks of the low-rank family (IDG); right: tasks without the "
        "structure (ODG). One logarithmic colour scale for all three; white contours at equal ratios, "
        f"marked on the bar. The black-and-white line is rho = kappa{growth}.{hatched}{left_out(dataset)} "
        f"Parameters: {fixed_parameters(dataset)}. All quantities are dimensionless."
    )
