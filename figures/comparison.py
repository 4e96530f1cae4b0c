"""Theory against experiments at several D, with residuals and their extrapolation to infinite D."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from replica.figures.stores import answered, left_out, needed
from replica.figures.style import (
    TITLES,
    axis_label,
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
from replica.sweep.verdict import Verdict

STORES = {
    "comparison": ("comparison", Theory),
    "comparison-experiments": ("comparison", Comparison),
}
_MEASURED = ["mean", "stderr", "n", "theory", "realized", "ratio", "ratio_allowed", "verdict"]


def data(theory: xr.Dataset, experiments: xr.Dataset) -> dict[str, xr.Dataset]:
    """Errors over kappa, and what experiments make of them.

    Raises
    ------
    InputError: a store lacks them, or spans other axes.
    """
    return {
        "theory": needed("the comparison", theory, ["errors"], ["kappa"]),
        "experiments": needed("the comparison", experiments, _MEASURED, ["kappa"]),
    }


def draw(drawn: Mapping[str, xr.Dataset]) -> Figure:
    """Errors above, relative residuals below; a panel per protocol, a look per D."""
    theory, measured = answered(drawn["theory"]), answered(drawn["experiments"])
    figure = drawing(figsize=(9.6, 5.2))
    panels = figure.subplots(2, 3, sharex=True, sharey="row", height_ratios=[3, 2])
    looks = dict(zip(measured["dim"].values, family(measured.sizes["dim"]), strict=True))
    extrapolated = {"color": "black", "marker": "o", "markerfacecolor": "white"}
    left = measured["mean"] / measured["theory"] - 1, measured["ratio"] - 1
    for (above, below), protocol in zip(panels.T, PROTOCOLS, strict=True):
        points = measured.sel(protocol=protocol)
        above.plot(theory["kappa"], theory["errors"].sel(protocol=protocol), color="black", zorder=1)
        below.axhline(0, color="black", zorder=1)
        for dim, look in looks.items():
            here = points.sel(dim=dim)
            place = here["realized"].sel(parameter="kappa")
            draw_points(above, place, here["mean"], here["stderr"], look)
            ratio, error = here["mean"] / here["theory"], here["stderr"] / here["theory"]
            draw_points(below, place, ratio - 1, error, look)
        # A little to the right, or its bar would hide those of the largest D.
        beside = 1.04 * measured["kappa"]
        draw_points(below, beside, points["ratio"] - 1, points["ratio_allowed"], extrapolated)
        above.set_title(TITLES[protocol])
        above.set_xscale("log")
        above.set_yscale("log")
        below.set_xlabel(axis_label("kappa"))
    low = min(0.0, *(float(part.min()) for part in left))
    high = max(0.01, *(float(part.max()) for part in left))
    # One wide bar would flatten all that the panel shows.
    panels[1, 0].set_ylim(low - (high - low) / 2, high + (high - low) / 2)
    for axis in (panels[0, 0].xaxis, panels[0, 0].yaxis):
        plain_ticks(axis)
    panels[0, 0].set_ylabel("mean squared error\n(dimensionless)")
    panels[1, 0].set_ylabel("experiment / theory $-$ 1")
    bare = {"linestyle": "none"}
    legend_below(
        figure,
        {"theory": {"color": "black"}}
        | {f"$D = {dim}$": look | bare for dim, look in looks.items()}
        | {r"extrapolated to $D = \infty$": extrapolated | bare},
    )
    return figure


def caption(drawn: Mapping[str, xr.Dataset]) -> str:
    """What is seen, and with which parameters."""
    measured = drawn["experiments"]
    known = np.isfinite(answered(measured)["ratio"])
    verdicts = [
        f"{int((known & (measured['verdict'] == verdict)).sum())} {verdict.label.replace('_', ' ')}"
        for verdict in Verdict
    ]
    return (
        "Theory against experiments over task diversity kappa = M0/D. Above: error on a fresh prompt, "
        "label noise included, on tasks of the pre-training (TM), new tasks of the low-rank family (IDG) "
        "and tasks without the structure (ODG). Line: theory in the limit of high dimension, at the ratios "
        f"asked for. Points: {experiments_in_words(measured)}. Below: what is left when each experiment is "
        "divided by the theory at its own ratios; it falls like 1/D. Open circles, a little to the right: "
        "the same extrapolated to infinite D, where bars reach as far as chance may (three standard errors "
        "of a normal law, widened for few repeats), out of the panel if need be. "
        f"Verdicts on {int(known.sum())} comparisons: {', '.join(verdicts)}.{left_out(*drawn.values())} "
        f"Parameters: {fixed_parameters(drawn['theory'])}. All quantities are dimensionless."
    )
