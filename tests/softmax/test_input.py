"""What bad input gives, and what is legal though unusual."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replica.exceptions import InputError
from replica.softmax import (
    Problem,
    StoredMatrix,
    evaluate,
    gradient,
    label_shift,
    load,
    log_loss,
    loss,
    random_instance,
    save,
    shifted_labels,
)

GOOD: dict[str, Any] = {
    "A1": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]],
    "A2": [[1.0, 0.0], [0.0, 1.0]],
    "B": [[0.5, 0.5], [0.2, 0.8], [1.0, 0.0]],
}
X = [[1.0, 0.5], [0.0, -1.0]]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("A1", [[np.nan, 0], [0, 1], [1, 1]], r"A1 of shape \(3, 2\) holds nan; allowed are finite numbers"),
        ("A2", [[np.inf, 0], [0, 1]], r"A2 of shape \(2, 2\) holds inf"),
        ("B", [[0, 1], [0, 1], [-np.inf, 1]], r"B of shape \(3, 2\) holds -inf"),
        ("A1", np.ones((3, 2), complex), r"A1 of shape \(3, 2\) has dtype complex128; allowed are real"),
        ("A2", [["a", "b"], ["c", "d"]], r"A2 of shape \(2, 2\) has dtype <U1"),
        ("B", np.ones((3, 2), bool), r"B of shape \(3, 2\) has dtype bool"),
        ("A1", [[None, 1], [1, 2], [1, 2]], r"A1 of shape \(3, 2\) has dtype object"),
        ("A1", np.ones((0, 2)), r"A1 has shape \(0, 2\); allowed are two non-empty dimensions"),
        ("A2", np.ones((2, 0)), r"A2 has shape \(2, 0\)"),
        ("A2", np.ones(2), r"A2 has shape \(2,\)"),
        ("A2", [[1.0], [1.0, 2.0]], "A2 is not a matrix: its rows differ in length"),
        (
            "B",
            np.ones((2, 3)),
            r"B of shape \(2, 3\) does not fit A1 of shape \(3, 2\) and A2 of shape \(2, 2\)",
        ),
    ],
)
def test_an_array_that_is_no_finite_real_matrix(name: str, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Problem(**GOOD | {name: value})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            np.ones((2, 3)),
            r"X of shape \(2, 3\) does not fit A1 of shape \(3, 2\).*allowed is shape \(2, 2\)",
        ),
        ([[np.nan, 0], [0, 1]], "X of shape .* holds nan"),
        (np.ones((2, 2), complex), "X of shape .* has dtype complex128"),
    ],
)
def test_weights_that_do_not_fit(value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(Problem(**GOOD), value)


def test_integers_are_cast() -> None:
    whole = Problem([[1, 0], [0, 1]], [[2, 0], [0, 3]], [[1, 0], [0, 1]])
    assert whole.A1.dtype == whole.B.dtype == np.float64
    real = Problem([[1.0, 0], [0, 1]], [[2.0, 0], [0, 3]], [[1.0, 0], [0, 1]])
    assert loss(whole, [[1, 0], [0, 1]]) == loss(real, [[1.0, 0], [0, 1]])


def test_a_problem_is_frozen() -> None:
    A1 = np.array(GOOD["A1"])
    problem = Problem(A1, GOOD["A2"], GOOD["B"])
    A1[0, 0] = np.nan
    assert problem.A1[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        problem.B[0, 0] = 2
    with pytest.raises(AttributeError):
        problem.B = 1  # type: ignore[misc]


@pytest.mark.parametrize("scale", [1e155, -1e155])
def test_logits_that_overflow(scale: float) -> None:
    problem = Problem([[1e155]], [[1.0], [0.0]], [[0.5, 0.5]])
    for function in (log_loss, gradient):
        with pytest.raises(OverflowError, match="logits not finite"):
            function(problem, [[scale]])


def test_raw_values_beyond_the_doubles_name_their_logarithm() -> None:
    problem = Problem([[1.0]], [[800.0], [799.0]], [[0.0, 1.0]])
    for function in (loss, gradient):
        with pytest.raises(OverflowError, match=r"logarithm .*is 16\d\d\.|logarithm is 1600"):
            function(problem, [[1.0]], "rescaled")
    with pytest.raises(OverflowError, match="its logarithm is"):
        shifted_labels(problem, [[0.0]], [[1.0]], "rescaled")
    assert np.isfinite(log_loss(problem, [[1.0]], "rescaled"))
    assert np.isfinite(label_shift(problem, [[0.0]], [[1.0]], "rescaled").log_norm)
    assert np.isfinite(loss(problem, [[1.0]]))


@pytest.mark.parametrize(
    ("B", "stochastic"),
    [
        ([[0.5, 0.5], [0.2, 0.8], [1.0, 0.0]], True),
        ([[0.5, 0.4], [0.2, 0.8], [1.0, 0.0]], False),
        ([[1.5, -0.5], [0.2, 0.8], [1.0, 0.0]], False),
    ],
)
def test_labels_off_the_simplex_are_reported(B: Any, stochastic: bool) -> None:
    problem = Problem(**GOOD | {"B": B})
    assert problem.report()["row_stochastic"] is stochastic
    assert np.isfinite(loss(problem, X))


@pytest.mark.parametrize(("low", "name"), [(0, r"\|K\|"), (1, r"\|X\|_F"), (2, r"\|X_next\|_F")])
def test_an_r_below_what_it_must_bound(low: int, name: str) -> None:
    problem = Problem(**GOOD)
    weights = [np.eye(2), np.eye(2)]
    if low:
        weights[low - 1] = 10 * np.eye(2)
    with pytest.raises(InputError, match=rf"R = 1\.5 is outside .* R bounds {name}"):
        label_shift(problem, *weights, "rescaled", R=1.5)
    generous = label_shift(problem, *weights, "rescaled", R=20.0)
    assert generous.R == 20.0


def test_report_names_sizes_norms_and_r() -> None:
    report = Problem(**GOOD).report(X)
    assert report["shape"] == {"m": 3, "n": 2, "d1": 2, "d2": 2}
    assert report["norms"]["A1"] == pytest.approx(np.sqrt(3), rel=1e-15)
    assert report["norms"]["A2"] == 1
    assert report["norms"]["X"] == 1.5
    assert report["R"] == report["norms"]["A1"]


@pytest.mark.parametrize("block_rows", [0, -1, 1.5, "2"])
def test_block_rows_are_positive_integers(block_rows: Any) -> None:
    with pytest.raises(InputError, match=r"block_rows = .* is outside the allowed range: integers from 1"):
        loss(Problem(**GOOD), X, block_rows=block_rows)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="wrt holds Y; allowed are X, A1, A2, B"):
        evaluate(Problem(**GOOD), X, wrt=("X", "Y"))
    with pytest.raises(InputError, match="loss = 'normalised' is not one of normalized, rescaled"):
        loss(Problem(**GOOD), X, "normalised")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n = 0 is outside the allowed range: integers from 1"),
        ({"d": 1.5}, r"d = 1\.5 is outside"),
        ({"seed": -1}, "seed = -1 is outside the allowed range: integers from 0"),
        ({"radius": np.inf}, r"radius = inf is outside the allowed range \[0, inf\)"),
    ],
)
def test_bad_random_instances(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        random_instance(**{"n": 3, "d": 2} | options)


def test_files_give_back_what_was_saved(tmp_path: Path) -> None:
    instance = random_instance(4, 2, m=3, seed=1, planted=True)
    save(tmp_path / "a.npz", instance.arrays())
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, array in instance.arrays().items():
        np.save(folder / f"{name}.npy", array)
    for path in (tmp_path / "a.npz", folder):
        problem, weights = load(path)
        assert weights is not None
        assert log_loss(problem, weights) == log_loss(instance.problem, instance.X)
    assert isinstance(load(folder)[0].B, StoredMatrix)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["a.npz"]


def test_files_that_hold_no_problem(tmp_path: Path) -> None:
    np.savez(tmp_path / "partial.npz", A1=np.ones((2, 2)))
    (tmp_path / "text.npz").write_text("no arrays")
    (tmp_path / "empty").mkdir()
    np.savez(tmp_path / "objects.npz", A1=np.array([None]), A2=np.ones(2), B=np.ones(2))
    for name, message in (
        ("partial.npz", r"partial\.npz holds A1; missing: A2, B"),
        ("text.npz", "is neither an .npz file of numbers nor a folder"),
        ("objects.npz", "is neither an .npz file of numbers nor a folder"),
        ("absent.npz", "does not exist"),
        ("empty", r"holds none of A1\.npy, A2\.npy, B\.npy, X\.npy"),
    ):
        with pytest.raises(InputError, match=message):
            load(tmp_path / name)


def test_stored_labels_are_checked_as_others_are(tmp_path: Path) -> None:
    for B, message in (
        (np.full((3, 2), np.nan), r"B of shape \(3, 2\) holds nan"),
        (np.ones((3, 2), complex), "B of shape .* has dtype complex128"),
        (np.ones(3), r"B has shape \(3,\)"),
    ):
        np.save(tmp_path / "B.npy", B)
        with pytest.raises(InputError, match=message):
            Problem(GOOD["A1"], GOOD["A2"], StoredMatrix(tmp_path / "B.npy"))
    (tmp_path / "B.npy").write_text("no array")
    with pytest.raises(InputError, match=r"B\.npy is not a readable \.npy file"):
        StoredMatrix(tmp_path / "B.npy")


def test_nothing_is_left_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written: No such file or directory"):
        save(tmp_path / "absent" / "a.npz", {"A1": np.ones((1, 1))})
