"""ODG against IDG as the rank of the task family passes the diversity of tasks."""

from __future__ import annotations

from typing import Any

import xarray as xr
from matplotlib.figure import Figure

from replica.figures.stores import answered, check_equal_contexts, left_out, needed
from replica.figures.style import (
    draw_line,
    drawing,
    family,
    fixed_parameters,
    is_generic,
    legend_below,
    plain_ticks,
    power_of_ten,
)
from replica.parameters import NAMES, PROTOCOLS, Parameters
from replica.sweep import Theory
from replica.theory import optimize, solve

STORES = {"trade-off": ("trade-off", Theory)}
WEIGHTS = {"IDG": 0.7, "ODG": 0.3}
"""The criterion whose optimum is marked."""
_CRITERION = " + ".join(f"{weight:g} {protocol}" for protocol, weight in WEIGHTS.items())
_ARROW: dict[str, Any] = {"arrowstyle": "-|>", "linewidth": 0.0, "mutation_scale": 12}
_MARKS: dict[str, dict[str, Any]] = {
    "transition": {"marker": "o", "markersize": 6, "markerfacecolor": "white", "markeredgewidth": 1.3},
    "best": {"marker": "*", "markersize": 11, "markeredgecolor": "black", "markeredgewidth": 0.6},
}
"""What is marked on every curve, over a point at rho = kappa and at the optimum."""


def data(store: xr.Dataset) -> xr.Dataset:
    """Errors over alpha and rho, with those at rho = kappa and at the best rho for each alpha.

    Raises
    ------
    InputError: the store lacks the errors, or spans other axes.
    """
    dataset = needed("the trade-off", store, ["errors"], ["alpha", "rho"])
    check_equal_contexts("the trade-off", dataset)
    fixed = {name: float(dataset[name]) for name in NAMES if name not in ("alpha", "alpha_test", "rho")}
    alphas = dataset["alpha"].values.tolist()
    bounds = {"rho": (float(dataset["rho"][0]), float(dataset["rho"][-1]))}
    marked = {
        "transition": [
            solve(Parameters(alpha=alpha, rho=min(fixed["kappa"], 1.0), **fixed)) for alpha in alphas
        ],
        "best": [optimize(WEIGHTS, bounds, alpha=alpha, **fixed).solution for alpha in alphas],
    }
    for name, solutions in marked.items():
        dataset[f"{name}_rho"] = ("alpha", [float(solution.parameters.rho) for solution in solutions])
        errors = [[float(solution.errors[p]) for solution in solutions] for p in PROTOCOLS]
        dataset[f"{name}_errors"] = (("protocol", "alpha"), errors)
    return dataset


def draw(dataset: xr.Dataset) -> Figure:
    """A curve per alpha, traced by rho, with an arrow along rho and the marks; ODG as it is, and rescaled."""
    figure = drawing(figsize=(9.6, 4.6))
    panels = figure.subplots(1, 2, sharex=True)
    known = answered(dataset)["errors"]
    looks = dict(zip(dataset["alpha"].values, family(dataset.sizes["alpha"]), strict=True))
    for alpha, look in looks.items():
        here = dataset.sel(alpha=alpha)
        idg, odg = (known.sel(alpha=alpha, protocol=p).values for p in ("IDG", "ODG"))
        for panel, scale in zip(panels, (1.0, odg[-1]), strict=True):
            draw_line(panel, idg, odg / scale, look)
            middle = len(idg) * 4 // 5
            ends = [
                (idg[i], odg[i] / scale) for i in (middle - 1, min(middle + len(idg) // 20, len(idg) - 1))
            ]
            panel.annotate("", ends[1], ends[0], arrowprops=_ARROW | {"color": look["color"]})
            for name, mark in _MARKS.items():
                at = here[f"{name}_errors"]
                place = float(at.sel(protocol="IDG")), float(at.sel(protocol="ODG")) / scale
                panel.plot(*place, **{"color": look["color"]} | mark)
    panels[0].set_xscale("log")
    panels[0].set_yscale("log")
    for axis in (panels[0].xaxis, panels[0].yaxis):
        plain_ticks(axis)
    for panel in panels:
        panel.set_xlabel("IDG error, new tasks of the family (dimensionless)")
    panels[0].set_ylabel("ODG error, unstructured tasks (dimensionless)")
    panels[1].set_ylabel(r"ODG error / ODG error at the largest $\rho$")
    bare = {"color": "0.4", "linestyle": "none"}
    names = (r"$\rho = \kappa$", f"least {_CRITERION}")
    legend_below(
        figure,
        {rf"$\alpha = {power_of_ten(alpha)}$": look | {"marker": ""} for alpha, look in looks.items()}
        | {name: bare | mark for name, mark in zip(names, _MARKS.values(), strict=True)},
    )
    return figure


def caption(dataset: xr.Dataset) -> str:
    """What is seen, and with which parameters."""
    best = ", ".join(
        f"{float(rho):.3g} (alpha = {float(alpha):g})"
        for rho, alpha in zip(dataset["best_rho"], dataset["alpha"], strict=True)
    )
    turn = (
        "Rank above the diversity kappa costs IDG, the more the longer the contexts, and buys little ODG, so "
        "that the curves of long contexts turn at rho = kappa, and the best rank tends to kappa. "
        if is_generic(dataset)
        else ""
    )
    low, high = float(dataset["rho"][0]), float(dataset["rho"][-1])
    return (
        "The price of specialization: error on tasks without the low-rank structure (ODG) against error on "
        "new tasks of the family (IDG), both on fresh prompts with label noise included, as task rank rho "
        f"= r/D grows from {low:g} to {high:g} (arrows), for context lengths alpha = alpha_test. Low rank "
        "makes specialists: good on the family, bad off it, the more so the longer the contexts. "
        f"{turn}Open circles: rho = kappa. Stars: the rank within this range that minimizes {_CRITERION}, "
        f"rho = {best}. Right: the same curves with ODG divided by its value at the largest rho. Theory in "
        f"the limit of high dimension.{left_out(dataset)} Parameters: {fixed_parameters(dataset)}. All "
        "quantities are dimensionless."
    )
