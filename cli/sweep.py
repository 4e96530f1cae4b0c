"""`replica sweep`: the theory over the grid of a config, into a file."""

from __future__ import annotations

from pathlib import Path

import click

from replica.cli.progress import Display, verdict


@click.command()
@click.argument("config")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE.nc",
    help="The NetCDF-4 file to write.",
)
@click.option("--overwrite", is_flag=True, help="Replace the output if it exists.")
@click.option("--quiet", is_flag=True, help="Say nothing but errors.")
def command(config: str, output: Path, overwrite: bool, quiet: bool) -> int:
    """Solve the theory over the grid of CONFIG, a TOML file or the name of a shipped config."""
    from replica.sweep import Config, Theory, run

    task = Theory(Config.load(config))
    with Display(quiet) as display:
        outcome = run(task, output, overwrite=overwrite, say=display.say, progress=display.progress)
    return verdict(outcome, quiet)
