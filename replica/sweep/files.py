"""Files that are whole or not there, and folders that one run at a time may write."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from replica.exceptions import InputError

LOCK = "lock"


@contextmanager
def replacing(target: Path, folder: Path | None = None) -> Iterator[Path]:
    """A path in `folder` (beside `target` if not given) for a file that becomes `target` once it is whole."""
    temporary = (folder or target.parent) / f"{target.name}.{os.getpid()}.tmp"
    try:
        yield temporary
        _sync(temporary)
        temporary.replace(target)
        _sync(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(folder: Path) -> Iterator[Path]:
    """Make a folder, unless it is there, and hold it for this process alone.

    The lock is the operating system's (`flock`): it goes with the process, however that ends, so a lock file
    that a crash left behind holds nobody up. A folder in which nothing was left is removed.

    Raises
    ------
    InputError: the folder cannot be made, or another process holds it.
    """
    while True:
        try:
            folder.mkdir(exist_ok=True)
            file = (folder / LOCK).open("a+")
        except (FileNotFoundError, FileExistsError):
            if os.path.lexists(folder) and not folder.is_dir():
                raise InputError(f"{str(folder)!r}, where a sweep keeps its parts, is no folder") from None
            continue  # The run that held the folder has just ended and removed it.
        except OSError as error:
            raise InputError(f"the folder {str(folder.parent)!r} is not writable: {error.strerror}") from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise InputError(
                    f"another run (process {file.read().strip() or 'unknown'}) is writing to "
                    f"{str(folder)!r}; wait for it or stop it"
                ) from None
            if not _is_file_at(file.fileno(), folder / LOCK):
                continue
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            try:
                yield folder
            finally:
                if [path.name for path in folder.glob("*")] == [LOCK]:
                    # The lock goes last: from then on the folder may belong to another run.
                    (folder / LOCK).unlink(missing_ok=True)
                    with suppress(OSError):
                        folder.rmdir()
            return


def empty(folder: Path) -> None:
    """Remove all that a folder holds but its lock; what cannot be removed stays."""
    for path in folder.glob("*"):
        if path.name != LOCK:
            with suppress(OSError):
                path.unlink()


def _is_file_at(handle: int, path: Path) -> bool:
    """Whether an open file is still the one at `path`, and not one that was removed meanwhile."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
