"""The vectorized root finder, with every failure it can report in one call."""

import numpy as np
from scipy.optimize import brentq

from replica.engine import Status
from replica.engine.roots import WIDENING, find_root, tighten


def saturating(x: np.ndarray, c: np.ndarray, target: np.ndarray) -> np.ndarray:
    """x/(x + c) - target/x: increasing, concave in x and convex in 1/x."""
    return x / (x + c) - target / x


def saturating_slope(x: np.ndarray, c: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return saturating(x, c, target), x * c / (x + c) ** 2 + target / x


def exact(c: np.ndarray, target: np.ndarray) -> np.ndarray:
    # x^2 = target (x + c)
    return (target + np.sqrt(target**2 + 4 * target * c)) / 2


def cases() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    c, target = np.exp(rng.uniform(-15, 15, (2, 500)))
    return c, target


def test_tangents_enclose_the_root_at_every_step() -> None:
    c, target = cases()
    root = exact(c, target)
    low, high = tighten(saturating_slope, root * 1e-4, root * 1e3, (c, target))
    # The bounds are exact up to rounding, whose few units in the last place are far below the widening.
    assert np.all(low <= root * (1 + 1e-13))
    assert np.all(high >= root * (1 - 1e-13))
    assert np.max(high / low - 1) < 1e-6


def test_vectorised_equals_a_loop_of_scalars() -> None:
    c, target = cases()
    found, status = find_root(saturating, exact(c, target) / 30, exact(c, target) * 7, (c, target))
    loop = [
        np.exp(brentq(lambda t, a, b: saturating(np.exp(t), a, b), -40, 40, args=(a, b), xtol=1e-14))
        for a, b in zip(c, target, strict=True)
    ]
    assert np.all(status == Status.OK)
    # brentq stops at 1e-14 in the logarithm.
    np.testing.assert_allclose(found, loop, rtol=3e-14)
    # The root's own conditioning is 1 here, so a few units in the last place remain.
    np.testing.assert_allclose(found, exact(c, target), rtol=2e-15)


def test_every_failure_in_one_call() -> None:
    def toy(x: np.ndarray, case: np.ndarray) -> np.ndarray:
        smooth = np.log(x)
        steep = np.where(x < 1.3, -1.0, 1.0)
        at_end = np.log(x / (4 * (1 + 0.9 * WIDENING)))
        above = np.log(x) + 10.0
        broken = np.full_like(x, np.nan)
        return np.select([case == k for k in range(5)], [smooth, steep, at_end, above, broken])

    _, status = find_root(toy, 0.25, 4.0, (np.arange(5.0),), max_iterations=8)
    assert list(status) == [
        Status.OK,
        Status.NOT_CONVERGED,
        Status.UNPHYSICAL,
        Status.UNPHYSICAL,
        Status.NONFINITE,
    ]


def test_bounds_broadcast_and_a_scalar_is_a_point() -> None:
    found, status = find_root(
        lambda x, c: np.log(x / c), np.full((3, 1), 0.1), 100.0, (np.array([1.0, 5.0]),)
    )
    assert found.shape == status.shape == (3, 2)
    np.testing.assert_allclose(found, np.broadcast_to([1.0, 5.0], (3, 2)), rtol=1e-15)
    assert find_root(lambda x: np.log(x), 0.5, 3.0)[0].shape == ()
