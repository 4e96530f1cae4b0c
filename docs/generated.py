"""What is made when the site is built: the gallery, the help of every command, the form of docstrings."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner
from sphinx.application import Sphinx

from replica.cli.main import main
from replica.figures import FIGURES

FOLDER = "../build/figures"
"""Where `make docs` draws the figures, seen from this folder."""


def gallery() -> Iterator[str]:
    """Every figure with its command and its caption."""
    for name, shows in FIGURES.items():
        caption = (Path(__file__).parent / FOLDER / f"{name}.txt").read_text()
        yield f"## {name}\n\n```console\n$ replica figure {name}\n```\n"
        yield f"![{shows}]({FOLDER}/{name}.png)\n\n{caption}"


def commands(command: click.Command = main, names: tuple[str, ...] = ("replica",)) -> Iterator[str]:
    """The help of a command and of those below it, as it is printed."""
    told = CliRunner().invoke(main, [*names[1:], "--help"], terminal_width=80).stdout
    yield f"{'#' * (len(names) + 1)} {' '.join(names)}\n\n```text\n{told}```\n"
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                assert below is not None
                yield from commands(below, (*names, name))


GENERATED = {"gallery": gallery, "commands": commands}
"""page -> what is added at its end."""


def add_generated(app: Sphinx, page: str, source: list[str]) -> None:
    """Fill a page as it is read."""
    if page in GENERATED:
        source[0] += "\n" + "\n".join(GENERATED[page]())


def set_apart(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Turn the sections of a docstring into headings, and their `name: text` into lists of definitions.

    Bars are those of norms and absolute values, which Sphinx would take for names of substitutions.
    """
    section, made = "", []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        found = re.match(r"(\w[\w, ]*): (.*)", line)
        if re.fullmatch("-{3,}", below):
            section = line
            made += [f".. rubric:: {section}", ""]
        elif found and section in ("Parameters", "Attributes", "Raises"):
            made += [f"``{found[1]}``", f"    {found[2]}"]
        elif not re.fullmatch("-{3,}", line):
            made.append(line)
        if section != "Examples":
            made[-1] = "`".join(
                part if inside % 2 else part.replace("|", r"\|")
                for inside, part in enumerate(made[-1].split("`"))
            )
    lines[:] = made


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to the reading of pages and docstrings."""
    app.connect("source-read", add_generated)
    app.connect("autodoc-process-docstring", set_apart)
    return {"parallel_read_safe": True}
