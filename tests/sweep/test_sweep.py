"""Grids, runs over them and the files they leave."""

import errno
import json
import math
import random
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner

from replica import Parameters, Status, __version__, solve
from replica.cli.main import main
from replica.exceptions import InputError
from replica.sweep import Config, Theory, describe, read, run, runner, store, work
from replica.sweep.grid import Grid
from replica.sweep.runner import LIMIT, Pace

CONFIG = """
[parameters]
alpha = 8.0
gamma = 1.5
sigma = 0.3
[grid]
kappa = [0.3, 0.1, 1.7]
rho = { start = 0.02, stop = 1.0, num = 40, spacing = "log" }
"""


@dataclass(frozen=True)
class Product:
    """A task that multiplies its axes, and raises or reports a failure at some values of the first."""

    axes: Mapping[str, np.ndarray]
    raises: frozenset[float] = frozenset()
    diverges: frozenset[float] = frozenset()
    interrupted_after: float = math.inf
    equations: str = "a b"
    calls: list[int] = field(default_factory=list)

    @property
    def identity(self) -> dict[str, Any]:
        axes = {name: len(values) for name, values in self.axes.items()}
        return {"task": "product", "config": {"axes": axes}, "equations": self.equations}

    def evaluate(self, values: Mapping[str, np.ndarray]) -> xr.Dataset:
        first = next(iter(values.values()), np.ones(1))
        if len(self.calls) >= self.interrupted_after:
            raise KeyboardInterrupt
        if self.raises & set(first.tolist()):
            raise ValueError(f"no value at {first.tolist()}")
        dims, shape = tuple(values), tuple(map(len, values.values()))
        self.calls.append(math.prod(shape))
        product = np.ones(shape)
        for axis in np.meshgrid(*values.values(), indexing="ij"):
            product = product * axis
        status = np.full(shape, Status.OK, np.int8)
        for i, value in enumerate(first.tolist()):
            if value in self.diverges:
                status[i], product[i] = Status.NOT_CONVERGED, np.nan
        return xr.Dataset(
            {
                "value": (("half", *dims), np.stack([product, product / 2]), {"long_name": "product"}),
                "status": (dims, status),
            },
            {"half": ["whole", "half"], "scale": 2.0, **values},
        )


def product(*lengths: int, **kinds: Any) -> Product:
    axes = {f"axis_{i}": np.arange(1.0, n + 1) for i, n in enumerate(lengths)}
    return Product(axes, **kinds)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (1, 1), (3, 5), (5, 1, 4), (2, 3, 4, 5)])
@pytest.mark.parametrize("points", [1, 2, 3, 7, 1000])
def test_boxes_tile_the_grid_in_order(shape: tuple[int, ...], points: int) -> None:
    grid = Grid(product(*shape).axes)
    numbers = np.arange(grid.size).reshape(grid.shape)
    start = 0
    while start < grid.size:
        box = grid.box(start, min(grid.size, start + points))
        assert 0 < box.size <= points
        assert numbers[box.index].ravel().tolist() == list(range(box.start, box.stop))
        assert box.shape == numbers[box.index].shape
        start = box.stop


def test_a_pace_grows_stepwise_and_follows_the_clock() -> None:
    pace = Pace()
    pace.learn(1, 20.0)
    assert pace.points == 1
    pace.learn(1, 0.001)
    assert pace.points == 16
    pace.learn(10_000, 2.0)
    assert pace.points == 5_000
    pace.learn(LIMIT, 1e-9)
    assert pace.points == LIMIT


@pytest.mark.parametrize("held", [0, work.HELD_POINTS], ids=["long", "short"])
@pytest.mark.parametrize("lengths", [(), (1,), (1, 1), (300,), (20, 30), (7, 1, 5), (3, 4, 5, 6)])
def test_a_store_is_the_evaluation_of_the_whole_grid(
    lengths: tuple[int, ...], held: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "HELD_POINTS", held)
    task = product(*lengths)
    outcome = run(task, tmp_path / "out.nc")
    assert outcome.states == {"ok": math.prod(lengths)}
    assert len(task.calls) > 1 or math.prod(lengths) == 1
    with read(tmp_path / "out.nc") as stored:
        xr.testing.assert_equal(stored, task.evaluate(task.axes))
        assert set(stored.coords) == {*task.axes, "half", "scale"}
        assert stored["value"].attrs == {"long_name": "product"}
    assert [path.name for path in tmp_path.iterdir()] == ["out.nc"]


def test_a_short_sweep_is_stored_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "assemble", None)
    task = product(20, 30)
    run(task, tmp_path / "out.nc")
    with read(tmp_path / "out.nc") as stored:
        xr.testing.assert_equal(stored, task.evaluate(task.axes))


def test_a_short_sweep_that_cannot_be_stored_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = product(20, 30)
    with monkeypatch.context() as patch:
        patch.setattr(store.Output, "write", Mock(side_effect=OSError(errno.ENOSPC, "no room")))
        with pytest.raises(OSError, match=r"the disk is full; 600 of 600 points are kept in out\.nc\.parts"):
            run(task, tmp_path / "out.nc")
    assert {path.suffix for path in (tmp_path / "out.nc.parts").iterdir()} == {"", ".json", ".npz"}
    run(task, tmp_path / "out.nc")
    assert sum(task.calls) == 600
    with read(tmp_path / "out.nc") as stored:
        xr.testing.assert_equal(stored, task.evaluate(task.axes))


def test_a_draft_that_breaks_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store.Output, "sync", Mock(side_effect=KeyError("status")))
    task = product(20, 30)
    run(task, tmp_path / "out.nc")
    with read(tmp_path / "out.nc") as stored:
        xr.testing.assert_equal(stored, task.evaluate(task.axes))
    assert [path.name for path in tmp_path.iterdir()] == ["out.nc"]


def test_a_run_that_ends_leaves_the_next_one_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the lock is gone, the folder may be another run's."""
    unlink, theirs = Path.unlink, ["draft.nc", "lock", "theirs.npz"]

    def taken_over(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok)
        if path.name == "lock":
            for name in theirs:
                (path.parent / name).write_text("theirs")

    monkeypatch.setattr(Path, "unlink", taken_over)
    run(product(30), tmp_path / "out.nc")
    assert sorted(path.name for path in (tmp_path / "out.nc.parts").iterdir()) == theirs


def test_what_is_computed_is_kept_when_the_rest_cannot_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, task = tmp_path / "out.nc", product(300)
    with monkeypatch.context() as patch:
        # The pace is trusted from the second box on, and then the disk is small.
        patch.setattr(runner, "SECONDS", 0.0)
        patch.setattr(
            "shutil.disk_usage", lambda _: SimpleNamespace(free=1e9 if len(task.calls) < 2 else 1e3)
        )
        with pytest.raises(InputError, match=r"300 points are kept in out\.nc\.parts; the same command"):
            run(task, out)
    run(task, out)
    assert sum(task.calls) == 300


def test_a_second_interrupt_waits_for_the_first() -> None:
    before = signal.getsignal(signal.SIGINT)
    with runner._deaf():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_every_engine_reads_a_store(tmp_path: Path) -> None:
    task = product(3, 4, raises=frozenset({2.0}))
    run(task, tmp_path / "out.nc")
    with xr.open_dataset(tmp_path / "out.nc", engine="h5netcdf") as one:
        with xr.open_dataset(tmp_path / "out.nc", engine="netcdf4") as other:
            xr.testing.assert_identical(one, other)
        one.to_netcdf(tmp_path / "classic.nc", engine="scipy")
        with xr.open_dataset(tmp_path / "classic.nc", engine="scipy") as classic:
            xr.testing.assert_equal(one, classic)


def test_points_that_fail_keep_their_reason_and_stop_nothing(tmp_path: Path) -> None:
    task = product(5, 8, raises=frozenset({2.0}), diverges=frozenset({4.0}))
    outcome = run(task, tmp_path / "out.nc")
    assert outcome.states == {"ok": 24, "raised": 8, "not_converged": 8}
    assert (outcome.points, outcome.failed) == (40, 16)
    assert outcome.first_failure == {"axis_0": 2.0, "axis_1": 1.0}
    whole = product(5, 8).evaluate(task.axes)["value"]
    with read(tmp_path / "out.nc") as stored:
        reason = stored["reason"].sel(axis_0=2.0).values
        assert set(reason) == {"ValueError: no value at [2.0]"}
        assert set(stored["reason"].sel(axis_0=[1.0, 3.0, 4.0, 5.0]).values.ravel()) == {""}
        good = [1.0, 3.0, 5.0]
        xr.testing.assert_equal(stored["value"].sel(axis_0=good), whole.sel(axis_0=good))
        assert np.isnan(stored["value"].sel(axis_0=[2.0, 4.0])).all()
        meanings = stored["status"].attrs["flag_meanings"].split()
        flags = dict(zip(meanings, stored["status"].attrs["flag_values"].tolist(), strict=True))
        assert (stored["status"].sel(axis_0=2.0) == flags["raised"]).all()


def test_a_run_of_failures_only_is_stored(tmp_path: Path) -> None:
    outcome = run(product(3, 2, raises=frozenset({1.0, 2.0, 3.0})), tmp_path / "out.nc")
    assert outcome.states == {"raised": 6}
    with read(tmp_path / "out.nc") as stored:
        assert (stored["reason"] != "").all()


def test_coordinates_and_results_are_exact(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(CONFIG)
    task = Theory(Config.load(config))
    run(task, tmp_path / "out.nc")
    rho = np.geomspace(0.02, 1.0, 40)
    with read(tmp_path / "out.nc") as stored:
        assert stored["kappa"].values.tolist() == [0.3, 0.1, 1.7]
        assert stored.sel(kappa=0.3)["rho"].values.tolist() == task.config.grid["rho"].tolist()
        whole = solve(
            Parameters.grid(alpha=8, kappa=[0.3, 0.1, 1.7], rho=task.config.grid["rho"], gamma=1.5, sigma=0.3)
        ).to_dataset()
        for name in whole.variables.keys() - {"status"}:
            xr.testing.assert_identical(stored[name], whole[name])
        assert (stored["status"] == Status.OK).all()
        assert stored["rho"].values == pytest.approx(rho, rel=1e-15)


@pytest.mark.parametrize(
    ("fixed", "swept"),
    [
        ({"alpha": 8, "gamma": 1.5}, {"kappa": [0.2, 0.7, 3], "rho": [0.02, 0.5, 0.7, 1]}),
        ({"alpha": 8, "gamma": 0.5}, {"kappa": [0.2, 0.7, 3], "rho": [0.02, 0.5, 0.7, 1]}),
        ({"rho": 0.4, "kappa": 0.7}, {"alpha": [0.1, 5, 1e5], "gamma": [0.3, 1, 3], "ridge": [0, 1e-9, 0.1]}),
    ],
    ids=["closed", "minimum-norm", "mixed"],
)
def test_the_theory_at_a_point_depends_on_no_other_point(
    fixed: dict[str, float], swept: dict[str, list[float]]
) -> None:
    # What makes a sweep the same to the last bit, however it was cut into boxes.
    task = Theory(Config.from_dict({"parameters": fixed | {"sigma": 0.3}, "grid": swept}))
    grid, whole = Grid(task.axes), task.evaluate(task.axes)
    for number in range(grid.size):
        box = grid.box(number, number + 1)
        point = whole.isel(dict(zip(grid.axes, box.index, strict=True)))
        xr.testing.assert_identical(task.evaluate(grid.values(box)), point)


def test_a_store_says_where_it_comes_from(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(CONFIG)
    task = Theory(Config.load(config))
    run(task, tmp_path / "out.nc")
    with read(tmp_path / "out.nc") as stored:
        told = {name: json.loads(value) for name, value in stored.attrs.items()}
    assert told["config"] == task.config.to_dict()
    assert told["equations"] == told["fingerprints"]["equations"]
    assert set(told["fingerprints"]) == {"sweep", "config", "equations"}
    assert {"replica", "python", "numpy", "scipy", "sympy", "xarray"} <= set(told["versions"])
    assert told["seeds"] == []
    assert 0 < told["seconds"]["points"] < told["seconds"]["last_run"]


def test_outputs_that_cannot_be(tmp_path: Path) -> None:
    task = product(3)
    with pytest.raises(InputError, match=r"the folder '.*lost' of the output does not exist"):
        run(task, tmp_path / "lost" / "out.nc")
    with pytest.raises(InputError, match="is a folder; give the name of a file"):
        run(task, tmp_path)
    with pytest.raises(InputError, match="the name of the output has 250 characters; allowed are 240"):
        run(task, tmp_path / ("x" * 247 + ".nc"))
    (tmp_path / "in_the_way.nc.parts").write_text("precious")
    with pytest.raises(
        InputError, match=r"in_the_way\.nc\.parts', where a sweep keeps its parts, is no folder"
    ):
        run(task, tmp_path / "in_the_way.nc")
    (tmp_path / "out.nc").write_text("precious")
    with pytest.raises(
        InputError, match=r"the output exists: '.*out\.nc' is not a whole .* give --overwrite"
    ):
        run(task, tmp_path / "out.nc")
    assert (tmp_path / "out.nc").read_text() == "precious"
    assert task.calls == []
    run(task, tmp_path / "out.nc", overwrite=True)
    assert read(tmp_path / "out.nc").sizes["axis_0"] == 3


def test_what_cannot_fit_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = SimpleNamespace(free=25_000)
    monkeypatch.setattr("shutil.disk_usage", lambda _: free)
    with pytest.raises(InputError, match="1000000000000 points take at least 9 TB on disk"):
        run(product(10**6, 10**6), tmp_path / "out.nc")
    # The value, its half and the status are 17 bytes a point; five variables have headers; all of it twice.
    with pytest.raises(InputError, match=r"300 points take at least 25.2 kB on disk and .* has 25 kB free"):
        run(product(300), tmp_path / "out.nc")
    assert list(tmp_path.iterdir()) == []
    run(product(290), tmp_path / "out.nc")


def interrupted(path: Path, *lengths: int, **kinds: Any) -> list[str]:
    """Run a product that is interrupted after three boxes; what it said."""
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        run(product(*lengths, interrupted_after=3, **kinds), path, say=said.append)
    return said


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock"
    }


def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path: Path) -> None:
    out = tmp_path / "out.nc"
    said = interrupted(out, 20, 30)
    assert (
        said[-1]
        == "30 of 600 points are kept in out.nc.parts; the same command, without --overwrite, goes on"
    )
    assert not out.exists()
    task, progress = product(20, 30), list[tuple[int, int]]()
    said.clear()
    run(task, out, say=said.append, progress=lambda *at: progress.append(at))
    assert said[0] == "30 of 600 points are there already"
    assert sum(task.calls) == 570
    assert (progress[0], progress[-1]) == ((30, 600), (600, 600))
    with read(out) as stored:
        xr.testing.assert_equal(stored, task.evaluate(task.axes))
    assert [path.name for path in tmp_path.iterdir()] == ["out.nc"]


def test_a_finished_sweep_is_left_alone(tmp_path: Path) -> None:
    out, said = tmp_path / "out.nc", list[str]()
    run(product(20), out)
    before, task = snapshot(tmp_path), product(20)
    assert run(task, out, say=said.append).states == {"ok": 20}
    assert said == ["out.nc holds all 20 points already; nothing is left to do"]
    assert (snapshot(tmp_path), task.calls) == (before, [])


def test_failed_points_are_tried_again_when_asked(tmp_path: Path) -> None:
    out = tmp_path / "out.nc"
    run(product(5, 8, raises=frozenset({2.0}), diverges=frozenset({4.0})), out)
    assert run(product(5, 8), out).failed == 16
    task = product(5, 8, diverges=frozenset({4.0}))
    assert run(task, out, retry_failed=True).states == {"ok": 32, "not_converged": 8}
    assert sum(task.calls) == 16
    assert run(product(5, 8), out, retry_failed=True).states == {"ok": 40}
    with read(out) as stored:
        whole = task.evaluate(task.axes)["value"]
        xr.testing.assert_equal(
            stored["value"].sel(axis_0=[1.0, 2.0, 3.0]), whole.sel(axis_0=[1.0, 2.0, 3.0])
        )
        assert (stored["reason"] == "").all()
        assert json.loads(stored.attrs["earlier_versions"]) == []


def test_failed_points_of_an_interrupted_sweep_are_tried_again(tmp_path: Path) -> None:
    interrupted(tmp_path / "out.nc", 300, diverges=frozenset({1.0, 5.0}))
    assert run(product(300), tmp_path / "out.nc", retry_failed=True).states == {"ok": 300}


@pytest.mark.parametrize("finished", [True, False], ids=["finished", "interrupted"])
def test_another_sweep_is_refused(finished: bool, tmp_path: Path) -> None:
    out = tmp_path / "out.nc"
    if finished:
        run(product(20), out)
    else:
        interrupted(out, 300)
    before = snapshot(tmp_path)
    with pytest.raises(
        InputError, match=r"fingerprint \w{16} there, \w{16} here.* differs in config.axes.axis_0 \("
    ):
        run(product(21), out)
    with pytest.raises(InputError, match=r'differs in equations \("a b" there, "c" here\); give --overwrite'):
        run(product(20 if finished else 300, equations="c"), out)
    assert snapshot(tmp_path) == before
    assert run(product(21), out, overwrite=True).points == 21


def test_another_version_with_the_same_equations_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, said = tmp_path / "out.nc", list[str]()
    interrupted(out, 300)
    monkeypatch.setattr("replica.sweep.store.__version__", "99")
    run(product(300), out, say=said.append)
    versions = f"(replica {__version__} then, 99 now)"
    assert said[0] == f"the sweep was begun with other versions {versions}; its equations are the same"
    with read(out) as stored:
        assert json.loads(stored.attrs["versions"])["replica"] == "99"
        assert [made["replica"] for made in json.loads(stored.attrs["earlier_versions"])] == [__version__]


def test_a_result_is_replaced_only_when_the_new_one_is_whole(tmp_path: Path) -> None:
    out = tmp_path / "out.nc"
    run(product(20), out)
    before = out.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        run(product(300, interrupted_after=3), out, overwrite=True)
    assert out.read_bytes() == before
    task = product(300)
    run(task, out)
    assert sum(task.calls) < 300
    assert read(out).sizes["axis_0"] == 300


@pytest.mark.parametrize("seed", range(20))
def test_a_truncated_result_is_said_and_not_used(seed: int, tmp_path: Path) -> None:
    out = tmp_path / "out.nc"
    run(product(20), out)
    whole = out.read_bytes()
    out.write_bytes(whole[: random.Random(seed).randrange(len(whole))])
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match="is not a whole NetCDF-4 file and is not used"):
        run(product(20), out)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_part_is_said_and_computed_again(seed: int, tmp_path: Path) -> None:
    out, said, chance = tmp_path / "out.nc", list[str](), random.Random(seed)
    interrupted(out, 300)
    part = chance.choice(sorted((tmp_path / "out.nc.parts").glob("*.npz")))
    content = part.read_bytes()
    part.write_bytes(content[: chance.randrange(len(content))])
    task = product(300)
    run(task, out, say=said.append)
    assert said[0].startswith(f"the part {str(part)!r} is damaged: ")
    assert said[0].endswith("its points are computed again")
    with read(out) as stored:
        xr.testing.assert_equal(stored, task.evaluate(task.axes))


@pytest.mark.parametrize("content", ['{"identity', "[]", '{"identity": 1}'])
def test_a_damaged_manifest_is_said_and_not_used(content: str, tmp_path: Path) -> None:
    out = tmp_path / "out.nc"
    interrupted(out, 300)
    (tmp_path / "out.nc.parts" / "manifest.json").write_text(content)
    with pytest.raises(InputError, match=r"manifest.json' is damaged and is not used"):
        describe(out)
    with pytest.raises(InputError, match=r"manifest.json' is damaged and is not used; give --overwrite"):
        run(product(300), out)
    run(product(300), out, overwrite=True)


def test_read_says_what_a_file_is_not(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no stored result at"):
        read(tmp_path / "lost.nc")
    (tmp_path / "text.nc").write_text("text")
    with pytest.raises(InputError, match="is not a whole NetCDF-4 file"):
        read(tmp_path / "text.nc")
    xr.Dataset({"a": 1}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with pytest.raises(InputError, match="not the result of a sweep"):
        read(tmp_path / "other.nc")


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(main, ["sweep", *map(str, arguments)])


def test_the_command_stores_a_config(tmp_path: Path) -> None:
    config, out = tmp_path / "config.toml", tmp_path / "out.nc"
    config.write_text(CONFIG)
    done = invoke(config, "-o", out)
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.splitlines()[-1] == f"120 points in {out}"
    before = out.read_bytes()
    again = invoke(config, "-o", out)
    assert (again.exit_code, out.read_bytes()) == (0, before)
    assert "out.nc holds all 120 points already; nothing is left to do" in again.stderr
    assert invoke(config, "-o", out, "--overwrite", "--quiet").output == ""


def test_the_command_names_its_output_as_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.toml").write_text(CONFIG)
    assert invoke("config.toml", "-o", "out.nc").stderr.splitlines()[-1] == "120 points in out.nc"
    merged = CliRunner().invoke(main, ["merge", "out.nc", "out.nc", "-o", "both.nc"])
    assert merged.stderr == "120 points in both.nc\n"
    monkeypatch.setattr("replica.sweep.Theory", lambda _: product(1, raises=frozenset({1.0})))
    failed = invoke("phase-diagram", "-o", "one.nc").stderr.splitlines()[-1]
    where = "the first at axis_0 = 1.0; `replica show one.nc` tells why"
    assert failed == f"1 of 1 point in one.nc failed (1 raised), {where}"


def test_one_point_is_told_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.toml").write_text(
        "[parameters]\nalpha = 8\nkappa = 0.3\nrho = 0.5\ngamma = 1.5\nsigma = 0.3\n"
    )
    assert invoke("config.toml", "-o", "out.nc").stderr.splitlines()[-1] == "1 point in out.nc"
    shown = CliRunner().invoke(main, ["show", "out.nc"])
    assert shown.stdout.splitlines()[1] == "1 point: 1 ok"


def test_the_command_refuses_in_one_sentence(tmp_path: Path) -> None:
    done = invoke("phase-diagramm", "-o", tmp_path / "out.nc")
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("Error: there is no config file 'phase-diagramm'")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("bad", "code"), [({1.0}, 3), ({1.0, 2.0, 3.0}, 1)])
def test_the_command_counts_failures(
    bad: set[float], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replica.sweep.Theory", lambda _: product(3, 2, raises=frozenset(bad)))
    done = invoke("phase-diagram", "-o", tmp_path / "out.nc")
    assert done.exit_code == code
    assert f"{2 * len(bad)} of 6 points" in done.stderr
    assert f"({2 * len(bad)} raised), the first at axis_0 = 1.0, axis_1 = 1.0" in done.stderr
