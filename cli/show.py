"""`replica show`: what a stored result holds, or what an unfinished sweep has done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from replica.cli.output import flat, json_text, table_text
from replica.parameters import counted


@click.command()
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE.nc")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How to print it.",
)
def command(file: Path, form: str) -> None:
    """Tell what FILE.nc holds: its grid, how its points ended, the ranges of its results, its origin.

    While a sweep into FILE.nc runs, or after it was interrupted, tell what it has done so far.
    """
    from replica.sweep import describe

    told = describe(file)
    click.echo(json_text(told) if form == "json" else _text(told))


def _text(told: dict[str, Any]) -> str:
    state = "finished" if told["finished"] else "unfinished"
    states = ", ".join(f"{count} {name}" for name, count in told["states"].items())
    axes = [[name, axis["num"], axis["first"], axis["last"]] for name, axis in told["grid"].items()]
    results = [[name, ends["min"], ends["max"]] for name, ends in told["results"].items()]
    origin = {key: value for key, value in told.items() if key not in CONTENTS}
    blocks = [
        f"{told['path']}: {told['task']}, {state}\n{counted(told['points'], 'point')}: {states}",
        table_text(["axis", "values", "first", "last"], axes) if axes else "",
        _failures(told["failures"]),
        table_text(["result", "least", "greatest"], results) if results else "",
        "\n".join(f"{key}: {_brief(value)}" for key, value in flat(origin).items()),
    ]
    return "\n\n".join(block for block in blocks if block)


CONTENTS = ("path", "task", "finished", "points", "states", "grid", "failures", "results")


def _failures(failures: list[dict[str, Any]]) -> str:
    lines = []
    for failure in failures:
        point = ", ".join(f"{k} = {v!r}" for k, v in failure.items() if k not in ("status", "reason"))
        reason = f" ({failure['reason']})" if "reason" in failure else ""
        lines.append(f"{point}: {failure['status']}{reason}")
    return "\n".join(["the first failures:", *lines]) if lines else ""


def _brief(value: Any) -> str:
    return f"{len(value)} values" if isinstance(value, list) and len(value) > 10 else str(value)
