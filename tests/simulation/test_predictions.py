"""Sampled predictions against exact expectations for the same trained model."""

import numpy as np
import pytest

from replica import InputError, Parameters
from replica.parameters import PROTOCOLS
from replica.simulation import simulate
from replica.simulation.predictions import sample_predictions

POINT = Parameters(alpha=2, alpha_test=3, kappa=0.8, rho=0.5, gamma=1.5, sigma=0.4)
GAIN = 0.6


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_errors_of_fresh_prompts_are_the_population_errors(protocol: str) -> None:
    prompts = 60_000
    sample = sample_predictions(POINT, 12, prompts, 1, seed=5, gain=GAIN)[protocol]
    exact = simulate(POINT, 12, 2, 5, n_jobs=1, gain=GAIN)
    misses = (sample.labels - sample.parts.sum(axis=0)) ** 2
    # Four standard errors, over 60000 independent prompts.
    assert abs(misses.mean() - exact.errors[protocol][1]) < 4 * misses.std() / np.sqrt(prompts)
    structural = sample.parts[2] ** 2
    expected = exact.decomposition[protocol]["structural"][1]
    assert abs(structural.mean() - expected) < 4 * structural.std() / np.sqrt(prompts)
    algorithmic = (sample.labels - sample.parts[0]) ** 2
    expected = exact.decomposition[protocol]["algorithmic"][1]
    assert abs(algorithmic.mean() - expected) < 4 * algorithmic.std() / np.sqrt(prompts)


def test_the_same_seed_gives_the_same_sample_and_another_repeat_another() -> None:
    one, same, other = (
        sample_predictions(POINT, 12, 10, repeat, seed=5, gain=GAIN)["ODG"] for repeat in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.labels, same.labels)
    np.testing.assert_array_equal(one.parts, same.parts)
    assert not np.array_equal(one.labels, other.labels)


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"prompts": 0}, "prompts = 0"), ({"repeat": -1}, "repeat = -1"), ({"seed": -1}, "seed = -1")],
)
def test_bad_input(changes: dict[str, int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        sample_predictions(POINT, 12, **{"prompts": 10, "repeat": 0, "seed": 0} | changes, gain=GAIN)


def test_endless_test_contexts_are_refused() -> None:
    endless = Parameters(alpha=2, alpha_test=np.inf, kappa=0.8, rho=0.5, gamma=1.5, sigma=0.4)
    with pytest.raises(InputError, match="alpha_test times dim = inf"):
        sample_predictions(endless, 12, 10, 0, 0, gain=GAIN)
