"""`replica equations`: what is solved, for reading, for an article, or as a module."""

from __future__ import annotations

import click


@click.command()
@click.option(
    "--format",
    "form",
    default="text",
    show_default=True,
    metavar="[latex|text|python]",
    help="LaTeX for the body of an article, plain text, or a Python module that runs without replica.",
)
@click.option(
    "--part",
    default="all",
    show_default=True,
    metavar="[action|stationarity|reduction|errors|long-context|all]",
    help="Which equations.",
)
def command(form: str, part: str) -> None:
    """Print the equations that are solved, from the very objects that are solved.

    < > averages over the eigenvalues of the pre-training tasks' second moment, < >_P over those on the range
    of the task family. With --format python, the parts errors and all hold the function `solve`.
    """
    from replica.theory.printing import printed

    click.echo(printed(form, part))
