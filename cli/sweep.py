"""`replica sweep`: the theory over the grid of a config, into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from replica import configs
from replica.cli.progress import Display, run_options, verdict


@click.command(epilog=f"Shipped configs: {', '.join(configs.names())}.")
@click.argument("config")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE.nc",
    help="The NetCDF-4 file to write.",
)
@run_options
def command(config: str, output: Path, quiet: bool, **options: Any) -> int:
    """Solve the theory over the grid of CONFIG, a TOML file or the name of a shipped config."""
    from replica.sweep import Config, Theory, run

    task = Theory(Config.load(config))
    with Display(quiet) as display:
        outcome = run(task, output, say=display.say, progress=display.progress, **options)
    return verdict(outcome, output, quiet)
