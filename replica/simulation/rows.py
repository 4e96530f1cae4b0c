"""Threads that share work, and rows cut into fixed blocks: results do not depend on how many there are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import TypeVar

import numpy as np

BLOCK = 512
"""Rows worked on at a time: a block's temporaries stay in the cache, and a stop is heeded between blocks."""
MAX_STRIPS = 32
"""Most strips that the rows are cut into, hence the most threads that have work."""

BlockWork = Callable[[int, int, slice, bool], None]
Item = TypeVar("Item")


class Stopped(Exception):
    """Work was given up because another thread failed or was interrupted."""


class Team:
    """The calling thread and helpers, which take items of work one by one.

    To be used as a context manager. Heavy work is in numpy calls that release the interpreter lock.

    Parameters
    ----------
    size: number of threads, >= 1, the calling one included.
    stop: shared by teams that stop together; once set, `check` raises `Stopped` in each of their threads.
    """

    def __init__(self, size: int, stop: threading.Event | None = None) -> None:
        self.size = size
        self.stop = threading.Event() if stop is None else stop
        self._helpers = ThreadPoolExecutor(max(size - 1, 1))

    def __enter__(self) -> Team:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._helpers.shutdown(wait=True, cancel_futures=True)

    def share(self, items: Iterable[Item], work: Callable[[int, Item], None]) -> None:
        """Call `work(worker, item)` for every item, `worker` in [0, size) being the thread that took it.

        Raises
        ------
        Whatever `work` raises or interrupts the calling thread, after `stop` has ended all others.
        """
        # next() of one iterator is atomic under the interpreter lock: no item is taken twice.
        shared = iter(items)
        pending: list[Future[None]] = []
        try:
            for worker in range(1, self.size):
                pending.append(self._helpers.submit(self._work, worker, shared, work))
            self._work(0, shared, work)
            for future in pending:
                future.result()
        except BaseException as error:
            self.stop.set()
            wait(pending)
            causes = [future.exception() for future in pending] if isinstance(error, Stopped) else []
            for cause in causes:
                if cause is not None and not isinstance(cause, Stopped):
                    raise cause from None
            raise

    def check(self) -> None:
        """Raise `Stopped` if `stop` is set; to be called every fraction of a second."""
        if self.stop.is_set():
            raise Stopped

    def _work(self, worker: int, shared: Iterator[Item], work: Callable[[int, Item], None]) -> None:
        # Values beyond float64 are found in the results; helpers do not inherit the caller's setting.
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                for item in shared:
                    self.check()
                    work(worker, item)
            except BaseException:
                self.stop.set()
                raise


class Rows:
    """`count` rows cut into strips, each a run of blocks, that a team works on.

    The cut depends on `count` alone. A strip is worked on by one thread, block after block, and sums over
    strips are taken in their order; with one BLAS thread each, every number is the same for any team.

    Parameters
    ----------
    count: number of rows, >= 1.
    team: the threads.
    """

    def __init__(self, count: int, team: Team) -> None:
        self.count = count
        self.threads = team.size
        self.strips = min(MAX_STRIPS, -(-count // (2 * BLOCK)))
        self._team = team
        self._edges = [strip * count // self.strips for strip in range(self.strips + 1)]

    def each_block(self, work: BlockWork) -> None:
        """Call `work(worker, strip, block, first)` for every block of rows.

        `worker` in [0, threads) names the thread's own temporaries, `strip` in [0, strips) the strip,
        `block` is the slice of rows, and `first` says whether it is the strip's first block.
        """

        def one_strip(worker: int, strip: int) -> None:
            low, high = self._edges[strip : strip + 2]
            for start in range(low, high, BLOCK):
                self._team.check()
                work(worker, strip, slice(start, min(start + BLOCK, high)), start == low)

        self._team.share(range(self.strips), one_strip)

    def buffers(self, columns: int) -> np.ndarray:
        """Uninitialized temporaries of one block for each worker: (threads, BLOCK, columns)."""
        return np.empty((self.threads, BLOCK, columns))
