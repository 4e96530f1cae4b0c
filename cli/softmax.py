"""`replica softmax`: attention regression, its losses, fits, Lipschitz constants and in-context shift."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replica.cli.output import csv_text, flat, format_option, json_text, plain, table_text
from replica.exceptions import InputError, NumericalError
from replica.parameters import counted

if TYPE_CHECKING:
    import numpy as np

    from replica.softmax import LipschitzPanel, Problem, Run, Shift

PARTLY_DONE = 3

UNDEFINED = "undefined"
"""A ratio to a bound that is zero."""


@click.group()
def command() -> None:
    """Attention regression: labels B for the row softmax F of S = A1 X A2^T.

    FILE is an .npz file, or a folder of .npy files, with A1 (m, d1), A2 (n, d2), B (m, n) and X (d1, d2).
    """


file_argument = click.argument("file", type=click.Path(path_type=Path))
loss_option = click.option(
    "--loss",
    "kind",
    type=click.Choice(["normalized", "rescaled"]),
    default="normalized",
    show_default=True,
    help="L_N = 1/2 |F - B|^2, or L_R, whose rows are weighted by alpha^2.",
)
seed_option = click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
block_option = click.option(
    "--block-rows", type=int, help="Rows of S held at a time; left out, as many as fit a core's cache."
)
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace the output if it exists.")


@command.command()
@file_argument
@loss_option
@click.option("--arrays", type=click.Path(path_type=Path), help="Write the gradients to this .npz file.")
@overwrite_option
@block_option
@format_option
def evaluate(
    file: Path, kind: str, arrays: Path | None, overwrite: bool, block_rows: int | None, form: str
) -> None:
    """Evaluate a loss and its gradients at X.

    `norms` are spectral for A1 and A2 and Frobenius for X. Where a double does not hold the rescaled loss or
    a gradient, the status says so and the logarithms stand. --arrays writes grad_X, grad_A1, grad_A2 and
    grad_B where a double holds them, and always log_scale and grad_*_over_scale, the gradients over
    exp(log_scale).
    """
    from replica.softmax import Loss, log_loss, save
    from replica.softmax import evaluate as evaluate_loss
    from replica.softmax.losses import exponential

    _check_output(arrays, overwrite)
    problem, X = _loaded(file)
    result = evaluate_loss(
        problem, X, kind, wrt=("X", "A1", "A2", "B") if arrays else ("X", "A1", "A2"), block_rows=block_rows
    )
    loss = _representable(lambda: result.loss)
    gradients = {
        name: _representable(lambda scaled=scaled: scaled.value)  # type: ignore[misc]
        for name, scaled in result.gradients.items()
    }
    logs = result.log_gradient_norms
    norms = {
        name: _representable(lambda name=name: exponential(logs[name], name))  # type: ignore[misc]
        for name in ("X", "A1", "A2", "B")
    }
    complete = loss is not None and None not in norms.values()
    other = Loss.RESCALED if result.kind is Loss.NORMALIZED else Loss.NORMALIZED
    log_losses = {
        result.kind: result.log_loss,
        other: log_loss(problem, X, other, block_rows=block_rows),
    }
    report = {
        "kind": result.kind,
        "status": "ok" if complete else "not_representable",
        "loss": loss,
        "log_loss": result.log_loss,
        "gradient_norms": norms,
        "log_gradient_norms": {name: logs[name] for name in norms},
        "log_scale": result.log_scale,
        "log_losses": {name: log_losses[name] for name in Loss},
        "max_abs_logit": result.max_abs_logit,
        **problem.report(X),
    }
    if arrays:
        stored = {f"grad_{name}": array for name, array in gradients.items() if array is not None}
        stored |= {f"grad_{name}_over_scale": scaled.over_scale for name, scaled in result.gradients.items()}
        save(arrays, stored | {"log_scale": result.log_scale})
    if form == "json":
        click.echo(json_text(report))
    else:
        _print([report], form, "kind")
    if not complete:
        click.echo("not_representable: beyond the range of a double; use the logarithms.", err=True)


@command.command()
@file_argument
@loss_option
@click.option(
    "--starts", type=click.IntRange(min=1), default=1, show_default=True, help="X of FILE is the first."
)
@click.option("--start-radius", type=float, default=1.0, show_default=True, help="|X|_F of random starts.")
@seed_option
@click.option("--regularization", type=float, default=0.0, show_default=True, help="Weight of |X|_F^2 / 2.")
@click.option("--radius", type=float, help="Fit over the ball |X|_F <= radius.")
@click.option(
    "--tolerance", type=float, default=1e-8, show_default=True, help="On gradient_cosine or fit_norm."
)
@click.option("--max-iterations", type=click.IntRange(min=1), default=200, show_default=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write A1, A2, B and the best X to this .npz file.",
)
@overwrite_option
@format_option
def fit(file: Path, kind: str, output: Path | None, overwrite: bool, form: str, **options: Any) -> int:
    """Minimize a loss over X from one or more starts.

    The losses are not convex: `n_minima` says how many distinct minima the starts found. Both losses are
    given at the end, because the rescaled one can vanish without a fit.
    """
    from tqdm import tqdm

    from replica.softmax import FitStatus, Instance, Iterate, load, save
    from replica.softmax import fit as fit_weights

    _check_output(output, overwrite)
    problem, X = load(file)
    with tqdm(desc="iterations", unit="", disable=None) as bar:

        def progress(iterate: Iterate) -> None:
            bar.update()
            bar.set_postfix(start=iterate.start, log_objective=f"{iterate.log_objective:.6g}")

        result = fit_weights(problem, X, kind, progress=progress, **options)
    if output:
        save(output, Instance(problem, result.best.X, None).arrays())
    rows = [_run_report(start, run) for start, run in enumerate(result.runs)]
    if form == "json":
        best = rows[result.runs.index(result.best)]
        report = {"kind": result.kind, "n_minima": result.n_minima, "best": best, "runs": rows}
        click.echo(json_text(report))
    else:
        _print(rows, form, "start")
        if form == "table":
            minima = counted(result.n_minima, "distinct minimum", "distinct minima")
            click.echo(f"\n{minima} of the {result.kind} loss found")
    failed = sum(run.status is not FitStatus.OK for run in result.runs)
    for status in sorted({run.status for run in result.runs} - {FitStatus.OK}):
        click.echo(f"{status}: {status.advice}", err=True)
    if not failed:
        return 0
    return NumericalError.exit_code if failed == len(rows) else PARTLY_DONE


@command.command()
@file_argument
@loss_option
@click.option(
    "--radius", "radii", type=float, multiple=True, help="Of the ball |X|_F <= radius; may be repeated."
)
@click.option("--R", "R", type=float, help="Of the R-form; left out, the smallest admissible one.")
@click.option(
    "--points", type=click.IntRange(min=0), default=8, show_default=True, help="Of the sphere to try."
)
@seed_option
@format_option
def lipschitz(
    file: Path, kind: str, radii: tuple[float, ...], R: float | None, points: int, seed: int, form: str
) -> None:
    """Bound the Lipschitz constant of the gradient, and estimate it from below.

    All values are natural logarithms; the radius left out is |X|_F. `everywhere`, `ball`, `box` and `r_form`
    are constants of their sets; `point` bounds the Hessian at X only.
    """
    from replica.softmax import lipschitz_panel

    problem, X = _loaded(file)
    panels = [
        _panel_report(lipschitz_panel(problem, X, kind, radius=radius, R=R, points=points, seed=seed))
        for radius in radii or (None,)
    ]
    if form == "json":
        click.echo(json_text(panels[0] if len(panels) == 1 else panels))
    elif form == "csv":
        _print(panels, form, "radius")
    else:
        click.echo(_panel_table(panels))


@command.command()
@file_argument
@loss_option
@click.option("--to", "other", type=click.Path(path_type=Path), help="File with X, A1 or A2 after the step.")
@click.option("--gradient-step", "size", type=float, help="Step of the gradient descent of the loss.")
@click.option(
    "--steps", type=click.IntRange(min=1), default=1, show_default=True, help="How many gradient steps."
)
@click.option("--R", "R", type=float, help="Of the R-form; left out, the smallest admissible one.")
@click.option(
    "--labels", type=click.Path(path_type=Path), help="Write the shifted labels B to this .npz file."
)
@overwrite_option
@block_option
@format_option
def shift(
    file: Path,
    kind: str,
    other: Path | None,
    size: float | None,
    steps: int,
    R: float | None,
    labels: Path | None,
    overwrite: bool,
    block_rows: int | None,
    form: str,
) -> None:
    """See a step of the weights or the data as a shift of the labels.

    Several gradient steps are a sequence of labels for the weights at the start. The identity says nothing
    of a trained model, and gradients do not match.
    """
    from replica.softmax import label_shift, repeated_steps, save, shifted_labels

    if (other is None) == (size is None):
        raise InputError("the step is to be given by exactly one of --to and --gradient-step")
    if steps > 1 and size is None:
        raise InputError(f"--steps {steps} needs --gradient-step; a step given by --to is a single one")
    _check_output(labels, overwrite)
    problem, X = _loaded(file)
    if other is not None:
        X_next, data = _step_to(other, problem)
        shifts = [label_shift(problem, X, X_next, kind, R=R, block_rows=block_rows, **data)]
        shifted = shifted_labels(problem, X, X_next, kind, **data) if labels else None
    else:
        sequence = repeated_steps(problem, X, size or 0.0, steps, kind, R=R, block_rows=block_rows)
        shifts = list(sequence.shifts)
        shifted = sequence.labels(steps) if labels else None
    reports = [_shift_report(step, shift) for step, shift in enumerate(shifts, 1)]
    if labels and shifted is not None:
        save(labels, {"B": shifted})
    if form == "json":
        click.echo(json_text(reports[-1] if steps == 1 else reports[-1] | {"sequence": reports}))
    else:
        _print(reports, form, "step")
    if any(report["status"] != "ok" for report in reports):
        click.echo("not_representable: beyond the range of a double; use the logarithms.", err=True)


@command.command()
@click.option("--n", type=click.IntRange(min=1), required=True, help="Keys, and queries unless --m is given.")
@click.option("--d", type=click.IntRange(min=1), required=True, help="Features; X is (d, d).")
@click.option("--m", type=click.IntRange(min=1), help="Queries.")
@seed_option
@click.option("--radius", type=float, default=1.0, show_default=True, help="|X|_F.")
@click.option("--planted", is_flag=True, help="Labels from planted weights of that norm, kept as X_planted.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The .npz file to write."
)
@overwrite_option
def make(output: Path, overwrite: bool, **options: Any) -> None:
    """Make a random instance; without --planted the rows of B are uniform on the simplex."""
    from replica.softmax import random_instance, save

    _check_output(output, overwrite)
    save(output, random_instance(**options).arrays())


@command.command()
@loss_option
def equations(kind: str) -> None:
    """Print the derivation of a loss by sympy, and what was verified."""
    from replica.softmax.derivation import equations as derived

    click.echo(derived(kind))


def _check_output(path: Path | None, overwrite: bool) -> None:
    if path is not None:
        from replica.sweep.work import check_output

        check_output(path, overwrite)


def _loaded(file: Path) -> tuple[Problem, np.ndarray]:
    from replica.softmax import load

    problem, X = load(file)
    if X is None:
        raise InputError(f"{file} holds no X; allowed is a matrix of shape {problem.shape[2:]}")
    return problem, X


def _step_to(other: Path, problem: Problem) -> tuple[Any, dict[str, Any]]:
    """X and the data after a step; what the file does not hold stays."""
    from replica.softmax.problem import read_arrays

    arrays = read_arrays(other)
    if not arrays.keys() & {"X", "A1", "A2"}:
        raise InputError(f"{other} holds none of X, A1, A2, so there is no step to take")
    if "B" in arrays and not problem.has_labels(arrays["B"]):
        raise InputError(f"{other} holds labels B of its own; a shift is a step between equal labels")
    return arrays.get("X"), {f"{name}_next": arrays[name] for name in ("A1", "A2") if name in arrays}


def _representable(value: Callable[[], Any]) -> Any:
    """A value, or None where a double does not hold it."""
    try:
        return value()
    except OverflowError:
        return None


def _run_report(start: int, run: Run) -> dict[str, Any]:
    return {
        "start": start,
        "status": run.status,
        "minimum": run.minimum,
        "iterations": run.iterations,
        "log_objective": run.log_objective,
        "log_loss_normalized": run.log_loss_normalized,
        "log_loss_rescaled": run.log_loss_rescaled,
        "gradient_cosine": run.gradient_cosine,
        "fit_norm": run.fit_norm,
        "multiplier": run.multiplier,
        "curvature": run.curvature,
        "distance": run.distance,
    }


def _panel_report(panel: LipschitzPanel) -> dict[str, Any]:
    return {name: UNDEFINED if value is None else value for name, value in vars(panel).items()}


def _panel_table(panels: Sequence[Mapping[str, Any]]) -> str:
    """What was measured where, and below it the logarithms; a column per radius."""
    radii = [f"{panel['radius']:g}" for panel in panels]
    tried = ("kind", "points")
    logarithms = [name for name in panels[0] if name not in ("radius", *tried)]

    def rows(names: Sequence[str]) -> list[list[Any]]:
        return [[name, *(panel[name] for panel in panels)] for name in names]

    return "\n\n".join(
        [
            table_text(["radius", *radii], rows(tried)),
            table_text(
                ["natural log of the Lipschitz constant", *(f"radius {radius}" for radius in radii)],
                rows(logarithms),
            ),
        ]
    )


def _shift_report(step: int, shift: Shift) -> dict[str, Any]:
    norm = _representable(lambda: shift.norm)
    report = {
        "step": step,
        "kind": shift.kind,
        "status": "ok" if norm is not None else "not_representable",
        "shift_norm": norm,
        "log_shift_norm": shift.log_norm,
        "logit_step": shift.logit_step,
        "bounds": shift.bounds,
        "log_bounds": shift.log_bounds,
        "ratios": {name: UNDEFINED if ratio is None else ratio for name, ratio in shift.ratios.items()},
        "R": shift.R,
        "residual_identity": shift.residual_identity,
        "in_simplex": shift.in_simplex,
        "log_loss_now": shift.log_loss_now,
        "log_loss_next": shift.log_loss_next,
        "log_loss_shifted": shift.log_loss_shifted,
    }
    expansion = {
        name: getattr(shift, name)
        for name in (
            "linear_norm",
            "remainder",
            "remainder_bound",
            "gradient_mismatch",
            "gradient_mismatch_bound",
        )
    }
    return report | {name: value for name, value in expansion.items() if value is not None}


def _print(reports: Sequence[Mapping[str, Any]], form: str, key: str) -> None:
    """CSV with a line, or a table with a column, per report; `key` heads the columns of the table."""
    rows = [flat(report) for report in reports]
    if form == "csv":
        click.echo(csv_text([plain(row) for row in rows]))
        return
    columns = [[_shown(value) for value in row.values()] for row in rows]
    lines = [line for line in zip(rows[0], *columns, strict=True) if line[0] != key]
    click.echo(table_text([key, *(_heading(row[key]) for row in rows)], lines))


def _heading(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _shown(value: Any) -> Any:
    """What a table shows of a truth value; numbers and text as they are."""
    return ("yes" if value else "no") if isinstance(value, bool) else value
