"""The processes that compute boxes: local ones or a dask cluster's, through joblib."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TypeVar

from replica.exceptions import InputError
from replica.sweep.grid import Box

CONNECTING, IDLE = 10, 10
"""Seconds to wait for a dask scheduler, and for a local worker to wait for work."""

Kept = TypeVar("Kept")


class Workers:
    """Processes that compute boxes: local ones, or those of the dask cluster we are connected to."""

    def __init__(self, jobs: int | None, remote: bool) -> None:
        self.jobs, self.remote = jobs, remote

    @property
    def count(self) -> int:
        """How many boxes are computed at a time."""
        import joblib

        if self.remote:
            with joblib.parallel_config("dask"):
                return joblib.effective_n_jobs()
        return self.jobs or joblib.cpu_count()

    def map(self, compute: Callable[[Box], Kept], boxes: Iterator[Box]) -> Generator[Kept, None, None]:
        """The finished boxes in the order in which they are finished."""
        import joblib

        # Workers whose parent was killed go after this time without work.
        options = {} if self.remote else {"idle_worker_timeout": IDLE}
        with joblib.parallel_config("dask" if self.remote else "loky", **options):
            parallel = joblib.Parallel(
                n_jobs=-1 if self.remote else self.count,
                return_as="generator_unordered",
                # Boxes have their size; joblib's own batches would only delay what is finished.
                batch_size=1,
                max_nbytes=None,
            )
            yield from parallel(joblib.delayed(compute)(box) for box in boxes)


@contextmanager
def cluster(address: str | None) -> Iterator[None]:
    """Connect to a dask cluster, if one is asked for, before anything is touched."""
    if address is None:
        yield
        return
    try:
        from distributed import Client
    except ModuleNotFoundError:
        raise InputError(
            "dask is not installed here; it comes with pip install 'replica-icl[dask]'"
        ) from None
    try:
        client = Client(address, timeout=CONNECTING)
    except (OSError, ValueError) as error:
        raise InputError(f"no dask scheduler answers at {address!r}: {error}") from None
    with client:
        yield
