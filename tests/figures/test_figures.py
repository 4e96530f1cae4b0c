"""Figures: data and drawing apart, files complete, bytes the same."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

from replica import InputError, Parameters, Status, solve
from replica.cli.main import main
from replica.figures import FIGURES, load
from replica.figures.produce import render, tasks
from replica.parameters import PROTOCOLS
from replica.sweep import Theory

POINT = {"alpha": 8.0, "gamma": 1.5, "sigma": 0.3}


def few(values: np.ndarray, count: int) -> np.ndarray:
    return values[np.linspace(0, len(values) - 1, min(count, len(values))).round().astype(int)]


@cache
def smallest(name: str) -> tuple[xr.Dataset, ...]:
    """The stores of a figure, each cut to three values of its longest axis and one of the others."""
    stores = []
    for task in tasks(name, quick=True).values():
        config = task.config
        longest = max(task.axes, key=lambda axis: len(task.axes[axis]), default=None)
        cut = {axis: few(values, 3 if axis == longest else 1) for axis, values in task.axes.items()}
        if config.experiment is not None:
            config = replace(config, experiment=replace(config.experiment, repeats=2, grid={}))
        small = replace(task, config=replace(config, grid=cut))
        stores.append(small.evaluate(small.axes))
    return tuple(stores)


@cache
def smallest_drawing(name: str) -> dict[str, bytes]:
    return render(name, load(name).data(*smallest(name)), ["png", "pdf"])


STORED = [name for name in FIGURES if hasattr(load(name), "STORES")]


@pytest.mark.parametrize("name", STORED)
def test_every_figure_says_what_a_store_lacks(name: str) -> None:
    figure = load(name)
    with pytest.raises(InputError, match="needs a store with"):
        figure.data(*[xr.Dataset()] * len(figure.STORES))


@pytest.mark.parametrize("name", STORED)
def test_every_figure_draws_three_points_to_the_same_bytes(name: str) -> None:
    once = smallest_drawing(name)
    assert render(name, load(name).data(*smallest(name)), ["png", "pdf"]) == once
    assert once["png"].startswith(b"\x89PNG")
    assert once["pdf"].startswith(b"%PDF")
    # TrueType, which readers of the PDF can search and edit.
    assert b"/FontFile2" in once["pdf"]
    assert b"/Type3" not in once["pdf"]


@pytest.mark.parametrize("name", STORED)
def test_every_caption_is_a_paragraph_with_the_fixed_parameters(name: str) -> None:
    figure = load(name)
    stores = smallest(name)
    caption = figure.caption(figure.data(*stores))
    assert caption == caption.strip()
    assert "\n" not in caption
    assert "dimensionless" in caption
    for symbol in ("gamma", "sigma"):
        assert symbol in caption
    for store in stores:
        if store["sigma"].ndim == 0:
            assert f"sigma = {float(store['sigma']):g}" in caption


@pytest.mark.parametrize("contexts", ["given", "estimated"])
def test_the_weights_of_both_atoms_are_written_beside_them(contexts: str) -> None:
    """Whichever of the two histograms is the higher one: they share an axis."""
    figure = load("implicit-regularization")
    data = figure.data(*smallest("implicit-regularization"))
    spectrum = data["spectrum"].copy(deep=True)
    spectrum["height"].loc[{"contexts": contexts}] *= 3
    drawn = figure.draw(data | {"spectrum": spectrum})
    notes = [(axes, note) for axes in drawn.axes for note in axes.texts if note.get_text()]
    assert [note.get_text().split()[0] for _, note in notes] == ["weight", "weight"]
    assert all(axes.viewLim.contains(*note.xy) for axes, note in notes)


def test_points_without_an_answer_are_left_out_and_counted() -> None:
    figure = load("phase-diagram")
    grid = Parameters.grid(**POINT | {"alpha": np.inf}, kappa=[0.3, 0.6, 1.2], rho=[0.5, 0.9])
    dataset = figure.data(solve(grid).to_dataset())
    assert np.isnan(dataset["errors"]).all()
    assert "Hatched: 6 of 6 points" in figure.caption(dataset)
    assert render("phase-diagram", dataset, ["png"])["png"].startswith(b"\x89PNG")


@pytest.mark.parametrize("change", [{}, {"sigma": 0.0}, {"ridge": 0.1}, {"gamma": 0.15}])
def test_the_phase_diagram_tells_of_growth_where_theory_has_it(change: dict[str, float]) -> None:
    figure = load("phase-diagram")
    at = POINT | change
    drawn = figure.data(solve(Parameters.grid(**at, kappa=[0.3, 0.6], rho=[0.2, 0.4, 0.8])).to_dataset())
    told = "IDG tends to a finite limit, larger the nearer the line" in figure.caption(drawn)
    assert told == ("grows like alpha" in figure.caption(drawn))
    long = Parameters.grid(**at | {"alpha": [1e5, 1e7]}, kappa=0.6, rho=[0.2, 0.4, 0.8])
    early, late = solve(long).errors["IDG"]
    near, far, above = late / early
    holds = (
        np.allclose([near, far], 1.0, rtol=1e-2) and late[0] < late[1] and np.isclose(above, 100, rtol=0.1)
    )
    assert told == holds


@pytest.mark.parametrize(
    ("name", "axis", "fixed"),
    [
        ("phase-diagram", "kappa", {}),
        ("comparison", "kappa", {}),
        ("decomposition", "alpha", {}),
        ("phase-transition", "alpha", {}),
        ("phase-transition", "kappa", {}),
        ("scaling", "alpha", {}),
        ("trade-off", "alpha", {}),
        ("trade-off", "alpha", {"ridge": 0.1}),
    ],
)
def test_infinite_values_of_an_axis_are_left_out_and_said(
    name: str, axis: str, fixed: dict[str, float]
) -> None:
    figure = load(name)

    def drawn(kept: int, added: list[float]) -> Any:
        """From stores that keep some values of the axis and have others too; experiments are finite."""
        stores = []
        for task, store in zip(tasks(name, quick=True).values(), smallest(name), strict=True):
            if isinstance(task, Theory):
                grid = {other: store[other].values for other in store["status"].dims}
                if axis in grid:
                    grid[axis] = np.array([*added, *grid[axis][:kept]])
                config = replace(task.config, grid=grid, parameters={**task.config.parameters, **fixed})
                store = Theory(config).evaluate(grid)
            stores.append(store)
        return figure.data(*stores)

    finite, infinite = drawn(3, []), drawn(3, [np.inf])
    said = f"{axis} = inf, which the store has too, is not shown"
    assert said in figure.caption(infinite)
    assert said not in figure.caption(finite)
    assert render(name, infinite, ["png"]) == render(name, finite, ["png"])
    with pytest.raises(InputError, match=f"needs finite values of {axis}; this store has only inf"):
        drawn(0, [np.inf])


def test_the_folder_of_figures_is_made(tmp_path: Path) -> None:
    made = tmp_path / "new" / "folder"
    done = CliRunner().invoke(main, ["figure", "softmax-fit", "--quick", "--quiet", "-o", str(made)])
    assert done.exit_code == 0, done.stderr
    assert (made / "softmax-fit.png").exists()


@pytest.mark.parametrize("name", [n for n in STORED if any(store["status"].ndim for store in smallest(n))])
def test_points_that_failed_are_not_drawn(name: str) -> None:
    """A failed point gives the same drawing whatever numbers stand there."""

    def spoilt(store: xr.Dataset, factor: float) -> xr.Dataset:
        made = store.copy(deep=True)
        axes = made["status"].dims
        first = dict.fromkeys(axes, 0)
        made["status"][first] = Status.NOT_CONVERGED
        for variable in made.data_vars.values():
            if set(axes) <= set(variable.dims) and variable.dtype.kind == "f":
                variable[first] = variable[first] * factor
        return made

    drawings = []
    for factor in (1.0, 1e6):
        drawn = load(name).data(*[spoilt(store, factor) for store in smallest(name)])
        drawings.append(render(name, drawn, ["png"]))
    assert drawings[0] == drawings[1]
    assert drawings[0]["png"] != smallest_drawing(name)["png"]


def test_every_figure_can_be_made_quickly_by_one_command(tmp_path: Path) -> None:
    started = process_time()
    done = CliRunner().invoke(main, ["figure", "all", "--quick", "-o", str(tmp_path), "--quiet"])
    assert done.exit_code == 0, done.stderr
    # Seconds of one core, which other work on the machine does not stretch as it does those of the clock.
    assert process_time() - started < 60
    made = [Path(line).name for line in done.stdout.splitlines()]
    for name in FIGURES:
        stores = getattr(load(name), "STORES", [name])
        files = [*(f"{name}.{form}" for form in ("png", "pdf", "txt")), *(f"{store}.nc" for store in stores)]
        assert [file for file in made if file in files] == files
    assert all((tmp_path / file).stat().st_size for file in made)
    assert {path.name for path in tmp_path.iterdir()} == set(made)
    for name in FIGURES:
        experiments = [task.config.experiment for task in tasks(name, quick=True).values()]
        seeds = {experiment.seed for experiment in experiments if experiment is not None}
        caption = (tmp_path / f"{name}.txt").read_text()
        assert set(map(int, re.findall(r"D = [0-9 and,]+ \(seed (\d+)\)", caption))) == seeds, name


def test_a_figure_of_several_stores_is_drawn_again_from_them(tmp_path: Path) -> None:
    folder = ["-o", str(tmp_path), "--format", "png"]
    first = CliRunner().invoke(main, ["figure", "decomposition", "--quick", *folder])
    assert first.exit_code == 0, first.stderr
    drawn = (tmp_path / "decomposition.png").read_bytes()
    stores = [f"--store={tmp_path / store}.nc" for store in load("decomposition").STORES]
    again = CliRunner().invoke(main, ["figure", "decomposition", "--overwrite", *folder, *stores])
    assert again.exit_code == 0, again.stderr
    assert (tmp_path / "decomposition.png").read_bytes() == drawn
    swapped = CliRunner().invoke(main, ["figure", "decomposition", "--overwrite", *folder, *stores[::-1]])
    assert swapped.exit_code == 2
    assert "needs a store with errors, decomposition, status" in swapped.stderr
    assert (tmp_path / "decomposition.png").read_bytes() == drawn


@pytest.mark.parametrize("gamma", [[0.2, 1.0, 5.0], [0.2, 0.9, 1.2, 5.0], [1.0, 2.0, 5.0]])
def test_errors_without_a_ridge_leave_the_panels_on_both_sides_of_the_threshold(gamma: list[float]) -> None:
    figure = load("sample-size")
    _, experiments = smallest("sample-size")
    point = {"alpha": 4.0, "kappa": 0.5, "rho": 0.4, "sigma": 0.3}
    theory = solve(Parameters.grid(**point, ridge=[0.0, 0.01], gamma=gamma)).to_dataset()
    for panel in figure.draw(figure.data(theory, experiments)).axes:
        _, top = panel.get_ylim()
        _, diverging, peaked = (line for line in panel.lines if line.get_linestyle() != "None")
        place, values = diverging.get_data()
        assert np.isnan(values[place == 1]).all()
        for side in (values[place < 1], values[place > 1]):
            assert side.size == 0 or np.nanmax(side) > top > np.nanmin(side)
        assert np.max(peaked.get_data()[1]) < top


def test_the_extrapolation_of_the_comparison_stands_apart_and_its_bars_set_no_limits() -> None:
    figure = load("comparison")
    theory, experiments = smallest("comparison")
    drawn = figure.draw(figure.data(theory, experiments))
    wide = figure.draw(
        figure.data(theory, experiments.assign(ratio_allowed=experiments["ratio_allowed"] * 1e3))
    )
    assert [panel.get_ylim() for panel in wide.axes] == [panel.get_ylim() for panel in drawn.axes]
    for panel, protocol in zip(drawn.axes[3:], PROTOCOLS, strict=True):
        *sizes, extrapolated = (bars.lines[0] for bars in panel.containers)
        assert len(sizes) == experiments.sizes["dim"]
        assert {line.get_marker() for line in sizes}.isdisjoint({extrapolated.get_marker()})
        np.testing.assert_array_equal(
            extrapolated.get_ydata(), experiments["ratio"].sel(protocol=protocol) - 1
        )
        low, high = panel.get_ylim()
        for line in sizes:
            assert np.all((low < line.get_ydata()) & (line.get_ydata() < high))
            assert np.all(line.get_xdata() != extrapolated.get_xdata())


def test_curves_end_where_leading_terms_say() -> None:
    drawn = load("scaling").data(*smallest("scaling"))["regimes"].isel(alpha=-1)
    # At alpha = 1e5 the corrections are of relative order alpha^(-1/2).
    np.testing.assert_allclose(drawn["errors"], drawn["leading"], rtol=1e-2)


@pytest.mark.parametrize("name", ["trade-off", "scaling", "phase-transition"])
def test_figures_of_equal_contexts_refuse_others(name: str) -> None:
    other = [
        store.assign_coords(alpha_test=store["alpha"] * 2) if "errors" in store else store
        for store in smallest(name)
    ]
    with pytest.raises(InputError, match="needs alpha_test = alpha"):
        load(name).data(*other)


def test_a_single_point_without_an_answer_is_refused() -> None:
    (store,) = smallest("predictions")
    failed = store.assign(status=store["status"] * 0 + Status.NOT_CONVERGED)
    with pytest.raises(InputError, match="its status is not_converged"):
        load("predictions").data(failed)


def test_a_store_whose_points_all_raised_says_why() -> None:
    raised = xr.Dataset({"status": ("alpha", [-1]), "reason": ("alpha", ["InputError: too small"])})
    with pytest.raises(InputError, match=r"needs mean.*InputError: too small"):
        load("decomposition").data(smallest("decomposition")[0], raised)


def test_the_phase_diagram_refuses_other_axes() -> None:
    other = solve(Parameters.grid(**POINT, kappa=0.5, rho=[0.3, 0.5])).to_dataset()
    with pytest.raises(InputError, match="this store spans rho"):
        load("phase-diagram").data(other)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(
        "[parameters]\nalpha = 8\ngamma = 1.5\nsigma = 0.3\n"
        "[grid]\nkappa = [0.3, 0.6, 1.2]\nrho = [0.2, 0.8]\n[quick]\ngrid.kappa = [0.3]\n"
    )
    return path


def test_the_command_writes_drawings_caption_and_store(tmp_path: Path, config: Path) -> None:
    done = CliRunner().invoke(main, ["figure", "phase-diagram", "--config", str(config), "-o", str(tmp_path)])
    assert done.exit_code == 0, done.stderr
    names = ["phase-diagram.png", "phase-diagram.pdf", "phase-diagram.txt", "phase-diagram.nc"]
    assert [Path(line).name for line in done.stdout.splitlines()] == names
    assert all((tmp_path / name).stat().st_size for name in names)

    drawn = (tmp_path / "phase-diagram.png").read_bytes()
    store = str(tmp_path / "phase-diagram.nc")
    arguments = ["phase-diagram", "--store", store, "-o", str(tmp_path), "--overwrite"]
    again = CliRunner().invoke(main, ["figure", *arguments])
    assert again.exit_code == 0, again.stderr
    assert (tmp_path / "phase-diagram.png").read_bytes() == drawn


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such"], ["'no-such'", "phase-diagram"]),
        (["phase-diagram", "--format", "svg"], ["'svg'", "png, pdf"]),
        (["phase-diagram", "-o", "/dev/null/x"], ["'/dev/null/x'", "cannot be made: Not a directory"]),
        (["phase-diagram", "--config", "missing.toml"], ["missing.toml"]),
        (["phase-diagram", "--store", "missing.nc"], ["missing.nc"]),
        (["phase-diagram", "--store", "a.nc", "--config", "b.toml"], ["one of the two"]),
        (["phase-diagram", "--store", "a.nc", "--store", "b.nc"], ["2 stores are given", "takes 1"]),
        (["phase-diagram", *["--config", "phase-diagram"] * 2], ["2 configs are given", "phase-diagram"]),
        (["all", "--store", "a.nc"], ["name that figure"]),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["figure", *arguments])
    assert done.exit_code == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    for word in words:
        assert word in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_is_kept(tmp_path: Path, config: Path) -> None:
    precious = tmp_path / "phase-diagram.png"
    precious.write_text("mine")
    done = CliRunner().invoke(main, ["figure", "phase-diagram", "--config", str(config), "-o", str(tmp_path)])
    assert done.exit_code == 2
    assert "--overwrite" in done.stderr
    assert precious.read_text() == "mine"
    assert not (tmp_path / "phase-diagram.nc").exists()
