"""What a stored result holds, or what an unfinished sweep has done so far."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from replica.sweep import store
from replica.sweep.parts import MISSING, STATUSES, failed, parts_of, states
from replica.sweep.table import grid_of, table
from replica.sweep.work import SLAB, parts_folder, read_manifest

SHOWN = 20
"""How many failed points are told one by one."""
PROVENANCE = ("task", "config", "fingerprints", "seeds", "versions", "earlier_versions", "seconds")


def describe(path: str | Path) -> dict[str, Any]:
    """Tell what a result or an unfinished sweep holds.

    Parameters
    ----------
    path: the output of a sweep, which need not exist yet while the sweep is unfinished.

    Returns
    -------
    `path`; `finished`; `grid`, for each axis its number of values and its ends; `points`; `states`, how many
    points have each status; `failures`, the first failed points with status and reason; `results`, the least
    and the greatest finite value of each number; and the provenance.

    Raises
    ------
    InputError: there is neither a result nor an unfinished sweep, or it is damaged.
    """
    path = Path(path)
    facts = None if path.exists() else read_manifest(parts_folder(path))
    if facts is None:
        return _of_result(path)
    identity = facts["identity"]
    pieces = parts_of(store.fingerprint(identity), parts_folder(path))
    return (
        {"path": str(path), "finished": False, "grid": facts["grid"]}
        | _contents(pieces, facts["points"])
        | {"task": identity["task"], "config": identity["config"], "versions": facts["versions"][-1]}
    )


def _of_result(path: Path) -> dict[str, Any]:
    with store.read(path) as dataset:
        facts, grid = store.origin(dataset), grid_of(dataset)
        pieces = [store.Slab(dataset, box) for box in grid.boxes(SLAB)]
        return (
            {"path": str(path), "finished": True, "grid": grid.told()}
            | _contents(pieces, grid.size)
            | {name: facts[name] for name in PROVENANCE if name in facts}
        )


def _contents(pieces: Sequence[store.Piece], points: int) -> dict[str, Any]:
    status = np.full(points, MISSING, np.int8)
    failures: dict[int, dict[str, Any]] = {}
    ranges: dict[str, tuple[float, float]] = {}
    for piece in pieces:
        held = piece.load()
        here = status[piece.start : piece.stop] = held["status"].values.ravel()
        rows = table(held)
        for number in [number for number in failures if piece.start <= number < piece.stop]:
            del failures[number]
        for row in np.flatnonzero(failed(here))[: max(0, SHOWN - len(failures))].tolist():
            point = {str(axis): rows[axis][row].item() for axis in held["status"].dims}
            reason = {"reason": rows["reason"][row]} if "reason" in rows and rows["reason"][row] else {}
            failures[piece.start + row] = point | {"status": STATUSES[here[row]]} | reason
        for name in rows.select_dtypes("number").columns.difference(list(held.coords), sort=False):
            values = rows[name].to_numpy()
            values = values[np.isfinite(values)]
            if values.size:
                low, high = ranges.get(name, (np.inf, -np.inf))
                ranges[name] = min(low, values.min().item()), max(high, values.max().item())
    return {
        "points": points,
        "states": states(status),
        "failures": [failures[number] for number in sorted(failures)],
        "results": {name: {"min": low, "max": high} for name, (low, high) in ranges.items()},
    }
