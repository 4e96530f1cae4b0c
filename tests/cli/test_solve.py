"""`replica solve` through click's runner."""

import csv
import io
import json
from typing import Any

import pytest
from click.testing import CliRunner, Result
from refusal import assert_refused

from replica import Parameters, solve
from replica.cli.main import main

POINT = {"alpha": "2", "kappa": "1.5", "rho": "0.9", "gamma": "1.5", "sigma": "0.3"}


def run(**changes: Any) -> Result:
    options = {k: v for k, v in (POINT | changes).items() if v is not None}
    arguments = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    return CliRunner().invoke(main, ["solve", *arguments])


def test_json_is_what_the_library_returns() -> None:
    done = run(format="json", ridge="0.1", alpha_test="4")
    assert done.exit_code == 0
    report = json.loads(done.stdout)
    solution = solve(Parameters(alpha=2, alpha_test=4, kappa=1.5, rho=0.9, gamma=1.5, sigma=0.3, ridge=0.1))
    assert report["parameters"] == dict(solution.parameters.items())
    assert report["status"] == "ok"
    assert report["residual"] < 1e-14
    assert report["effective_ridge"] == solution.effective_ridge
    assert report["training_error"] == solution.training_error
    for name in ("order_parameters", "errors", "decomposition", "prediction"):
        assert report[name] == json.loads(json.dumps(getattr(solution, name), default=dict))
    assert list(report["order_parameters"]) == ["q", "m", "chi", "q_hat", "m_hat", "chi_hat"]


def test_json_holds_infinities_as_text_and_null_only_without_an_answer() -> None:
    minimum_norm = json.loads(run(format="json", gamma="0.6").stdout)
    assert minimum_norm["order_parameters"]["chi"] == "inf"
    threshold = run(format="json", gamma="1")
    report = json.loads(threshold.stdout)
    assert threshold.exit_code == 0
    assert report["status"] == "interpolation_threshold"
    assert report["errors"] == {"TM": "inf", "IDG": "inf", "ODG": "inf"}
    assert report["prediction"]["TM"] == {"covariance": None, "variance": "inf"}
    assert report["residual"] is None
    assert "diverge" in threshold.stderr


def test_an_ill_posed_point_is_an_answer_and_a_failure_is_not() -> None:
    assert run(alpha="inf").exit_code == 0
    failed = run(alpha="1e-300")
    assert failed.exit_code == 1
    assert failed.stderr.startswith("nonfinite: ")


def test_csv_has_one_row() -> None:
    (row,) = csv.DictReader(io.StringIO(run(format="csv").stdout))
    assert float(row["errors.IDG"]) == pytest.approx(1.4415581027908977, rel=1e-14)
    assert row["status"] == "ok"


def test_table_shows_the_errors() -> None:
    done = run()
    assert "IDG  1.44156" in done.stdout
    assert done.stderr == ""


def test_an_integer_equals_its_float() -> None:
    assert run(alpha="10", format="json").stdout == run(alpha="10.0", format="json").stdout


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gamma": "0"}, ["gamma = 0", "(0, inf)"]),
        ({"gamma": "nan"}, ["gamma = nan", "(0, inf)"]),
        ({"rho": "1.5"}, ["rho = 1.5", "(0, 1]"]),
        ({"sigma": "-1"}, ["sigma = -1", "[0, inf)"]),
        ({"kappa": "many"}, ["--kappa", "'many'", "(0, inf]"]),
        ({"alpha_test": "-2"}, ["alpha_test = -2", "(0, inf]"]),
        ({"gamma": None}, ["--gamma"]),
        ({"delta": "1"}, ["--delta"]),
    ],
)
def test_bad_input_is_one_sentence(change: dict[str, str | None], words: list[str]) -> None:
    assert_refused(run(**change), *words)


def test_an_unknown_command_is_refused() -> None:
    done = CliRunner().invoke(main, ["sovle"])
    assert done.exit_code == 2
    assert "sovle" in done.stderr
