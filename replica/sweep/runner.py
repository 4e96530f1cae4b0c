"""Run a task over its grid, box by box, here or on workers, so that a sweep loses nothing and goes on.

A run computes what is missing, in boxes that take about a second each; every finished box is on disk before
it counts, but for the work of the last two seconds. The first boxes are computed here, which tells how long
the rest takes; workers start only if that is worth it. Workers put their boxes on disk themselves and return
a few numbers, so memory stays bounded by the boxes in flight.
"""

from __future__ import annotations

import errno
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr
from threadpoolctl import ThreadpoolController

from replica.exceptions import InputError, NumericalError
from replica.parameters import counted
from replica.sweep.files import empty, locked
from replica.sweep.grid import Box, Grid
from replica.sweep.parts import ANSWERS, MISSING, Finished, Part, Shelf, failed, joined, raised, states
from replica.sweep.tasks import Task
from replica.sweep.work import Work, check_output, parts_folder
from replica.sweep.workers import Workers, cluster

SECONDS = 1.0
"""How long a box should take: what an interruption may lose, and long against the keeping of a box."""
LIMIT = 2**17
"""The most points in a box: about 30 MB of results, and a few times that while they are computed."""
GROWTH = 16
"""A box is at most this much larger than the last, since the first ones are slow for other reasons."""
SLOW = 5.0
"""Seconds that imports and compilation never take, so that a first box of that length is slow by itself."""
WORTH_WORKERS = 5.0
"""Seconds of work below which workers, which take seconds to start, are not started."""
DEATHS = 3
"""How many times in a row workers may die without finishing a box before the run gives up."""
HEADER, OUTPUT_HEADER = 800, 1500
"""Bytes that a variable takes beside its values in a part and in the output."""
COPIES = 5
"""Peak memory of a worker over the size of the results of its box, measured on the theory."""


Say = Callable[[str], None]
Progress = Callable[[int, int], None]


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

    @classmethod
    def of(cls, path: Path, grid: Grid, status: np.ndarray) -> Outcome:
        """Count the statuses of the points of a grid, given in flat order."""
        bad = np.flatnonzero(failed(status))
        return cls(path, states(status), grid.point(int(bad[0])) if bad.size else None)

    @property
    def points(self) -> int:
        """How many points the grid has."""
        return sum(self.states.values())

    @property
    def failures(self) -> dict[str, int]:
        """How many points failed, by the name of their status."""
        return {name: count for name, count in self.states.items() if name not in (*ANSWERS, "missing")}

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
    retry_failed: bool = False,
    jobs: int | None = None,
    dask: str | None = None,
    say: Say = _ignore,
    progress: Progress = _ignore,
) -> Outcome:
    """Evaluate a task over its grid and store the result at `path`.

    What an earlier run of the same sweep finished is kept, wherever it stopped. A point that fails keeps its
    status and its reason in the store and stops nothing.

    Parameters
    ----------
    task: what to evaluate.
    path: the NetCDF-4 file to make.
    overwrite: start anew, and replace `path` when the new result is whole.
    retry_failed: evaluate the points that failed once more.
    jobs: processes on this machine, at least 1; all cores if left out.
    dask: the address of the scheduler of a dask cluster whose workers see the folder of `path`; used instead
        of local processes.
    say: told in sentences what the user should know.
    progress: told how many points of how many are finished.

    Raises
    ------
    InputError: the output cannot be written, holds another sweep or is damaged; another run is writing it;
        the result cannot fit on the disk; the cluster cannot be reached.
    NumericalError: workers die again and again.
    OSError: the disk became full, or another failure to write; what was finished is kept.
    """
    path, started = Path(path).absolute(), time.monotonic()
    grid = Grid(task.axes)
    _check(path, grid, jobs, dask)
    with cluster(dask), locked(parts_folder(path)) as folder:
        try:
            with closing(Work(path, grid, task.identity, say, overwrite)) as work:
                missing = work.status == MISSING
                if retry_failed:
                    missing |= failed(work.status)
                if missing.any() or work.parts:
                    work.begin(say)
                    with _explained(work, say):
                        _Run(task, work, missing, say, progress).evaluate(Workers(jobs, dask is not None))
                        work.finish(time.monotonic() - started)
                else:
                    say(f"{path.name} holds all {counted(grid.size, 'point')} already; nothing is left to do")
        finally:
            # Nothing is left after a refusal; after an interruption there are parts to go on from.
            if not any(folder.glob("*.npz")):
                empty(folder)
    return Outcome.of(path, grid, work.status)


def _check(path: Path, grid: Grid, jobs: int | None, dask: str | None) -> None:
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs = {jobs} is not allowed; give at least 1")
    if jobs is not None and dask is not None:
        raise InputError("jobs and dask exclude each other; the cluster decides how many workers there are")
    check_output(path)
    # A status and one number are the least that a point leaves.
    _check_disk(path, grid.size * 9, grid.size)


def _check_disk(path: Path, needed: int, points: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if needed > free:
        raise InputError(
            f"{counted(points, 'point')} take at least {_size(needed)} on disk and {str(path.parent)!r} has "
            f"{_size(free)} free; sweep fewer points or choose another folder"
        )


@contextmanager
def _explained(work: Work, say: Say) -> Iterator[None]:
    """Say what is kept when a run ends early."""

    def kept() -> str:
        done = int(np.count_nonzero(work.status != MISSING)) - sum(box.box.size for box in work.held)
        if done == 0:
            return "no point is finished yet, so nothing is kept"
        return (
            f"{done} of {counted(work.grid.size, 'point')} are kept in {work.folder.name}; "
            "the same command, without --overwrite, goes on"
        )

    try:
        yield
    except KeyboardInterrupt:
        with _deaf():
            try:
                work.keep()
            except OSError as error:
                say(f"the work of the last seconds cannot be kept: {error.strerror or error}")
            say(kept())
        raise
    except InputError as error:
        with suppress(OSError):
            work.keep()
        raise InputError(f"{error}; {kept()}" if work.parts else str(error)) from None
    except OSError as error:
        with suppress(OSError):
            work.keep()
        reason = "the disk is full" if error.errno == errno.ENOSPC else str(error)
        raise OSError(error.errno, f"{reason}; {kept()}") from error


@contextmanager
def _deaf() -> Iterator[None]:
    """No second interrupt ends what the first one asked for."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


class Pace:
    """How many points the next box should hold, from how long the last one took.

    Attributes
    ----------
    points: of the next box.
    rate: points per second.
    steady: whether the rate can be trusted. The very first box also pays for imports and compilation, and a
        box that takes no time says little.
    """

    def __init__(self) -> None:
        self.points, self.rate, self.steady, self.learned = 1, 0.0, False, 0

    def learn(self, points: int, seconds: float) -> None:
        """A box of `points` took `seconds`."""
        self.learned += 1
        self.rate = points / max(seconds, 1e-9)
        self.steady = self.steady or seconds > SLOW or (self.learned > 1 and seconds > SECONDS / 10)
        self.points = max(1, min(int(self.rate * SECONDS), GROWTH * points, LIMIT))


class _Kept(NamedTuple):
    """What a worker tells of a box that it has put on disk."""

    part: Part
    status: np.ndarray
    seconds: float


def _computed(task: Task, grid: Grid, box: Box) -> Finished:
    """Evaluate one box."""
    started = time.perf_counter()
    with _thread_pools(len(sys.modules)).limit(limits=1):
        dataset = _evaluated(task, grid, box)
    return Finished(box, dataset, time.perf_counter() - started)


@lru_cache(1)
def _thread_pools(modules: int) -> ThreadpoolController:
    """The thread pools of the libraries that are loaded, looked up again when there are other modules."""
    return ThreadpoolController()


def _kept(task: Task, grid: Grid, shelf: Shelf, box: Box) -> _Kept:
    """Evaluate one box and keep it on disk; this is what runs in a worker."""
    finished = _computed(task, grid, box)
    return _Kept(shelf.put(finished), finished.status, finished.seconds)


def _evaluated(task: Task, grid: Grid, box: Box) -> xr.Dataset:
    """The task over a box; where it raises, the box is halved until the points that raise stand alone."""
    try:
        return task.evaluate(grid.values(box))
    except Exception as error:
        if box.size == 1:
            return raised(grid.values(box), error)
    halves = grid.boxes(box.size // 2, box.start, box.stop)
    # A box is a run along its first axis of more than one value, and so are its halves.
    axis = next(name for name, length in zip(grid.axes, box.shape, strict=True) if length > 1)
    return joined([_evaluated(task, grid, half) for half in halves], axis)


class _Run:
    """One run: takes in what is finished, here or elsewhere, until nothing is missing."""

    def __init__(self, task: Task, work: Work, missing: np.ndarray, say: Say, progress: Progress) -> None:
        self.task, self.work, self.grid, self.missing = task, work, work.grid, missing
        self.say, self.progress = say, progress
        self.left = int(missing.sum())
        self.pace = Pace()
        self.point_size = self.variables = 0

    def evaluate(self, workers: Workers) -> None:
        """Compute all that is missing."""
        if self.left < self.grid.size:
            self.say(f"{self.grid.size - self.left} of {self.grid.size} points are there already")
        self.progress(self.grid.size - self.left, self.grid.size)
        for box in self._boxes():
            self._compute(box)
            if self.pace.steady:
                break
        if not self.left:
            return
        # Where boxes are small, the headers of their parts outweigh the numbers in them.
        headers = self.left // self.pace.points * self.variables * HEADER
        _check_disk(self.work.path, 2 * self.left * self.point_size + headers, self.left)
        seconds = self.left / self.pace.rate
        parallel = workers.remote or (seconds > WORTH_WORKERS and workers.count > 1)
        count = workers.count if parallel else 1
        if seconds > SECONDS:
            time_left = _duration(seconds / count)
            self.say(f"{counted(self.left, 'point')} to go, about {time_left} on {counted(count, 'core')}")
        if parallel:
            self._distribute(workers)
        else:
            for box in self._boxes():
                self._compute(box)

    def _boxes(self) -> Iterator[Box]:
        """Cover the missing points by boxes, each as large as the pace allows when it is asked for."""
        edges = np.flatnonzero(np.diff(self.missing, prepend=False, append=False)).tolist()
        for start, stop in zip(edges[::2], edges[1::2], strict=True):
            while start < stop:
                box = self.grid.box(start, min(stop, start + self.pace.points))
                yield box
                start = box.stop

    def _compute(self, box: Box) -> None:
        """Compute a box in this process."""
        finished = _computed(self.task, self.grid, box)
        if not self.pace.learned:
            self._check_limits(finished)
        self._record(finished, finished.status, finished.seconds)

    def _check_limits(self, first: Finished) -> None:
        """Say what the run will take, from its first box, and refuse what cannot fit."""
        swept = [
            variable.nbytes
            for name, variable in first.dataset.variables.items()
            if name not in self.grid.axes and set(variable.dims) >= set(self.grid.axes)
        ]
        self.point_size, self.variables = sum(swept) // first.box.size, len(first.dataset.variables)
        results = self.left * self.point_size
        stays = results + self.variables * OUTPUT_HEADER
        at_once = min(self.left, LIMIT) / self.left
        points = counted(self.left, "point")
        self.say(
            f"{points}: {_size(stays)} on disk, twice that while they are put together, "
            f"and up to {_size(COPIES * results * at_once)} of memory in each process"
        )
        _check_disk(self.work.path, 2 * stays, self.left)

    def _record(self, part: Part | Finished, status: np.ndarray, seconds: float) -> None:
        """Count a box as done."""
        self.work.add(part, status)
        self.missing[part.start : part.stop] = False
        self.left -= part.stop - part.start
        self.pace.learn(part.stop - part.start, seconds)
        self.progress(self.grid.size - self.left, self.grid.size)

    def _distribute(self, workers: Workers) -> None:
        """Compute what is missing on workers, and again what dying workers leave behind."""
        self.work.keep()
        compute = partial(_kept, self.task, self.grid, self.work.shelf)
        deaths = 0
        while self.left:
            before = self.left
            try:
                with closing(workers.map(compute, self._boxes())) as results:
                    for kept in results:
                        self._record(*kept)
            except BrokenProcessPool as error:
                deaths = deaths + 1 if self.left == before else 1
                if deaths == DEATHS:
                    raise NumericalError(
                        f"workers died {DEATHS} times in a row before a box was finished; "
                        "memory may be too small for so many, so try fewer jobs"
                    ) from error
                self.say("a worker died; what it was computing is computed again")


def _size(number: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"


def _duration(seconds: float) -> str:
    """A time for people."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.2g} {unit}"
    return f"{seconds:.2g} seconds"
