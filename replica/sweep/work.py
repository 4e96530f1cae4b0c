"""What a sweep has done so far and what it has not: from its output, and from the parts beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from replica.exceptions import InputError
from replica.sweep import store
from replica.sweep.draft import Draft
from replica.sweep.files import empty, replacing
from replica.sweep.grid import Grid
from replica.sweep.parts import MISSING, Finished, Part, Shelf, next_run, parts_of

MANIFEST, DRAFT = "manifest.json", "draft.nc"
KNOWN = {"identity", "replaces", "versions", "points", "grid"}
"""What a manifest tells."""
NAME_BYTES = 255 - len(".1234567890.tmp")
"""The longest name of an output, which files with longer names are written beside."""
SLAB = 2**17
"""Points of a stored result that are read at a time."""
HELD_SECONDS, HELD_POINTS = 2.0, 2**20
"""How much work may be in memory only; a short sweep goes to its output without parts."""


def parts_folder(path: Path) -> Path:
    """Where a sweep into `path` keeps its parts while it runs."""
    return path.with_name(f"{path.name}.parts")


def check_output(path: Path, overwrite: bool = True) -> None:
    """Refuse a path where no file can be made.

    Raises
    ------
    InputError: its folder does not exist, it is a folder itself, its name is too long, or it exists and is
        not to be overwritten.
    """
    if not path.parent.is_dir():
        raise InputError(f"the folder {str(path.parent)!r} of the output does not exist; make it first")
    if path.is_dir():
        raise InputError(f"the output {str(path)!r} is a folder; give the name of a file")
    if len(os.fsencode(path.name)) > NAME_BYTES:
        raise InputError(f"the name of the output has {len(path.name)} characters; allowed are {NAME_BYTES}")
    if path.exists() and not overwrite:
        raise InputError(f"the output {str(path)!r} exists; give --overwrite to replace it")


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """What an unfinished sweep says of itself, if there is one.

    Raises
    ------
    InputError: the manifest is damaged.
    """
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        manifest = None
    if not (isinstance(manifest, dict) and manifest.keys() >= KNOWN):
        raise InputError(f"{str(path)!r} is damaged and is not used; give --overwrite to start anew")
    return manifest


class Work:
    """A sweep on disk, finished or not. Whoever changes it holds the lock of its folder.

    Attributes
    ----------
    path: the output.
    grid: the points.
    status: what is known of each point, in flat order; int8, `MISSING` where nothing is.
    parts, held: the finished boxes that the output does not hold yet, on disk and, for at most the work of
        two seconds, in memory only.
    draft: an output that takes the held boxes as they come, while no box is anywhere else.
    spent: seconds spent on the points that the output holds.
    """

    def __init__(
        self,
        path: Path,
        grid: Grid,
        identity: Mapping[str, Any],
        say: Callable[[str], None],
        overwrite: bool = False,
    ) -> None:
        """Find what is there of the sweep.

        Raises
        ------
        InputError: the output or the folder belongs to another sweep, or the output is damaged.
        """
        self.path, self.grid, self.identity = path, grid, identity
        self.folder = parts_folder(path)
        manifest = None if overwrite else read_manifest(self.folder)
        if manifest is not None:
            store.same(manifest["identity"], identity, self.folder)
        # An output that is to be replaced stays until the new one is whole, through interruptions too.
        self.replaces = path.exists() and (overwrite or (manifest is not None and manifest["replaces"]))
        self.has_base = path.exists() and not self.replaces
        self.history: list[dict[str, str]] = manifest["versions"] if manifest is not None else []
        self.spent = 0.0
        self.status = np.full(grid.size, MISSING, np.int8)
        if self.has_base:
            self._read_base()
        sweep = store.fingerprint(identity)
        if overwrite:
            for old in self.folder.glob("*.npz"):
                old.unlink()
        self.parts: list[Part] = []
        self.held: list[Finished] = []
        self.draft: Draft | None = None
        found = parts_of(sweep, self.folder)
        self.shelf = Shelf(self.folder, sweep, next_run(found))
        for part in found:
            self._read_part(part, say)
        if not (self.has_base or found):
            self.draft = Draft(self.folder / DRAFT, grid)

    def _read_base(self) -> None:
        try:
            dataset = store.read(self.path)
        except InputError as error:
            raise InputError(f"the output exists: {error}; give --overwrite to replace it") from None
        with dataset:
            facts = store.origin(dataset)
            store.same(store.identity(facts), self.identity, self.path)
            self.spent = facts["seconds"]["points"]
            self.history = self.history or [*facts["earlier_versions"], facts["versions"]]
            self.status[:] = dataset["status"].values.ravel()

    def _read_part(self, part: Part, say: Callable[[str], None]) -> None:
        try:
            status = part.variables()["status"].values
        except InputError as error:
            say(f"{error}; its points are computed again")
            part.path.unlink()
        else:
            self.add(part, status.ravel())

    def add(self, part: Part | Finished, status: np.ndarray) -> None:
        """Count a box as done, over what was known of its points."""
        self.status[part.start : part.stop] = status
        if isinstance(part, Part):
            self.parts.append(part)
            return
        self.held.append(part)
        seconds, points = sum(part.seconds for part in self.held), sum(part.box.size for part in self.held)
        if seconds > HELD_SECONDS or points > HELD_POINTS:
            self.keep()
        elif self.draft is not None:
            self.draft.add(part)

    def close(self) -> None:
        """Give up the draft, unless it has become the output."""
        if self.draft is not None:
            self.draft.drop()
            self.draft = None

    def keep(self) -> None:
        """Put on disk what is held in memory."""
        self.close()
        while self.held:
            self.parts.append(self.shelf.put(self.held[0]))
            del self.held[0]

    def begin(self, say: Callable[[str], None]) -> None:
        """Note on disk whose parts follow, and tell the user if another version made the earlier ones."""
        current = store.versions()
        if self.history and self.history[-1] != current:
            changes = [
                f"{name} {self.history[-1].get(name)} then, {new} now"
                for name, new in current.items()
                if self.history[-1].get(name) != new
            ]
            say(f"the sweep was begun with other versions ({', '.join(changes)}); its equations are the same")
        if current not in self.history:
            self.history = [*self.history, current]
        facts = {
            "identity": self.identity,
            "replaces": self.replaces,
            "versions": self.history,
            "points": self.grid.size,
            "grid": self.grid.told(),
        }
        with replacing(self.folder / MANIFEST) as temporary:
            temporary.write_text(json.dumps(facts))

    def finish(self, seconds: float) -> None:
        """Put the base and the parts together into the output, after a run of so many seconds."""
        results: list[Part | Finished] = [*self.parts, *self.held]
        facts = store.facts(self.identity, self.history) | {
            "seconds": {
                "points": round(self.spent + sum(part.seconds for part in results), 3),
                "last_run": round(seconds, 3),
            },
        }
        with replacing(self.path, self.folder) as temporary:
            if self.draft is None or not self.draft.becomes(temporary, facts):
                self.close()
                self._assemble(temporary, results, facts)
        empty(self.folder)

    def _assemble(self, target: Path, results: list[Part | Finished], facts: Mapping[str, Any]) -> None:
        """Put the base, if there is one, and newer results together."""
        if not self.has_base:
            store.assemble(target, self.grid, results, facts)
            return
        with store.read(self.path) as base:
            slabs = [store.Slab(base, box) for box in self.grid.boxes(SLAB)]
            store.assemble(target, self.grid, [*slabs, *results], facts)
