"""What the attention regression figures share: how losses, bounds and measurements look."""

from __future__ import annotations

from typing import Any

# Okabe and Ito's palette, with a dash or a marker of its own for each, so that grey prints can be read.
LOSSES = {"normalized": "#0072B2", "rescaled": "#D55E00"}
TITLES = {"normalized": r"normalized loss $L_N$", "rescaled": r"rescaled loss $L_R$"}
MEASURED: dict[str, Any] = {"color": "black", "marker": "o", "markersize": 4, "linestyle": "none"}
BOUNDS: dict[str, dict[str, Any]] = {
    "everywhere": {"color": "#0072B2", "label": "every $X$"},
    "ball": {"color": "#0072B2", "label": "ball"},
    "box": {"color": "#009E73", "linestyle": (0, (5, 1.5)), "label": "box of the ball"},
    "point": {"color": "#D55E00", "linestyle": (0, (5, 1.5, 1, 1.5)), "label": "Hessian at $X$ only"},
    "interval": {"color": "#009E73", "linestyle": (0, (5, 1.5)), "label": "interval bound"},
    "half": {"color": "#0072B2", "label": r"$\frac{1}{2}\,|\Delta S|_F$"},
    "weights": {"color": "#CC79A7", "linestyle": (0, (1, 1)), "label": r"$\frac{1}{2}\,|K|\,|\Delta X|_F$"},
    "saturation": {"color": "0.5", "linestyle": (0, (3, 2)), "label": r"$\sqrt{2m}$"},
    "step": {"color": "#0072B2", "label": "step bound"},
    "step_simple": {"color": "#CC79A7", "linestyle": (0, (1, 1)), "label": "simple step bound"},
}
