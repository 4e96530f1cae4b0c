"""`replica compare` through click's runner."""

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from replica import Parameters, solve
from replica.cli.main import main
from replica.sweep import read

CONFIG = """
[parameters]
alpha = 2.0
rho = 0.5
gamma = 1.5
sigma = 0.3
[grid]
kappa = [0.5, 1.5]
[experiment]
dims = [8, 12]
repeats = 3
seed = 1
"""


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["compare", *map(str, arguments)])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """TM 10% above the theory, ODG on it."""
    errors = solve(Parameters(alpha=2, kappa=1.5, rho=0.5, gamma=1.5, sigma=0.3)).errors
    path = tmp_path / "mine.csv"
    lines = ["alpha,kappa,rho,gamma,sigma,dim,protocol,mean,stderr,n"]
    for dim in (40, 80):
        for protocol, factor in (("TM", 1.1), ("ODG", 1.0)):
            error = factor * errors[protocol]
            lines.append(f"2,1.5,0.5,1.5,0.3,{dim},{protocol},{error},{0.1 * error / dim},20")
    path.write_text("\n".join(lines))
    return path


def test_a_config_is_run_stored_and_judged(tmp_path: Path, config: Path) -> None:
    output = tmp_path / "out.nc"
    done = run(config, "-o", output, "--format", "json", "--jobs", "1")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert set(report) == {"summary", "rows"}
    assert len(report["rows"]) == sum(report["summary"].values()) == 6
    assert report["rows"][0]["dim"] == [8, 12]
    with read(output) as stored:
        assert stored["mean"].dims == ("protocol", "dim", "kappa")
        first = stored["mean"].sel(protocol="TM", kappa=0.5).values.tolist()
    assert report["rows"][0]["mean"] == first
    # A second call finds everything done and says the same.
    again = run(config, "-o", output, "--format", "json")
    assert again.exit_code == 0, again.stderr
    assert again.stdout == done.stdout


def test_measurements_are_judged_without_a_config(measured: Path, tmp_path: Path) -> None:
    output = tmp_path / "mine.nc"
    done = run("--measured", measured, "-o", output, "--format", "json")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["summary"] == {"agrees": 1, "finite_size": 0, "disagrees": 1, "undecided": 0}
    assert [row["protocol"] for row in report["rows"]] == ["TM", "ODG"]
    with read(output) as stored:
        assert stored["verdict"].sel(protocol="TM").item() == 2
    assert run("--measured", measured, "-o", output).exit_code == 2


def test_strict_makes_a_disagreement_an_exit_code(measured: Path) -> None:
    assert run("--measured", measured).exit_code == 0
    assert run("--measured", measured, "--strict").exit_code == 1


def test_the_table_and_csv_say_the_verdict(measured: Path) -> None:
    table = run("--measured", measured)
    assert "disagrees" in table.stdout
    assert table.stderr == "1 agrees, 0 finite_size, 1 disagrees, 0 undecided\n"
    rows = list(csv.DictReader(io.StringIO(run("--measured", measured, "--format", "csv").stdout)))
    assert [row["verdict"] for row in rows] == ["disagrees", "agrees"]
    assert rows[0]["dim"] == "40 80"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give one of the two"),
        (["--measured", "none.csv"], "none.csv"),
        (["phase-diagram", "-o", "x.nc"], "[experiment]"),
        (["phase-diagram"], "-o FILE.nc"),
        (["--measured", "none.csv", "-o", "missing/x.nc"], "'missing'"),
    ],
)
def test_bad_input_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_config_whose_points_all_raise_says_where_to_look(tmp_path: Path, config: Path) -> None:
    config.write_text(CONFIG.replace("[0.5, 1.5]", "[0.01, 0.02]"))
    done = run(config, "-o", tmp_path / "out.nc")
    assert done.exit_code == 1
    assert "2 of 2 points" in done.stderr
    assert f"`replica show {tmp_path / 'out.nc'}` tells why" in done.stderr


def test_quiet_says_nothing_but_errors(measured: Path) -> None:
    assert run("--measured", measured, "--quiet").stderr == ""


def test_points_without_a_finite_theory_are_named(measured: Path) -> None:
    measured.write_text(measured.read_text() + "\n2,1.5,0.5,1,0.3,80,TM,1,0.1,20")
    done = run("--measured", measured)
    assert "not compared for want of a finite theory: 1 point, interpolation_threshold\n" in done.stderr
