"""Run a task over its grid, box by box, into a store."""

from __future__ import annotations

import platform
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from threadpoolctl import threadpool_limits

from replica import __version__
from replica.exceptions import InputError
from replica.sweep import store
from replica.sweep.grid import Box, Grid
from replica.sweep.tasks import Task

SECONDS = 1.0
"""How long a box should take: what an interruption may lose, and long against the keeping of a box."""
LIMIT = 2**17
"""The most points in a box: about 30 MB of results, and a few times that while they are computed."""
GROWTH = 16
"""A box is at most this much larger than the last, since the first ones are slow for other reasons."""


@dataclass(frozen=True)
class Outcome:
    """What a run leaves behind.

    Parameters
    ----------
    path: the stored result.
    states: how many points have each status, by name.
    first_failure: the values of the axes at the first failed point, if one failed.
    """

    path: Path
    states: Mapping[str, int]
    first_failure: Mapping[str, float] | None

    @property
    def points(self) -> int:
        """How many points the grid has."""
        return sum(self.states.values())

    @property
    def failures(self) -> dict[str, int]:
        """How many points failed, by the name of their status."""
        return {name: count for name, count in self.states.items() if name not in store.ANSWERS}

    @property
    def failed(self) -> int:
        """How many points have no answer."""
        return sum(self.failures.values())


def _ignore(*_: object) -> None:
    """Tell nobody."""


def run(
    task: Task,
    path: str | Path,
    *,
    overwrite: bool = False,
    say: Callable[[str], None] = _ignore,
    progress: Callable[[int, int], None] = _ignore,
) -> Outcome:
    """Evaluate a task over its grid and store the result at `path`.

    A point that fails keeps its status and its reason in the store and stops nothing.

    Parameters
    ----------
    task: what to evaluate.
    path: the NetCDF-4 file to make.
    overwrite: replace `path` if it exists.
    say: told in sentences what the user should know.
    progress: told how many points of how many are finished.

    Raises
    ------
    InputError: the folder of `path` is missing or not writable, or `path` exists and may not be overwritten.
    """
    path, started = Path(path), time.monotonic()
    _check_output(path, overwrite)
    grid, folder = Grid(task.axes), store.parts_folder(path)
    missing = np.ones(grid.size, bool)
    pace, done, parts = Pace(), 0, []
    try:
        for box in _boxes(grid, missing, pace):
            finished = _work(task, grid, folder, box)
            pace.learn(box.size, finished.seconds)
            parts.append(finished.part)
            done += box.size
            progress(done, grid.size)
        with store.replacing(path, folder) as temporary:
            store.assemble(temporary, grid, parts, _attributes(task, time.monotonic() - started))
    finally:
        shutil.rmtree(folder)
    return _outcome(path, grid)


def _outcome(path: Path, grid: Grid) -> Outcome:
    with store.read(path) as dataset:
        status = dataset["status"].values.ravel()
    failed = np.flatnonzero(store.failed(status))
    return Outcome(path, store.states(status), grid.point(int(failed[0])) if failed.size else None)


def _check_output(path: Path, overwrite: bool) -> None:
    if not path.parent.is_dir():
        raise InputError(f"the folder {str(path.parent)!r} of the output does not exist; make it first")
    if path.is_dir():
        raise InputError(f"the output {str(path)!r} is a folder; give the name of a file")
    if path.exists() and not overwrite:
        raise InputError(f"the output {str(path)!r} exists; give --overwrite to replace it")
    try:
        store.parts_folder(path).mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"the folder {str(path.parent)!r} is not writable: {error.strerror}") from None


class Pace:
    """How many points the next box should hold, from how long the last one took."""

    def __init__(self) -> None:
        self.points = 1

    def learn(self, points: int, seconds: float) -> None:
        """A box of `points` took `seconds`."""
        wanted = int(points * SECONDS / max(seconds, 1e-9))
        self.points = max(1, min(wanted, GROWTH * points, LIMIT))


def _boxes(grid: Grid, missing: np.ndarray, pace: Pace) -> Iterator[Box]:
    """Cover the missing points by boxes, each as large as the pace allows when it is asked for."""
    edges = np.flatnonzero(np.diff(missing, prepend=False, append=False)).tolist()
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        while start < stop:
            box = grid.box(start, min(stop, start + pace.points))
            yield box
            start = box.stop


class _Finished(NamedTuple):
    part: store.Part
    seconds: float


def _work(task: Task, grid: Grid, folder: Path, box: Box) -> _Finished:
    """Evaluate one box and keep it; this is what runs in a worker."""
    started = time.perf_counter()
    with threadpool_limits(1):
        dataset = _evaluated(task, grid, box)
    part = store.write_part(folder, box, dataset)
    return _Finished(part, time.perf_counter() - started)


def _evaluated(task: Task, grid: Grid, box: Box) -> xr.Dataset:
    """The task over a box; where it raises, the box is halved until the points that raise stand alone."""
    try:
        return task.evaluate(grid.values(box))
    except Exception as error:
        if box.size == 1:
            return store.raised(grid.values(box), error)
    pieces, start = [], box.start
    while start < box.stop:
        piece = grid.box(start, min(box.stop, start + box.size // 2))
        pieces.append(_evaluated(task, grid, piece))
        start = piece.stop
    return store.joined(
        pieces, next(name for name, length in zip(grid.axes, box.shape, strict=True) if length > 1)
    )


def _attributes(task: Task, seconds: float) -> dict[str, Any]:
    config = task.identity["config"]
    packages = ("numpy", "scipy", "sympy", "xarray", "h5netcdf")
    return {
        **task.identity,
        "fingerprints": {
            "sweep": store.fingerprint(task.identity),
            "config": store.fingerprint(config),
            "equations": task.identity["equations"],
        },
        "seeds": [config["experiment"]["seed"]] if "experiment" in config else [],
        "versions": {"replica": __version__, "python": platform.python_version()}
        | {name: version(name) for name in packages},
        "seconds": round(seconds, 3),
    }
