"""`replica solve`: the theory at one point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from replica.cli.output import format_option, report_text, table_text
from replica.cli.parameters import parameter_options
from replica.exceptions import NumericalError


@click.command()
@parameter_options()
@format_option
def command(form: str, **values: Any) -> int:
    """Solve the theory at one point: errors, their parts, the law of predictions and the saddle point.

    Errors are mean squared errors on a fresh prompt, label noise included; everything is dimensionless.
    """
    from replica.engine import Status
    from replica.parameters import Parameters
    from replica.theory import solve

    solution = solve(Parameters(**values))
    report = solution.to_dict()
    click.echo(report_text(form, report, _table))
    status = Status(solution.status)
    if status != Status.OK:
        click.echo(f"{status.label}: {status.advice}", err=True)
    return 0 if status.is_answer else NumericalError.exit_code


def _table(report: Mapping[str, Any]) -> str:
    from replica.parameters import as_given

    point = "  ".join(f"{name} {as_given(value)}" for name, value in report["parameters"].items())
    header = ["", "error", *next(iter(report["decomposition"].values())), "E y yhat", "E yhat^2"]
    rows = [
        [
            protocol,
            error,
            *report["decomposition"][protocol].values(),
            *report["prediction"][protocol].values(),
        ]
        for protocol, error in report["errors"].items()
    ]
    scalars = {
        name: report[name] for name in ("training_error", "effective_ridge", "noise_level", "residual")
    }
    return "\n\n".join(
        [
            f"{point}\nstatus {report['status']}",
            table_text(header, rows),
            table_text([*report["order_parameters"]], [[*report["order_parameters"].values()]]),
            table_text([*scalars], [[*scalars.values()]]),
        ]
    )
