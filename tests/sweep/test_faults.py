"""What may happen to a running sweep, tried on the command in a process of its own."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import psutil
import pytest
import xarray as xr

from replica.sweep import Config, Theory, read, run

SCRIPT = Path(__file__).with_name("faulty.py")
RHO = np.geomspace(0.02, 1, 20).tolist()
SLEEP = 0.005
"""Seconds per point, so that the 240 points take more than a second on one core."""
SEEDS = [pytest.param(seed, marks=pytest.mark.slow if seed else []) for seed in range(20)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.toml").write_text(
        "[parameters]\nalpha = 8.0\ngamma = 1.5\nsigma = 0.3\nridge = 0.01\n"
        "[grid]\nkappa = { start = 0.05, stop = 2.0, num = 12 }\n"
        f"rho = {RHO}\n"
    )
    return tmp_path


@pytest.fixture(scope="module")
def expected() -> xr.Dataset:
    """The theory over the whole grid in one piece."""
    fixed = {"alpha": 8, "gamma": 1.5, "sigma": 0.3, "ridge": 0.01}
    grid = {"kappa": {"start": 0.05, "stop": 2.0, "num": 12}, "rho": RHO}
    task = Theory(Config.from_dict({"parameters": fixed, "grid": grid}))
    return task.evaluate(task.axes)


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    """End what a failed test left behind."""
    yield
    while Sweep.started:
        Sweep.started.pop().kill()


class Sweep:
    """A running `replica sweep config.toml -o out.nc` in some folder."""

    started: ClassVar[list[Sweep]] = []

    def __init__(self, folder: Path, *options: str, target: Path | None = None, **faults: Any) -> None:
        self.out = target or folder / "out.nc"
        self.parts = self.out.with_name(f"{self.out.name}.parts")
        self.messages = folder / "messages.txt"
        arguments = ["sweep", str(folder / "config.toml"), "-o", str(self.out), *options]
        with self.messages.open("w") as messages:
            self.process = subprocess.Popen(
                [sys.executable, str(SCRIPT), *arguments],
                stdout=subprocess.DEVNULL,
                stderr=messages,
                env=os.environ | {"FAULTS": json.dumps(faults)},
            )
        self.started.append(self)

    def wait(self, code: int) -> str:
        """Its messages, once it has ended with this exit code."""
        self.process.wait(timeout=120)
        messages = self.messages.read_text()
        assert self.process.returncode == code, messages
        assert "Traceback" not in messages
        return messages

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def wait_for_part(self) -> None:
        until(lambda: self.done() > 0 or self.process.poll() is not None)

    def done(self) -> int:
        return len(list(self.parts.glob("*.npz")))


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def assert_whole(path: Path, expected: xr.Dataset) -> None:
    with read(path) as stored:
        assert not set(expected.variables) - set(stored.variables)
        for name in expected.variables:
            np.testing.assert_array_equal(
                stored[name], expected[name], strict=name not in ("protocol", "part", "moment")
            )
    assert not path.with_name(f"{path.name}.parts").exists()


@pytest.mark.parametrize("jobs", [pytest.param("1", marks=pytest.mark.slow), "2"])
def test_interrupted_sweeps_go_on(jobs: str, folder: Path, expected: xr.Dataset) -> None:
    sweep = Sweep(folder, "--jobs", jobs, sleep=5 * SLEEP)
    sweep.wait_for_part()
    started = time.monotonic()
    sweep.process.send_signal(signal.SIGINT)
    messages = sweep.wait(130)
    assert time.monotonic() - started < 2
    kept, interrupted = messages.splitlines()[-2:]
    assert "of 240 points are kept in out.nc.parts; the same command, without" in kept
    assert interrupted == "Interrupted."
    assert not sweep.out.exists()
    messages = Sweep(folder, "--jobs", jobs).wait(0)
    assert "of 240 points are there already" in messages
    assert_whole(sweep.out, expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_sweep_goes_on(seed: int, folder: Path, expected: xr.Dataset) -> None:
    sweep = Sweep(folder, "--jobs", str(1 + seed % 2), sleep=SLEEP)
    until(lambda: sweep.parts.exists() or sweep.process.poll() is not None)
    time.sleep(random.Random(seed).uniform(0, 3))
    sweep.kill()
    Sweep(folder).wait(0)
    assert_whole(sweep.out, expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_worker_is_replaced(seed: int, folder: Path, expected: xr.Dataset) -> None:
    sweep = Sweep(folder, "--jobs", "2", sleep=5 * SLEEP)
    workers = list[psutil.Process]()

    def find() -> bool:
        workers[:] = loky_workers(sweep)
        return bool(workers) or sweep.process.poll() is not None

    until(find)
    chance = random.Random(seed)
    time.sleep(chance.uniform(0, 3))
    find()
    killed = bool(workers)
    for worker in workers[:1]:
        worker.kill()
    messages = sweep.wait(0)
    assert "a worker died" in messages or not killed or seed > 0
    assert_whole(sweep.out, expected)


def loky_workers(sweep: Sweep) -> list[psutil.Process]:
    try:
        children = psutil.Process(sweep.process.pid).children()
        return [child for child in children if "LokyProcess" in " ".join(child.cmdline())]
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


def test_two_runs_at_once_and_a_lock_left_behind(folder: Path, expected: xr.Dataset) -> None:
    first = Sweep(folder, "--jobs", "1", sleep=10 * SLEEP)
    first.wait_for_part()
    messages = Sweep(folder).wait(2)
    assert messages.startswith(f"Error: another run (process {first.process.pid}) is writing to")
    first.kill()
    assert (first.parts / "lock").read_text() == f"{first.process.pid}\n"
    Sweep(folder).wait(0)
    assert_whole(first.out, expected)


@pytest.mark.slow
def test_the_clock_may_run_backwards(folder: Path, expected: xr.Dataset) -> None:
    Sweep(folder, backwards=True).wait(0)
    assert_whole(folder / "out.nc", expected)


@pytest.mark.slow
def test_points_that_raise_or_never_converge(folder: Path, expected: xr.Dataset) -> None:
    faults = {"raises": [RHO[3]], "diverges": [RHO[0]]}
    messages = Sweep(folder, **faults).wait(3)
    first = f"the first at kappa = {0.05!r}, rho = {RHO[0]!r}"
    assert (
        f"24 of 240 points in {folder / 'out.nc'} failed (12 raised, 12 not_converged), {first}" in messages
    )
    with read(folder / "out.nc") as stored:
        good = stored.sel(rho=[rho for rho in RHO if rho not in (RHO[0], RHO[3])])
        xr.testing.assert_equal(good["errors"], expected["errors"].sel(rho=good["rho"]))
        reason = f"ArithmeticError: no answer among rho = [{RHO[3]}]"
        assert set(stored["reason"].sel(rho=RHO[3]).values) == {reason}
        assert np.isnan(stored["errors"].sel(rho=[RHO[0], RHO[3]])).all()
    assert "nothing is left to do" in Sweep(folder).wait(3)
    Sweep(folder, "--retry-failed").wait(0)
    with read(folder / "out.nc") as stored:
        xr.testing.assert_equal(stored["errors"], expected["errors"])
        assert (stored["reason"] == "").all()


@pytest.mark.slow
def test_all_points_raise(folder: Path) -> None:
    messages = Sweep(folder, raises=RHO).wait(1)
    assert "240 of 240 points" in messages
    with read(folder / "out.nc") as stored:
        assert (stored["reason"] != "").all()


@pytest.mark.slow
@pytest.mark.parametrize("finished", [True, False], ids=["finished", "interrupted"])
def test_another_sweep_is_refused(finished: bool, folder: Path, expected: xr.Dataset) -> None:
    sweep = Sweep(folder, "--jobs", "1", sleep=0 if finished else 5 * SLEEP)
    if finished:
        sweep.wait(0)
    else:
        sweep.wait_for_part()
        sweep.kill()
    before = snapshot(folder)
    config = folder / "config.toml"
    config.write_text(
        config.read_text().replace("sigma = 0.3", "sigma = 0.4").replace("num = 12", "num = 13")
    )
    messages = Sweep(folder).wait(2)
    assert "holds another sweep (fingerprint" in messages
    assert "differs in config.parameters.sigma (0.3 there, 0.4 here), config.grid.kappa (" in messages
    assert snapshot(folder) == before
    Sweep(folder, "--overwrite").wait(0)
    with read(folder / "out.nc") as stored:
        assert (stored["sigma"], stored.sizes["kappa"]) == (0.4, 13)


def snapshot(folder: Path) -> dict[str, bytes]:
    """All files but the config and the lock."""
    files = (
        path
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("config.toml", "lock", "messages.txt")
    )
    return {str(path): path.read_bytes() for path in files}


@pytest.mark.slow
def test_other_equations_are_refused_and_another_version_is_noted(folder: Path, expected: xr.Dataset) -> None:
    sweep = Sweep(folder, "--jobs", "1", sleep=5 * SLEEP)
    sweep.wait_for_part()
    sweep.process.send_signal(signal.SIGINT)
    sweep.wait(130)
    assert "differs in equations (" in Sweep(folder, equations="others").wait(2)
    messages = Sweep(folder, version="99").wait(0)
    assert "begun with other versions (replica 0.1.0 then, 99 now); its equations are the same" in messages
    assert_whole(sweep.out, expected)
    with read(sweep.out) as stored:
        assert json.loads(stored.attrs["versions"])["replica"] == "99"
        assert [earlier["replica"] for earlier in json.loads(stored.attrs["earlier_versions"])] == ["0.1.0"]


@pytest.mark.slow
def test_a_result_is_replaced_only_when_the_new_one_is_whole(folder: Path, expected: xr.Dataset) -> None:
    config = folder / "config.toml"
    asked = config.read_text()
    config.write_text(asked.replace("sigma = 0.3", "sigma = 0.4"))
    Sweep(folder).wait(0)
    before = (folder / "out.nc").read_bytes()
    config.write_text(asked)
    sweep = Sweep(folder, "--overwrite", "--jobs", "1", sleep=5 * SLEEP)
    sweep.wait_for_part()
    sweep.kill()
    assert sweep.out.read_bytes() == before
    assert "are there already" in Sweep(folder).wait(0)
    assert_whole(sweep.out, expected)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_a_truncated_result_is_said_and_not_used(seed: int, folder: Path) -> None:
    out = folder / "out.nc"
    run(Theory(Config.load(folder / "config.toml")), out)
    whole = out.read_bytes()
    out.write_bytes(whole[: random.Random(seed).randrange(len(whole))])
    before = out.read_bytes()
    messages = Sweep(folder).wait(2)
    assert messages.startswith(f"Error: the output exists: '{out}' is not a whole NetCDF-4 file")
    assert messages.count("\n") == 1
    assert out.read_bytes() == before
    Sweep(folder, "--overwrite").wait(0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_a_damaged_part_is_said_and_computed_again(seed: int, folder: Path, expected: xr.Dataset) -> None:
    sweep = Sweep(folder, "--jobs", "1", sleep=5 * SLEEP)
    sweep.wait_for_part()
    sweep.process.send_signal(signal.SIGINT)
    sweep.wait(130)
    chance = random.Random(seed)
    part = chance.choice(sorted(sweep.parts.glob("*.npz")))
    content = bytearray(part.read_bytes())
    where = chance.randrange(len(content))
    part.write_bytes(content[:where])
    messages = Sweep(folder).wait(0)
    assert f"the part '{part}' is damaged" in messages
    assert_whole(sweep.out, expected)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for the parts of the sweep, which are many and small here."""
    yield from mounted(tmp_path / "disk", "size=4m")


def mounted(place: Path, options: str) -> Iterator[Path]:
    place.mkdir()
    if (
        shutil.which("mount") is None
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("mounting a small file system needs root")
    yield place
    subprocess.run(["umount", place], check=True)


def test_what_cannot_fit_is_refused(folder: Path, small_disk: Path) -> None:
    config = folder / "config.toml"
    config.write_text(config.read_text().replace("num = 12", "num = 10000"))
    messages = Sweep(folder, target=small_disk / "out.nc").wait(2)
    assert "on disk and" in messages
    assert messages.endswith("free; sweep fewer points or choose another folder\n")
    assert list(small_disk.iterdir()) == []


@pytest.mark.parametrize("jobs", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_a_disk_that_becomes_full(jobs: str, folder: Path, small_disk: Path, expected: xr.Dataset) -> None:
    out, filler = small_disk / "out.nc", small_disk / "filler"
    out.write_text("precious")
    sweep = Sweep(folder, "--overwrite", "--jobs", jobs, target=out, sleep=SLEEP, fill=str(filler))
    messages = sweep.wait(1)
    assert "Error: the disk is full; " in messages
    assert "of 240 points are kept in out.nc.parts; the same command, without" in messages
    assert out.read_text() == "precious"
    filler.unlink()
    assert "are there already" in Sweep(folder, target=out).wait(0)
    assert_whole(out, expected)


def test_a_folder_that_is_read_only(folder: Path) -> None:
    for place in mounted(folder / "disk", "ro"):
        messages = Sweep(folder, target=place / "out.nc").wait(2)
        assert messages == f"Error: the folder '{place}' is not writable: Read-only file system\n"


@pytest.mark.slow
def test_dask_gives_the_same_though_a_worker_is_killed(folder: Path, expected: xr.Dataset) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
    ) as cluster:
        sweep = Sweep(folder, "--dask", cluster.scheduler_address, sleep=5 * SLEEP)
        sweep.wait_for_part()
        victim = next(iter(cluster.workers.values()))
        os.kill(
            victim.process.process.pid if hasattr(victim.process, "process") else victim.pid, signal.SIGKILL
        )
        sweep.wait(0)
    assert_whole(sweep.out, expected)
