"""How much memory an experiment takes and how much there is, known before anything is allocated."""

from __future__ import annotations

from pathlib import Path

from replica.exceptions import InputError
from replica.simulation.least_squares import DIRECT_ROWS
from replica.simulation.rows import BLOCK, MAX_STRIPS
from replica.simulation.sizes import Sizes

WORKSPACE = 2**25
"""Bytes that BLAS keeps for itself in each thread (the buffer of OpenBLAS)."""


def needed(sizes: Sizes, threads: int) -> int:
    """Bytes that one repeat takes at its peak, from above.

    Queries and context estimates are two M x D arrays; beside them stand the sums of the row strips, the
    temporaries of the threads, the vectors of the iteration and, where it may be factorised, the kernel.
    """
    prompts, dim = sizes.prompts, sizes.dim
    numbers = (
        2 * prompts * dim
        + (sizes.tasks + sizes.rank + dim) * (dim + sizes.rank)
        + MAX_STRIPS * dim**2
        + threads * (6 * BLOCK * dim + dim**2)
        + 10 * (prompts + dim**2)
    )
    if prompts <= DIRECT_ROWS:
        numbers += prompts * (prompts + BLOCK * threads)
    return 8 * numbers + threads * WORKSPACE


def available(root: Path = Path("/")) -> int | None:
    """Bytes that this process can still take: MemAvailable, or what its control groups leave if that is less.

    Parameters
    ----------
    root: where `proc` and `sys` are.

    Returns
    -------
    None on a system that tells neither.
    """
    rooms = [room for room in (_machine(root), *_groups(root)) if room is not None]
    return min(rooms, default=None)


def check(sizes: Sizes, workers: int, threads: int) -> None:
    """Refuse an experiment that does not fit.

    Parameters
    ----------
    sizes: the integers of one repeat.
    workers: repeats at a time.
    threads: threads of each.

    Raises
    ------
    InputError: with the bytes needed and those available.
    """
    need, room = workers * needed(sizes, threads), available()
    if room is not None and need > room:
        raise InputError(
            f"dim = {sizes.dim} with {sizes.prompts} prompts and {sizes.tasks} tasks takes "
            f"{need / 1e9:.3g} GB of memory, {workers} at a time; {room / 1e9:.3g} GB are available"
        )


def _machine(root: Path) -> int | None:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return 1024 * int(found[0]) if found else None


def _groups(root: Path) -> list[int]:
    """What each control group from the root to this process leaves, for both versions of the interface."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    hierarchy = root / "sys/fs/cgroup"
    rooms = []
    for line in lines:
        _, controllers, place = line.split(":", 2)
        if controllers == "":
            base, limit, usage = hierarchy, "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            base, limit, usage = hierarchy / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        group = base / place.lstrip("/")
        for folder in (group, *group.parents):
            room = _room(folder, limit, usage)
            if room is not None:
                rooms.append(room)
            if folder == base:
                break
    return rooms


def _room(folder: Path, limit: str, usage: str) -> int | None:
    try:
        most = int((folder / limit).read_text())
        used = int((folder / usage).read_text())
        statistics = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        # No such group, or "max": no limit.
        return None
    # File cache that is not in use counts as used and is given back on demand.
    cache = int(statistics.get("total_inactive_file", statistics.get("inactive_file", 0)))
    return most - used + cache
