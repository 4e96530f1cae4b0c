"""The verdict: every branch, and how often it is wrong on synthetic experiments."""

import numpy as np
import pytest

from replica.sweep.verdict import Verdict, judge

DIMS = np.array([40.0, 60.0, 80.0, 120.0])
REPEATS = 20


def measured(
    rng: np.random.Generator, dims: np.ndarray, c: float, spread: float, repeats: int, heavy: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard errors of repeated errors 1/(1 - c/D) that fluctuate like spread/D."""
    noise = (
        rng.standard_t(5, (len(dims), repeats)) * np.sqrt(3 / 5)
        if heavy
        else rng.standard_normal((len(dims), repeats))
    )
    errors = (1 + spread * noise / dims[:, None]) / (1 - c / dims[:, None])
    return errors.mean(axis=1), errors.std(axis=1, ddof=1) / np.sqrt(repeats)


@pytest.mark.parametrize("heavy", [False, True], ids=["normal", "heavy"])
@pytest.mark.parametrize("c", [0.0, 2.0, 8.0])
@pytest.mark.parametrize("spread", [1.0, 6.0])
def test_a_true_theory_is_rarely_called_wrong(c: float, spread: float, heavy: bool) -> None:
    rng = np.random.default_rng(4)
    trials = 2000
    wrong = 0
    for _ in range(trials):
        mean, stderr = measured(rng, DIMS, c, spread, REPEATS, heavy)
        wrong += judge(DIMS, np.ones(4), mean, stderr, np.full(4, REPEATS)).verdict is Verdict.DISAGREES
    # At most 1% of rows; 20 of 2000 expected at that rate, and 4 sigma of counting above it.
    assert wrong <= 0.01 * trials + 4 * np.sqrt(0.01 * trials)


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_theory_ten_percent_off_is_called_wrong(factor: float) -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        mean, stderr = measured(rng, DIMS, 3.0, 1.5, REPEATS, heavy=True)
        judgement = judge(DIMS, np.full(4, factor), mean, stderr, np.full(4, REPEATS))
        assert judgement.verdict is Verdict.DISAGREES
        assert abs(judgement.z) > 3


def test_the_inverse_ratio_is_straight() -> None:
    judgement = judge(DIMS, np.ones(4), 1 / (1 - 8 / DIMS), np.full(4, 1e-4), np.full(4, 20))
    assert judgement.value == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("dims", "mean", "stderr", "n", "verdict"),
    [
        ([80, 160], [1.0001, 0.9999], [0.001, 0.001], [20, 20], Verdict.AGREES),
        ([80, 160], [1.04, 1.02], [0.001, 0.0005], [20, 20], Verdict.FINITE_SIZE),
        ([80, 160], [1.14, 1.12], [0.001, 0.0005], [20, 20], Verdict.DISAGREES),
        ([80, 160], [1.04, 1.02], [0.08, 0.05], [20, 20], Verdict.UNDECIDED),
        ([80], [1.002], [0.001], [20], Verdict.AGREES),
        ([80], [1.09], [0.001], [20], Verdict.FINITE_SIZE),
        ([80], [1.11], [0.001], [20], Verdict.DISAGREES),
        ([80], [1.11], [np.nan], [1], Verdict.UNDECIDED),
        ([80], [1.0025], [0.001], [np.nan], Verdict.AGREES),
        ([80], [1.0], [0.0], [np.nan], Verdict.AGREES),
        ([80, 160], [1.14, 1.12], [0.0, 0.0], [20, 20], Verdict.DISAGREES),
    ],
)
def test_every_branch(dims: list, mean: list, stderr: list, n: list, verdict: Verdict) -> None:
    ones = np.ones(len(dims))
    assert judge(np.array(dims), ones, np.array(mean), np.array(stderr), np.array(n)).verdict is verdict


def test_few_repeats_widen_the_allowed_distance() -> None:
    few, many = (
        judge(DIMS, np.ones(4), 1 / (1 - 3 / DIMS), 0.3 / DIMS / np.sqrt(n), np.full(4, n)) for n in (2, 200)
    )
    assert few.allowed / few.stderr > 5
    assert many.allowed / many.stderr == pytest.approx(3, rel=0.05)


def test_the_order_of_the_dimensions_does_not_matter() -> None:
    mean, stderr = measured(np.random.default_rng(1), DIMS, 3.0, 2.0, REPEATS, heavy=False)
    forward = judge(DIMS, np.ones(4), mean, stderr, np.full(4, REPEATS))
    assert forward == judge(DIMS[::-1], np.ones(4), mean[::-1], stderr[::-1], np.full(4, REPEATS))
