"""`replica phase` and `replica equations` through click's runner."""

import csv
import io
import json

import pytest
from click.testing import CliRunner, Result
from refusal import assert_refused

from replica.cli.main import main
from replica.theory.printing import printed

POINT = {"alpha": "1e4", "kappa": "0.5", "rho": "0.5", "gamma": "1.5", "sigma": "0.3"}


def run(**changes: str) -> Result:
    words = [word for name, value in (POINT | changes).items() for word in (f"--{name}", value)]
    return CliRunner().invoke(main, ["phase", *words])


def test_a_point_is_one_object() -> None:
    report = json.loads(run(format="json").stdout)
    assert report["regime"] == {"tasks": "critical", "samples": "overdetermined"}
    assert report["exponents"] == {"TM": 0, "IDG": 0.5, "ODG": 1}
    assert report["scaling_variable"] == 0
    assert report["parameters"]["alpha_test"] == 1e4
    assert report["steepest"]["distance"] == pytest.approx(
        report["steepest"]["asymptotic_distance"], rel=0.05
    )


def test_a_line_is_a_list_and_a_csv() -> None:
    reports = json.loads(run(format="json", rho="0.3:0.7:3").stdout)
    assert [report["parameters"]["rho"] for report in reports] == pytest.approx([0.3, 0.5, 0.7])
    rows = list(csv.DictReader(io.StringIO(run(format="csv", alpha="1e2:1e4:3:log").stdout)))
    assert [float(row["parameters.alpha"]) for row in rows] == pytest.approx([1e2, 1e3, 1e4])
    assert float(rows[1]["exact.IDG"]) > 0


def test_the_table_names_regimes_and_numbers() -> None:
    done = run(rho="0.3:0.7:3")
    assert done.exit_code == 0
    for word in ("task-rich", "task-poor", "scaling variable", "IDG exponent", "steepest rho"):
        assert word in done.stdout


def test_points_without_an_answer() -> None:
    threshold = run(gamma="1", format="json")
    assert threshold.exit_code == 0
    report = json.loads(threshold.stdout)
    assert report["status"] == "interpolation_threshold"
    assert report["exact"]["TM"] == "inf"
    assert report["exponents"]["TM"] is None
    assert run(alpha="1e-300").exit_code == 1
    assert run(alpha="1e-300:1e2:2").exit_code == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"alpha": "inf"}, "alpha = inf"),
        ({"rho": "0.3:0.7"}, "start:stop:num"),
        ({"rho": "0.3:0.7:1"}, "num from 2 to 100000"),
        ({"rho": "0.3:0.7:x"}, "start:stop:num"),
        ({"rho": "0.3:0.7:3:lin"}, "start:stop:num"),
        ({"rho": "0:0.7:3:log"}, "positive with :log"),
        ({"rho": "a:0.7:3"}, "'a' is not a number"),
        ({"rho": "0.3:1.7:3"}, "rho = 1.7"),
        ({"kappa": "1:inf:3"}, "ends are finite"),
        ({"rho": "0.3:0.7:3", "gamma": "2:3:3"}, "rho and gamma are lines"),
        ({"alpha-test": "3"}, "No such option"),
    ],
)
def test_bad_input_is_one_sentence(change: dict[str, str], words: str) -> None:
    assert_refused(run(**change), words)


def equations(*words: str) -> Result:
    return CliRunner().invoke(main, ["equations", *words])


def test_equations_are_those_of_the_library() -> None:
    done = equations("--format", "latex", "--part", "action")
    assert done.exit_code == 0
    assert done.stdout == printed("latex", "action") + "\n"
    assert equations("--part", "reduction").stdout == printed("text", "reduction") + "\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--part", "appendix"), "part = 'appendix' is unknown"),
        (("--format", "word"), "format = 'word' is unknown"),
    ],
)
def test_unknown_parts_are_refused(words: tuple[str, str], said: str) -> None:
    done = equations(*words)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
