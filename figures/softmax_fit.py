"""Fits from several starts: the descent of both losses, and what a small rescaled loss is worth."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from replica.figures.softmax_style import LOSSES, TITLES
from replica.figures.style import drawing
from replica.softmax import FitStatus, Iterate, Loss, fit, random_instance

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def data(*, quick: bool = False) -> xr.Dataset:
    """The objective over iterations and both losses at the end, for every start of both fits.

    Parameters
    ----------
    quick: two starts on a small instance.
    """
    n, d, radius, starts = (8, 2, 4.0, 2) if quick else (60, 3, 8.0, 8)
    instance = random_instance(n, d, seed=1, radius=radius, planted=True)
    planted = instance.planted
    near = None if planted is None else planted + 0.05 * instance.X
    traces: dict[tuple[str, int], list[float]] = {}
    ends, minima, statuses, found = [], [], [], []
    for kind in Loss:

        def keep(iterate: Iterate, kind: Loss = kind) -> None:
            traces.setdefault((kind, iterate.start), []).append(iterate.log_objective)

        result = fit(instance.problem, near, kind, starts=starts, start_radius=radius, seed=0, progress=keep)
        ends.append([[run.log_loss_normalized, run.log_loss_rescaled] for run in result.runs])
        minima.append([-1 if run.minimum is None else run.minimum for run in result.runs])
        statuses.append([run.status is FitStatus.OK for run in result.runs])
        found.append(result.n_minima)
    longest = max(map(len, traces.values()))
    objective = np.full((len(Loss), starts, longest), np.nan)
    for (descended, start), trace in traces.items():
        objective[list(Loss).index(Loss(descended)), start, : len(trace)] = trace
    return xr.Dataset(
        {
            "log_objective": (("loss", "start", "iteration"), objective),
            "log_loss": (("loss", "start", "of"), ends),
            "minimum": (("loss", "start"), minima),
            "converged": (("loss", "start"), statuses),
            "n_minima": ("loss", found),
        },
        coords={"loss": list(Loss), "of": list(Loss), "iteration": np.arange(1, longest + 1)},
        attrs={"n": n, "d": d, "radius": radius, "seed": 1},
    )


def draw(dataset: xr.Dataset) -> Figure:
    """The descents of both losses, and where they ended in the plane of both."""
    figure = drawing(figsize=(10.2, 3.4))
    *descents, plane = figure.subplots(1, 3)
    decades = dataset / np.log(10)
    for panel, kind in zip(descents, Loss, strict=True):
        for start in range(dataset.sizes["start"]):
            trace = decades["log_objective"].sel(loss=kind).isel(start=start)
            panel.plot(dataset["iteration"], trace, color=LOSSES[kind], linewidth=0.9, alpha=0.8)
        panel.set_title(TITLES[kind])
        panel.set_xlabel("iteration")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        here = dataset.sel(loss=kind)
        for number in sorted(set(here["minimum"].values.tolist())):
            among = (here["minimum"] == number).values
            ends = decades["log_loss"].sel(loss=kind).values[among]
            plane.plot(
                ends[:, 1],
                ends[:, 0],
                color=LOSSES[kind],
                marker=MARKERS[number] if number >= 0 else "x",
                markerfacecolor="none",
                linestyle="none",
                label=f"{_subject(kind)}, {_minimum(number)} ({among.sum()})",
            )
    descents[0].set_ylabel(r"$\log_{10}$ of the loss")
    plane.set_title("both losses at the end")
    plane.set_xlabel(r"$\log_{10} L_R$")
    plane.set_ylabel(r"$\log_{10} L_N$")
    plane.legend(loc="lower right")
    return figure


def _subject(kind: str) -> str:
    return "$L_N$ fitted" if kind == Loss.NORMALIZED else "$L_R$ fitted"


def _minimum(number: int) -> str:
    return f"minimum {number + 1}" if number >= 0 else "not converged"


def caption(dataset: xr.Dataset) -> str:
    """What is seen, and with which parameters."""
    at = dataset.attrs
    starts = dataset.sizes["start"]
    said = "; ".join(
        f"of the {kind} loss {int(here['converged'].sum())} of {starts} starts converged, to "
        f"{int(here['n_minima'])} distinct minima"
        for kind, here in ((kind, dataset.sel(loss=kind)) for kind in ("normalized", "rescaled"))
    )
    return (
        "Trust-region Newton-Krylov fits to labels planted at weights X*, so that both losses can vanish, "
        "from one "
        "start near X* and from random ones. Left and middle: the descent of the loss that is minimized. "
        "Right: both losses at the end, "
        "with the number of starts in brackets: the rescaled loss is also lowered by alpha -> 0, which fits "
        "nothing, so "
        f"L_N stands beside it. Neither loss is convex: {said}. n = m = {at['n']}, d = {at['d']}, |X*|_F "
        "and |X|_F "
        f"of the starts {at['radius']:g}, seed {at['seed']}. All quantities are dimensionless."
    )
