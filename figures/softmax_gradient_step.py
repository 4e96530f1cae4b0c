"""Gradient steps as label shifts: linear part and remainder of one step, and several steps in a row."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from replica.figures.softmax_style import BOUNDS, MEASURED
from replica.figures.style import drawing
from replica.softmax import gradient_step, label_shift, random_instance, repeated_steps


def data(*, quick: bool = False) -> xr.Dataset:
    """Parts of the shift of one gradient step over its size, and the labels of a sequence of steps.

    Parameters
    ----------
    quick: few sizes and steps, and a small instance.
    """
    n, d, radius = (6, 2, 2.0) if quick else (32, 4, 2.0)
    sizes = np.geomspace(1e-6, 10, 4 if quick else 29)
    size, steps = 0.5, 3 if quick else 40
    instance = random_instance(n, d, seed=0, radius=radius, planted=True)
    problem, X = instance.problem, instance.X
    shifts = [label_shift(problem, X, gradient_step(problem, X, float(s))) for s in sizes]
    sequence = repeated_steps(problem, X, size, steps)
    away = [np.sqrt(2 * np.exp(shift.log_loss_next)) for shift in sequence.shifts]
    small = slice(0, max(2, len(sizes) // 3))
    slopes = {
        name: np.polyfit(np.log(sizes[small]), np.log([getattr(s, name) for s in shifts[small]]), 1)[0]
        for name in ("linear_norm", "remainder")
    }
    return xr.Dataset(
        {
            "shift": ("size", [s.norm for s in shifts]),
            "linear": ("size", [s.linear_norm for s in shifts]),
            "remainder": ("size", [s.remainder for s in shifts]),
            "remainder_bound": ("size", [s.remainder_bound for s in shifts]),
            "distance": ("step", [s.norm for s in sequence.shifts]),
            "increment": ("step", sequence.increments),
            "residual": ("step", away),
            "mismatch": ("step", [s.gradient_mismatch for s in sequence.shifts]),
            "in_simplex": ("step", [s.in_simplex for s in sequence.shifts]),
        },
        coords={"size": sizes, "step": np.arange(1, steps + 1)},
        attrs={
            "n": n,
            "d": d,
            "radius": radius,
            "seed": 0,
            "step_size": size,
            "slope_linear": slopes["linear_norm"],
            "slope_remainder": slopes["remainder"],
        },
    )


def draw(dataset: xr.Dataset) -> Figure:
    """One step over its size at the left, the sequence at the right."""
    figure = drawing(figsize=(8.2, 4.0))
    left, right = figure.subplots(1, 2)
    sizes = dataset["size"]
    left.loglog(sizes, dataset["linear"], color="#0072B2", label=r"linear part $s\,|\Theta(F-B)|$")
    left.loglog(sizes, dataset["remainder_bound"], **BOUNDS["box"] | {"label": "bound on the remainder"})
    left.loglog(
        sizes, dataset["remainder"], color="#D55E00", linestyle=(0, (5, 1.5, 1, 1.5)), label="remainder"
    )
    left.loglog(sizes, dataset["shift"], **MEASURED, label=r"$|\tilde B - B|_F$")
    left.set_xlabel("size of the gradient step, $s$")
    left.set_ylabel("Frobenius norm")
    left.legend(loc="lower right")
    steps, inside = dataset["step"].values, dataset["in_simplex"].values
    right.semilogy(
        steps, dataset["residual"], color="#0072B2", label=r"residual $|F_0 - \tilde B_k|=|F_k - B|$"
    )
    right.semilogy(
        steps,
        dataset["increment"],
        color="#009E73",
        linestyle=(0, (5, 1.5)),
        label=r"increment $|\tilde B_k - \tilde B_{k-1}|$",
    )
    right.semilogy(
        steps,
        dataset["mismatch"],
        color="#D55E00",
        linestyle=(0, (5, 1.5, 1, 1.5)),
        label="mismatch of the gradients",
    )
    right.semilogy(steps[inside], dataset["distance"][inside], **MEASURED, label=r"$|\tilde B_k - B|$")
    if not inside.all():
        right.semilogy(
            steps[~inside],
            dataset["distance"][~inside],
            **MEASURED,
            markerfacecolor="white",
            label=r"the same, $\tilde B_k$ off the simplex",
        )
    right.set_xlabel("gradient steps, $k$")
    # Room below the curves for the legend.
    low, high = right.get_ylim()
    right.set_ylim(low * (low / high) ** 0.7, high)
    right.legend(loc="lower right")
    return figure


def caption(dataset: xr.Dataset) -> str:
    """What is seen, and with which parameters."""
    at = dataset.attrs
    off = dataset["step"].values[~dataset["in_simplex"].values]
    simplex = f"they leave the simplex at step {off[0]}" if off.size else "they stay on the simplex"
    return (
        "Gradient steps of the normalized loss as shifts of the labels. Left: one step of size s; the shift "
        "is its "
        f"linear part (fitted slope {at['slope_linear']:.3f} at small s) and a remainder of second order "
        "(slope "
        f"{at['slope_remainder']:.3f}), below its bound 1/2 sqrt(sum |delta_j|^4). Right: "
        f"{dataset.sizes['step']} steps of size {at['step_size']:g} as a sequence of labels B~_k under "
        "which the "
        f"weights at the start have the residuals of step k; {simplex}. The gradients at the start under "
        "B~_k "
        "and at step k under B differ: the sequence repeats residuals and losses, not the descent. "
        f"Random instance with planted labels, n = m = {at['n']}, d = {at['d']}, |X|_F = {at['radius']:g}, "
        "seed "
        f"{at['seed']}. All quantities are dimensionless."
    )
