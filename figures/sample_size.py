"""The errors through the interpolation threshold, for several ridges, theory and experiments."""

from __future__ import annotations

from collections.abc import Mapping

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
from replica.parameters import PROTOCOLS
from replica.sweep import Theory
from replica.sweep.compare import Comparison

STORES = {
    "sample-size": ("sample-size", Theory),
    "sample-size-experiments": ("sample-size", Comparison),
}


def data(theory: xr.Dataset, experiments: xr.Dataset) -> dict[str, xr.Dataset]:
    """Errors over gamma and ridge.

    Raises
    ------
    InputError: a store lacks them, or spans other axes.
    """
    axes = ["ridge", "gamma"]
    return {
        "theory": needed("the sample size", theory, ["errors"], axes),
        "experiments": needed("the sample size", experiments, ["mean", "stderr", "n", "realized"], axes),
    }


def draw(drawn: Mapping[str, xr.Dataset]) -> Figure:
    """A panel per protocol, a line per ridge, the threshold marked."""
    theory, measured = answered(drawn["theory"]), answered(drawn["experiments"]).isel(dim=-1)
    figure = drawing(figsize=(9.6, 3.7))
    panels = figure.subplots(1, 3, sharex=True, sharey=True)
    place = measured["realized"].sel(parameter="gamma")
    looks = dict(zip(theory["ridge"].values, family(theory.sizes["ridge"]), strict=True))
    for panel, protocol in zip(panels, PROTOCOLS, strict=True):
        panel.axvline(1, color="0.7", linewidth=0.8, zorder=0)
        for ridge, look in looks.items():
            curve = theory["errors"].sel(protocol=protocol, ridge=ridge)
            draw_line(panel, theory["gamma"], curve, look)
            if ridge in measured["ridge"]:
                here = measured.sel(protocol=protocol, ridge=ridge)
                draw_points(panel, place.sel(ridge=ridge), here["mean"], here["stderr"], look)
        panel.set_title(TITLES[protocol])
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlabel(axis_label("gamma"))
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
        "all three errors diverge without a ridge, which turns the divergence into a peak and, if larger, "
        "removes it. Lines: theory in the limit of high dimension, at the ratios asked for. "
        f"Points: {experiments_in_words(drawn['experiments'])}. Parameters: {fixed_parameters(theory)}. All "
        "quantities are dimensionless."
    )
