"""What estimating tasks from finite contexts does to the pre-training loss, and to where training ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from replica.figures.stores import needed
from replica.figures.style import (
    COLORS,
    DASHES,
    MARKERS,
    draw_points,
    drawing,
    experiments_in_words,
    fixed_parameters,
    plain_ticks,
    seeds_in_words,
)
from replica.parameters import NAMES, PROTOCOLS, Parameters
from replica.sweep.measured import CONTEXTS, DescentEnds, Spectra
from replica.theory import hessian

STORES = {
    "implicit-regularization-spectrum": ("implicit-regularization-spectrum", Spectra),
    "implicit-regularization-descent": ("implicit-regularization-descent", DescentEnds),
}
_TITLES = {"given": "tasks given to the model", "estimated": "tasks estimated from contexts"}
_BINS, _POINTS = 60, 1000


def data(spectrum: xr.Dataset, descent: xr.Dataset) -> dict[str, xr.Dataset]:
    """Histograms and densities of the Hessian, and errors by the size of the start.

    Raises
    ------
    InputError: a store lacks them, or spans a grid.
    """
    what = "the implicit regularization"
    sampled = needed(what, spectrum, ["eigenvalue"], []).isel(dim=-1)
    ends = needed(what, descent, ["from_zero", "kept", "mean", "stderr", "n"], [])
    point = Parameters(**{name: float(sampled[name]) for name in NAMES})
    top = 1.05 * max(hessian(point).edges[1], float(sampled["eigenvalue"].max()))
    edges = np.linspace(0.0, top, _BINS + 1)
    places = np.linspace(0.0, top, _POINTS)
    rows = []
    for contexts, fluctuations in CONTEXTS.items():
        theory = hessian(point, fluctuations=fluctuations)
        values = sampled["eigenvalue"].sel(contexts=contexts).values.ravel()
        # The atom is drawn as an arrow: its bin would dwarf the bulk. At finite D it is as wide as tr R_k
        # scatters, far from the edge of the bulk.
        atom = (values < (theory.atom + theory.edges[0]) / 2) & (theory.atom_weight > 0)
        heights = np.histogram(values[~atom], edges)[0] / (len(values) * np.diff(edges))
        rows.append(
            xr.Dataset(
                {
                    "height": ("bin", heights),
                    "density": ("place", theory.density(places)),
                    "atom": theory.atom,
                    "atom_weight": theory.atom_weight,
                    "measured_weight": np.mean(atom),
                }
            )
        )
    drawn = xr.concat(rows, xr.DataArray(list(CONTEXTS), dims="contexts", name="contexts"))
    drawn = drawn.assign_coords({name: sampled[name] for name in (*NAMES, "dim")})
    drawn["edge"], drawn["place"] = ("edge", edges), ("place", places)
    drawn = drawn.assign(repeats=sampled.sizes["repeat"]).assign_attrs(sampled.attrs)
    return {"spectrum": drawn, "descent": ends}


def draw(drawn: Mapping[str, xr.Dataset]) -> Figure:
    """Spectra left, errors right; tasks given above, estimated below."""
    figure = drawing(figsize=(9.6, 6.0))
    panels = figure.subplots(2, 2, sharex="col", sharey="col")
    spectrum = drawn["spectrum"]
    height = 1.15 * max(float(spectrum["density"].max()), float(spectrum["height"].max()))
    panels[0, 0].set_ylim(0, 1.1 * height)
    for (left, right), contexts in zip(panels, CONTEXTS, strict=True):
        _spectrum(left, spectrum.sel(contexts=contexts), height)
        _errors(right, drawn["descent"].sel(contexts=contexts).isel(dim=-1))
        left.set_title(_TITLES[contexts])
        right.set_title(_TITLES[contexts])
        left.set_ylabel("density of eigenvalues")
        right.set_ylabel("mean squared error (dimensionless)")
    panels[1, 0].set_xlabel(r"eigenvalue of the Hessian $\times\, D/2$ (dimensionless)")
    panels[1, 1].set_xlabel(r"size of the start, $(\mathrm{tr}\, W_0 W_0^\mathrm{T})^{1/2}$")
    panels[0, 0].legend(loc="upper right")
    panels[0, 1].legend(loc="upper left")
    return figure


def _spectrum(panel: Axes, here: xr.Dataset, height: float) -> None:
    """Density and histogram, with the atom as an arrow of some height."""
    panel.stairs(
        here["height"], here["edge"], fill=True, color="0.8", label=f"experiments, $D = {int(here['dim'])}$"
    )
    panel.plot(here["place"], here["density"], color=COLORS["TM"], label="theory")
    atom, weight = float(here["atom"]), float(here["atom_weight"])
    if weight > 0:
        arrow: dict[str, Any] = {"arrowstyle": "-|>", "color": COLORS["TM"], "linewidth": 1.5}
        panel.annotate("", (atom, height), (atom, 0), arrowprops=arrow, annotation_clip=False)
        told = f"weight {weight:g}" + (rf" at $\eta = {atom:.3g}$" if atom else " at 0: flat directions")
        panel.annotate(told, (atom, height), (6, -3), textcoords="offset points", fontsize=8, va="top")


def _errors(panel: Axes, here: xr.Dataset) -> None:
    starts = np.linspace(0.0, float(here["start"].max()), 200)
    for protocol in PROTOCOLS:
        look: dict[str, Any] = {"color": COLORS[protocol], "linestyle": DASHES[protocol]}
        ends = here.sel(protocol=protocol)
        curve = float(ends["from_zero"]) + starts**2 * float(ends["kept"])
        panel.plot(starts, curve, **look)
        mark = {"color": COLORS[protocol], "marker": MARKERS[protocol]}
        draw_points(panel, here["start"], ends["mean"], ends["stderr"], mark)
        panel.plot([], [], **look | mark, label=protocol)
    panel.set_yscale("log")
    plain_ticks(panel.yaxis)


def caption(drawn: Mapping[str, xr.Dataset]) -> str:
    """What is seen, and with which parameters."""
    spectrum, ends = drawn["spectrum"], drawn["descent"]
    at, other = fixed_parameters(spectrum), fixed_parameters(ends)
    if at != other:
        at = f"{at} (spectrum), {other} (descent)"
    lifted = bool(np.all(ends["kept"].sel(contexts="estimated") == 0))
    forgotten = " where it is lifted the start is forgotten." if lifted else " so does what data leave free."
    return (
        "Why finite contexts regularize. Above, the model is given the tasks themselves in pre-training; "
        "below, it estimates them from contexts of length alpha = L/D. Left: spectrum of the Hessian of "
        "the pre-training loss in units of 2/D. Line and arrow: theory, a bulk and an atom of the weight "
        f"written beside it; grey: histogram over {int(spectrum['repeats'])} draws of the tasks at D = "
        f"{int(spectrum['dim'])}{seeds_in_words(spectrum)}, without the atom, in which a share of "
        f"{', '.join(f'{float(w):.3g}' for w in spectrum['measured_weight'])} (above, below) of the "
        "eigenvalues lies. Given tasks leave the loss flat in all directions that none of them excites; "
        "fluctuations of the estimates lift all of the spectrum by eta = (1 + sigma^2)/alpha. Right: "
        "errors at the end of gradient descent without a ridge, by the size of its random start, on tasks "
        "of the pre-training (TM), new tasks of the family (IDG) and unstructured tasks (ODG), label noise "
        "included and tests with contexts of length alpha_test in both cases. What the loss leaves flat "
        f"keeps the start, and contexts at inference excite it;{forgotten} Lines: theory in the limit of "
        f"high dimension. Points: {experiments_in_words(ends)}; they lie above the lines by corrections of "
        f"order 1/D. Parameters: {at}. All quantities are dimensionless."
    )
