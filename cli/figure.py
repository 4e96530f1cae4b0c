"""`replica figure`: a figure with its caption and the numbers behind it."""

from __future__ import annotations

from pathlib import Path

import click

from replica.cli.progress import Display
from replica.figures import FIGURES


@click.command(epilog="\b\nFigures:\n" + "\n".join(f"  {name:24}{shows}" for name, shows in FIGURES.items()))
@click.argument("name")
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="CONFIG",
    help="Sweep this config (name or path) in place of the figure's own; repeat where it has several.",
)
@click.option(
    "--store",
    "stores",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE.nc",
    help="Draw this stored result and sweep nothing; repeat where the figure takes several.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path(),
    metavar="DIR",
    help="The folder to write to, made if it is missing.  [default: this one]",
)
@click.option("--format", "forms", default="png,pdf", show_default=True, help="Of png and pdf, by commas.")
@click.option("--quick", is_flag=True, help="Coarse grids and few, small experiments: a first look.")
@click.option("--overwrite", is_flag=True, help="Replace files that exist.")
@click.option("--quiet", is_flag=True, help="Say nothing but errors.")
def command(
    name: str,
    configs: tuple[str, ...],
    stores: tuple[Path, ...],
    output: Path,
    forms: str,
    quick: bool,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Draw the figure NAME, write its caption beside it, and keep the numbers it was drawn from.

    The name `all` stands for all figures.
    """
    from replica.figures.produce import produce

    with Display(quiet) as display:
        made = produce(
            list(FIGURES) if name == "all" else [name],
            output,
            configs=configs,
            stores=stores,
            forms=forms.split(","),
            quick=quick,
            overwrite=overwrite,
            say=display.say,
            progress=display.progress,
        )
    for path in made:
        click.echo(path)
