"""Files that are whole, whatever happens while they are written.

A file is written beside its place, under a name of its own (``.countjump-PID-….tmp``), and renamed when it is complete. What
a killed process left behind is removed with the next file that is written there; no other file ever is.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # not on Windows, where directories are not locked
    fcntl = None  # type: ignore[assignment]

TEMPORARY = re.compile(r"\.countjump-(\d{1,9})-[0-9a-f]{16}\.tmp")
STARTED = time.time()
"""When this process began to use this module."""


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write beside and rename: a crash leaves the old file, or the new one, whole."""
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of ``path`` at the end if nothing fails, and its permissions.

    Where ``path`` is a symbolic link, what it points to is replaced.
    """
    path = Path(os.path.realpath(plain_path(path)))
    _check_kind(path, directory=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path.parent, TEMPORARY)
    beside = _temporary(path.parent)
    try:
        with open(beside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            beside.chmod(stat.S_IMODE(path.stat().st_mode))
        os.replace(beside, path)
    except BaseException as error:
        beside.unlink(missing_ok=True)
        if isinstance(error, OSError):  # some do not say where
            raise OSError(f"{path} could not be written ({error}): make room, or choose another place") from error
        raise
    if os.name == "posix":  # elsewhere a directory cannot be opened
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            with suppress(OSError):  # some file systems know no such thing; the file itself is safe
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def plain_path(path: str | Path) -> Path:
    """A path that an operating system can have."""
    if "\0" in str(path):
        raise ValueError(f"{str(path)!r} holds a null character: choose another name")
    return Path(path)


def check_writable(path: str | Path, directory: bool = False) -> None:
    """Raise where no file (or no directory) can be written at ``path``: before the work and not after it."""
    whole = Path(os.path.realpath(plain_path(path)))
    _check_kind(whole, directory)
    place = whole if directory else whole.parent
    there = next(each for each in (place, *place.parents) if each.exists())
    if not there.is_dir():
        raise ValueError(f"{path} cannot be written, as {there} is a file and no directory: choose another place")
    attempt = _temporary(there)
    try:
        attempt.touch(exist_ok=False)
    except OSError as error:
        raise OSError(f"{path} cannot be written ({error.strerror} in {there}): choose another place") from error
    finally:
        attempt.unlink(missing_ok=True)


def remove_leftovers(directory: Path, pattern: re.Pattern[str], kept: Collection[str] = ()) -> None:
    """Remove the files of such names but ``kept`` whose writer, the process that the pattern's group names, was killed.

    The number of a killed process may be in use again, even by this one; so may that of a process of another machine be
    free here. So a file stays if it is younger than this process, too.
    """
    for name in os.listdir(directory) if os.name == "posix" else []:
        match = pattern.fullmatch(name)
        if match is None or name in kept or _is_running(int(match[1])):
            continue
        with suppress(OSError):  # another process was faster, or the file is not ours to remove
            if (directory / name).lstat().st_mtime < STARTED:
                (directory / name).unlink()


def _is_running(pid: int) -> bool:
    """Whether another process has this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid != os.getpid()


def _temporary(directory: Path) -> Path:
    return directory / f".countjump-{os.getpid()}-{secrets.token_hex(8)}.tmp"


def _check_kind(path: Path, directory: bool) -> None:
    if path.is_dir() and not directory:
        raise ValueError(f"{path} is a directory: choose a file")
    if path.exists() and not (path.is_dir() if directory else path.is_file()):
        kind = "file" if path.is_file() else "device"
        raise ValueError(f"{path} is a {kind}: choose a {'directory' if directory else 'file'}")


@contextmanager
def locked(directory: Path, seconds: float) -> Iterator[None]:
    """While it is entered, no other process that asks has the directory; BlockingIOError if one has it for so many seconds more.

    The lock is the operating system's: it leaves no file, and ends with the process.
    """
    if fcntl is None:
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        until = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise
                time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)
