"""Lipschitz constants of both gradients: bounds and measured values over the radius and over n."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from replica.figures.softmax_style import BOUNDS, MEASURED, TITLES
from replica.figures.style import drawing
from replica.softmax import Loss, lipschitz_panel, random_instance

SHOWN = {
    "normalized": ("everywhere", "box", "point", "measured"),
    "rescaled": ("ball", "box", "point", "measured"),
}
QUANTITIES = ("everywhere", "ball", "box", "r_form", "point", "measured")


def data(*, quick: bool = False) -> xr.Dataset:
    """Logarithms to base 10 of bounds and of the largest measured value, over radii and over n.

    Parameters
    ----------
    quick: three points an axis and a small instance.
    """
    n, d, points = (12, 2, 2) if quick else (64, 4, 6)
    radii = np.geomspace(0.25, 16, 3 if quick else 13)
    sizes = np.array([4, 8, 16]) if quick else np.array([4, 8, 16, 32, 64, 128, 256, 512])
    fixed, instances = 0.5, 1 if quick else 5
    over_radius = [[_constants(n, d, radius, kind, points, instances) for radius in radii] for kind in Loss]
    over_n = [[_constants(int(size), d, fixed, kind, points, instances) for size in sizes] for kind in Loss]
    return xr.Dataset(
        {
            "over_radius": (("loss", "radius", "quantity"), over_radius),
            "over_n": (("loss", "n", "quantity"), over_n),
        },
        coords={"loss": list(Loss), "radius": radii, "n": sizes, "quantity": list(QUANTITIES)},
        attrs={"n": n, "d": d, "radius": fixed, "points": points, "instances": instances},
    )


def _constants(n: int, d: int, radius: float, kind: Loss, points: int, instances: int) -> np.ndarray:
    """Means over instances of the logarithms."""
    logs = []
    for seed in range(instances):
        instance = random_instance(n, d, seed=seed, radius=radius)
        panel = lipschitz_panel(instance.problem, instance.X, kind, points=points, seed=seed)
        ratio = -np.inf if panel.gradient_ratio is None else panel.gradient_ratio
        r_form = np.nan if panel.r_form is None else panel.r_form
        measured = max(panel.lanczos_ball, ratio)
        logs.append([panel.everywhere, panel.ball, panel.box, r_form, panel.point, measured])
    return np.mean(logs, axis=0) / np.log(10)


def draw(dataset: xr.Dataset) -> Figure:
    """Losses in columns; constants over the radius above, over n below."""
    figure = drawing(figsize=(8.2, 5.8))
    panels = figure.subplots(2, 2, sharex="row")
    for column, (kind, names) in enumerate(SHOWN.items()):
        for row, (axis, label) in enumerate((("radius", r"radius of the ball, $|X|_F$"), ("n", "keys, $n$"))):
            panel = panels[row, column]
            values = dataset[f"over_{axis}"].sel(loss=kind)
            for name in names:
                look = MEASURED | {"label": "measured on the ball"} if name == "measured" else BOUNDS[name]
                panel.plot(dataset[axis], values.sel(quantity=name), **look)
            panel.set_xscale("log", base=2)
            panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            panel.set_xlabel(label)
            seen = values.sel(quantity=list(names)).values
            # Above the upper row stands its legend.
            room = 0.1 if row else 0.55
            panel.set_ylim(seen.min() - 0.05 * np.ptp(seen), seen.max() + room * np.ptp(seen))
        panels[0, column].set_title(TITLES[kind])
        panels[0, column].legend(loc="upper left")
    for panel in panels[:, 0]:
        panel.set_ylabel(r"$\log_{10}$ of the Lipschitz constant")
    return figure


def caption(dataset: xr.Dataset) -> str:
    """What is seen, and with which parameters."""
    at = dataset.attrs
    last = dataset["over_radius"].isel(radius=-1)
    worst = {
        "normalized": last.sel(loss="normalized", quantity="everywhere"),
        "rescaled": last.sel(loss="rescaled", quantity="box"),
    }
    slack = {kind: float(bound - last.sel(loss=kind, quantity="measured")) for kind, bound in worst.items()}
    r_form = float(dataset["over_radius"].sel(loss="rescaled", quantity="r_form").min())
    return (
        "Lipschitz constants of the gradient in X on the ball |X|_F <= radius: lines are upper bounds, "
        "points the largest value measured on the ball (Lanczos on Hessian-vector products, and ratios of "
        "gradients). Left: for the normalized loss one constant holds for every X, so an exponential in the "
        "radius is slack. Right: for the rescaled loss the measured constant grows as exp(2 Lam), Lam = max "
        "|a1| max |a2| times the radius being the largest logit; the exponential is real. The R-form 8 n R^2 "
        "exp(2 R^2), whose R is the larger of the radius and |K| = |A1| |A2|, is outside the picture: "
        f"from 10^{r_form:.0f} on. The "
        "bound on the Hessian at X is no constant of the ball and may lie below what is measured there. At "
        "the "
        f"largest radius the measured value stays 10^{slack['normalized']:.1f} below the constant for every "
        "X "
        f"(normalized) and 10^{slack['rescaled']:.1f} below the box (rescaled). Geometric means over "
        f"{at['instances']} random instances (seeds from 0) with labels uniform on the simplex, "
        f"d = {at['d']}; above n = {at['n']}, below |X|_F = {at['radius']:g}. All quantities are "
        "dimensionless."
    )
