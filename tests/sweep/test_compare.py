"""Comparisons: on a user's own measurements and on experiments of ours."""

from pathlib import Path

import numpy as np
import pytest

from replica import InputError, Parameters, solve
from replica.sweep.compare import Comparison, compare_measured, rows, summary, without_theory
from replica.sweep.config import Config

HEADER = "alpha,alpha_test,kappa,rho,gamma,sigma,ridge,dim,protocol,mean,stderr,n"
POINT = "2,4,1.5,0.5,1.5,0.3,0"


def table(path: Path, *lines: str, header: str = HEADER) -> Path:
    file = path / "measured.csv"
    file.write_text("\n".join([header, *lines]) + "\n")
    return file


def true_error(protocol: str = "TM") -> float:
    names = HEADER.split(",")[:7]
    return float(
        solve(Parameters(**dict(zip(names, map(float, POINT.split(",")), strict=True)))).errors[protocol]
    )


def test_measurements_of_a_true_theory_are_finite_size(tmp_path: Path) -> None:
    error = true_error()
    lines = [f"{POINT},{dim},TM,{error / (1 - 3 / dim)},{0.1 * error / dim},20" for dim in (40, 80)]
    (row,) = rows(compare_measured(table(tmp_path, *lines)))
    assert row["verdict"] == "finite_size"
    assert row["dim"] == [40, 80]
    assert row["theory"] == pytest.approx([error, error], rel=1e-14)
    assert row["ratio"] == pytest.approx(1, abs=1e-9)
    assert summary([row]) == {"agrees": 0, "finite_size": 1, "disagrees": 0, "undecided": 0}


def test_a_theory_that_is_off_disagrees(tmp_path: Path) -> None:
    error = 1.1 * true_error("IDG")
    lines = [f"{POINT},{dim},IDG,{error},{0.05 * error / dim},20" for dim in (40, 80, 120)]
    (row,) = rows(compare_measured(table(tmp_path, *lines)))
    assert row["verdict"] == "disagrees"
    assert row["ratio"] == pytest.approx(1.1, rel=1e-3)


def test_columns_that_may_be_missing(tmp_path: Path) -> None:
    header = "alpha,kappa,rho,gamma,sigma,dim,protocol,mean,stderr"
    (row,) = rows(compare_measured(table(tmp_path, "2,1.5,0.5,1.5,0.3,80,TM,0.9,0.01", header=header)))
    assert row["parameters"]["alpha_test"] == 2
    assert row["parameters"]["ridge"] == 0
    assert np.isnan(row["n"][0])
    # Without the number of repeats three standard errors are allowed.
    assert row["ratio_allowed"] == pytest.approx(3 * row["ratio_stderr"])


def test_dims_whose_ratios_differ_by_rounding_are_one_point(tmp_path: Path) -> None:
    """kappa = 0.77 and rho = 0.33 asked, each D with the ratios that it realizes."""
    lines = [f"2,2,{round(0.77 * d) / d},{round(0.33 * d) / d},1.5,0.3,0,{d},TM,0.7,0.01,9" for d in (40, 60)]
    (row,) = rows(compare_measured(table(tmp_path, *lines)))
    assert row["dim"] == [40, 60]
    assert row["theory"][0] != row["theory"][1]


def test_points_farther_apart_than_rounding_stay_apart(tmp_path: Path) -> None:
    lines = [f"2,2,{kappa},0.3,1.5,0.3,0,{dim},TM,0.7,0.01,9" for kappa, dim in ((0.75, 40), (0.80, 60))]
    assert len(list(rows(compare_measured(table(tmp_path, *lines))))) == 2
    fine = [f"2,2,{kappa},0.3,1.5,0.3,0,{dim},TM,0.7,0.01,9" for kappa in (0.75, 0.76) for dim in (40, 60)]
    assert [row["dim"] for row in rows(compare_measured(table(tmp_path, *fine)))] == [[40, 60], [40, 60]]


def test_near_the_threshold_a_row_is_marked(tmp_path: Path) -> None:
    lines = [
        f"2,2,1.5,0.5,{gamma},0.3,{ridge},{dim},TM,0.7,0.01,9"
        for gamma, ridge in ((1.05, 0), (1.5, 0), (1.05, 0.5))
        for dim in (40, 80)
    ]
    warned = [row["warning"] is not None for row in rows(compare_measured(table(tmp_path, *lines)))]
    assert warned == [True, False, False]


def test_one_dim_alone_is_marked(tmp_path: Path) -> None:
    both = [f"2,2,1.5,0.5,1.5,0.3,0,{dim},TM,0.7,0.01,9" for dim in (40, 80)]
    alone = "2,2,1.5,0.5,3,0.3,0,40,TM,0.7,0.01,9"
    warned = [row["warning"] for row in rows(compare_measured(table(tmp_path, *both, alone)))]
    assert warned == [None, "one D alone cannot tell whether a distance shrinks like 1/D"]


def test_points_without_a_finite_theory_are_counted(tmp_path: Path) -> None:
    lines = [
        f"{alpha},2,1.5,0.5,{gamma},0.3,0,80,TM,0.7,0.01,9" for alpha, gamma in ((2, 1), ("inf", 2), (2, 2))
    ]
    made = compare_measured(table(tmp_path, *lines))
    assert len(list(rows(made))) == 1
    assert without_theory(made) == {"interpolation_threshold": 1, "ill_posed": 1}


@pytest.mark.parametrize(
    ("lines", "header", "words"),
    [
        ([f"{POINT},80,TM,0.7,0.01,9"], HEADER.replace("mean", "average"), ["no column 'mean'"]),
        ([f"{POINT},80,XYZ,0.7,0.01,9"], HEADER, ["row 2, column protocol", "'XYZ'", "TM, IDG, ODG"]),
        ([f"{POINT},80,TM,1,1,9", f"{POINT},85,TM,1,-1,9"], HEADER, ["row 3, column stderr: -1", "[0, inf)"]),
        ([f"{POINT},80,TM,nan,0.01,9"], HEADER, ["row 2, column mean: nan", "(0, inf)"]),
        ([f"{POINT},80,TM,abc,0.01,9"], HEADER, ["row 2, column mean: 'abc' is not a number"]),
        ([f"{POINT},80,TM,0.7,0.01,0"], HEADER, ["row 2, column n: 0"]),
        (["2,4,1.5,1.5,1.5,0.3,0,80,TM,0.7,0.01,9"], HEADER, ["row 2: rho = 1.5", "(0, 1]"]),
        (["2,4,1.5,nan,1.5,0.3,0,80,TM,0.7,0.01,9"], HEADER, ["row 2: rho = nan"]),
        (["2,4,1.5,,1.5,0.3,0,80,TM,0.7,0.01,9"], HEADER, ["row 2, column rho: '' is not a number"]),
        ([f"{POINT},80.5,TM,0.7,0.01,9"], HEADER, ["row 2, column dim: 80.5", "the integers from 1"]),
        ([f"{POINT},80,TM,0.7,0.01,9"] * 2, HEADER, ["row 3 repeats", "row 2"]),
        ([], HEADER, ["holds no measurement"]),
    ],
)  # fmt: skip
def test_bad_measurements_are_named_by_row_and_column(
    tmp_path: Path, lines: list[str], header: str, words: list[str]
) -> None:
    with pytest.raises(InputError) as caught:
        compare_measured(table(tmp_path, *lines, header=header))
    for word in words:
        assert word in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv"):
        compare_measured(tmp_path / "none.csv")


def config(points: list[list[float]], dims: list[int], repeats: int) -> Config:
    names = ("alpha", "alpha_test", "kappa", "rho", "gamma", "sigma", "ridge")
    (point,) = points
    return Config.from_dict(
        {
            "parameters": {n: v for n, v in zip(names, point, strict=True) if n != "kappa"},
            "grid": {"kappa": [point[2]]},
            "experiment": {"dims": dims, "repeats": repeats, "seed": 1},
        }
    )


def test_experiments_of_ours_beside_the_theory_at_their_own_ratios() -> None:
    task = Comparison(config([[2, 2, 0.77, 0.33, 1.5, 0.3, 0]], [12, 16], 3))
    comparison = task.evaluate(task.axes)
    assert comparison["mean"].dims == ("protocol", "dim", "kappa")
    assert comparison["n"].values.tolist() == [[[3], [3]]] * 3
    realized = Parameters(
        alpha=2, kappa=round(0.77 * 16) / 16, rho=round(0.33 * 16) / 16, gamma=1.5, sigma=0.3
    )
    expected = comparison["theory"].sel(protocol="IDG", dim=16).item()
    assert expected == pytest.approx(float(solve(realized).errors["IDG"]), rel=1e-14)
    assert len(list(rows(comparison))) == 3


def test_the_parts_of_an_experiment_sum_to_its_error() -> None:
    task = Comparison(config([[2, 2, 0.77, 0.33, 1.5, 0.3, 0]], [12, 16], 3))
    comparison = task.evaluate(task.axes)
    # Rounding of sums of a few hundred numbers of order 1.
    np.testing.assert_allclose(comparison["part_mean"].sum("part"), comparison["mean"], rtol=1e-12)
    realized = Parameters(alpha=2, kappa=0.75, rho=0.3125, gamma=1.5, sigma=0.3)
    structural = comparison["part_mean"].sel(protocol="IDG", part="structural", dim=16).item()
    # 1/D corrections and three repeats leave a factor of two.
    assert 0.5 < structural / float(solve(realized).decomposition["IDG"]["structural"]) < 2


def test_experiments_run_on_their_own_grid_and_know_no_other() -> None:
    table = {
        "parameters": {"alpha": 2, "rho": 0.5, "gamma": 1.5, "sigma": 0.3},
        "grid": {"kappa": {"start": 0.5, "stop": 1.5, "num": 101}},
        "experiment": {"dims": [12], "repeats": 2, "grid": {"kappa": [0.5, 1.0]}},
    }
    task = Comparison(Config.from_dict(table))
    assert task.axes["kappa"].tolist() == [0.5, 1.0]
    finer = table | {"grid": {"kappa": {"start": 0.5, "stop": 1.5, "num": 11}}}
    assert Comparison(Config.from_dict(finer)).identity == task.identity
    same = {"parameters": table["parameters"], "grid": {"kappa": [0.5, 1.0]}}
    same["experiment"] = {"dims": [12], "repeats": 2}
    assert Comparison(Config.from_dict(same)).identity == task.identity


def test_a_comparison_needs_experiments() -> None:
    grid = {"parameters": {"alpha": 2, "rho": 0.5, "gamma": 1.5, "sigma": 0.3}, "grid": {"kappa": [1.0]}}
    with pytest.raises(InputError, match=r"no \[experiment\] table"):
        Comparison(Config.from_dict(grid))


SCIENCE = [
    (2, 4, 1.5, 0.5, 1.5, 0.3, 0),
    (3, 1.5, 0.4, 0.8, 0.5, 0.5, 0),
    (1.5, 3, 0.6, 0.75, 0.8, 0.3, 0.05),
]


@pytest.mark.slow
@pytest.mark.parametrize("point", SCIENCE)
def test_theory_and_experiment_agree_and_a_wrong_sigma_is_found(point: tuple[float, ...]) -> None:
    """Twenty repeats at four D: no row disagrees; with sigma 10% off in the theory at least one row does."""
    task = Comparison(config([list(point)], [40, 60, 80, 120], 20))
    comparison = task.evaluate(task.axes)
    table = list(rows(comparison))
    assert len(table) == 3
    assert summary(table)["disagrees"] == 0, table
    assert summary(table)["undecided"] == 0, table

    from replica.sweep.verdict import Verdict, judge

    found = []
    for row in table:
        wrong = [
            solve(Parameters(**row["parameters"] | realized | {"sigma": 1.1 * row["parameters"]["sigma"]}))
            for realized in (
                {name: round(row["parameters"][name] * d) / d for name in ("kappa", "rho")}
                for d in row["dim"]
            )
        ]
        expected = [float(solution.errors[row["protocol"]]) for solution in wrong]
        found.append(
            judge(
                *(np.array(a) for a in (row["dim"], expected, row["mean"], row["stderr"], row["n"]))
            ).verdict
        )
    assert Verdict.DISAGREES in found
