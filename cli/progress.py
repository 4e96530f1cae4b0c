"""What a long run says on stderr: a bar on a terminal, a line a minute elsewhere, a verdict at its end."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click

from replica.parameters import counted

if TYPE_CHECKING:
    from replica.sweep import Outcome

MINUTE = 60.0
FAILED, PARTLY_FAILED = 1, 3


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that runs a task over a grid."""
    options = [
        click.option(
            "--overwrite/--resume",
            default=False,
            help="Start anew, or go on where an earlier run of the same sweep stopped (the default).",
        ),
        click.option("--retry-failed", is_flag=True, help="Compute once more the points that failed."),
        click.option(
            "--jobs", type=int, metavar="N", help="Processes on this machine; by default all cores."
        ),
        click.option("--dask", metavar="ADDRESS", help="Compute on the dask cluster with this scheduler."),
        click.option("--quiet", is_flag=True, help="Say nothing but errors."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


class Display:
    """Shows a run on stderr, counted in things of the name `unit`; `quiet` shows nothing."""

    def __init__(self, quiet: bool = False, unit: str = "point") -> None:
        self.quiet = quiet
        self.unit = unit
        self.bar: Any = None
        self.started = self.last = time.monotonic()

    def __enter__(self) -> Display:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.bar is not None:
            self.bar.close()
        if isinstance(error, KeyboardInterrupt):
            # Python looks through all objects once more before it ends: a second or two on a busy machine.
            gc.freeze()
        if isinstance(error, OSError):
            raise click.ClickException(error.strerror or str(error)) from error

    def say(self, message: str) -> None:
        if self.bar is not None:
            self.bar.write(message, file=sys.stderr)
        elif not self.quiet:
            click.echo(message, err=True)

    def progress(self, done: int, total: int) -> None:
        if self.quiet:
            return
        if sys.stderr.isatty():
            self._draw(done, total)
        elif time.monotonic() - self.last >= MINUTE:
            self.last = time.monotonic()
            rate = done / (self.last - self.started)
            remaining = (total - done) / rate
            self.say(
                f"{done} of {counted(total, self.unit)}, {rate:.3g} a second, {remaining:.0f} s remaining"
            )

    def _draw(self, done: int, total: int) -> None:
        if self.bar is None:
            from tqdm import tqdm

            self.bar = tqdm(
                total=total, unit=f" {self.unit}s", unit_scale=True, dynamic_ncols=True, leave=False
            )
        self.bar.update(done - self.bar.n)


def verdict(outcome: Outcome, output: Path, quiet: bool = False) -> int:
    """Say how a run into the output that the user named ended, and return its exit code."""
    points = f"{counted(outcome.points, 'point')} in {output}"
    if not outcome.failed:
        missing = outcome.states.get("missing", 0)
        if not quiet:
            click.echo(points + (f", {missing} of them missing" if missing else ""), err=True)
        return 0
    names = ", ".join(f"{count} {name}" for name, count in outcome.failures.items())
    where = ", ".join(f"{name} = {value!r}" for name, value in (outcome.first_failure or {}).items())
    click.echo(
        f"{outcome.failed} of {points} failed ({names})"
        + (f", the first at {where}" if where else "")
        + f"; `replica show {output}` tells why",
        err=True,
    )
    return FAILED if outcome.failed == outcome.points else PARTLY_FAILED
