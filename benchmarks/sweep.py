"""What a sweep costs beside what it computes, and that its memory is bounded."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import xarray as xr

from replica import Status, theory
from replica.sweep import Config, Theory, run, runner

RHO = {"start": 0.02, "stop": 1.0, "num": 1000, "spacing": "log"}
CASES = {"ridge = 0.1": {"gamma": 1.5, "ridge": 0.1}, "ridge = 0 (closed)": {"gamma": 1.5, "ridge": 0.0}}


def config(kappas: int, **fixed: float) -> dict[str, Any]:
    grid = {"kappa": {"start": 0.05, "stop": 2.0, "num": kappas}, "rho": RHO}
    return {"parameters": {"alpha": 8.0, "sigma": 0.3, **fixed}, "grid": grid}


@dataclass(frozen=True)
class Instant:
    """A task that takes no time, as if its points were experiments."""

    points: int
    interrupted: bool = False

    @property
    def axes(self) -> Mapping[str, np.ndarray]:
        return {"kappa": np.linspace(0.1, 2, self.points)}

    @property
    def identity(self) -> dict[str, Any]:
        return {"task": "instant", "config": {}, "equations": ""}

    def evaluate(self, values: Mapping[str, np.ndarray]) -> xr.Dataset:
        if self.interrupted:
            raise KeyboardInterrupt
        shape = (len(values["kappa"]),)
        means = (("protocol", "kappa"), np.zeros((3, *shape)))
        variables = dict.fromkeys(("mean", "stderr", "n"), means)
        return xr.Dataset(variables | {"status": ("kappa", np.full(shape, Status.OK, np.int8))}, dict(values))


def share_in_solve(folder: Path, fixed: dict[str, float]) -> float:
    """The part of the time of a sweep of a million points that is spent in `solve`."""
    spent, solve = 0.0, theory.solve

    def timed(*arguments: Any) -> Any:
        nonlocal spent
        start = time.perf_counter()
        try:
            return solve(*arguments)
        finally:
            spent += time.perf_counter() - start

    theory.solve = timed
    start = time.perf_counter()
    run(Theory(Config.from_dict(config(1000, **fixed))), folder / "share.nc", overwrite=True, jobs=1)
    theory.solve = solve
    return spent / (time.perf_counter() - start)


def peak_memory(folder: Path) -> float:
    """GB that `replica sweep --jobs 2` and its workers hold at once for ten million points."""
    text = "[parameters]\nalpha = 8.0\nsigma = 0.3\ngamma = 1.5\nridge = 0.1\n[grid]\n"
    text += (
        "kappa = { start = 0.05, stop = 2.0, num = 10000 }\nrho = { start = 0.02, stop = 1.0, num = 1000 }\n"
    )
    (folder / "large.toml").write_text(text)
    command = [
        sys.executable,
        "-m",
        "replica",
        "sweep",
        "large.toml",
        "-o",
        "large.nc",
        "--jobs",
        "2",
        "--quiet",
    ]
    peak = 0
    with subprocess.Popen(command, cwd=folder) as process:
        while process.poll() is None:
            peak = max(peak, held(psutil.Process(process.pid)))
            time.sleep(0.1)
    assert process.returncode == 0
    return peak / 1e9


def held(process: psutil.Process) -> int:
    total = 0
    try:
        for one in (process, *process.children(recursive=True)):
            total += one.memory_info().rss
    except psutil.NoSuchProcess:
        pass
    return total


def overhead(folder: Path, points: int = 300) -> float:
    """Milliseconds of processor time per point where every point is a box and a part of its own."""
    from replica.sweep import work

    limits = runner.LIMIT, work.HELD_POINTS
    runner.LIMIT, work.HELD_POINTS = 1, 0
    start = time.process_time()
    run(Instant(points), folder / "instant.nc", overwrite=True, jobs=1)
    runner.LIMIT, work.HELD_POINTS = limits
    return 1e3 * (time.process_time() - start) / points


def start_up(folder: Path) -> float:
    """Seconds until the first of 1e5 points is computed."""
    start = time.perf_counter()
    try:
        run(Instant(10**5, interrupted=True), folder / "many.nc", overwrite=True)
    except KeyboardInterrupt:
        return time.perf_counter() - start
    raise AssertionError


def rows() -> Iterator[tuple[str, float, str]]:
    """What was measured, the value, and its bound."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        share_in_solve(folder, CASES["ridge = 0.1"])
        for case, fixed in CASES.items():
            share = max(share_in_solve(folder, fixed) for _ in range(3))
            yield f"of the time of a sweep of 1e6 points in solve, {case}", share, "at least 0.5"
        yield "ms of processor per point that is a box of its own", overhead(folder), "at most 5"
        yield "s until the first of 1e5 points is computed", start_up(folder), "at most 5"
        yield "GB held by a sweep of 1e7 points on two processes", peak_memory(folder), "under 2"
