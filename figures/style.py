"""The look of every figure, and writing them so that the same data gives the same bytes."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from replica.parameters import NAMES
from replica.sweep.store import origin

RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "mathtext.fontset": "dejavusans",
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "lines.linewidth": 1.5,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "legend.handlelength": 2.8,
    "lines.markersize": 4,
    "savefig.dpi": 200,
    "figure.dpi": 100,
    # TrueType, so that text in the PDF can be searched and edited.
    "pdf.fonttype": 42,
    "text.usetex": False,
}

# Okabe and Ito's palette: told apart by the colour-blind, and in grey together with the markers.
COLORS = {"TM": "#0072B2", "IDG": "#D55E00", "ODG": "#009E73"}
DASHES: dict[str, Any] = {"TM": (0, (5, 1.5)), "IDG": "solid", "ODG": (0, (5, 1.5, 1, 1.5))}
MARKERS = {"TM": "o", "IDG": "s", "ODG": "^"}

TOTAL: dict[str, Any] = {"color": "black", "marker": "D", "linestyle": (0, (5, 2))}
PARTS: dict[str, dict[str, Any]] = {
    "algorithmic": {"color": "#0072B2", "marker": "o"},
    "memorization": {"color": "#D55E00", "marker": "s"},
    "structural": {"color": "#009E73", "marker": "^"},
}
FAMILY: list[dict[str, Any]] = [
    {"linestyle": dash, "marker": marker}
    for dash, marker in (
        ((0, (1, 1.2)), "o"),
        ((0, (3, 1.2)), "s"),
        ((0, (5, 1.2, 1, 1.2)), "^"),
        ((0, (7, 1.5)), "D"),
        ("solid", "v"),
    )
]
"""Lines that differ in one parameter, in the order of its values; `family` adds their colours."""
BAND: dict[str, Any] = {"color": "0.8", "linewidth": 5, "solid_capstyle": "butt", "zorder": 0}
"""Limits and leading terms, behind the lines that tend to them."""
_EXPERIMENT: dict[str, Any] = {
    "linestyle": "none",
    "markersize": 3.5,
    "elinewidth": 0.9,
    "capsize": 1.8,
    "capthick": 0.9,
}
"""What is added to a colour and a marker for points with error bars."""

TITLES = {
    "TM": "memorized tasks (TM)",
    "IDG": "new tasks of the family (IDG)",
    "ODG": "unstructured tasks (ODG)",
}

SYMBOLS: Mapping[str, str] = {
    "alpha": r"\alpha",
    "alpha_test": r"\alpha_\mathrm{test}",
    "kappa": r"\kappa",
    "rho": r"\rho",
    "gamma": r"\gamma",
    "sigma": r"\sigma",
    "ridge": r"\lambda",
}

MEANINGS: Mapping[str, str] = {
    "alpha": "context length $L/D$",
    "alpha_test": r"context length at inference $\tilde L/D$",
    "kappa": "task diversity $M_0/D$",
    "rho": "task rank $r/D$",
    "gamma": "pre-training prompts $M/D^2$",
    "sigma": "label noise",
    "ridge": "ridge",
}


def axis_label(name: str) -> str:
    """What stands on the axis of one of the seven parameters."""
    return f"{MEANINGS[name]},  ${SYMBOLS[name]}$"


def family(count: int) -> list[dict[str, Any]]:
    """Looks of lines that differ in one parameter, from light to dark and of growing dashes."""
    shades = mpl.colormaps["viridis_r"](np.linspace(0.15, 1.0, count))
    return [
        FAMILY[(i - count) % len(FAMILY)] | {"color": mpl.colors.to_hex(shade)}
        for i, shade in enumerate(shades)
    ]


def draw_line(panel: Axes, x: Any, y: Any, look: Mapping[str, Any]) -> None:
    """A curve in a look that also has a marker for its points."""
    panel.plot(x, y, **{**look, "marker": ""})


def draw_points(panel: Axes, x: Any, mean: Any, stderr: Any, look: Mapping[str, Any]) -> None:
    """Experiments with their error bars."""
    panel.errorbar(x, mean, stderr, **{**look, **_EXPERIMENT})


def legend_below(figure: Figure, looks: Mapping[str, Mapping[str, Any]]) -> None:
    """One line below all panels that says what each look means."""
    handles = [Line2D([], [], **look) for look in looks.values()]
    figure.legend(handles, list(looks), loc="outside lower center", ncols=len(looks))


def drawing_style() -> AbstractContextManager[None]:
    """The style as a context; text takes its look when it is made, so drawing belongs inside."""
    return mpl.rc_context(RC)


def drawing(**size: Any) -> Figure:
    """An empty figure that needs no display."""
    figure = Figure(layout="constrained", **size)
    FigureCanvasAgg(figure)
    return figure


def rendered(figure: Figure, form: str) -> bytes:
    """The figure as a PNG or PDF file, byte for byte the same for the same drawing."""
    metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None, "Producer": None, "Creator": None}}
    target = io.BytesIO()
    figure.savefig(target, format=form, metadata=metadata[form])
    return target.getvalue()


def fixed_parameters(dataset: xr.Dataset, *, without: Sequence[str] = (), only: Sequence[str] = NAMES) -> str:
    """The parameters that do not vary in a dataset, for a caption: "alpha = 8, gamma = 1.5"."""
    fixed = [
        name
        for name in NAMES
        if name in dataset.coords and dataset[name].ndim == 0 and name in only and name not in without
    ]
    if "alpha_test" in fixed and "alpha" in fixed and dataset["alpha_test"] == dataset["alpha"]:
        fixed.remove("alpha_test")
    return ", ".join(f"{name} = {float(dataset[name]):g}" for name in fixed)


def is_generic(dataset: xr.Dataset) -> bool:
    """Whether errors behave at long contexts as captions say: with noise, without a ridge, gamma > 1."""
    return bool(np.all(dataset["sigma"] > 0) & np.all(dataset["ridge"] == 0) & np.all(dataset["gamma"] > 1))


def power_of_ten(value: float) -> str:
    """A number for a formula, large powers of ten as such: 30, 10^{4}."""
    power = np.log10(value)
    return f"10^{{{power:.0f}}}" if power >= 2 and np.isclose(power, round(power), 0, 1e-9) else f"{value:g}"


def seeds_in_words(measured: xr.Dataset) -> str:
    """The seeds that a dataset's attributes name, for a caption: " (seed 1)", " (seeds 1, 2)", or nothing."""
    seeds = [str(seed) for seed in origin(measured).get("seeds", [])]
    return f" (seed{'s' * (len(seeds) > 1)} {', '.join(seeds)})" if seeds else ""


def experiments_in_words(measured: xr.Dataset) -> str:
    """Which experiments stand behind points, for a caption."""
    *others, last = (str(int(dim)) for dim in measured["dim"].values)
    dims = f"{', '.join(others)} and {last}" if others else last
    repeats = int(measured["n"].max())
    return (
        f"experiments at D = {dims}{seeds_in_words(measured)}, means of {repeats} independent pre-trainings "
        "with standard errors, at the ratios that integers make (where no bar is seen it is smaller than the "
        "point)"
    )


def plain_ticks(axis: Axis) -> None:
    """Numbers like 0.5 on a logarithmic axis that spans few decades."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())
