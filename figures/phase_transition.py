"""The errors across rho = kappa, along both axes, for contexts of growing length."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from replica.figures.stores import answered, check_equal_contexts, left_out, needed
from replica.figures.style import (
    BAND,
    TITLES,
    axis_label,
    draw_line,
    draw_points,
    drawing,
    experiments_in_words,
    family,
    fixed_parameters,
    is_generic,
    legend_below,
    power_of_ten,
)
from replica.parameters import NAMES, PROTOCOLS, Parameters
from replica.sweep import Theory
from replica.sweep.compare import Comparison
from replica.theory import long_context

STORES = {
    "phase-transition-rank": ("phase-transition-rank", Theory),
    "phase-transition-rank-experiments": ("phase-transition-rank", Comparison),
    "phase-transition-diversity": ("phase-transition-diversity", Theory),
    "phase-transition-diversity-experiments": ("phase-transition-diversity", Comparison),
}
_SWEPT = {"rho": "kappa", "kappa": "rho"}
"""The parameter along each row of panels, and the one that marks the transition on it."""


def data(
    rank: xr.Dataset, rank_experiments: xr.Dataset, diversity: xr.Dataset, diversity_experiments: xr.Dataset
) -> dict[str, xr.Dataset]:
    """Errors over alpha and rho, and over alpha and kappa, with their limits of infinite alpha.

    Raises
    ------
    InputError: a store lacks them, or spans other axes.
    """
    drawn = {}
    for name, theory, experiments in (
        ("rho", rank, rank_experiments),
        ("kappa", diversity, diversity_experiments),
    ):
        what, axes = "the phase transition", ["alpha", name]
        curves = needed(what, theory, ["errors"], axes)
        check_equal_contexts(what, curves)
        drawn[name] = curves.assign(limit=_limit(curves, name))
        measured = ["mean", "stderr", "n", "realized"]
        drawn[f"{name} experiments"] = needed(what, experiments, measured, axes)
    return drawn


def _limit(curves: xr.Dataset, name: str) -> xr.DataArray:
    """The errors at infinite alpha; infinite where they grow without bound."""
    values = {n: curves[n].values for n in NAMES if n not in ("alpha", "alpha_test")}
    leading = long_context(Parameters(alpha=np.inf, **values)).leading
    return xr.concat([xr.DataArray(leading[p], dims=[name]) for p in PROTOCOLS], "protocol")


def draw(drawn: Mapping[str, xr.Dataset]) -> Figure:
    """A row per axis, a panel per protocol, a line per alpha; the transition marked."""
    figure = drawing(figsize=(9.6, 6.4))
    panels = figure.subplots(2, 3, sharex="row", sharey=True)
    lengths = drawn["rho"]["alpha"].values
    looks = dict(zip(lengths, family(len(lengths)), strict=True))
    for row, (name, other) in zip(panels, _SWEPT.items(), strict=True):
        theory = answered(drawn[name].drop_vars("limit"))
        measured = answered(drawn[f"{name} experiments"]).isel(dim=-1)
        limits = drawn[name]["limit"]
        for panel, (number, protocol) in zip(row, enumerate(PROTOCOLS), strict=True):
            panel.axvline(float(theory[other]), color="0.7", linewidth=0.8, zorder=0)
            for alpha, look in looks.items():
                if alpha in theory["alpha"]:
                    curve = theory["errors"].sel(protocol=protocol, alpha=alpha)
                    draw_line(panel, theory[name], curve, look)
                if alpha in measured["alpha"]:
                    here = measured.sel(protocol=protocol, alpha=alpha)
                    place = here["realized"].sel(parameter=name)
                    draw_points(panel, place, here["mean"], here["stderr"], look)
            limit = limits.isel(protocol=number)
            panel.plot(theory[name], limit.where(np.isfinite(limit)), **BAND)
            panel.set_xlabel(axis_label(name))
            panel.set_yscale("log")
        row[0].set_ylabel("mean squared error (dimensionless)")
    for panel, protocol in zip(panels[0], PROTOCOLS, strict=True):
        panel.set_title(TITLES[protocol])
    measured_at = drawn["rho experiments"]["alpha"]
    shown = {
        rf"$\alpha = {power_of_ten(alpha)}$": look if alpha in measured_at else look | {"marker": ""}
        for alpha, look in looks.items()
    }
    legend_below(figure, shown | {r"$\alpha = \infty$": BAND})
    return figure


def caption(drawn: Mapping[str, xr.Dataset]) -> str:
    """What is seen, and with which parameters."""
    rank, diversity = drawn["rho"], drawn["kappa"]
    shared = fixed_parameters(rank, without=("kappa",))
    growth = (
        "As contexts grow, the pre-training tasks suffice for new tasks of the family where they span it, "
        "rho < kappa, and IDG settles; where they do not, it grows like alpha, at rho = kappa itself like "
        "alpha^(1/2). TM settles on both sides, ODG grows like alpha unless min(kappa, rho) = 1. "
        if is_generic(rank)
        else ""
    )
    return (
        "Error on a fresh prompt, label noise included, across the transition at rho = kappa (vertical "
        "lines) for contexts of growing length alpha = alpha_test. Above: against task rank rho = r/D at "
        f"task diversity {fixed_parameters(rank, only=('kappa',))}; below: against task diversity kappa = "
        f"M0/D at task rank {fixed_parameters(diversity, only=('rho',))}. Left: tasks of the pre-training "
        "(TM); middle: new tasks of the low-rank family (IDG); right: tasks without the structure (ODG). "
        f"{growth}Grey bands: the limit of infinite alpha where it is finite. Lines: theory in the limit of "
        "high dimension, at the ratios asked for. Points: "
        f"{experiments_in_words(drawn['rho experiments'])}; corrections of order 1/D grow where ranks are "
        f"small.{left_out(*drawn.values())} Parameters: {shared}. All quantities are dimensionless."
    )
