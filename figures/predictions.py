"""The law of predictions: what is predicted at a given label, and the parts that predictions are made of."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from replica.figures.stores import needed
from replica.figures.style import DASHES, PARTS, TITLES, drawing, family, fixed_parameters, seeds_in_words
from replica.parameters import NAMES, PROTOCOLS, Parameters
from replica.sweep.measured import Predictions
from replica.theory import PredictionLaw, prediction_law, solve

STORES = {"predictions": ("predictions", Predictions)}
LABELS = (-1.5, 0.0, 1.5)
"""The labels at which predictions are shown."""
HALF_WIDTH = 0.15
"""Half the width of the window around each of them."""
_BINS, _POINTS, _NODES = 48, 400, 15


def data(store: xr.Dataset) -> xr.Dataset:
    """Histograms and densities of predictions around three labels and of the parts of all predictions.

    Raises
    ------
    InputError: the store lacks the sample, or spans a grid.
    """
    sample = needed("the law of predictions", store, ["label", "part_prediction"], []).isel(dim=-1)
    solution = solve(Parameters(**{name: float(sample[name]) for name in NAMES}))
    per_protocol = []
    for protocol in PROTOCOLS:
        law = prediction_law(solution, protocol)
        here = sample.sel(protocol=protocol)
        label = here["label"].values.ravel()
        parts = {part: here["part_prediction"].sel(part=part).values.ravel() for part in PARTS}
        reach = 4.0 * float(np.sqrt(law.variance))
        edges, places = np.linspace(-reach, reach, _BINS + 1), np.linspace(-reach, reach, _POINTS)
        prediction = np.sum(list(parts.values()), axis=0)
        given = [_around(law, centre, label, prediction, edges, places) for centre in LABELS]
        heights = [_heights(values, edges) for values in parts.values()]
        densities = [law.part(part).pdf(places) for part in PARTS]
        per_protocol.append(
            xr.Dataset(
                {
                    "edges": ("edge", edges),
                    "places": ("place", places),
                    "given_height": (("label", "bin"), [height for height, _ in given]),
                    "given_density": (("label", "place"), [density for _, density in given]),
                    "part_height": (("part", "bin"), heights),
                    "part_density": (("part", "place"), densities),
                }
            )
        )
    made = xr.concat(
        per_protocol, xr.DataArray([str(p) for p in PROTOCOLS], dims="protocol", name="protocol")
    )
    made = made.assign_coords({"label": list(LABELS), "part": list(PARTS)} | {n: sample[n] for n in NAMES})
    return made.assign_attrs(
        sample.attrs, dim=int(sample["dim"]), repeats=sample.sizes["repeat"], prompts=sample.sizes["prompt"]
    )


def _around(
    law: PredictionLaw,
    centre: float,
    label: np.ndarray,
    prediction: np.ndarray,
    edges: np.ndarray,
    places: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Histogram and density of predictions whose label lies in the window around a centre."""
    heights = _heights(prediction[np.abs(label - centre) <= HALF_WIDTH], edges)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    labels = centre + HALF_WIDTH * nodes
    weights = weights * law.label().pdf(labels)
    densities = law.given(labels[:, None]).pdf(places)
    return heights, weights @ densities / weights.sum()


def _heights(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Histogram as a density of all values, those beyond the edges included."""
    return np.histogram(values, edges)[0] / (max(len(values), 1) * np.diff(edges))


def draw(dataset: xr.Dataset) -> Figure:
    """Above, predictions at three labels; below, the parts of predictions; a panel per protocol."""
    figure = drawing(figsize=(9.6, 5.8))
    panels = figure.subplots(2, 3, sharex="col", sharey="row")
    labels = dict(zip(dataset["label"].values, family(dataset.sizes["label"]), strict=True))
    looks = {
        "given": {label: look | {"marker": ""} for label, look in labels.items()},
        "part": {
            part: {"color": look["color"], "linestyle": dash}
            for (part, look), dash in zip(PARTS.items(), DASHES.values(), strict=True)
        },
    }
    for column, protocol in zip(panels.T, PROTOCOLS, strict=True):
        here = dataset.sel(protocol=protocol)
        for panel, (what, kinds) in zip(column, looks.items(), strict=True):
            for kind, look in kinds.items():
                at = here.sel({"label" if what == "given" else what: kind})
                panel.stairs(at[f"{what}_height"], here["edges"], fill=True, color=look["color"], alpha=0.25)
                panel.plot(here["places"], at[f"{what}_density"], **look)
        column[0].set_title(TITLES[protocol])
        column[1].set_xlabel(r"prediction $\hat y$, or part of it (dimensionless)")
    panels[0, 0].set_ylabel("density at given label")
    panels[1, 0].set_ylabel("density of parts")
    panels[1, 0].set_yscale("log")
    # Room for the legends.
    panels[0, 0].set_ylim(0, 1.35 * float(dataset["given_density"].max()))
    panels[1, 0].set_ylim(1e-3, 10.0 * float(dataset["part_density"].max()))
    for panel, (what, kinds) in zip(panels[:, 0], looks.items(), strict=True):
        for kind, look in kinds.items():
            panel.plot([], [], **look, label=f"$y = {kind:g}$" if what == "given" else kind)
        panel.legend(loc="upper left")
    return figure


def caption(dataset: xr.Dataset) -> str:
    """What is seen, and with which parameters."""
    at = dataset.attrs
    return (
        "Predictions of a linear-attention model for fresh prompts. Above: the law of the prediction yhat "
        f"at a given noisy label y (within {HALF_WIDTH:g} of the value in the legend). Its mean follows the "
        "label by less than one to one, and its width is the error that no rescaling of predictions "
        "removes. Below: the parts of the prediction, at any label: the algorithmic signal (estimate the "
        "task, project it onto the family, scale it), memorization and structure noise. Left: tasks of the "
        "pre-training (TM); middle: new tasks of the low-rank family (IDG); right: tasks without the "
        "structure (ODG). Lines: theory in the limit of high dimension, where labels, predictions and "
        f"parts are Gaussian. Shaded: histograms from experiments at D = {at['dim']}"
        f"{seeds_in_words(dataset)}, {at['repeats']} independent pre-trainings with {at['prompts']} fresh "
        f"prompts each. Parameters: {fixed_parameters(dataset)}. All quantities are dimensionless."
    )
