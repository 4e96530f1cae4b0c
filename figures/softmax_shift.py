"""The label shift over step sizes, for steps of the weights and of the data, beside its bounds."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from replica.figures.softmax_style import BOUNDS, MEASURED, TITLES
from replica.figures.style import drawing
from replica.softmax import Loss, label_shift, random_instance
from replica.softmax.problem import on_sphere

STEPS = {"weights": r"step of the weights, $|\Delta X|_F$", "data": r"step of the data, $|\Delta A|_F$"}
SHOWN = {
    "normalized": ("weights", "half", "interval", "saturation"),
    "rescaled": ("step_simple", "step", "interval"),
}


def data(*, quick: bool = False) -> xr.Dataset:
    """Shifts, bounds and what became of the labels, over steps of size 1e-6 to 10.

    Parameters
    ----------
    quick: four sizes and a small instance.
    """
    n, d, radius = (6, 2, 2.0) if quick else (32, 4, 2.0)
    sizes = np.geomspace(1e-6, 10, 4 if quick else 29)
    instance = random_instance(n, d, seed=0, radius=radius)
    problem, X = instance.problem, instance.X
    generator = np.random.default_rng(0)
    V, V1, V2 = (on_sphere(generator, shape, 1.0) for shape in (X.shape, problem.A1.shape, problem.A2.shape))
    names = sorted({name for group in SHOWN.values() for name in group})
    moved = {
        "weights": lambda size: {"X_next": X + size * V},
        # A1 and A2 share the size between them.
        "data": lambda size: {
            "A1_next": problem.A1 + size / np.sqrt(2) * V1,
            "A2_next": problem.A2 + size / np.sqrt(2) * V2,
        },
    }
    shape = (len(Loss), len(STEPS), len(sizes))
    arrays = {name: np.empty(shape) for name in ("log_shift", "residual_identity", "log_R_form")}
    inside, bounds = np.empty(shape, bool), np.full((*shape, len(names)), np.nan)
    for i, kind in enumerate(Loss):
        for j, step in enumerate(STEPS):
            for k, size in enumerate(sizes):
                shift = label_shift(problem, X, kind=kind, **moved[step](float(size)))
                arrays["log_shift"][i, j, k] = shift.log_norm
                arrays["residual_identity"][i, j, k] = shift.residual_identity
                arrays["log_R_form"][i, j, k] = shift.log_bounds.get("R_form", np.nan)
                inside[i, j, k] = shift.in_simplex
                bounds[i, j, k] = [shift.log_bounds.get(name, np.nan) for name in names]
    dims = ("loss", "step", "size")
    return xr.Dataset(
        {name: (dims, array) for name, array in arrays.items()}
        | {"in_simplex": (dims, inside), "log_bounds": ((*dims, "bound"), bounds)},
        coords={"loss": list(Loss), "step": list(STEPS), "size": sizes, "bound": names},
        attrs={"n": n, "d": d, "radius": radius, "seed": 0},
    )


def draw(dataset: xr.Dataset) -> Figure:
    """Steps in columns, losses in rows; hollow points where the labels left the simplex."""
    figure = drawing(figsize=(8.2, 5.8))
    panels = figure.subplots(2, 2, sharex="col", sharey="row")
    sizes = dataset["size"].values
    for row, (kind, names) in enumerate(SHOWN.items()):
        for column, (step, label) in enumerate(STEPS.items()):
            panel, here = panels[row, column], dataset.sel(loss=kind, step=step)
            for name in names:
                bound = here["log_bounds"].sel(bound=name).values / np.log(10)
                if np.isfinite(bound).any():
                    panel.plot(sizes, bound, **BOUNDS[name])
            shift, inside = here["log_shift"].values / np.log(10), here["in_simplex"].values
            panel.plot(sizes[inside], shift[inside], **MEASURED, label=r"$|\tilde B - B|_F$")
            panel.plot(
                sizes[~inside],
                shift[~inside],
                **MEASURED,
                markerfacecolor="white",
                label=r"the same, $\tilde B$ off the simplex",
            )
            panel.set_xscale("log")
            if row == 1:
                panel.set_xlabel(label)
        # Bounds that leave the picture are exponential in the step.
        seen = dataset["log_shift"].sel(loss=kind).values / np.log(10)
        panels[row, 0].set_ylim(seen.min() - 0.5, max(seen.max(), 1.0) + 1)
        panels[row, 0].set_ylabel(r"$\log_{10}|\tilde B - B|_F$")
        panels[row, 0].set_title(TITLES[kind], loc="left")
        # The lines are named at the left, the points at the right: both legends have room below them.
        handles, labels = panels[row, 0].get_legend_handles_labels()
        panels[row, 0].legend(handles[: len(names)], labels[: len(names)], loc="lower right")
        panels[row, 1].legend(handles[len(names) :], labels[len(names) :], loc="lower right")
    return figure


def caption(dataset: xr.Dataset) -> str:
    """What is seen, and with which parameters."""
    at = dataset.attrs
    identity = float(dataset["residual_identity"].max())
    smallest = float(dataset["log_R_form"].min()) / np.log(10)
    return (
        "A step of the weights (left) or of the data (right) as a shift of the labels: under B~ the old "
        "weights "
        "have the residuals that the new ones have under B. Points: the size of the shift, hollow where a "
        "row of "
        "B~ has left the simplex; lines: bounds on it, cut off where they grow exponentially. The shift is "
        "linear in "
        "the step until, for the normalized loss, it saturates below sqrt(2 m), and for the rescaled loss "
        "it grows "
        f"exponentially. The residuals agree to {identity:.0e} of the largest of them or of 1. The R-form "
        f"M |Delta X| of the rescaled loss, from 10^{smallest:.0f} on, is outside the picture. Gradients do "
        "not "
        "agree, and nothing is said of a trained model. "
        f"Random instance, n = m = {at['n']}, d = {at['d']}, |X|_F = {at['radius']:g}, seed {at['seed']}, "
        "one "
        "random direction for each kind of step. All quantities are dimensionless."
    )
