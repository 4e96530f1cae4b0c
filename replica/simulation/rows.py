"""Threads over fixed blocks of rows: results do not depend on how many threads there are."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from types import TracebackType

import numpy as np

BLOCK = 512
"""Rows worked on at a time: a block's temporaries stay in the cache, and a stop is heeded between blocks."""
MAX_STRIPS = 32
"""Most strips that the rows are cut into, hence the most threads that have work."""

BlockWork = Callable[[int, int, slice, bool], None]


class Stopped(Exception):
    """Work was given up because another thread asked for it."""


class Rows:
    """`count` rows cut into strips, each a run of blocks, worked on by `threads` threads.

    The cut depends on `count` alone. A strip is worked on by one thread, block after block, and sums over
    strips are taken in the order of the strips; with one BLAS thread each, every number is the same for any
    number of threads. The calling thread is the first worker, and the heavy work is in numpy calls that
    release the interpreter lock. To be used as a context manager.

    Parameters
    ----------
    count: number of rows, >= 1.
    threads: number of threads, >= 1.
    stop: set by anyone to make all workers raise `Stopped` at their next block.
    """

    def __init__(self, count: int, threads: int = 1, stop: threading.Event | None = None) -> None:
        self.count = count
        self.strips = min(MAX_STRIPS, -(-count // (2 * BLOCK)))
        self.threads = min(threads, self.strips)
        self.stop = stop or threading.Event()
        self._edges = [strip * count // self.strips for strip in range(self.strips + 1)]
        self._helpers = ThreadPoolExecutor(self.threads - 1, "rows") if self.threads > 1 else None

    def __enter__(self) -> Rows:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._helpers is not None:
            self._helpers.shutdown(wait=True, cancel_futures=True)

    def each_block(self, work: BlockWork) -> None:
        """Call `work(worker, strip, block, first)` for every block of rows.

        `worker` in [0, threads) names the thread's own temporaries, `strip` in [0, strips) the strip,
        `block` is the slice of rows, and `first` says whether it is the strip's first block.

        Raises
        ------
        Stopped: `stop` was set.
        """
        # next() of one iterator shared by the threads is atomic under the interpreter lock.
        strips = iter(range(self.strips))
        pending = [
            self._helpers.submit(self._work, worker, strips, work)
            for worker in range(1, self.threads)
            if self._helpers is not None
        ]
        try:
            self._work(0, strips, work)
            for future in pending:
                future.result()
        except BaseException:
            self.stop.set()
            wait(pending)
            raise

    def _work(self, worker: int, strips: Iterator[int], work: BlockWork) -> None:
        for strip in strips:
            low, high = self._edges[strip : strip + 2]
            for first, start in zip(
                itertools.chain([True], itertools.repeat(False)), range(low, high, BLOCK), strict=False
            ):
                if self.stop.is_set():
                    raise Stopped
                work(worker, strip, slice(start, min(start + BLOCK, high)), first)

    def buffers(self, columns: int) -> np.ndarray:
        """Uninitialised temporaries of one block for each worker: (threads, BLOCK, columns)."""
        return np.empty((self.threads, BLOCK, columns))
