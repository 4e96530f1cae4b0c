"""Figures: data and drawing apart, files complete, bytes the same."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

from replica import InputError, Parameters, solve
from replica.cli.main import main
from replica.figures import FIGURES, load
from replica.figures.produce import render

POINT = {"alpha": 8.0, "gamma": 1.5, "sigma": 0.3}


def small_store() -> xr.Dataset:
    """Three points: one axis of three values, one of one."""
    return solve(Parameters.grid(**POINT, kappa=[0.3, 0.6, 1.2], rho=[0.5])).to_dataset()


@pytest.mark.parametrize("name", [name for name in FIGURES if hasattr(load(name), "CONFIG")])
def test_every_figure_states_its_config_and_what_it_lacks(name: str) -> None:
    figure = load(name)
    assert figure.CONFIG
    with pytest.raises(InputError, match="needs"):
        figure.data(xr.Dataset())


def test_the_phase_diagram_draws_from_three_points() -> None:
    figure = load("phase-diagram")
    dataset = figure.data(small_store())
    once, again = (render("phase-diagram", dataset, ["png", "pdf"]) for _ in range(2))
    assert once == again
    assert once["png"].startswith(b"\x89PNG")
    assert once["pdf"].startswith(b"%PDF")
    assert b"/FontType 42" in once["pdf"] or b"/TrueType" in once["pdf"] or b"/CIDFontType2" in once["pdf"]
    assert "alpha = 8, gamma = 1.5, sigma = 0.3, ridge = 0" in figure.caption(dataset)


def test_points_without_an_answer_are_left_out_and_counted() -> None:
    figure = load("phase-diagram")
    grid = Parameters.grid(**POINT | {"alpha": np.inf}, kappa=[0.3, 0.6, 1.2], rho=[0.5, 0.9])
    dataset = figure.data(solve(grid).to_dataset())
    assert np.isnan(dataset["errors"]).all()
    assert "Hatched: 6 points" in figure.caption(dataset)
    assert render("phase-diagram", dataset, ["png"])["png"].startswith(b"\x89PNG")


def test_the_phase_diagram_refuses_other_axes() -> None:
    other = solve(Parameters.grid(**POINT, kappa=0.5, rho=[0.3, 0.5])).to_dataset()
    with pytest.raises(InputError, match="this store spans rho"):
        load("phase-diagram").data(other)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(
        "[parameters]\nalpha = 8\ngamma = 1.5\nsigma = 0.3\n"
        "[grid]\nkappa = [0.3, 0.6, 1.2]\nrho = [0.2, 0.8]\n"
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
        (["phase-diagram", "-o", "missing"], ["'missing'"]),
        (["phase-diagram", "--config", "missing.toml"], ["missing.toml"]),
        (["phase-diagram", "--store", "missing.nc"], ["missing.nc"]),
        (["phase-diagram", "--store", "a.nc", "--config", "b.toml"], ["one of the two"]),
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
