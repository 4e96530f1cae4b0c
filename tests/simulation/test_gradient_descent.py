"""The end of gradient descent: against its steps at tiny D, and experiment against theory."""

import numpy as np
import pytest

from replica.exceptions import InputError
from replica.parameters import PROTOCOLS, Parameters
from replica.simulation import memory
from replica.simulation.gradient_descent import gradient_descent, settle
from replica.theory import gradient_descent as theory

POINT = {"alpha": 3.0, "kappa": 1.5, "rho": 0.5, "gamma": 2.0, "sigma": 0.3}


@pytest.mark.parametrize(
    ("rank", "count"), [(4, 40), (2, 40), (4, 9), (2, 5)], ids=["determined", "flat", "few", "few and flat"]
)
def test_it_is_where_the_steps_of_gradient_descent_lead(rank: int, count: int) -> None:
    rng = np.random.default_rng(rank * count)
    axes = np.linalg.qr(rng.standard_normal((4, rank))).Q
    queries, contexts = rng.standard_normal((count, 4)), rng.standard_normal((count, rank)) @ axes.T
    labels, start = rng.standard_normal(count), rng.standard_normal((4, 4))
    features = np.einsum("ij,ik->ijk", queries, contexts).reshape(count, -1)
    hessian, W = features.T @ features, start.ravel().copy()
    step = 1 / np.linalg.eigvalsh(hessian)[-1]
    for _ in range(200_000):
        gradient = hessian @ W - features.T @ labels
        W -= step * gradient
        if np.abs(gradient).max() < 1e-12:
            break
    settled, kept = settle(queries, contexts, labels, start, axes)
    # The gradient left over the smallest excited curvature, which is above 1e-2 here.
    np.testing.assert_allclose(W.reshape(4, 4), settled + kept, atol=1e-9)
    free = np.linalg.norm(kept) > 1e-9
    assert free == (count < 16 or rank < 4)


@pytest.mark.parametrize("fluctuations", [True, False], ids=["estimated", "given"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"kappa": 0.4, "rho": 0.9, "gamma": 1.6},
        {"kappa": 3.0, "rho": 0.3, "gamma": 0.6},
        {"gamma": 0.25, "alpha_test": 1.0},
    ],
    ids=["rich", "poor", "few prompts a task", "few prompts"],
)
@pytest.mark.parametrize("dim", [12, 24])
def test_experiment_agrees_with_theory(changes: dict[str, float], fluctuations: bool, dim: int) -> None:
    starts = [0.0, 1.5]
    done = gradient_descent(Parameters(**POINT | changes), starts, dim, 12, 3, fluctuations=fluctuations)
    expected = theory(done.realized, fluctuations=fluctuations)
    for protocol in PROTOCOLS:
        for mean, start in zip(done.means[protocol], starts, strict=True):
            error = expected.errors(start)[protocol]
            # The finite-size correction of these points is c/D with c from 0 to 6 (measured up to D = 32).
            assert abs(mean.mean - error) <= 4 * mean.stderr + 6 / dim * error


def test_seeds_and_repeats() -> None:
    params = Parameters(**POINT)
    few, many, other = (
        gradient_descent(params, [1.0], 10, repeats, seed) for repeats, seed in ((2, 0), (3, 0), (2, 1))
    )
    for protocol in PROTOCOLS:
        np.testing.assert_array_equal(few.errors[protocol], many.errors[protocol][:, :2])
        assert (few.errors[protocol] != other.errors[protocol]).all()
        assert many.means[protocol][0].n == 3


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"ridge": 0.1}, {}, "ridge = 0.1"),
        ({}, {"starts": [1.0, -2.0]}, r"start = -2 is outside the allowed range \[0, inf\)"),
        ({}, {"repeats": 0}, "repeats = 0"),
        ({"alpha": np.inf}, {}, "alpha = inf"),
    ],
)
def test_bad_input(changes: dict[str, float], options: dict[str, object], message: str) -> None:
    given = {"starts": [1.0], "dim": 10, "repeats": 2, "seed": 0} | options
    with pytest.raises(InputError, match=message):
        gradient_descent(Parameters(**POINT | changes), **given)


def test_more_memory_than_there_is_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 10**6)
    with pytest.raises(InputError, match=r"dim = 30 .* GB"):
        gradient_descent(Parameters(**POINT), [1.0], 30, 2, 0)
