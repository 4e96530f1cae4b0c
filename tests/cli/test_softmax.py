"""`replica softmax` through click's runner."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from replica.cli.main import main
from replica.softmax import (
    Problem,
    evaluate,
    gradient_step,
    label_shift,
    lipschitz_panel,
    load,
    log_loss,
    random_instance,
    shifted_labels,
)


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(main, ["softmax", *map(str, arguments)])


def report(*arguments: Any) -> Any:
    done = run(*arguments, "--format", "json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.npz"
    assert run("make", "--n", 5, "--d", 2, "--m", 4, "--seed", 3, "--radius", 2, "-o", path).exit_code == 0
    return path


@pytest.fixture
def overflowing(tmp_path: Path) -> Path:
    path = tmp_path / "overflow.npz"
    np.savez(path, A1=[[1.0]], A2=[[800.0], [799.0]], B=[[0.0, 1.0]], X=[[1.0]])
    return path


def test_make_writes_the_random_instance(file: Path, tmp_path: Path) -> None:
    expected = random_instance(5, 2, m=4, seed=3, radius=2.0)
    problem, X = load(file)
    assert (problem.A1 == expected.problem.A1).all()
    assert (problem.B == expected.problem.B).all()
    assert np.linalg.norm(X) == pytest.approx(2.0, rel=1e-15)
    planted = tmp_path / "planted.npz"
    assert run("make", "--n", 5, "--d", 2, "--planted", "-o", planted).exit_code == 0
    with np.load(planted) as stored:
        problem = Problem(stored["A1"], stored["A2"], stored["B"])
        # Residuals of a few eps.
        assert log_loss(problem, stored["X_planted"]) < 2 * np.log(1e-14)


@pytest.mark.parametrize(
    "arguments",
    [
        ["make", "--n", 5, "--d", 2, "-o"],
        ["evaluate", "a.npz", "--arrays"],
        ["fit", "a.npz", "-o"],
        ["shift", "a.npz", "--gradient-step", 0.1, "--labels"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_an_existing_file_is_kept_unless_it_is_to_be_replaced(
    file: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[Any]
) -> None:
    monkeypatch.chdir(file.parent)
    before = file.read_bytes()
    with monkeypatch.context() as computing:
        # Refused before anything is computed.
        for name in ("random_instance", "evaluate", "fit", "label_shift", "load"):
            computing.setattr(f"replica.softmax.{name}", None)
        refused = run(*arguments, "a.npz")
    assert refused.exit_code == 2
    assert refused.stderr == "Error: the output 'a.npz' exists; give --overwrite to replace it\n"
    assert refused.stdout == ""
    assert file.read_bytes() == before
    assert run(*arguments, "a.npz", "--overwrite").exit_code == 0
    assert file.read_bytes() != before
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("kind", ["normalized", "rescaled"])
def test_evaluate_prints_and_writes_what_the_library_returns(file: Path, tmp_path: Path, kind: str) -> None:
    problem, X = load(file)
    result = evaluate(problem, X, kind)
    arrays = tmp_path / "out.npz"
    found = report("evaluate", file, "--loss", kind, "--arrays", arrays)
    assert found["status"] == "ok"
    assert found["loss"] == result.loss
    assert found["log_loss"] == result.log_loss
    assert found["max_abs_logit"] == result.max_abs_logit
    assert found["row_stochastic"] is True
    assert found["norms"] == {
        "A1": np.linalg.norm(problem.A1, 2),
        "A2": np.linalg.norm(problem.A2, 2),
        "X": pytest.approx(np.linalg.norm(X), rel=1e-15),
    }
    assert list(found["gradient_norms"]) == ["X", "A1", "A2", "B"]
    with np.load(arrays) as stored:
        for name, scaled in result.gradients.items():
            assert (stored[f"grad_{name}"] == scaled.value).all()
            again = stored[f"grad_{name}_over_scale"] * np.exp(stored["log_scale"])
            assert again == pytest.approx(scaled.value, rel=1e-12)
            norm = np.linalg.norm(scaled.value)
            assert found["gradient_norms"][name] == pytest.approx(norm, rel=1e-12)
    assert set(found["log_losses"]) == {"normalized", "rescaled"}
    assert report("evaluate", file, "--loss", kind, "--block-rows", 1)["log_loss"] == pytest.approx(
        result.log_loss, abs=1e-14
    )


def test_beyond_the_doubles_the_logarithms_stand(overflowing: Path, tmp_path: Path) -> None:
    arrays = tmp_path / "out.npz"
    done = run("evaluate", overflowing, "--loss", "rescaled", "--format", "json", "--arrays", arrays)
    found = json.loads(done.stdout)
    assert done.exit_code == 0
    assert "not_representable" in done.stderr
    assert found["status"] == "not_representable"
    assert found["loss"] is None
    assert found["log_loss"] == pytest.approx(1600, abs=1e-12)
    assert found["gradient_norms"]["X"] is None
    assert found["log_gradient_norms"]["X"] > 1600
    with np.load(arrays) as stored:
        assert "grad_X" not in stored.files
        assert stored["grad_X_over_scale"].any()
        assert stored["log_scale"] > 1500
    assert report("evaluate", overflowing)["status"] == "ok"


def test_fit_reports_every_start_and_writes_the_best(file: Path, tmp_path: Path) -> None:
    best = tmp_path / "best.npz"
    found = report("fit", file, "--starts", 3, "--seed", 1, "-o", best)
    assert found["n_minima"] >= 1
    assert [run["start"] for run in found["runs"]] == [0, 1, 2]
    assert report("evaluate", best)["log_loss"] == found["best"]["log_loss_normalized"]
    step = report("shift", file, "--to", best)
    assert step["log_loss_next"] == pytest.approx(found["best"]["log_loss_normalized"], rel=1e-12)
    assert 0 <= found["best"]["gradient_cosine"] <= 1e-8
    assert "gradient_norm" not in found["best"]
    assert found["best"] == min(found["runs"], key=lambda run: run["log_objective"])
    table = run("fit", file, "--radius", 1, "--loss", "rescaled")
    assert table.exit_code == 0, table.stderr
    assert table.stdout.endswith("\n1 distinct minimum of the rescaled loss found\n")
    rows = list(csv.DictReader(io.StringIO(run("fit", file, "--starts", 2, "--format", "csv").stdout)))
    assert [row["status"] for row in rows] == ["ok", "ok"]


def test_a_fit_of_a_folder_writes_its_labels_too(file: Path, tmp_path: Path) -> None:
    folder, best = tmp_path / "folder", tmp_path / "best.npz"
    folder.mkdir()
    with np.load(file) as stored:
        for name in ("A1", "A2", "X"):
            np.save(folder / f"{name}.npy", stored[name])
        np.save(folder / "B.npy", np.asfortranarray(stored["B"], dtype=np.float32))
    found = report("fit", folder, "-o", best)
    assert report("evaluate", best)["log_loss"] == found["best"]["log_loss_normalized"]
    with np.load(best) as written, np.load(file) as stored:
        assert (written["B"] == stored["B"].astype(np.float32)).all()


def test_a_fit_that_does_not_arrive_says_so(file: Path) -> None:
    stopped = run("fit", file, "--max-iterations", 1, "--format", "json")
    assert stopped.exit_code == 1
    assert json.loads(stopped.stdout)["best"]["status"] == "max_iterations"
    assert "max_iterations: stopped by the number of iterations" in stopped.stderr
    assert report("fit", file)["best"]["status"] == "ok"


def test_some_starts_that_do_not_arrive_make_a_partial_result(tmp_path: Path) -> None:
    path = tmp_path / "far.npz"
    instance = random_instance(5, 2, seed=0)
    # The first start has logits beyond the doubles.
    np.savez(path, **instance.arrays() | {"X": np.full((2, 2), 1.7e308), "A1": np.ones((5, 2))})
    done = run("fit", path, "--starts", 2, "--format", "json")
    assert done.exit_code == 3
    found = json.loads(done.stdout)
    assert [run["status"] for run in found["runs"]] == ["nonfinite", "ok"]
    assert found["best"]["start"] == 1


def test_lipschitz_prints_the_panel(file: Path) -> None:
    problem, X = load(file)
    assert X is not None
    panel = lipschitz_panel(problem, X, "rescaled", radius=3.0, points=2, seed=5)
    found = report("lipschitz", file, "--loss", "rescaled", "--radius", 3, "--points", 2, "--seed", 5)
    assert found["everywhere"] == "inf"
    for name in ("ball", "box", "point", "r_form", "lanczos_point", "lanczos_ball", "gradient_ratio"):
        assert found[name] == getattr(panel, name)
    several = report("lipschitz", file, "--radius", 3, "--radius", 4, "--points", 0)
    assert [panel["radius"] for panel in several] == [3, 4]
    assert several[0]["r_form"] == "undefined"
    table = run("lipschitz", file, "--radius", 3, "--radius", 4, "--points", 0).stdout.splitlines()
    assert table[0].split() == ["radius", "3", "4"]
    assert [line.split()[0] for line in table[1:3]] == ["kind", "points"]
    assert re.split("  +", table[4]) == ["natural log of the Lipschitz constant", "radius 3", "radius 4"]
    assert [line.split()[0] for line in table[5:]] == [
        n for n in found if n not in ("kind", "radius", "points")
    ]


def test_shift_to_another_file(file: Path, tmp_path: Path) -> None:
    problem, X = load(file)
    assert X is not None
    X_next = X + 0.1
    other, labels = tmp_path / "other.npz", tmp_path / "labels.npz"
    np.savez(other, X=X_next, A1=2 * problem.A1, B=problem.B)
    for kind in ("normalized", "rescaled"):
        expected = label_shift(problem, X, X_next, kind, A1_next=2 * problem.A1)
        found = report("shift", file, "--to", other, "--loss", kind, "--labels", labels, "--overwrite")
        assert found["shift_norm"] == expected.norm
        assert found["bounds"] == expected.bounds
        assert found["residual_identity"] == expected.residual_identity
        assert found["in_simplex"] is expected.in_simplex
        with np.load(labels) as stored:
            B = shifted_labels(problem, X, X_next, kind, A1_next=2 * problem.A1)
            assert (stored["B"] == B).all()
    np.savez(other, X=X)
    still = report("shift", file, "--to", other)
    assert still["shift_norm"] == 0
    assert still["ratios"]["half"] == "undefined"


def test_several_gradient_steps(file: Path) -> None:
    problem, X = load(file)
    found = report("shift", file, "--gradient-step", 0.1, "--steps", 3)
    assert [step["step"] for step in found["sequence"]] == [1, 2, 3]
    first = label_shift(problem, X, gradient_step(problem, X, 0.1))
    assert found["sequence"][0]["shift_norm"] == first.norm
    assert found["shift_norm"] == found["sequence"][2]["shift_norm"]
    table = run("shift", file, "--gradient-step", 0.1, "--steps", 3).stdout.splitlines()
    assert table[0].split() == ["step", "1", "2", "3"]


def test_a_shift_beyond_the_doubles_keeps_its_logarithm(tmp_path: Path) -> None:
    file, other, labels = (tmp_path / name for name in ("a.npz", "b.npz", "labels.npz"))
    np.savez(file, A1=[[1.0]], A2=[[1.0], [0.0]], B=[[0.5, 0.5]], X=[[0.0]])
    np.savez(other, X=[[2000.0]])
    found = report("shift", file, "--to", other, "--loss", "rescaled")
    assert found["status"] == "not_representable"
    assert found["shift_norm"] is None
    assert found["log_shift_norm"] == pytest.approx(1998.96, abs=0.01)
    assert found["bounds"]["step"] == "inf"
    refused = run("shift", file, "--to", other, "--loss", "rescaled", "--labels", labels)
    assert refused.exit_code == 1
    assert refused.stdout == ""
    assert "its logarithm is 1998.96" in refused.stderr
    assert not labels.exists()


def test_the_page_says_what_every_printed_name_stands_for(file: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "softmax.md").read_text()
    printed = {"fit": set(), "lipschitz": set(), "shift": set()}
    for kind in ("normalized", "rescaled"):
        for command, *arguments in (("fit",), ("lipschitz",), ("shift", "--gradient-step", 1e-3)):
            done = run(command, file, "--loss", kind, "--format", "csv", *arguments)
            for name in next(csv.reader(io.StringIO(done.stdout))):
                printed[command] |= set(name.removeprefix("log_").split("."))
    explained: dict[str, set[str]] = {}
    command = ""
    for printer, names in re.findall(r"^\| (?:`(\w+)`)? ?\| (`.*?`) \| .* \|$", page, flags=re.MULTILINE):
        command = printer or command
        explained.setdefault(command, set()).update(re.findall(r"`(?:log_)?(\w+)`", names))
    # What the options of the command and other tables of the page name.
    common = {"start", "step", "kind", "status", "radius", "loss_normalized", "loss_rescaled"}
    assert {command: explained[command] | common for command in printed} == {
        command: names | common for command, names in printed.items()
    }


def test_equations() -> None:
    done = run("equations", "--loss", "rescaled")
    assert done.exit_code == 0
    assert done.stdout.startswith("rescaled loss")


@pytest.mark.parametrize("form", ["table", "csv"])
def test_evaluate_for_people_and_for_spreadsheets(file: Path, form: str) -> None:
    done = run("evaluate", file, "--format", form)
    assert done.exit_code == 0
    assert "gradient_norms.X" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["evaluate", "missing.npz"], "missing.npz does not exist"),
        (["evaluate", "bare.npz"], "bare.npz holds no X; allowed is a matrix of shape (1, 1)"),
        (["evaluate", "nan.npz"], "X of shape (1, 1) holds nan; allowed are finite numbers"),
        (["evaluate", "good.npz", "--block-rows", "0"], "block_rows = 0 is outside"),
        (["evaluate", "good.npz", "--loss", "other"], "'other' is not one of"),
        (["evaluate", "good.npz", "--arrays", "no/out.npz"], "the folder 'no' of the output does not exist"),
        (["fit", "good.npz", "--tolerance", "0"], "tolerance = 0.0 is outside the allowed range (0, inf)"),
        (["lipschitz", "good.npz", "--radius", "0.1"], "radius = 0.1 is below |X|_F = 1"),
        (["lipschitz", "good.npz", "--R", "0.1"], "R = 0.1 is outside the allowed range [1, inf)"),
        (["shift", "good.npz"], "exactly one of --to and --gradient-step"),
        (["shift", "good.npz", "--to", "good.npz", "--steps", "2"], "--steps 2 needs --gradient-step"),
        (["shift", "good.npz", "--to", "labels.npz"], "labels.npz holds none of X, A1, A2"),
        (["shift", "good.npz", "--to", "relabelled.npz"], "holds labels B of its own"),
        (["shift", "good.npz", "--to", "good.npz", "--R", "0.5"], "R = 0.5 is outside the allowed range"),
        (["make", "--n", "3", "--d", "2", "--radius", "-1", "-o", "out.npz"], "radius = -1.0 is outside"),
        (["make", "--n", "0", "--d", "2", "-o", "out.npz"], "0 is not in the range x>=1"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    good = {"A1": [[1.0]], "A2": [[1.0], [0.5]], "B": [[0.5, 0.5]]}
    # |K| < |X|_F = 1, so that R = 1 is the least.
    good["A2"] = [[0.5], [0.25]]
    np.savez("bare.npz", **good)
    np.savez("good.npz", **good, X=[[1.0]])
    np.savez("nan.npz", **good, X=[[np.nan]])
    np.savez("labels.npz", B=good["B"])
    np.savez("relabelled.npz", X=[[1.0]], B=[[1.0, 0.0]])
    before = sorted(tmp_path.iterdir())
    done = run(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == before


def test_logits_that_overflow_are_a_numerical_failure(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, A1=[[1e200]], A2=[[1e200], [0.0]], B=[[0.5, 0.5]], X=[[1.0]])
    for arguments in (["evaluate"], ["lipschitz"], ["shift", "--gradient-step", "1"]):
        done = run(arguments[0], path, *arguments[1:])
        assert done.exit_code == 1
        assert done.stderr == "Error: logits not finite\n"
