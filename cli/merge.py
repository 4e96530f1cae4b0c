"""`replica merge`: two stored results as one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from replica.cli.progress import verdict


@click.command()
@click.argument("first", type=click.Path(path_type=Path), metavar="A.nc")
@click.argument("second", type=click.Path(path_type=Path), metavar="B.nc")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="C.nc",
    help="The NetCDF-4 file to write.",
)
@click.option(
    "--prefer",
    type=click.Choice(["first", "second"]),
    help="Which result counts where their answers differ; without it, that is an error.",
)
@click.option("--overwrite", is_flag=True, help="Replace the output if it exists.")
def command(first: Path, second: Path, output: Path, **options: Any) -> int:
    """Put the grids of A.nc and B.nc together, if they have the same equations and fixed parameters."""
    from replica.sweep import merge

    return verdict(merge(first, second, output, **options), output)
