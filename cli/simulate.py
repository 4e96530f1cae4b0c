"""`replica simulate`: finite-size experiments at one point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from replica.cli.output import format_option, plain, report_text, table_text
from replica.cli.parameters import Number, parameter_options
from replica.cli.progress import FAILED, PARTLY_FAILED, Display
from replica.exceptions import InputError


@click.command()
@parameter_options()
@click.option("--dim", type=int, required=True, help="Input dimension D, at least 2.")
@click.option("--repeats", type=int, default=5, show_default=True, help="Number of experiments, at least 1.")
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of the random numbers, at least 0."
)
@click.option(
    "--gain",
    type=Number(),
    help="Decompose the errors about this gain of the signal, such as the one that `replica solve` prints.",
)
@click.option(
    "--rtol",
    type=Number(),
    default=1e-8,
    show_default=True,
    help="Largest relative residual of the least-squares fits, (0, 0.01].",
)
@click.option(
    "--jobs",
    type=int,
    default=-1,
    show_default="all cores",
    help="Number of threads, at least 1, or counted from all cores if negative; results do not depend on it.",
)
@format_option
def command(
    dim: int, repeats: int, seed: int, gain: float | None, rtol: float, jobs: int, form: str, **values: float
) -> int:
    """Train linear attention on random prompts at one point and average its errors over repeats.

    Errors are mean squared errors on a fresh prompt, label noise included, exact for each trained model;
    everything is dimensionless. Ratios are rounded to integers at this dimension; compare theory at the
    realized ones.
    """
    from replica.parameters import Parameters
    from replica.simulation import simulate

    if jobs == 0:
        raise InputError(
            "jobs = 0 is outside the allowed range: positive, or negative, counted from all cores"
        )
    with Display(unit="repeat") as display:
        done = simulate(
            Parameters(**values),
            dim,
            repeats,
            seed,
            n_jobs=jobs,
            rtol=rtol,
            gain=gain,
            progress=display.progress,
        )
    report = done.to_dict()
    if form == "csv":
        del report["failures"]  # a row has no room for a list; it is on stderr
    click.echo(report_text(form, report, _table))
    if done.status == "interpolation_threshold":
        click.echo(
            "interpolation_threshold: gamma = 1 with ridge = 0, where errors have no mean; not run", err=True
        )
    elif repeats == 1:
        click.echo("one repeat has no standard error", err=True)
    for failure in done.failures:
        seeds = ", ".join(map(str, failure.seed))
        click.echo(f"repeat {failure.repeat} (seeds {seeds}) failed: {failure.reason}", err=True)
    if done.status == "not_converged":
        return FAILED
    return PARTLY_FAILED if done.failures else 0


def _table(report: Mapping[str, Any]) -> str:
    from replica.parameters import as_given

    def point(name: str) -> str:
        return "  ".join(f"{key} {as_given(value)}" for key, value in report[name].items())

    estimates = {**report["errors"], **report["differences"], "training error": report["training_error"]}
    for protocol, parts in report.get("decomposition", {}).items():
        estimates |= {f"{protocol} {part}": estimate for part, estimate in parts.items()}
    rows = [[name, *plain(estimate).values()] for name, estimate in estimates.items()]
    fits = [[name, *plain(report[name]).values()] for name in ("iterations", "residual")]
    return "\n\n".join(
        [
            f"{point('parameters')}\nrealized at dim {report['dim']}: {point('realized')}\n"
            f"status {report['status']}",
            table_text(["", "mean", "stderr", "n"], rows),
            table_text(["fits", "mean", "max"], fits),
        ]
    )
