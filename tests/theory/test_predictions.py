"""The law of predictions, and the memorization part of TM split in two."""

import numpy as np
import pytest
import sympy as sp
from curve import on_the_curve
from hypothesis import given, settings
from mpmath import mp, mpf
from scipy.integrate import quad
from scipy.stats import multivariate_normal
from strategies import points

from replica import InputError, Parameters, solve
from replica.parameters import PROTOCOLS, Protocol
from replica.theory import errors, predictions, spectrum
from replica.theory.predictions import prediction_law
from replica.theory.symbols import definitions, noise, off_range

POINT = {"alpha": 2.0, "alpha_test": 3.1, "kappa": 1.5, "rho": 0.9, "gamma": 1.5, "sigma": 0.3}
EPS = np.finfo(float).eps


def exact(expression: sp.Expr) -> sp.Expr:
    """An expression in averages, on the curve where rho, z and n depend on u, t and 1/kappa."""
    return on_the_curve(spectrum.lowered(expression).subs(off_range, definitions[off_range]))


def test_the_terms_of_memorization_make_the_whole_error() -> None:
    parts = errors.decomposition(Protocol.TM)
    assert exact(sum(parts.values()) - errors.error(Protocol.TM)) == 0
    assert parts["memorization"] == sum(errors.memorization_terms().values())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_parts_make_the_whole_variance(protocol: Protocol) -> None:
    gain = errors.signal_gain()
    cross = 2 * gain * (errors.covariance(protocol) - gain) if protocol is Protocol.TM else 0
    whole = sum(predictions.contributions(protocol).values()) + cross
    assert exact(whole - errors.variance(protocol)) == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_conditional_variance_is_that_of_a_gaussian(protocol: Protocol) -> None:
    left = errors.variance(protocol) - errors.covariance(protocol) ** 2 / (1 + noise)
    assert exact(left - predictions.conditional_variance(protocol)) == 0


def test_memorization_of_a_sampled_model() -> None:
    """tr(Delta C Delta^T) and -2 (1 - a) tr(Delta R_k) with W drawn from its law, at two sizes.

    The distance falls like c/D; c = 3 covers both terms at these parameters (measured: below 1).
    """
    solution = solve(Parameters(**POINT))
    level, z, a = solution.noise_level, 1.09 / 2.0, solution.signal_gain
    for dim, repeats in ((60, 40), (120, 20)):
        rank, tasks = round(0.9 * dim), round(1.5 * dim)
        rng = np.random.default_rng([7, dim])
        samples = np.empty((2, repeats))
        for index in range(repeats):
            w = np.sqrt(dim / rank) * rng.standard_normal((tasks, rank))
            values, vectors = np.linalg.eigh(w.T @ w / tasks)
            s = np.concatenate([values, np.zeros(dim - rank)])
            frame = np.eye(dim)
            frame[:rank, :rank] = vectors
            moved = rng.standard_normal((dim, dim)) / np.sqrt(dim) * np.sqrt(level) / np.sqrt(s + z)
            delta = (frame * (s / (s + z)) + moved) @ frame.T - a * np.diag(np.arange(dim) < rank)
            delta[:, rank:] = 0
            second = frame * s @ frame.T
            context = second + (1.09 / 3.1) * np.eye(dim)
            samples[0, index] = np.trace(delta @ context @ delta.T) / dim
            samples[1, index] = -2 * (1 - a) * np.trace(delta @ second) / dim
        for row, term in zip(samples, ("variance", "correlation"), strict=True):
            stderr = row.std(ddof=1) / np.sqrt(repeats)
            assert abs(row.mean() - solution.memorization[term]) < 4 * stderr + 3 / dim


@settings(max_examples=100, deadline=None)
@given(points)
def test_numbers_of_the_law(point: dict[str, float]) -> None:
    solution = solve(Parameters(**point))
    assert solution.memorization["correlation"] <= 0 <= solution.memorization["variance"]
    for protocol in PROTOCOLS:
        law = prediction_law(solution, protocol)
        moments = solution.prediction[protocol]
        left = moments["variance"] - moments["covariance"] ** 2 / law.label_variance
        assert law.conditional_variance >= 0
        # The difference cancels; the positive form does not.
        assert abs(law.conditional_variance - left) <= 20 * EPS * moments["variance"]
        for part in errors.PARTS[1:]:
            if protocol != "TM" or part == "structural":
                assert law.parts[part] == pytest.approx(solution.decomposition[protocol][part], rel=1e-14)


def test_the_law_keeps_its_digits_where_predictions_are_nearly_perfect() -> None:
    """Long contexts without noise: the scatter is 1e-9 of the variance, compared at 50 digits."""
    point = {"alpha": 1e9, "kappa": 0.8, "rho": 0.3, "gamma": 2.5, "sigma": 0.0}
    solution = solve(Parameters(**point))
    scatter = prediction_law(solution, "TM").conditional_variance
    with mp.workdps(50):
        kappa, r, z, gamma = mpf(point["kappa"]), mpf(point["rho"]), 1 / mpf(10) ** 9, mpf("2.5")
        shift = z + 1 / r - 1 / kappa
        f = 2 / (shift + mp.sqrt(shift**2 + 4 * z / kappa))
        slope = -(f**2) * (1 / kappa + 1 / f) * f / (1 / f**2 + z / kappa) / f
        on_all, on_all_slope = r * f + (1 - r) / z, r * slope - (1 - r) / z**2
        # T = 1 - z T_I for TM, and the one formula that serves every protocol, at ridge = 0.
        tm, tm_slope = 1 - z * on_all, -on_all - z * on_all_slope
        filtered = z * (1 - 2 * z * on_all - z**2 * on_all_slope)
        level = (-(z**2) * tm_slope + filtered) / (gamma - 1)
        error = -(z**2) * tm_slope + filtered + level * (tm + z * on_all)
        m = 1 - z + z**2 * on_all
        expected = (error - 1 + 2 * m) - m**2
    assert float(scatter) == pytest.approx(float(expected), rel=1e-13)


def test_densities_and_quantiles() -> None:
    law = prediction_law(solve(Parameters(**POINT)), "TM")
    covariance = [[law.label_variance, law.covariance], [law.covariance, law.variance]]
    joint = multivariate_normal([0, 0], covariance)
    for y, yhat in ((0.0, 0.0), (1.3, 0.4), (-0.7, 2.0)):
        assert law.density(y, yhat) == pytest.approx(joint.pdf([y, yhat]), rel=1e-12)
        marginal, _ = quad(lambda y, yhat=yhat: law.density(y, yhat), -12, 12, epsabs=1e-12)
        assert marginal == pytest.approx(law.prediction().pdf(yhat), rel=1e-9)
    given_ = law.given(1.3)
    assert given_.cdf(given_.ppf(0.9)) == pytest.approx(0.9, rel=1e-12)
    assert given_.mean() == law.conditional_mean(1.3)
    assert law.part("memorization").var() == pytest.approx(law.parts["memorization"])


def test_the_law_broadcasts_and_marks_the_threshold() -> None:
    grid = Parameters.grid(alpha=2, kappa=[0.5, 1.5], rho=0.9, gamma=[0.7, 1.0, 1.5], sigma=0.3)
    law = prediction_law(solve(grid), Protocol.ODG)
    assert law.given(np.zeros((4, 1, 1))).pdf(0.1).shape == (4, 2, 3)
    for array in (law.label_variance, law.covariance, law.conditional_variance, *law.parts.values()):
        assert array.shape == (2, 3)
    assert np.all(np.isposinf(law.conditional_variance[:, 1]))
    assert np.all(np.isfinite(law.conditional_variance[:, [0, 2]]))
    one = prediction_law(solve(grid[1, 2]), "ODG")
    # Vector and scalar square roots may round differently in the last place.
    assert one.conditional_variance == pytest.approx(law.conditional_variance[1, 2], rel=1e-14)


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(InputError, match="protocol = 'XYZ' is unknown; allowed are TM, IDG, ODG"):
        prediction_law(solve(Parameters(**POINT)), "XYZ")
