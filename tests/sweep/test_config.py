"""Config files: what they resolve to and what they refuse."""

import math
from pathlib import Path

import numpy as np
import pytest

from replica import configs
from replica.exceptions import InputError
from replica.sweep import Config

FIXED = {"alpha": 8, "gamma": 1.5, "sigma": 0.3}
AXES = {"kappa": [0.5, 1.5], "rho": [0.9, 0.1, 0.4]}


def config(**changes: object) -> Config:
    return Config.from_dict({"parameters": FIXED, "grid": AXES} | changes)


def axis(**given: object) -> np.ndarray:
    return config(grid={"kappa": given, "rho": [0.5]}).grid["kappa"]


def test_lists_keep_their_order_and_defaults_are_resolved() -> None:
    made = config()
    assert made.parameters == {"alpha": 8.0, "gamma": 1.5, "sigma": 0.3, "ridge": 0.0}
    assert list(made.grid) == ["kappa", "rho"]
    assert made.grid["rho"].tolist() == [0.9, 0.1, 0.4]
    assert made.experiment is None


@pytest.mark.parametrize("spacing", ["linear", "log"])
def test_ranges_end_exactly_where_they_say(spacing: str) -> None:
    # Ends whose logarithms do not survive a round trip.
    values = axis(start=0.3, stop=0.7000000000000001, num=7, spacing=spacing)
    assert (values[0], values[-1], len(values)) == (0.3, 0.7000000000000001, 7)
    steps = np.diff(np.log(values) if spacing == "log" else values)
    # Seven roundings of numbers below 2.
    assert np.ptp(steps) < 1e-14


def test_ranges_may_descend_or_hold_one_value() -> None:
    assert axis(start=2, stop=1, num=3).tolist() == [2.0, 1.5, 1.0]
    assert axis(start=2, stop=2, num=1).tolist() == [2.0]


def test_infinite_values_stand_in_lists_and_survive_json() -> None:
    made = config(
        parameters={"kappa": math.inf, "gamma": 1.5, "sigma": 0}, grid={"alpha": [1, math.inf], "rho": [1]}
    )
    assert made.to_dict()["grid"]["alpha"] == [1.0, "inf"]
    assert made.to_dict()["parameters"]["kappa"] == "inf"


def test_configs_are_equal_when_they_ask_for_the_same_points() -> None:
    as_range = config(grid={"kappa": {"start": 0.5, "stop": 1.5, "num": 2}, "rho": AXES["rho"]})
    assert as_range == config()
    assert config(parameters=FIXED | {"sigma": 0.30000000000000004}) != config()
    assert config(grid=AXES | {"rho": [0.1, 0.9, 0.4]}) != config()


def test_a_long_axis_is_told_by_a_hash_of_its_values() -> None:
    long = {"start": 0.1, "stop": 1, "num": 5000}
    one, other = (
        config(grid={"kappa": long, "rho": [1]}),
        config(grid={"kappa": long | {"num": 5001}, "rho": [1]}),
    )
    assert set(one.to_dict()["grid"]["kappa"]) == {"first", "last", "num", "sha256"}
    assert one != other


def test_axes_may_be_arrays() -> None:
    arrays = {"kappa": np.array([0.5, 1.5]), "rho": (0.9, np.float64(0.1), 0.4)}
    fixed = FIXED | {"alpha": np.int64(8)}
    for made in (config(grid=arrays, parameters=fixed), Config(fixed | {"ridge": 0.0}, arrays)):
        assert made == config()
        assert not made.grid["kappa"].flags.writeable
    with pytest.raises(InputError, match=r"grid\.rho = 1\.2 is outside the allowed range \(0, 1\]"):
        Config(FIXED, {"rho": np.array([0.5, 1.2])})
    with pytest.raises(InputError, match=r"grid\.rho holds 0\.5 more than once"):
        Config(FIXED, {"rho": np.array([0.5, 0.5])})


def test_no_grid_is_a_single_point() -> None:
    assert Config.from_dict({"parameters": FIXED | {"kappa": 1, "rho": 1}}).grid == {}


def test_experiment_table() -> None:
    made = config(experiment={"dims": [40, 80], "repeats": 5, "seed": 7}).experiment
    assert made is not None
    assert (made.dims, made.repeats, made.seed) == ((40, 80), 5, 7)


RANGE = {"start": 1, "stop": 9, "num": 81}


def test_experiments_may_run_at_fewer_values_than_the_theory() -> None:
    grid = {"alpha": RANGE, "kappa": [0.5, 1.5]}
    made = Config.from_dict(
        {
            "parameters": {"rho": 0.5, "gamma": 1.5, "sigma": 0.3},
            "grid": grid,
            "experiment": {"dims": [40], "repeats": 5, "grid": {"alpha": {"num": 3}}},
        }
    )
    assert made.experiment is not None
    assert {name: axis.tolist() for name, axis in made.experiment.grid.items()} == {"alpha": [1.0, 5.0, 9.0]}
    assert len(made.grid["alpha"]) == 81
    assert made.to_dict()["experiment"]["grid"] == {"alpha": [1.0, 5.0, 9.0]}


def test_a_quick_look_replaces_what_its_table_holds() -> None:
    tables = {
        "grid": {"kappa": RANGE, "rho": [0.1, 0.5]},
        "experiment": {"dims": [80], "repeats": 20, "seed": 3},
        "quick": {"grid": {"kappa": {"num": 2}, "rho": [0.5]}, "experiment": {"dims": [9], "repeats": 2}},
    }
    full = config(**tables)
    assert len(full.grid["kappa"]) == 81
    quick = Config.from_dict({"parameters": FIXED} | tables, quick=True)
    assert {name: axis.tolist() for name, axis in quick.grid.items()} == {"kappa": [1.0, 9.0], "rho": [0.5]}
    assert quick.experiment is not None
    assert (quick.experiment.dims, quick.experiment.repeats, quick.experiment.seed) == ((9,), 2, 3)
    assert quick.parameters == full.parameters


def test_a_quick_look_needs_its_table() -> None:
    with pytest.raises(InputError, match=r"there is no \[quick\] table"):
        Config.from_dict({"parameters": FIXED, "grid": AXES}, quick=True)


REFUSED = {
    "unknown table": ({"grids": {}}, "the key grids is unknown; did you mean grid?"),
    "unknown parameter": (
        {"parameters": FIXED | {"sigms": 1}},
        "the key parameters.sigms is unknown; did you mean parameters.sigma?",
    ),
    "unknown axis": ({"grid": {"kapa": [1]}}, "the key grid.kapa is unknown; did you mean grid.kappa?"),
    "unlike any key": ({"zzz": 1}, "the key zzz is unknown; allowed are parameters, grid, experiment, quick"),
    "unknown range key": (
        {"grid": AXES | {"rho": {"start": 0.1, "stop": 1, "nums": 3}}},
        "the key grid.rho.nums is unknown; did you mean grid.rho.num?",
    ),
    "table of wrong type": ({"grid": 3}, r"grid = 3 is not a table"),
    "text for a number": (
        {"parameters": FIXED | {"sigma": "0.3"}},
        r"parameters.sigma = '0.3' is not a number; allowed range \[0, inf\)",
    ),
    "true for a number": (
        {"parameters": FIXED | {"sigma": True}},
        "parameters.sigma = True is not a number",
    ),
    "list for a fixed one": (
        {"parameters": FIXED | {"sigma": [1]}},
        r"parameters.sigma = \[1\] is not a number",
    ),
    "text in a list": (
        {"grid": AXES | {"rho": [0.1, "1"]}},
        r"grid.rho\[1\] = '1' is not a number; allowed range \(0, 1\]",
    ),
    "text in a range": (
        {"grid": AXES | {"rho": {"start": 0.1, "stop": "1", "num": 3}}},
        r"grid.rho.stop = '1' is not a number; allowed range \(0, 1\]",
    ),
    "an integer beyond the floats": (
        {"grid": AXES | {"kappa": [10**400]}},
        r"grid.kappa\[0\] = 10+ is beyond double precision; allowed range \(0, inf\]",
    ),
    "an integer that cannot be printed": (
        {"grid": AXES | {"kappa": [16**5000]}},
        r"grid.kappa\[0\], an integer of 20001 bits, is beyond double precision; allowed range \(0, inf\]",
    ),
    "number for a list": (
        {"grid": AXES | {"rho": 0.1}},
        "grid.rho = 0.1 is neither a list of values nor a range",
    ),
    "out of range": (
        {"grid": AXES | {"rho": [0.5, 1.5]}},
        r"grid.rho\[1\] = 1.5 is outside the allowed range \(0, 1\]",
    ),
    "nan": (
        {"parameters": FIXED | {"sigma": math.nan}},
        r"parameters.sigma = nan is outside the allowed range \[0, inf\)",
    ),
    "empty grid": ({"grid": {}}, r"\[grid\] is empty"),
    "empty axis": ({"grid": AXES | {"rho": []}}, "grid.rho is empty"),
    "repeated value": ({"grid": AXES | {"rho": [0.5, 0.1, 0.5]}}, "grid.rho holds 0.5 more than once"),
    "repeated zero": (
        {"parameters": {"alpha": 1, "gamma": 1.5}, "grid": AXES | {"sigma": [0.0, -0.0]}},
        "grid.sigma holds -?0 more than once",
    ),
    "flat range": (
        {"grid": AXES | {"rho": {"start": 0.5, "stop": 0.5, "num": 2}}},
        "grid.rho holds 0.5 more than",
    ),
    "num below 1": (
        {"grid": AXES | {"rho": {"start": 0.1, "stop": 1, "num": 0}}},
        r"grid.rho.num = 0 is outside the allowed range \[1, 100000000\]",
    ),
    "num no integer": (
        {"grid": AXES | {"rho": {"start": 0.1, "stop": 1, "num": 2.0}}},
        r"grid.rho.num = 2.0 is not an integer; allowed range \[1, 100000000\]",
    ),
    "num missing": ({"grid": AXES | {"rho": {"start": 0.1, "stop": 1}}}, "grid.rho.num is missing"),
    "spacing unknown": (
        {"grid": AXES | {"rho": {"start": 0.1, "stop": 1, "num": 2, "spacing": "logs"}}},
        "grid.rho.spacing = 'logs' is unknown; allowed are 'linear' and 'log'",
    ),
    "log from zero": (
        {
            "parameters": {"alpha": 1, "gamma": 1.5},
            "grid": AXES | {"sigma": {"start": 0, "stop": 1, "num": 3, "spacing": "log"}},
        },
        "grid.sigma.start = 0 is an end of a log range; its ends must be positive",
    ),
    "log from below zero": (
        {"grid": AXES | {"kappa": {"start": -1, "stop": 1, "num": 3, "spacing": "log"}}},
        r"grid.kappa.start = -1 is outside the allowed range \(0, inf\]",
    ),
    "infinite end": (
        {"grid": AXES | {"kappa": {"start": 1, "stop": math.inf, "num": 3}}},
        "grid.kappa.stop = inf is infinite; ranges have finite ends",
    ),
    "swept and fixed": (
        {"parameters": FIXED | {"rho": 0.5}},
        r"rho is swept in \[grid\] and fixed in \[parameters\]",
    ),
    "missing": ({"grid": {"kappa": [1]}}, r"rho is missing; .* allowed range \(0, 1\]"),
    "five swept": (
        {"parameters": {}, "grid": AXES | {"alpha": [1], "gamma": [1], "sigma": [1]}},
        r"\[grid\] sweeps 5 parameters \(kappa, rho, alpha, gamma, sigma\); allowed are 1 to 4",
    ),
    "no dims": ({"experiment": {"repeats": 3}}, "experiment.dims is missing"),
    "dims no list": ({"experiment": {"dims": 40, "repeats": 3}}, "experiment.dims = 40 is not a list"),
    "a dim of one": (
        {"experiment": {"dims": [1], "repeats": 3}},
        r"experiment.dims\[0\] = 1 is outside the allowed range \[2, inf\)",
    ),
    "a dim twice": (
        {"experiment": {"dims": [9, 9], "repeats": 3}},
        r"experiment.dims = \[9, 9\] holds a dimension more than once",
    ),
    "no repeats": (
        {"experiment": {"dims": [9], "repeats": 0}},
        r"experiment.repeats = 0 is outside the allowed range \[1, inf\)",
    ),
    "seed below 0": (
        {"experiment": {"dims": [9], "repeats": 1, "seed": -1}},
        r"experiment.seed = -1 is outside the allowed range \[0, inf\)",
    ),
    "experiments off the axes": (
        {"experiment": {"dims": [9], "repeats": 1, "grid": {"kapa": [1]}}},
        "the key experiment.grid.kapa is unknown; did you mean experiment.grid.kappa?",
    ),
    "experiments out of range": (
        {"experiment": {"dims": [9], "repeats": 1, "grid": {"rho": [0.5, 2]}}},
        r"experiment.grid.rho\[1\] = 2 is outside the allowed range \(0, 1\]",
    ),
    "experiments on no table": (
        {"experiment": {"dims": [9], "repeats": 1, "grid": 3}},
        r"experiment.grid = 3 is not a table; write \[experiment.grid\]",
    ),
    "experiments nowhere": (
        {"experiment": {"dims": [9], "repeats": 1, "grid": {"rho": []}}},
        r"experiment.grid.rho is empty; give at least one value, allowed range \(0, 1\]",
    ),
    "quick parameters": (
        {"quick": {"parameters": {"alpha": 1}}},
        "the key quick.parameters is unknown; allowed are grid, experiment",
    ),
    "quick no table": ({"quick": 3}, r"quick = 3 is not a table"),
    "quick unknown axis": (
        {"quick": {"grid": {"kapa": [1]}}},
        r"with \[quick\] in place, the key grid.kapa is unknown; did you mean grid.kappa?",
    ),
    "quick number for a range": (
        {"quick": {"grid": {"kappa": 3}}},
        r"with \[quick\] in place, grid.kappa = 3 is neither a list",
    ),
}


@pytest.mark.parametrize(("changes", "sentence"), REFUSED.values(), ids=REFUSED)
def test_refused(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=f"^{sentence}"):
        config(**changes)


def test_integers_of_any_length_are_numbers() -> None:
    made = config(parameters=FIXED | {"alpha": 10**20}, grid=AXES | {"kappa": [10**20]})
    assert (made.parameters["alpha"], made.grid["kappa"].tolist()) == (1e20, [1e20])


def test_loads_by_name_and_by_path(tmp_path: Path) -> None:
    named = Config.load("phase-diagram")
    copy = tmp_path / "copy.toml"
    copy.write_text(configs.path("phase-diagram").read_text())
    assert Config.load(copy) == named
    assert [len(values) for values in named.grid.values()] == [200, 200]


@pytest.mark.parametrize("name", configs.names())
def test_every_shipped_config_loads(name: str) -> None:
    assert Config.load(name).parameters


def test_a_missing_config_is_named_with_the_shipped_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no config file '.*lost\.toml'; .* phase-diagram"):
        Config.load(tmp_path / "lost.toml")


def test_an_unreadable_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the config '.*' cannot be read: Is a directory"):
        Config.load(tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"binary\.toml' cannot be read: it is not UTF-8 text"):
        Config.load(binary)


def test_a_syntax_error_names_its_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("[parameters]\nalpha = 8\ngamma = = 1\n")
    with pytest.raises(InputError, match=r"broken\.toml' is not TOML: .*line 3"):
        Config.load(broken)


@pytest.mark.parametrize("value", ["1" * 5000, "[" * 3000 + "]" * 3000], ids=["digits", "brackets"])
def test_what_the_parser_gives_up_on_is_not_toml(value: str, tmp_path: Path) -> None:
    file = tmp_path / "odd.toml"
    file.write_text(f"[parameters]\nalpha = {value}\n")
    with pytest.raises(InputError, match=r"odd\.toml' is not TOML: "):
        Config.load(file)


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "windows.toml"
    file.write_text(configs.path("phase-diagram").read_text(), encoding="utf-8-sig")
    assert Config.load(file) == Config.load("phase-diagram")


def test_a_refusal_names_the_file(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[parameters]\nalpah = 8\n")
    with pytest.raises(InputError, match=r"in the config '.*wrong\.toml', the key parameters\.alpah"):
        Config.load(wrong)


def test_a_range_too_long_to_hold_is_refused() -> None:
    table = {
        "parameters": {"alpha": 8, "rho": 0.5, "gamma": 1.5, "sigma": 0.3},
        "grid": {"kappa": {"start": 0.1, "stop": 2.0, "num": 10**13}},
    }
    with pytest.raises(InputError, match=r"grid\.kappa\.num = 10000000000000 .* \[1, 100000000\]"):
        Config.from_dict(table)
