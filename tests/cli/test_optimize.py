"""`replica optimize` through click's runner."""

import csv
import io
import json

import pytest
from click.testing import CliRunner, Result
from refusal import assert_refused

from replica.cli.main import main
from replica.theory.optimize import optimize

FIXED = {"alpha": 2.0, "kappa": 1.5, "gamma": 1.5, "sigma": 0.3}
POINT = [word for name, value in FIXED.items() for word in (f"--{name}", str(value))]
WEIGHTS = ["--weight", "IDG=0.7", "--weight", "ODG=0.3"]
OVER = ["--over", "ridge=1e-6:10"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["optimize", *arguments])


def test_json_is_what_the_library_returns() -> None:
    done = run(*WEIGHTS, *OVER, "--over", "alpha-test=0.5:4", *POINT, "--rho", "0.9", "--format", "json")
    assert done.exit_code == 0
    bounds = {"ridge": (1e-6, 10.0), "alpha_test": (0.5, 4.0)}
    expected = optimize({"IDG": 0.7, "ODG": 0.3}, bounds, **FIXED, rho=0.9)
    assert json.loads(done.stdout) == json.loads(json.dumps(expected.to_dict()))
    assert done.stderr == "alpha_test sits on its upper bound.\n"


def test_csv_has_one_row() -> None:
    done = run(*WEIGHTS, *OVER, *POINT, "--rho", "0.9", "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(done.stdout))
    assert row["optimum.ridge.position"] == "interior"
    assert row["parameters.ridge"] == row["optimum.ridge.value"]
    assert float(row["criterion"]) == pytest.approx(
        0.7 * float(row["errors.IDG"]) + 0.3 * float(row["errors.ODG"]), rel=1e-15
    )
    assert done.stderr == ""


def test_table() -> None:
    done = run(*WEIGHTS, *OVER, *POINT, "--rho", "0.9")
    lines = done.stdout.splitlines()
    (head,) = (i for i, line in enumerate(lines) if line.split() == ["criterion", "least"])
    assert lines[head + 1].split() == ["0.7", "IDG", "+", "0.3", "ODG", "0.763029"]
    assert any(line.split() == ["ridge", "0.768941", "1e-06", "10", "interior"] for line in lines)


def test_no_finite_point_is_a_numerical_failure() -> None:
    done = run(
        *WEIGHTS, "--over", "rho=0.1:1", "--alpha", "2", "--kappa", "1", "--gamma", "1", "--sigma", "0.3"
    )
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--weight", "IDG=-1", *OVER, "--rho", "0.9"], "weight of IDG = -1"),
        (["--weight", "IDG=0", *OVER, "--rho", "0.9"], "no weight is positive"),
        (["--weight", "ICL=1", *OVER, "--rho", "0.9"], "allowed protocols are TM, IDG, ODG"),
        (["--weight", "IDG", *OVER, "--rho", "0.9"], "'IDG' is not of the form PROTOCOL=WEIGHT"),
        ([*WEIGHTS, "--weight", "IDG=1", *OVER, "--rho", "0.9"], "--weight names IDG twice"),
        ([*WEIGHTS, "--over", "ridge=10:1", "--rho", "0.9"], "not increasing"),
        ([*WEIGHTS, "--over", "ridge=1", "--rho", "0.9"], "'ridge=1' is not of the form NAME=LOW:HIGH"),
        ([*WEIGHTS, "--over", "ridge=a:b", "--rho", "0.9"], "'ridge=a:b' is not of the form NAME=LOW:HIGH"),
        ([*WEIGHTS, *OVER, *OVER, "--rho", "0.9"], "--over names ridge twice"),
        ([*WEIGHTS, *OVER, "--over", "rho=0:1"], r"rho = 0 is outside the allowed range (0, 1]"),
        ([*WEIGHTS, *OVER, "--rho", "0.9", "--ridge", "0"], "ridge is both fixed at 0 and optimized"),
        ([*WEIGHTS, *OVER], "rho is neither fixed nor optimized"),
        ([*WEIGHTS, "--rho", "0.9"], "'--over'"),
        ([*OVER, "--rho", "0.9"], "'--weight'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments: list[str], message: str) -> None:
    assert_refused(run(*arguments, *POINT), message)
