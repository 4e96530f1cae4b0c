"""The gallery page, written at build time from the registry of figures and the files they left."""

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from replica.figures import FIGURES

FOLDER = "../build/figures"
"""Where `make docs` draws them, seen from this folder."""


def _entry(name: str, shows: str) -> str:
    caption = (Path(__file__).parent / FOLDER / f"{name}.txt").read_text().strip()
    return (
        f"## {name}\n\n{shows}.\n\n```console\n$ replica figure {name}\n```\n\n"
        f"![{shows}]({FOLDER}/{name}.png)\n\n{caption}\n"
    )


def _fill(app: Sphinx, page: str, source: list[str]) -> None:
    if page == "gallery":
        source[0] += "\n".join(_entry(name, shows) for name, shows in FIGURES.items())


def setup(app: Sphinx) -> dict[str, Any]:
    """Fill the page as it is read."""
    app.connect("source-read", _fill)
    return {"parallel_read_safe": True}
