"""`replica phase`: where a point, or a line of points, stands with respect to the transition."""

from __future__ import annotations

from typing import Any

import click

from replica.cli.output import csv_text, flat, format_option, json_text, plain, table_text
from replica.cli.parameters import Number, parameter_options
from replica.exceptions import NumericalError

MOST = 10**5
"""The most points of a line that is printed."""


class Line(Number):
    """A number, or start:stop:num with an optional :log, for num values from start to stop."""

    name = "number or start:stop:num[:log]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        words = str(value).split(":")
        if len(words) == 1:
            return super().convert(value, param, ctx)
        import numpy as np

        if (
            len(words) == 2
            or words[3:] not in ([], ["log"])
            or not words[2].isdigit()
            or not 2 <= int(words[2]) <= MOST
        ):
            self.fail(
                f"{value!r} is no line; allowed is start:stop:num[:log] with num from 2 to {MOST}", param, ctx
            )
        start, stop = (super(Line, self).convert(end, param, ctx) for end in words[:2])
        if not (np.isfinite(start) and np.isfinite(stop)) or (words[3:] and min(start, stop) <= 0):
            self.fail(f"{value!r} is no line; its ends are finite, and positive with :log", param, ctx)
        return (np.geomspace if words[3:] else np.linspace)(start, stop, int(words[2]))


@click.command()
@parameter_options(kind=Line(), without=("alpha_test",))
@format_option
def command(form: str, **values: Any) -> int:
    """Locate a point, or a line of points, with respect to the transition at rho = kappa.

    One parameter may be start:stop:num, with :log for a constant ratio. For each point: the regime;
    rho - kappa; the scaling variable (1/rho - 1/kappa) (kappa/z)^(1/2), where z is (1 + sigma^2)/alpha plus
    the effective ridge; the exponents of alpha in TM, IDG and ODG for alpha = alpha_test -> infinity, their
    leading terms and the exact errors; where log IDG rises fastest in rho, and what long contexts predict for
    its distance from kappa (null or - unless ridge = 0, gamma > 1 and kappa < 1).
    """
    from replica.engine import Status
    from replica.exceptions import InputError
    from replica.parameters import Parameters
    from replica.theory.phase import phase

    lines = [name for name, value in values.items() if not isinstance(value, float)]
    if len(lines) > 1:
        raise InputError(f"{' and '.join(lines)} are lines; allowed is one parameter as start:stop:num")
    located = phase(Parameters(**values))
    points = located.to_dicts()
    if form == "json":
        click.echo(json_text(points if lines else points[0]))
    elif form == "csv":
        click.echo(csv_text([plain(flat(point)) for point in points]))
    else:
        click.echo(_table([plain(point) for point in points], lines))
    failed = {label for label in (point["status"] for point in points) if not Status[label.upper()].is_answer}
    for label in sorted(failed):
        click.echo(f"{label}: {Status[label.upper()].advice}", err=True)
    if not failed:
        return 0
    return NumericalError.exit_code if len(points) == 1 else 3


def _table(points: list[dict[str, Any]], lines: list[str]) -> str:
    fixed = [
        [name, value] for name, value in points[0]["parameters"].items() if name not in (*lines, "alpha_test")
    ]
    where = lines[0] if lines else "rho"
    regimes = [[point["parameters"][where], *point["regime"].values(), point["status"]] for point in points]
    places = [
        [point["parameters"][where], point["distance"], point["scaling_variable"], *_steepest(point)]
        for point in points
    ]
    errors = [
        [
            point["parameters"][where],
            *(point[table][p] for p in point["exact"] for table in ("exponents", "asymptotic", "exact")),
        ]
        for point in points
    ]
    names = [f"{p} {what}" for p in points[0]["exact"] for what in ("exponent", "leading", "exact")]
    steep = ["steepest rho", "its rho - kappa", "asymptotic"]
    return "\n\n".join(
        [
            table_text([name for name, _ in fixed], [[value for _, value in fixed]]),
            table_text([where, "tasks", "samples", "status"], regimes),
            table_text([where, "rho - kappa", "scaling variable", *steep], places),
            table_text([where, *names], errors),
        ]
    )


def _steepest(point: dict[str, Any]) -> list[Any]:
    place = point["steepest"]
    inside = [None, None] if place["on_bound"] else [place["rho"], place["distance"]]
    return [*inside, place["asymptotic_distance"]]
