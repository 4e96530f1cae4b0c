"""`replica export`: a stored result as a table for other programs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from replica.cli.output import plain
from replica.exceptions import InputError

if TYPE_CHECKING:
    import xarray as xr

KINDS = ["csv", "parquet", "json"]


@click.command()
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE.nc")
@click.option(
    "--format",
    "form",
    type=click.Choice(KINDS),
    help="The kind of table; by default what the output ends in, and csv otherwise.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="The file to write; without it, standard output."
)
@click.option("--overwrite", is_flag=True, help="Replace the output if it exists.")
def command(file: Path, form: str | None, output: Path | None, overwrite: bool) -> None:
    """Write FILE.nc as a table with a row for each point of its grid and a column for each number.

    In CSV nan is an empty field; JSON is a list of objects, with null for nan and "inf" for infinity.
    """
    from replica.sweep import read
    from replica.sweep.files import replacing
    from replica.sweep.work import check_output

    if form is None:
        ending = output.suffix[1:].lower() if output is not None else ""
        form = ending if ending in KINDS else "csv"
    if form == "parquet":
        _check_parquet(output)
    if output is not None:
        check_output(output, overwrite)
    with read(file) as dataset:
        if output is None:
            _to_stdout(dataset, form)
            return
        with replacing(output) as temporary:
            if form == "parquet":
                _write_parquet(dataset, temporary)
            else:
                with temporary.open("w", newline="") as target:
                    WRITERS[form](dataset, target)


def _check_parquet(output: Path | None) -> None:
    if output is None:
        raise InputError("a parquet table is binary; give --output FILE")
    try:
        import pyarrow.parquet  # noqa: F401
    except ModuleNotFoundError:
        raise InputError(
            "parquet needs the package pyarrow, which is not installed; "
            "it comes with pip install 'replica-icl[parquet]', and csv and json need nothing"
        ) from None


def _to_stdout(dataset: xr.Dataset, form: str) -> None:
    try:
        WRITERS[form](dataset, sys.stdout)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, say `head`, has had enough; nothing may complain when Python closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_csv(dataset: xr.Dataset, target: TextIO) -> None:
    from replica.sweep.table import tables

    for number, table in enumerate(tables(dataset)):
        table.to_csv(target, index=False, header=number == 0, lineterminator="\n")


def _write_json(dataset: xr.Dataset, target: TextIO) -> None:
    from replica.sweep.table import tables

    before = "[\n"
    for table in tables(dataset):
        for row in table.to_dict("records"):
            target.write(before + json.dumps(plain(row), allow_nan=False))
            before = ",\n"
    target.write("\n]\n")


WRITERS: dict[str, Any] = {"csv": _write_csv, "json": _write_json}


def _write_parquet(dataset: xr.Dataset, path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    from replica.sweep.table import tables

    writer = None
    for table in tables(dataset):
        made = pyarrow.Table.from_pandas(table, preserve_index=False)
        writer = writer or pyarrow.parquet.ParquetWriter(path, made.schema)
        writer.write_table(made)
    if writer is not None:
        writer.close()
