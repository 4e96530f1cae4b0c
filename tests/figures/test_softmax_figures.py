"""The figures of attention regression: computed, kept, drawn the same from both."""

import re
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

from replica.cli.main import main
from replica.figures import FIGURES, load
from replica.figures.produce import render

NAMES = [name for name in FIGURES if name.startswith("softmax-")]


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_data_is_reproducible_and_survives_its_file(name: str, tmp_path: Path) -> None:
    figure = load(name)
    dataset = figure.data(quick=True)
    xr.testing.assert_identical(dataset, figure.data(quick=True))
    dataset.to_netcdf(tmp_path / "kept.nc", engine="h5netcdf")
    kept = xr.load_dataset(tmp_path / "kept.nc", engine="h5netcdf")
    once, again = (render(name, source, ["png", "pdf"]) for source in (dataset, kept))
    assert once == again
    assert once["png"].startswith(b"\x89PNG")
    assert figure.caption(kept) == figure.caption(dataset)
    assert "nan" not in figure.caption(dataset)


def test_the_command_keeps_what_it_draws(tmp_path: Path) -> None:
    folder = ["-o", str(tmp_path), "--format", "png"]
    done = CliRunner().invoke(main, ["figure", "softmax-shift", *folder])
    assert done.exit_code == 0, done.stderr
    names = ["softmax-shift.png", "softmax-shift.txt", "softmax-shift.nc"]
    assert [Path(line).name for line in done.stdout.splitlines()] == names
    drawn = (tmp_path / "softmax-shift.png").read_bytes()
    store = ["--store", str(tmp_path / "softmax-shift.nc"), "--overwrite"]
    again = CliRunner().invoke(main, ["figure", "softmax-shift", *folder, *store])
    assert again.exit_code == 0, again.stderr
    assert (tmp_path / "softmax-shift.png").read_bytes() == drawn

    for arguments, words in (
        (["softmax-shift", *folder], "exists; give --overwrite"),
        (["softmax-shift", *folder, "--overwrite", "--config", "x"], "takes no config"),
        (["softmax-fit", *folder, *store], "does not hold what the figure softmax-fit draws"),
        (["softmax-fit", *folder, "--store", "missing.nc"], "there is no NetCDF-4 file at 'missing.nc'"),
    ):
        refused = CliRunner().invoke(main, ["figure", *arguments])
        assert refused.exit_code == 2
        assert words in refused.stderr


def test_measured_constants_stay_below_their_bounds() -> None:
    dataset = load("softmax-lipschitz").data(quick=True)
    for variable in ("over_radius", "over_n"):
        values = dataset[variable]
        for name in ("ball", "box"):
            # The bounds carry rounding.
            assert (values.sel(quantity="measured") <= values.sel(quantity=name) + 1e-9).all()
    assert np.isposinf(dataset["over_radius"].sel(loss="rescaled", quantity="everywhere")).all()


def test_the_radius_of_the_ball_is_not_called_R() -> None:
    figure = load("softmax-lipschitz")
    caption = figure.caption(figure.data(quick=True))
    assert "on the ball |X|_F <= radius" in caption
    # R stands in the R-form alone, and is said there.
    assert (
        re.findall(r"\bR\b(?!-form)", caption.replace("8 n R^2 exp(2 R^2), whose R is the larger", "")) == []
    )


def test_shifts_stay_below_their_bounds() -> None:
    dataset = load("softmax-shift").data(quick=True)
    bounds = dataset["log_bounds"]
    assert ((dataset["log_shift"] <= bounds + 1e-12) | bounds.isnull()).all()


def test_the_slopes_of_the_gradient_step() -> None:
    attributes = load("softmax-gradient-step").data().attrs
    assert attributes["slope_linear"] == pytest.approx(1, abs=1e-6)
    # The third order, of relative size s = 1e-4 at the largest size that enters the fit.
    assert attributes["slope_remainder"] == pytest.approx(2, abs=1e-3)
