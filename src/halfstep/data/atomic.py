"""Files written whole or not at all, errors that say what was kept. Knows paths and disks, nothing of what is written.

A temporary stands beside the file until it is whole, locked by whoever writes it. One that nobody locks was left by a
process that died; the next write to the same file removes it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

locks: Any
try:
    import fcntl as locks
except ImportError:  # none on this system, so what others left cannot be told from what they write
    locks = None

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside `path` that becomes `path` when the block ends, and vanishes on error.

    The data reach the disk before the name does, so a reader sees the old file or the whole new one. What is no regular
    file (a pipe, a device) is yielded itself and written plainly: it cannot be replaced, and must not be. New files get
    the permissions that the umask leaves, as any other; one that is replaced hands its own on.
    """
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        mode = None
    if mode is not None and stat.S_ISDIR(mode):
        raise IsADirectoryError(f"cannot write {path}: it is a folder; name a file in it")
    if mode is not None and not stat.S_ISREG(mode):
        with _told(path, "what was written before that has gone out"):
            yield Path(path)
        return
    if not os.fspath(path):
        raise FileNotFoundError("cannot write to a path without a name; name a file")
    target = Path(os.path.realpath(path))  # through a link, as open() would
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: the folder {target.parent} does not exist; create it first")
    kept = "nothing was written" if mode is None else "the file that was there is unchanged"
    with _told(path, kept), _temporary(target, path, mode) as temporary:
        yield temporary
        _to_disk(temporary, os.O_RDWR)
        os.replace(temporary, target)
    if os.name == "posix":
        _to_disk(target.parent, os.O_RDONLY)


@contextmanager
def _told(path: str | os.PathLike[str], kept: str) -> Iterator[None]:
    """A disk that is full, or broken, as one line: which file, why, and what there is now."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        told = OSError(f"cannot write {path}: {os.strerror(error.errno)}; {kept}")
        told.errno = error.errno
        raise told from error


@contextmanager
def _temporary(target: Path, path: str | os.PathLike[str], mode: int | None) -> Iterator[Path]:
    """A new empty file beside `target`, locked while the block runs, and gone after it. `mode` is that of `target`."""
    _clean(target)
    descriptor = -1
    while descriptor < 0:
        begin, end = _around(target)
        temporary = target.with_name(f"{begin}{secrets.token_hex(6)}{end}")
        try:
            descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        except PermissionError as error:
            raise PermissionError(f"cannot write {path}: the folder {target.parent} is not writable") from error
        if _locked(descriptor) is False or not os.fstat(descriptor).st_nlink:  # somebody took it for one that was left
            os.close(descriptor)
            descriptor = -1
    try:
        if mode is not None and hasattr(os, "fchmod"):  # a private file was never open to others, half written or whole
            os.fchmod(descriptor, mode & 0o777 | stat.S_IRUSR | stat.S_IWUSR)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
        os.close(descriptor)


def _around(target: Path) -> tuple[str, str]:
    """What a temporary of this file is called, before and after its number; no longer than the system takes."""
    if len(os.fsencode(target.name)) <= 200:
        return f".{target.stem}.", f".tmp{target.suffix}"
    return f".{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:32]}.", ".tmp"


def _clean(target: Path) -> None:
    """Remove what processes that died while they wrote `target` have left."""
    if locks is None:
        return
    begin, end = map(re.escape, _around(target))
    left = re.compile(rf"{begin}[0-9a-f]{{12}}{end}")
    with suppress(OSError):  # a folder that cannot be listed can still be written to
        for entry in os.scandir(target.parent):
            if left.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                _remove_unlocked(entry.path)


def _remove_unlocked(path: str) -> None:
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        try:
            if _locked(descriptor):
                os.unlink(path)
        finally:
            os.close(descriptor)


def _locked(descriptor: int) -> bool | None:
    """Whether the file is ours now, until its descriptor closes, as it does when the process dies. None: no locks."""
    if locks is None:
        return None
    try:
        locks.flock(descriptor, locks.LOCK_EX | locks.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without them
        return None
    return True


def _to_disk(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
