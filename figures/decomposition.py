"""The parts of the three errors against the length of contexts, theory and experiments."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from replica.figures.stores import answered, left_out, needed
from replica.figures.style import (
    PARTS,
    TITLES,
    TOTAL,
    axis_label,
    draw_line,
    draw_points,
    drawing,
    experiments_in_words,
    fixed_parameters,
    legend_below,
)
from replica.parameters import PROTOCOLS
from replica.sweep import Theory
from replica.sweep.compare import Comparison

STORES = {
    "decomposition": ("decomposition", Theory),
    "decomposition-experiments": ("decomposition", Comparison),
}


def data(theory: xr.Dataset, experiments: xr.Dataset) -> dict[str, xr.Dataset]:
    """Errors and their parts over alpha.

    Raises
    ------
    InputError: a store lacks them, or spans other axes.
    """
    measured = ["mean", "stderr", "part_mean", "part_stderr", "realized", "n"]
    return {
        "theory": needed("the decomposition", theory, ["errors", "decomposition"], ["alpha"]),
        "experiments": needed("the decomposition", experiments, measured, ["alpha"]),
    }


def draw(drawn: Mapping[str, xr.Dataset]) -> Figure:
    """A panel per protocol; total dashed, parts solid, experiments as points of the same colour."""
    theory, measured = answered(drawn["theory"]), answered(drawn["experiments"]).isel(dim=-1)
    figure = drawing(figsize=(9.6, 3.7))
    panels = figure.subplots(1, 3, sharex=True, sharey=True)
    place = measured["realized"].sel(parameter="alpha")
    for panel, protocol in zip(panels, PROTOCOLS, strict=True):
        curves, here = theory.sel(protocol=protocol), measured.sel(protocol=protocol)
        panel.axhline(0, color="0.8", linewidth=0.8, zorder=0)
        draw_line(panel, theory["alpha"], curves["errors"], TOTAL)
        draw_points(panel, place, here["mean"], here["stderr"], TOTAL)
        for part, look in PARTS.items():
            draw_line(panel, theory["alpha"], curves["decomposition"].sel(part=part), look)
            mean, error = (here[f"part_{what}"].sel(part=part) for what in ("mean", "stderr"))
            draw_points(panel, place, mean, error, look)
        panel.set_title(TITLES[protocol])
        panel.set_xscale("log")
        panel.set_xlabel(axis_label("alpha"))
    panels[0].set_ylabel("mean squared error (dimensionless)")
    legend_below(figure, {"total": TOTAL} | PARTS)
    return figure


def caption(drawn: Mapping[str, xr.Dataset]) -> str:
    """What is seen, and with which parameters."""
    theory, measured = drawn["theory"], drawn["experiments"]
    helps = bool(np.any(answered(theory)["decomposition"].sel(protocol="TM", part="memorization") < 0))
    remembered = (
        " In TM the memorization part is taken net of its correlation with the target and is negative where "
        "memory helps."
        if helps
        else ""
    )
    return (
        "Where the error of a linear-attention model comes from, against the length of contexts alpha = "
        "L/D, equal in pre-training and at inference. Left: tasks it was pre-trained on (TM); middle: new "
        "tasks of the low-rank family (IDG); right: tasks without the structure (ODG). Dashed: the whole "
        "error on a fresh prompt, label noise included. Solid: its three parts, the algorithmic one "
        "(estimate the task, project it onto the family, scale it), memorization (what the model knows "
        "about its pre-training tasks beyond their family) and the structural one (what leaks in from "
        f"outside the family).{remembered} Lines: theory in the limit of high dimension, at the ratios "
        f"asked for. Points: {experiments_in_words(measured)}; the small cross terms that the parts have at "
        "finite D are left out. Points lie above the lines by corrections of order 1/D, which grow where "
        f"contexts are short.{left_out(*drawn.values())} Parameters: {fixed_parameters(theory)}, "
        "alpha_test = alpha. All quantities are dimensionless."
    )
