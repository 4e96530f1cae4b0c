"""Tasks that keep samples: what they hold is what theory and simulation say at that point."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replica import InputError, Parameters, solve, theory
from replica.simulation.gradient_descent import gradient_descent
from replica.simulation.hessian import hessian_eigenvalues
from replica.sweep import Config, run
from replica.sweep.measured import DescentEnds, Measured, Predictions, Spectra

FIXED = {"alpha": 2, "rho": 0.5, "gamma": 2.0, "sigma": 0.3}
TABLE = {
    "parameters": FIXED,
    "grid": {"kappa": [0.4, 1.5]},
    "experiment": {"dims": [8, 12], "repeats": 2, "seed": 3},
}
POINT = Parameters(**FIXED, kappa=1.5)


@pytest.mark.parametrize("kind", [Predictions, Spectra, DescentEnds])
def test_a_task_needs_experiments(kind: type[Measured]) -> None:
    with pytest.raises(InputError, match=r"no \[experiment\] table"):
        kind(Config.from_dict({"parameters": FIXED, "grid": {"kappa": [1]}}))


@pytest.mark.parametrize("kind", [Predictions, Spectra, DescentEnds])
def test_a_point_does_not_depend_on_its_box(kind: type[Measured]) -> None:
    task = kind(Config.from_dict(TABLE))
    whole, alone = task.evaluate(task.axes), task.evaluate({"kappa": np.array([1.5])})
    for name in whole.data_vars:
        np.testing.assert_array_equal(whole[name].sel(kappa=[1.5]), alone[name])


@pytest.mark.parametrize(
    ("kind", "name", "value", "told"),
    [
        (Predictions, "PROMPTS", 5, "config.experiment.prompts (4000 there, 5 here)"),
        (
            DescentEnds,
            "STARTS",
            (0.0, 1.0),
            "config.experiment.starts ([0.0, 0.5, 1.0, 1.5, 2.0] there, [0.0, 1.0] here)",
        ),
    ],
    ids=["prompts", "starts"],
)
def test_stores_of_other_constants_are_refused(
    kind: type[Measured], name: str, value: Any, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = kind(Config.from_dict(TABLE | {"grid": {"kappa": [1.5]}}))
    run(task, tmp_path / "out.nc")
    monkeypatch.setattr(kind, name, value)
    with pytest.raises(InputError, match=f"holds another sweep .* differs in {re.escape(told)}"):
        run(task, tmp_path / "out.nc")


def test_predictions_have_the_moments_of_the_theory() -> None:
    task = Predictions(Config.from_dict(TABLE | {"experiment": {"dims": [24], "repeats": 4}}))
    made = task.evaluate({"kappa": np.array([1.5])}).isel(dim=0, kappa=0)
    prediction = made["part_prediction"].sum("part").sel(protocol="IDG").values.ravel()
    assert prediction.shape == (4 * Predictions.PROMPTS,)
    covariance = np.mean(prediction * made["label"].sel(protocol="IDG").values.ravel())
    # Corrections of a few over D, and 16000 prompts.
    assert covariance == pytest.approx(float(solve(POINT).prediction["IDG"]["covariance"]), rel=0.15)


def test_spectra_of_smaller_dimensions_end_earlier() -> None:
    made = Spectra(Config.from_dict(TABLE)).evaluate({"kappa": np.array([1.5])})
    here = made["eigenvalue"].sel(kappa=1.5, contexts="estimated", dim=8).values
    np.testing.assert_array_equal(here[:, :8], hessian_eigenvalues(POINT, 8, 2, 3))
    assert np.isnan(here[:, 8:]).all()


def test_ends_of_descent_beside_their_theory() -> None:
    made = DescentEnds(Config.from_dict(TABLE)).evaluate({"kappa": np.array([1.5])}).sel(kappa=1.5)
    end = theory.gradient_descent(POINT, fluctuations=False)
    given = made.sel(contexts="given", protocol="ODG")
    assert float(given["from_zero"]) == end.from_zero["ODG"]
    assert float(given["kept"]) == end.kept["ODG"]
    direct = gradient_descent(POINT, DescentEnds.STARTS, 12, 2, 3, fluctuations=False).means["ODG"]
    np.testing.assert_array_equal(given["mean"].sel(dim=12), [estimate.mean for estimate in direct])
    np.testing.assert_array_equal(given["stderr"].sel(dim=12), [estimate.stderr for estimate in direct])
