"""The output of a short sweep, written beside the computation."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from replica.sweep.grid import Grid
from replica.sweep.parts import Finished
from replica.sweep.store import Output


class Draft:
    """A file that a thread fills with the boxes of a sweep while the next ones are computed.

    A sweep that is over within seconds would otherwise spend most of its time in waiting for the disk.

    Parameters
    ----------
    path: where the file grows.
    grid: the points of the sweep.

    Attributes
    ----------
    whole: whether every box that was added goes into the file.
    """

    def __init__(self, path: Path, grid: Grid) -> None:
        self.path, self.grid, self.whole = path, grid, True
        self._thread = ThreadPoolExecutor(1)
        self._writes: list[Future[None]] = []
        self._names: set[str] = set()
        self._output: Output | None = None

    def add(self, box: Finished) -> None:
        """Have a box written, if it has the variables of the first one."""
        self._names = self._names or box.names
        self.whole = self.whole and box.names == self._names
        if self.whole:
            self._writes.append(self._thread.submit(self._write, box))

    def _write(self, box: Finished) -> None:
        if self._output is None:
            self._output = Output(self.path, self.grid, [box])
        self._output.write(box)
        self._output.sync()

    def becomes(self, target: Path, facts: Mapping[str, Any]) -> bool:
        """Complete the file and move it to `target`; False if it does not hold every box."""
        if not self.whole:
            return False
        try:
            for write in self._writes:
                write.result()
            assert self._output is not None
            self._output.describe(facts)
            self._output.close()
            self.path.replace(target)
        except Exception:
            # Whatever it was: the boxes are in memory still, and the output can be made from them.
            return False
        return True

    def drop(self) -> None:
        """Give the file up, if it has not become anything."""
        self._thread.shutdown(cancel_futures=True)
        if self._output is not None:
            self._output.abandon()
        self.path.unlink(missing_ok=True)
