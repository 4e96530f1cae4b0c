"""The errors through the interpolation threshold, for several ridges, theory and experiments."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from replica.figures.stores import answered, needed
from replica.figures.style import (
    TITLES,
    axis_label,
    draw_line,
    draw_points,
    drawing,
    experiments_in_words,
    family,
    fixed_parameters,
    legend_below,
    plain_ticks,
)
from replica.parameters import NAMES, PROTOCOLS, Parameters
from replica.sweep import Theory
from replica.sweep.compare import Comparison
from replica.theory import solve

STORES = {
    "sample-size": ("sample-size", Theory),
    "sample-size-experiments": ("sample-size", Comparison),
}
_NEAR = 0.1
"""How far from gamma = 1 errors without a ridge still belong to the divergence."""


def data(theory: xr.Dataset, experiments: xr.Dataset) -> dict[str, xr.Dataset]:
    """Errors over gamma and ridge, without a ridge also nearer to gamma = 1 than the grid goes.

    Raises
    ------
    InputError: a store lacks them, or spans other axes.
    """
    axes = ["ridge", "gamma"]
    curves = needed("the sample size", theory, ["errors"], axes)
    return {
        "theory": curves,
        "divergence": _divergence(curves),
        "experiments": needed("the sample size", experiments, ["mean", "stderr", "n", "realized"], axes),
    }


def _divergence(curves: xr.Dataset) -> xr.Dataset:
    """The errors without a ridge between gamma = 1 and its neighbours on the grid."""
    gamma = curves["gamma"].values
    below, above = gamma[gamma < 1], gamma[gamma > 1]
    steps = np.geomspace(1e-4, 1.0, 50)[:-1]
    near = [1.0]
    if below.size and gamma[-1] >= 1:
        near = [*(1 - steps[::-1] * (1 - below[-1])), *near]
    if above.size and gamma[0] <= 1:
        near = [*near, *(1 + steps * (above[0] - 1))]
    fixed = {name: float(curves[name]) for name in NAMES if curves[name].ndim == 0}
    return solve(Parameters.grid(**fixed, ridge=0.0, gamma=near)).to_dataset()


def draw(drawn: Mapping[str, xr.Dataset]) -> Figure:
    """A panel per protocol, a line per ridge, the threshold marked."""
    theory, measured = answered(drawn["theory"]), answered(drawn["experiments"]).isel(dim=-1)
    divergence = answered(drawn["divergence"])["errors"]
    figure = drawing(figsize=(9.6, 3.7))
    panels = figure.subplots(1, 3, sharex=True, sharey=True)
    place = measured["realized"].sel(parameter="gamma")
    looks = dict(zip(theory["ridge"].values, family(theory.sizes["ridge"]), strict=True))
    for panel, protocol in zip(panels, PROTOCOLS, strict=True):
        panel.axvline(1, color="0.7", linewidth=0.8, zorder=0)
        for ridge, look in looks.items():
            curve = theory["errors"].sel(protocol=protocol, ridge=ridge)
            if ridge == 0:
                off = curve.sel(gamma=curve["gamma"] != 1)
                curve = xr.concat([off, divergence.sel(protocol=protocol)], "gamma").sortby("gamma")
            draw_line(panel, curve["gamma"], curve, look)
            if ridge in measured["ridge"]:
                here = measured.sel(protocol=protocol, ridge=ridge)
                draw_points(panel, place.sel(ridge=ridge), here["mean"], here["stderr"], look)
        panel.set_title(TITLES[protocol])
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlabel(axis_label("gamma"))
    # The divergence has no end: it leaves through the top of panels that hold all the rest.
    rest = theory["errors"].where((theory["ridge"] > 0) | (np.abs(theory["gamma"] - 1) > _NEAR))
    shown = [rest, measured["mean"], measured["mean"] + measured["stderr"]]
    values = np.concatenate([part.values.ravel() for part in shown])
    if np.isfinite(values).any():
        panels[0].set_ylim(np.nanmin(values) / 1.2, 1.2 * np.nanmax(values))
    plain_ticks(panels[0].xaxis)
    plain_ticks(panels[0].yaxis)
    panels[0].set_ylabel("mean squared error (dimensionless)")
    legend_below(figure, {rf"ridge $\lambda = {ridge:g}$": look for ridge, look in looks.items()})
    return figure


def caption(drawn: Mapping[str, xr.Dataset]) -> str:
    """What is seen, and with which parameters."""
    theory = drawn["theory"]
    return (
        "Error on a fresh prompt, label noise included, against the number of pre-training prompts gamma = "
        "M/D^2, for several ridge penalties. Left: tasks the model was pre-trained on (TM); middle: new "
        "tasks of the low-rank family (IDG); right: tasks without the structure (ODG). The vertical "
        "line is the interpolation threshold gamma = 1, where the prompts just determine the weights: there "
        "all three errors diverge without a ridge and leave the panels; a ridge turns the divergence into a "
        "peak and, if larger, removes it. Lines: theory in the limit of high dimension, at the ratios asked "
        f"for. Points: {experiments_in_words(drawn['experiments'])}. Parameters: {fixed_parameters(theory)}. "
        "All quantities are dimensionless."
    )
