"""Formulas as drawings inside the page: no script, font or network is needed to read them.

Matplotlib's mathtext, which the project has anyway, sets the LaTeX; its outlines become SVG in the colour and
size of the text around. What mathtext does not know is a warning, hence an error of `make docs`. MathML makes
smaller pages, but where the machine that reads has no font for mathematics it loses hats and brackets.
"""

import re
from functools import cache
from html import escape
from typing import Any

from docutils.nodes import SkipNode, math, math_block
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import TextPath, text_to_path
from sphinx.application import Sphinx
from sphinx.util import logging

EM = 1000
"""Units of a drawing in the size of the font."""
LETTERS = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C", Path.CLOSEPOLY: "Z"}


@cache
def drawing(tex: str) -> str:
    """A line of LaTeX as an SVG element that stands on the line of the text.

    Raises
    ------
    ValueError: nothing that mathtext can set.
    """
    font = FontProperties(size=EM, math_fontfamily="stix")
    width, height, depth = text_to_path.get_text_width_height_descent(f"${tex}$", font, ismath=True)
    outline = ""
    for points, step in TextPath((0, 0), f"${tex}$", prop=font).iter_segments(simplify=False):
        outline += LETTERS[step]
        if step != Path.CLOSEPOLY:
            # SVG counts downwards.
            outline += " ".join(f"{x:.0f} {-y:.0f}" for x, y in zip(points[::2], points[1::2], strict=True))
    return (
        f'<svg role="img" aria-label="{escape(tex)}" style="height: {height / EM:.3f}em; '
        f'vertical-align: {-depth / EM:.3f}em" viewBox="0 {depth - height:.0f} {width:.0f} {height:.0f}">'
        f'<path d="{outline}"/></svg>'
    )


def rows(tex: str) -> list[str]:
    """The lines of a displayed formula, with its fractions in full size."""
    inside = re.sub(r"\\(begin|end)\{aligned\}", "", tex).replace(r"\frac", r"\dfrac")
    return [row.strip(" &") for row in inside.split(r"\\")]


def visit(translator: Any, node: math | math_block) -> None:
    """Write a formula into the page."""
    tex = " ".join(node.astext().split())
    try:
        if isinstance(node, math):
            translator.body.append(drawing(tex))
        else:
            lines = "".join(f"<div>{drawing(row)}</div>" for row in rows(tex))
            translator.body.append(f'<div class="formula"><div>{lines}</div></div>')
    except ValueError as error:
        logging.getLogger(__name__).warning("%s\n%s", tex, error, location=node)
    raise SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Offer the renderer under the name `drawn`."""
    app.add_html_math_renderer("drawn", (visit, None), (visit, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
