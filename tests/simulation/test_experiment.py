"""Repeated experiments: the same numbers however they are run, honest about what failed, quick to stop."""

import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replica.exceptions import InputError, NumericalError
from replica.parameters import NAMES, Parameters, Protocol
from replica.simulation import Estimate, Experiment, experiment, least_squares, simulate
from replica.simulation.population import PARTS
from replica.simulation.rows import Rows, Stopped, Team
from replica.simulation.sizes import Sizes, entropy

REFERENCE = Path(__file__).parents[1] / "reference" / "low_rank_icl_points.json"
# Without the point at rho = kappa and alpha = 1e4: at these D its errors have tails without a mean.
POINTS = [point for point in json.loads(REFERENCE.read_text()) if point["parameters"]["alpha"] < 1000]
POINT = {"alpha": 2.0, "kappa": 0.77, "rho": 0.33, "gamma": 1.5, "sigma": 0.3}


def numbers(result: Experiment) -> np.ndarray:
    columns = [*result.errors.values(), result.training_error, result.residual, result.iterations]
    for parts in (result.decomposition or {}).values():
        columns += parts.values()
    return np.array(columns)


@pytest.mark.parametrize(
    ("changes", "direct_rows"),
    [({}, 4096), ({"gamma": 0.8}, 4096), ({"gamma": 0.8, "alpha": 0.5}, 0), ({"ridge": 0.1}, 4096)],
    ids=["primal", "direct", "dual", "ridge"],
)
def test_numbers_depend_neither_on_the_workers_nor_on_who_shares_the_work(
    changes: dict[str, float], direct_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(least_squares, "DIRECT_ROWS", direct_rows)
    params = Parameters(**POINT | changes)
    dim = 44  # two strips of rows at least
    alone = numbers(simulate(params, dim, 3, seed=1, n_jobs=1, gain=0.5))
    assert np.all(np.isfinite(alone))
    assert np.array_equal(alone, numbers(simulate(params, dim, 3, seed=1, n_jobs=3, gain=0.5)))
    monkeypatch.setattr(experiment, "SHARED_ENTRIES", 0)
    assert np.array_equal(alone, numbers(simulate(params, dim, 3, seed=1, n_jobs=3, gain=0.5)))


def test_more_repeats_leave_the_first_ones_as_they_are() -> None:
    params = Parameters(**POINT)
    few, many = simulate(params, 20, 2, seed=0), simulate(params, 20, 4, seed=0)
    assert np.array_equal(numbers(few), numbers(many)[:, :2])


def test_every_repeat_has_random_numbers_of_its_own() -> None:
    params = Parameters(**POINT)
    seeds = {
        entropy(params, dim, repeat, seed) for dim in (20, 21) for repeat in range(3) for seed in range(3)
    }
    assert len(seeds) == 18
    seeds |= {entropy(Parameters(**POINT | {name: 0.5}), 20, 0, 0) for name in NAMES}
    assert len(seeds) == 25
    assert entropy(Parameters(**POINT | {"alpha": 2}), 20, 0, 0) == entropy(params, 20, 0, 0)
    assert entropy(Parameters(**POINT, ridge=-0.0), 20, 0, 0) == entropy(params, 20, 0, 0)


def test_ratios_are_those_of_rounded_integers() -> None:
    asked = Parameters(**POINT, alpha_test=1.93)
    result = simulate(asked, 20, 1, seed=0)
    assert result.parameters == asked
    assert dict(result.realized.items()) == {
        "alpha": 2.0,
        "alpha_test": 39 / 20,
        "kappa": 15 / 20,
        "rho": 7 / 20,
        "gamma": 1.5,
        "sigma": 0.3,
        "ridge": 0.0,
    }


def test_means_differences_and_report() -> None:
    result = simulate(Parameters(**POINT), 16, 5, seed=3, gain=0.6)
    report = result.to_dict()
    tm, idg = result.errors[Protocol.TM], result.errors[Protocol.IDG]
    assert report["errors"]["TM"] == {
        "mean": tm.mean(),
        "stderr": tm.std(ddof=1) / math.sqrt(5),
        "n": 5,
    }
    paired = report["differences"]["IDG-TM"]
    assert paired["mean"] == pytest.approx(idg.mean() - tm.mean(), rel=1e-13)  # rounding
    assert paired["stderr"] == np.std(idg - tm, ddof=1) / math.sqrt(5)
    assert report["training_error"]["mean"] == result.training_error.mean()
    assert report["iterations"] == {"mean": result.iterations.mean(), "max": result.iterations.max()}
    assert report["residual"]["max"] == result.residual.max() <= 1e-8
    assert [*report["decomposition"]["IDG"]] == list(PARTS)
    assert "decomposition" not in simulate(Parameters(**POINT), 16, 1, seed=3).to_dict()
    assert json.loads(json.dumps(report))["n_failed"] == 0
    assert repr(result).startswith("Experiment(dim=16, ok, TM ")


def test_cross_parts_shrink_like_one_over_the_dimension() -> None:
    params = Parameters(alpha=2, kappa=1.5, rho=0.9, gamma=1.5, sigma=0.3)
    gain = 0.57239  # of W on the family, in the limit
    sizes = []
    for dim, repeats in ((8, 100), (32, 40)):
        parts = simulate(params, dim, repeats, seed=0, gain=gain).decomposition
        assert parts is not None
        sizes.append(dim * np.sqrt(np.mean(parts[Protocol.IDG]["cross"] ** 2)))
    # Each is known to 1/sqrt(2 n), so the ratio to 13%: 4 of them; 1/sqrt(D) would make it 2.
    assert sizes[1] / sizes[0] == pytest.approx(1, abs=0.52)


@pytest.mark.parametrize("point", POINTS, ids=lambda point: f"gamma={point['parameters']['gamma']}")
def test_errors_and_parts_tend_to_the_reference_of_the_limit(point: dict[str, Any]) -> None:
    params = Parameters(**point["parameters"])
    gain = point["prediction"]["IDG"][0]  # tr(W P) / rho, the gain of the signal
    for dim, repeats in ((20, 20), (40, 10)):
        result = simulate(params, dim, repeats, seed=0, gain=gain)
        # Deviations are c/D with c between 0 and 8 away from the threshold.
        slack = 8 / dim
        for protocol, mean in result.means.items():
            limit = point["errors"][protocol]
            assert abs(mean.mean - limit) < 4 * mean.stderr + slack * limit
            parts = result.decomposition[protocol] if result.decomposition else {}
            for part, expected in zip(PARTS, [*point["decomposition"][protocol], 0.0], strict=True):
                value = Estimate.of(parts[part])
                assert abs(value.mean - expected) < 4 * value.stderr + slack * limit


def test_one_repeat_has_no_standard_error() -> None:
    result = simulate(Parameters(**POINT), 16, 1, seed=0)
    assert math.isnan(result.means[Protocol.TM].stderr)
    assert result.means[Protocol.TM].n == 1


def test_the_threshold_is_a_status_and_is_not_run() -> None:
    result = simulate(Parameters(**POINT | {"gamma": 1.001}), 16, 3, seed=0)  # M rounds to D^2
    assert result.status == "interpolation_threshold"
    assert result.realized.gamma == 1
    assert result.failures == ()
    assert result.means[Protocol.TM].n == 0
    assert simulate(Parameters(**POINT | {"gamma": 1.0}, ridge=0.1), 16, 1, seed=0).status == "ok"


def test_failed_repeats_are_listed_and_kept_out_of_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    params = Parameters(**POINT)
    whole = simulate(params, 16, 5, seed=0)
    calls = iter(range(5))

    def sometimes(*arguments: Any) -> least_squares.Fit:
        if next(calls) in (1, 3):
            raise NumericalError("too slow")
        return least_squares.minimize(*arguments)

    monkeypatch.setattr(experiment, "minimize", sometimes)
    result = simulate(params, 16, 5, seed=0, n_jobs=1)
    assert result.status == "ok"
    assert result.failures == tuple((k, entropy(params, 16, k, 0), "too slow") for k in (1, 3))
    mean = result.means[Protocol.ODG]
    assert mean == Estimate.of(whole.errors[Protocol.ODG][[0, 2, 4]])
    assert mean.n == 3
    assert np.isnan(result.training_error[[1, 3]]).all()
    assert result.to_dict()["n_failed"] == 2


def test_no_number_comes_out_of_values_beyond_float64() -> None:
    result = simulate(Parameters(**POINT | {"sigma": 1e200}), 16, 2, seed=0)
    assert result.status == "not_converged"
    assert [failure.repeat for failure in result.failures] == [0, 1]
    assert "range of float64" in result.failures[0].reason
    assert all(mean.n == 0 and math.isnan(mean.mean) for mean in result.means.values())


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({}, {"dim": 1}, r"dim = 1 is outside the allowed range \[2, inf\)"),
        ({}, {"dim": 2.5}, r"dim = 2.5 is not an integer; allowed range \[2, inf\)"),
        ({}, {"repeats": 0}, r"repeats = 0 is outside the allowed range \[1, inf\)"),
        ({}, {"seed": -1}, r"seed = -1 is outside the allowed range \[0, inf\)"),
        ({}, {"n_jobs": 0}, "n_jobs = 0 is outside"),
        ({}, {"rtol": 0.5}, r"rtol = 0.5 is outside the allowed range \(0, 0.01\]"),
        ({}, {"rtol": math.nan}, "rtol = nan is outside"),
        ({}, {"gain": math.nan}, "gain = nan is outside"),
        ({"rho": 0.02}, {}, r"rho = 0.02 rounds to 0 at dim = 20; allowed range .*\(0.025, ...\)"),
        ({"kappa": 0.01}, {}, "kappa = 0.01 rounds to 0 at dim = 20"),
        ({"alpha": 0.01}, {}, "alpha = 0.01 rounds to 0 at dim = 20"),
        ({"alpha_test": 0.01}, {}, "alpha_test = 0.01 rounds to 0 at dim = 20"),
        ({"alpha": math.inf}, {}, "alpha = inf is no finite experiment"),
        ({"kappa": math.inf}, {}, "kappa = inf is no finite experiment"),
        ({"gamma": 0.002}, {}, r"gamma = 0.002 makes 0.8 prompts at dim = 20; .* \[0.0025, inf\)"),
        ({"alpha": 1e308}, {}, "alpha = 1e[+]308 is too large for dim = 20"),
        ({"kappa": 1e12}, {}, r"takes .* GB of memory, .* GB are available"),
        ({"sigma": np.array([0.1, 0.2])}, {}, r"shape \(2,\) hold 2 points; an experiment takes one"),
    ],
)
def test_bad_input_is_refused(changes: dict[str, Any], arguments: dict[str, Any], message: str) -> None:
    values: dict[str, Any] = {"dim": 20, "repeats": 2, "seed": 0} | arguments
    with pytest.raises(InputError, match=message):
        simulate(Parameters(**POINT | changes), **values)


def test_infinite_test_contexts_are_allowed() -> None:
    long = simulate(Parameters(**POINT, alpha_test=math.inf), 16, 2, seed=0)
    assert long.realized.alpha_test == math.inf
    assert np.all(np.isfinite(numbers(long)))


@pytest.mark.parametrize("count", [1, 511, 1025, 40_000])
@pytest.mark.parametrize("threads", [1, 3])
def test_strips_cover_every_row_once_and_in_order(count: int, threads: int) -> None:
    seen = np.zeros(count, dtype=int)
    reached: dict[int, int] = {}

    def visit(worker: int, strip: int, block: slice, first: bool) -> None:
        seen[block] += 1
        assert first == (strip not in reached)
        assert first or reached[strip] == block.start
        reached[strip] = block.stop

    with Team(threads) as team:
        Rows(count, team).each_block(visit)
    assert np.all(seen == 1)


def test_an_error_in_one_thread_stops_the_others() -> None:
    done = []

    def work(worker: int, item: int) -> None:
        if item == 3:
            raise MemoryError
        time.sleep(0.01)
        done.append(item)

    with Team(2) as team:
        with pytest.raises(MemoryError):
            team.share(range(1000), work)
        assert len(done) < 100
        with pytest.raises(Stopped):
            team.share([1], work)


def test_sizes_that_are_whole_are_exact() -> None:
    params = Parameters(alpha=2, kappa=1.5, rho=0.9, gamma=1.5, sigma=0.3)
    sizes = Sizes.of(params, 60)
    assert (sizes.length, sizes.tasks, sizes.rank, sizes.prompts) == (120, 90, 54, 5400)
    assert sizes.realized(params) == Parameters(**dict(params.items()))
