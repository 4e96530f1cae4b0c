"""`replica compare`: theory against experiments, ours or somebody's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from replica.cli.output import csv_text, flat, format_option, json_text, plain, table_text
from replica.cli.progress import Display, run_options, verdict
from replica.exceptions import InputError
from replica.parameters import counted

DISAGREEMENT = 1


@click.command()
@click.argument("config", required=False)
@click.option(
    "--measured",
    type=click.Path(path_type=Path),
    metavar="FILE.csv",
    help="Judge these measurements instead of running experiments.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE.nc",
    help="The NetCDF-4 file to write; needed with CONFIG.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 if anything disagrees.")
@format_option
@run_options
def command(
    config: str | None,
    measured: Path | None,
    output: Path | None,
    strict: bool,
    form: str,
    quiet: bool,
    overwrite: bool,
    **options: Any,
) -> int:
    """Compare theory and experiment over the grid of CONFIG, or with measurements of your own.

    CONFIG is a sweep's config with a table [experiment] of dims, repeats and seed. A file of measurements has
    the columns alpha, alpha_test, kappa, rho, gamma, sigma, ridge, dim, protocol, mean, stderr, n, of which
    alpha_test, ridge and n may be missing; its ratios are those that the integers of the simulation realize.
    """
    from replica.sweep import Config, read, run
    from replica.sweep.compare import (
        Comparison,
        compare_measured,
        measured_identity,
        rows,
        summary,
        without_theory,
    )
    from replica.sweep.store import save
    from replica.sweep.work import check_output

    if (config is None) == (measured is None):
        raise InputError("a comparison takes either a CONFIG or --measured FILE.csv; give one of the two")
    code = 0
    if measured is not None:
        if output is not None:
            check_output(output, overwrite)
        comparison = compare_measured(measured)
        if output is not None:
            save(comparison, output, measured_identity(measured))
    else:
        if output is None:
            raise InputError(
                "the output is missing; give -o FILE.nc, where experiments are kept as they finish"
            )
        with Display(quiet) as display:
            outcome = run(
                Comparison(Config.load(str(config))),
                output,
                overwrite=overwrite,
                say=display.say,
                progress=display.progress,
                **options,
            )
        code = verdict(outcome, output, quiet)
        comparison = read(output)
    table = list(rows(comparison))
    counts = summary(table)
    click.echo(_text(form, table, counts))
    if not quiet:
        for status, number in without_theory(comparison).items():
            click.echo(
                f"not compared for want of a finite theory: {counted(number, 'point')}, {status}", err=True
            )
        if form != "json":
            click.echo(", ".join(f"{number} {label}" for label, number in counts.items()), err=True)
    return DISAGREEMENT if strict and counts["disagrees"] else code


def _text(form: str, table: list[dict[str, Any]], counts: dict[str, int]) -> str:
    if form == "json":
        return json_text({"summary": counts, "rows": table})
    if form == "csv":
        return csv_text([{name: _listed(value) for name, value in flat(plain(row)).items()} for row in table])
    varying = (
        [name for name in table[0]["parameters"] if len({row["parameters"][name] for row in table}) > 1]
        if table
        else []
    )
    header = ["", *varying, "theory, mean +- stderr at each D", "ratio", "+-", "z", "verdict"]
    lines = []
    for row in table:
        measured = zip(row["dim"], row["theory"], row["mean"], row["stderr"], strict=True)
        lines.append(
            [
                row["protocol"],
                *(row["parameters"][name] for name in varying),
                "   ".join(
                    f"{dim:g}: {expected:.4g}, {mean:.4g} +- {error:.2g}"
                    for dim, expected, mean, error in measured
                ),
                f"{row['ratio']:.4f}",
                f"{row['ratio_stderr']:.4f}",
                f"{row['z']:.1f}",
                row["verdict"] + ("" if row["warning"] is None else " (!)"),
            ]
        )
    notes = sorted({f"(!) {row['warning']}" for row in table if row["warning"] is not None})
    return "\n".join([table_text(header, lines), *notes])


def _listed(value: Any) -> Any:
    """A list in one cell of a CSV file."""
    return " ".join(map(str, value)) if isinstance(value, list) else value
