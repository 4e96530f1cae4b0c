"""`replica figure`: a figure with its caption and the numbers behind it."""

from __future__ import annotations

from pathlib import Path

import click

from replica.cli.progress import Display
from replica.figures import FIGURES


@click.command(epilog="\b\nFigures:\n" + "\n".join(f"  {name:24}{shows}" for name, shows in FIGURES.items()))
@click.argument("name")
@click.option(
    "--config", metavar="CONFIG", help="Sweep this config (name or path) instead of the figure's own."
)
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    metavar="FILE.nc",
    help="Draw this stored result; sweep nothing.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path(),
    metavar="DIR",
    help="The folder to write to.  [default: this one]",
)
@click.option("--format", "forms", default="png,pdf", show_default=True, help="Of png and pdf, by commas.")
@click.option("--overwrite", is_flag=True, help="Replace files that exist.")
@click.option("--quiet", is_flag=True, help="Say nothing but errors.")
def command(
    name: str,
    config: str | None,
    store: Path | None,
    output: Path,
    forms: str,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Draw the figure NAME, write its caption beside it, and keep the numbers it was drawn from."""
    from replica.figures.produce import produce

    with Display(quiet) as display:
        made = produce(
            name,
            output,
            config=config,
            store=store,
            forms=forms.split(","),
            overwrite=overwrite,
            say=display.say,
            progress=display.progress,
        )
    for path in made:
        click.echo(path)
