"""`replica optimize`: the parameters that minimize a weighted error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from replica.cli.output import format_option, report_text, table_text
from replica.cli.parameters import parameter_options
from replica.exceptions import InputError


class Assignment(click.ParamType):
    """`NAME=VALUE` or `NAME=LOW:HIGH`, as a pair of the name and a list of numbers."""

    def __init__(self, name: str, count: int) -> None:
        self.name = name
        self.count = count

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        name, _, text = value.partition("=")
        try:
            numbers = [float(word) for word in text.split(":")]
        except ValueError:
            numbers = []
        if len(numbers) != self.count:
            self.fail(f"{value!r} is not of the form {self.name}", param, ctx)
        return name.replace("-", "_"), numbers


@click.command()
@click.option(
    "--weight",
    "weights",
    type=Assignment("PROTOCOL=WEIGHT", 1),
    multiple=True,
    required=True,
    help="Weight of TM, IDG or ODG in the criterion; repeat for several.",
)
@click.option(
    "--over",
    type=Assignment("NAME=LOW:HIGH", 2),
    multiple=True,
    required=True,
    help="Parameter to optimize and its bounds; once or twice.",
)
@parameter_options(required=False)
@format_option
def command(weights: Any, over: Any, form: str, **values: float | None) -> None:
    """Find one or two of ridge, kappa, rho, alpha-test and gamma that minimize a weighted sum of errors.

    The other parameters are fixed. The search is global over the bounds; whether the optimum sits on one of
    them is reported as its position.
    """
    from replica.theory import optimize

    best = optimize(
        {protocol: weight for protocol, (weight,) in _once("--weight", weights).items()},
        _once("--over", over),
        **{name: value for name, value in values.items() if value is not None},
    )
    report = best.to_dict()
    click.echo(report_text(form, report, _table))
    for name, position in best.position.items():
        if position != "interior":
            click.echo(f"{name} sits on its {position} bound.", err=True)


def _once(option: str, pairs: list[tuple[str, list[float]]]) -> dict[str, list[float]]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InputError(f"{option} names {_first_repeated(pairs)} twice; give it once")
    return found


def _first_repeated(pairs: list[tuple[str, list[float]]]) -> str:
    names = [name for name, _ in pairs]
    return next(name for name in names if names.count(name) > 1)


def _table(report: Mapping[str, Any]) -> str:
    point = "  ".join(f"{name} {value:g}" for name, value in report["parameters"].items())
    terms = [f"{weight:g} {protocol}" for protocol, weight in report["weights"].items() if weight > 0]
    optimum = [[name, *found.values()] for name, found in report["optimum"].items()]
    return "\n\n".join(
        [
            f"{point}\nstatus {report['status']}",
            table_text(["criterion", "least"], [[" + ".join(terms), report["criterion"]]]),
            table_text(["", "optimum", "low", "high", "position"], optimum),
            table_text(["", "error"], list(report["errors"].items())),
        ]
    )
