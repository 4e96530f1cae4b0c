"""How IDG grows with the length of contexts in three regimes, and its collapse around rho = kappa."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from replica.engine import Status
from replica.figures.stores import answered, check_equal_contexts, left_out, needed
from replica.figures.style import (
    BAND,
    axis_label,
    draw_line,
    draw_points,
    drawing,
    experiments_in_words,
    family,
    fixed_parameters,
    is_generic,
    power_of_ten,
)
from replica.parameters import NAMES, Parameters
from replica.sweep import Theory
from replica.sweep.compare import Comparison
from replica.theory import long_context, solve
from replica.theory.long_context import collapse

STORES = {
    "scaling-regimes": ("scaling-regimes", Theory),
    "scaling-regimes-experiments": ("scaling-regimes", Comparison),
    "scaling-collapse": ("scaling-collapse", Theory),
    "scaling-collapse-experiments": ("scaling-collapse", Comparison),
}
_WINDOW = 8.0
"""The collapse is drawn for scaling variables up to this size."""


def data(
    regimes: xr.Dataset, regimes_experiments: xr.Dataset, around: xr.Dataset, around_experiments: xr.Dataset
) -> dict[str, xr.Dataset]:
    """IDG errors over alpha and rho with their leading terms, and those around rho = kappa rescaled.

    Raises
    ------
    InputError: a store lacks them, spans other axes, or has no scaling around rho = kappa.
    """
    what, axes = "the scaling", ["rho", "alpha"]
    measured = ["mean", "stderr", "n", "realized"]
    lines = needed(what, regimes, ["errors"], axes).sel(protocol="IDG")
    points = needed(what, regimes_experiments, measured, axes).sel(protocol="IDG")
    near = needed(what, around, ["errors"], axes).sel(protocol="IDG")
    far = needed(what, around_experiments, measured, axes).sel(protocol="IDG")
    for dataset in (lines, near):
        check_equal_contexts(what, dataset)
    grid = Parameters.grid(**{name: lines[name].values for name in ("rho", "alpha")}, **_fixed(lines))
    terms = long_context(grid)
    lines["leading"] = (axes, terms.leading["IDG"])
    lines["exponent"] = (axes, terms.exponents["IDG"])
    lines["regime"] = (axes, terms.tasks)
    return {
        "regimes": lines,
        "regimes experiments": points,
        "collapse": _theory_collapsed(near),
        "collapse experiments": _experiments_collapsed(far),
    }


def _fixed(dataset: xr.Dataset) -> dict[str, float]:
    return {name: float(dataset[name]) for name in NAMES if dataset[name].ndim == 0}


def _theory_collapsed(near: xr.Dataset) -> xr.Dataset:
    values = {name: near[name].values for name in ("rho", "alpha")}
    axes = tuple(values)
    made = collapse(solve(Parameters.grid(**values, **_fixed(near))), "IDG")
    for name, array in made._asdict().items():
        near[name] = (axes, array)
    return near


def _experiments_collapsed(far: xr.Dataset) -> xr.Dataset:
    """Experiments rescaled like the theory at their own ratios."""
    known = far["realized"].notnull().all("parameter") & (far["status"] == Status.OK)
    far = far.assign(variable=known * np.nan, rescaled=known * np.nan, rescaled_stderr=known * np.nan)
    place = known.values
    if place.any():
        order = far["mean"].dims
        columns = far["realized"].transpose("parameter", *order).values[:, place]
        at = dict(zip(far["parameter"].values.tolist(), columns, strict=True))
        solution = solve(Parameters(**at))
        for name, source in (("rescaled", "mean"), ("rescaled_stderr", "stderr")):
            made = collapse(solution, "IDG", far[source].values[place])
            far[name].values[place], far["variable"].values[place] = made.rescaled, made.variable
    return far


def draw(drawn: Mapping[str, xr.Dataset]) -> Figure:
    """Left: the powers; right: the collapse."""
    figure = drawing(figsize=(9.6, 4.4))
    left, right = figure.subplots(1, 2)
    lines, points = answered(drawn["regimes"]), answered(drawn["regimes experiments"]).isel(dim=-1)
    for rho, look in zip(lines["rho"].values, family(lines.sizes["rho"]), strict=True):
        curve = lines.sel(rho=rho)
        left.plot(lines["alpha"], curve["leading"], **BAND)
        regime, exponent = str(curve["regime"].values[-1]), Fraction(float(curve["exponent"][-1]))
        label = rf"$\rho = {rho:g}$, {regime}: $\alpha^{{{exponent}}}$"
        draw_line(left, lines["alpha"], curve["errors"], look)
        left.plot([], [], **look, label=label)
        if rho in points["rho"]:
            here = points.sel(rho=rho)
            place = here["realized"].sel(parameter="alpha")
            draw_points(left, place, here["mean"], here["stderr"], look)
    left.plot([], [], **BAND, label="leading term")
    left.set_xscale("log")
    left.set_yscale("log")
    left.set_xlabel(axis_label("alpha"))
    left.set_ylabel("IDG error (dimensionless)")
    left.legend(loc="upper left")

    near, far = answered(drawn["collapse"]), answered(drawn["collapse experiments"])
    looks = dict(zip(near["alpha"].values, family(near.sizes["alpha"]), strict=True))
    shape = near.isel(alpha=-1).sortby("variable")
    right.plot(shape["variable"], shape["function"], **BAND, label="scaling function")
    for alpha, look in looks.items():
        curve = near.sel(alpha=alpha)
        label = rf"$\alpha = {power_of_ten(alpha)}$"
        right.plot(curve["variable"], curve["rescaled"], **look | {"marker": "", "label": label})
    sizes = {dim: {"marker": mark} for dim, mark in zip(far["dim"].values, "os^Dv", strict=False)}
    for dim, mark in sizes.items():
        for alpha, look in looks.items():
            if alpha in far["alpha"]:
                here = far.sel(dim=dim, alpha=alpha)
                draw_points(right, here["variable"], here["rescaled"], here["rescaled_stderr"], look | mark)
        right.plot([], [], color="0.4", linestyle="none", **mark, label=f"$D = {dim}$")
    right.axvline(0, color="0.7", linewidth=0.8, zorder=0)
    right.set_xlim(-_WINDOW, _WINDOW)
    right.set_yscale("log")
    right.set_ylim(0.05, 20)
    right.set_xlabel(r"$w = (1/\rho - 1/\kappa)\,(\kappa/\eta)^{1/2}$,  $\eta = (1 + \sigma^2)/\alpha$")
    right.set_ylabel(r"IDG error / leading term at $\rho = \kappa$")
    right.legend(loc="upper right")
    return figure


def caption(drawn: Mapping[str, xr.Dataset]) -> str:
    """What is seen, and with which parameters."""
    regimes, around = drawn["regimes"], drawn["collapse"]
    at, other = fixed_parameters(regimes), fixed_parameters(around)
    if at != other:
        at = f"{at} (left), {other} (right)"
    growth = (
        "Where the pre-training tasks span their family, rho < kappa, it settles; where they do not, it "
        "grows like alpha, and at rho = kappa like alpha^(1/2). "
        if is_generic(regimes)
        else ""
    )
    function = "2/(w + (w^2 + 4)^(1/2)), " if is_generic(around) else ""
    return (
        "Left: error on new tasks of the low-rank family (IDG, fresh prompts, label noise included) "
        f"against the length of contexts alpha = alpha_test. {growth}Grey bands: the leading terms of the "
        "expansion in 1/alpha, slope and amplitude. Lines: theory in the limit of high dimension, at the "
        f"ratios asked for. Points: {experiments_in_words(drawn['regimes experiments'])}; the critical ones "
        "leave the line where 1/alpha falls to the smallest eigenvalues of a finite sample, of order "
        "1/D^2. Right: IDG for ranks around rho = kappa, divided by its leading term at rho = kappa, "
        "against the scaling variable w, positive where tasks span the family. Long contexts fall on one "
        f"function, {function}the grey band, up to corrections of relative order (eta/kappa)^(1/2). Colours "
        f"tell alpha, marks the D of {experiments_in_words(drawn['collapse experiments'])}; w is theirs "
        f"too.{left_out(*drawn.values())} Parameters: {at}. All quantities are dimensionless."
    )
