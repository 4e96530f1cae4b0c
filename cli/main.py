"""The group of commands. Nothing heavier than click is imported until a command runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from replica import __version__
from replica.exceptions import InputError, NumericalError

INTERRUPTED = 130

# name -> what `replica --help` says of it; the command itself is `command` in the file of that name.
COMMANDS = {
    "solve": "Solve the theory at one point.",
    "phase": "Locate points with respect to the transition at rho = kappa.",
    "equations": "Print the equations that are solved, for reading or for use.",
    "sweep": "Solve the theory over a grid and store it.",
    "simulate": "Run experiments at one point, at finite size.",
    "compare": "Hold theory and experiments side by side, with a verdict.",
    "show": "Tell what a stored result holds, or how far a sweep is.",
    "export": "Write a stored result as CSV, Parquet or JSON.",
    "merge": "Put two stored results together.",
    "optimize": "Find the parameters that minimize a weighted error.",
    "figure": "Draw a figure, with its caption beside it.",
    "softmax": "Attention regression: losses, fits, Lipschitz constants, label shifts.",
}


class Commands(click.Group):
    """A group that loads a command's file only when that command is called, and owns the exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        return import_module(f"replica.cli.{name}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            # Before click sees it, which would print an empty line.
            raise click.Abort from None

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> NoReturn:
        options |= {"standalone_mode": False, "prog_name": "replica"}
        try:
            code = super().main(args, *rest, **options)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            sys.exit(error.exit_code)
        except click.MissingParameter as error:
            about = error.param.help if isinstance(error.param, click.Option) and error.param.help else ""
            click.echo(f"Error: {error.format_message()} {about}".rstrip(), err=True)
            sys.exit(error.exit_code)
        except click.ClickException as error:
            # One sentence, without the usage lines that click puts before it.
            click.echo(f"Error: {error.format_message()}", err=True)
            sys.exit(error.exit_code)
        except click.Abort:
            # On a terminal, over the ^C that it shows.
            click.echo("\rInterrupted." if sys.stderr.isatty() else "Interrupted.", err=True)
            sys.exit(INTERRUPTED)
        except (InputError, NumericalError) as error:
            click.echo(f"Error: {error}", err=True)
            sys.exit(error.exit_code)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            click.echo(f"Error: {f'{error.filename!r}: ' if error.filename else ''}{reason}", err=True)
            sys.exit(NumericalError.exit_code)
        except OverflowError as error:
            click.echo(f"Error: {error}", err=True)
            sys.exit(NumericalError.exit_code)
        sys.exit(code if isinstance(code, int) else 0)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="replica")
def main() -> None:
    """Replica theory of in-context learning: exact errors, phase diagrams and experiments."""
