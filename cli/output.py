"""How results are printed: standard JSON, CSV, and a table for people."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click

format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="How to print the result.",
)


def plain(value: Any) -> Any:
    """What standard JSON can hold of a nested result: infinities become "inf" or "-inf", NaN becomes null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, str | bool | int) or value is None:
        return value
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    number = float(value)
    if math.isnan(number):
        return None
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return number


def json_text(value: Any) -> str:
    """`plain(value)` as indented JSON."""
    return json.dumps(plain(value), indent=2, allow_nan=False)


def flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested mapping as one level of dotted names."""
    row: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, Mapping):
            row |= flat(item, f"{prefix}{key}.")
        else:
            row[f"{prefix}{key}"] = item
    return row


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows with the same keys as CSV under one header line."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().rstrip("\n")


def report_text(form: str, report: Mapping[str, Any], table: Callable[[Mapping[str, Any]], str]) -> str:
    """One report in a format of `format_option`; `table` makes the one for people."""
    if form == "json":
        return json_text(report)
    if form == "csv":
        return csv_text([plain(flat(report))])
    return table(report)


def table_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Columns aligned for reading; numbers with six significant digits."""
    cells = [list(header), *([_cell(item) for item in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.6g}"
