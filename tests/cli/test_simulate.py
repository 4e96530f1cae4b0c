"""`replica simulate` through click's runner, and interrupted as a process."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from click.testing import CliRunner, Result
from refusal import assert_refused

from replica import Parameters
from replica.cli.main import main
from replica.exceptions import NumericalError
from replica.simulation import experiment, simulate

POINT = {"alpha": "2", "kappa": "0.77", "rho": "0.33", "gamma": "1.5", "sigma": "0.3"}
OPTIONS = POINT | {"dim": "12", "repeats": "3", "seed": "7"}


def run(**changes: Any) -> Result:
    options = {k: v for k, v in (OPTIONS | changes).items() if v is not None}
    arguments = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    return CliRunner().invoke(main, ["simulate", *arguments])


def test_json_is_what_the_library_returns() -> None:
    done = run(format="json", ridge="0.1", alpha_test="4", gain="0.5")
    assert done.exit_code == 0
    params = Parameters(alpha=2, alpha_test=4, kappa=0.77, rho=0.33, gamma=1.5, sigma=0.3, ridge=0.1)
    expected = simulate(params, 12, 3, 7, gain=0.5).to_dict()
    report = json.loads(done.stdout)
    assert report == json.loads(json.dumps(expected))
    assert report["realized"]["kappa"] == 9 / 12
    fields = ("parameters", "realized", "dim", "seed", "repeats", "n_failed", "errors", "differences")
    assert set(fields) < set(report)
    assert set(report["decomposition"]["TM"]) == {"algorithmic", "memorization", "structural", "cross"}


def test_nothing_is_decomposed_without_a_gain() -> None:
    assert "decomposition" not in json.loads(run(format="json").stdout)
    assert "memorization" not in run().stdout


def test_one_repeat_has_a_null_standard_error_and_says_so() -> None:
    done = run(format="json", repeats="1")
    report = json.loads(done.stdout)
    assert report["errors"]["TM"]["stderr"] is None
    assert report["errors"]["TM"]["n"] == 1
    assert done.stderr == "one repeat has no standard error\n"
    assert done.exit_code == 0


def test_the_threshold_is_an_answer() -> None:
    done = run(format="json", gamma="1")
    assert done.exit_code == 0
    report = json.loads(done.stdout)
    assert report["status"] == "interpolation_threshold"
    assert report["errors"]["TM"] == {"mean": None, "stderr": None, "n": 0}
    assert done.stderr.startswith("interpolation_threshold: ")


def test_csv_has_one_row() -> None:
    (row,) = csv.DictReader(io.StringIO(run(format="csv").stdout))
    assert float(row["errors.IDG.mean"]) > 0.09
    assert row["errors.IDG.n"] == "3"


def test_table_shows_errors_differences_and_parts() -> None:
    done = run(gain="0.5")
    for word in ("realized at dim 12: ", "\nTM  ", "\nODG-IDG  ", "\nIDG cross  ", "\ntraining error  "):
        assert word in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(("failing", "code"), [({1}, 3), ({0, 1, 2}, 1)])
def test_failed_repeats_are_named_with_their_seeds(
    failing: set[int], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit, calls = experiment.minimize, iter(range(3))

    def sometimes(*arguments: Any) -> Any:
        if next(calls) in failing:
            raise NumericalError("it is slow")
        return fit(*arguments)

    monkeypatch.setattr(experiment, "minimize", sometimes)
    done = run(format="json", jobs="1")
    assert done.exit_code == code
    report = json.loads(done.stdout)
    assert report["n_failed"] == len(failing)
    assert report["errors"]["TM"]["n"] == 3 - len(failing)
    for failure in report["failures"]:
        assert failure["seed"][:3] == [7, 12, failure["repeat"]]
        assert f"repeat {failure['repeat']} (seeds 7, 12, {failure['repeat']}, " in done.stderr
        assert "failed: it is slow" in done.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dim": "1"}, ["dim = 1", "[2, inf)"]),
        ({"dim": "2.5"}, ["--dim", "'2.5'"]),
        ({"dim": None}, ["--dim"]),
        ({"repeats": "0"}, ["repeats = 0", "[1, inf)"]),
        ({"seed": "-1"}, ["seed = -1", "[0, inf)"]),
        ({"alpha": "inf"}, ["alpha = inf", "(0, inf)"]),
        ({"kappa": "0.01"}, ["kappa = 0.01", "rounds to 0 at dim = 12"]),
        ({"rho": "0.01"}, ["rho = 0.01", "rounds to 0 at dim = 12"]),
        ({"gamma": "0.001"}, ["gamma = 0.001", "0.144 prompts"]),
        ({"gain": "nan"}, ["gain = nan"]),
        ({"gain": "much"}, ["--gain", "'much'"]),
        ({"rtol": "0"}, ["rtol = 0", "(0, 0.01]"]),
        ({"jobs": "0"}, ["Error: jobs = 0", "positive"]),
        ({"dim": "100000"}, ["dim = 100000", "GB of memory", "are available"]),
    ],
)
def test_bad_input_is_one_sentence(change: dict[str, str | None], words: list[str]) -> None:
    assert_refused(run(**change), *words)


@pytest.mark.skipif(os.name != "posix", reason="signals to a process are POSIX")
@pytest.mark.parametrize("dim", ["30", "200"])
def test_an_interrupt_stops_within_two_seconds_and_leaves_nothing(dim: str) -> None:
    """The process prints nothing but a message, and its end shows that no thread is left."""
    arguments = [word for name, value in POINT.items() for word in (f"--{name}", value)]
    code = (
        # A process started in the background may have been told to ignore the signal.
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from replica.cli.main import main\n"
        "import replica.simulation\n"
        "print('ready', file=sys.stderr, flush=True)\n"
        f"main(['simulate', *{arguments!r}, '--dim', '{dim}', '--repeats', '100000', '--jobs', '2'])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        time.sleep(1)
        assert process.poll() is None
        start = time.perf_counter()
        process.send_signal(signal.SIGINT)
        try:
            out, message = process.communicate(timeout=20)
        finally:
            process.kill()
        assert time.perf_counter() - start < 2
    assert process.returncode == 130
    assert (out, message.strip()) == ("", "Interrupted.")
