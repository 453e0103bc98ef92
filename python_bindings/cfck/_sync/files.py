"""Files of a folder that several processes use: replaced at once, or locked."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import weakref

from .._common.files import failure
from ..errors import ExistsError, IoError

# File systems that cannot sync or lock say one of these, and do without, as the library does.
_CANNOT = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK})

_TEMPORARY = ".cfck-sync-unfinished"


def temporary_name(name: str) -> str:
    """Of a file that is written before it takes its name. One process at a time writes it."""
    return f".{name}{_TEMPORARY}"


def final_name(name: str) -> str | None:
    """The name that an unfinished file was to take; None for any other file."""
    if not name.startswith(".") or not name.endswith(_TEMPORARY):
        return None
    return name[1 : -len(_TEMPORARY)]


def replace_file(folder: str, name: str, data: bytes, sync: bool) -> None:
    """Gives a file these contents, at once: it has the old ones or the new ones, also after a
    power failure if ``sync`` is set. The folder is to be synced by its own call.

    Raises:
        IoError, MissingFileError: nothing was changed.
    """
    path, temporary = os.path.join(folder, name), os.path.join(folder, temporary_name(name))
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)  # of a process that was killed
        # A new file in any case: what is there may be a link to another place.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            try:
                _write(descriptor, data, sync)
            finally:
                os.close(descriptor)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise failure("write", path, error) from error


def _write(descriptor: int, data: bytes, sync: bool) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
    if sync:
        _sync(descriptor)


def sync_folder(folder: str) -> None:
    """Makes sure that names which files have taken outlive a power failure."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _sync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise failure("sync the folder", folder, error) from error


def _sync(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise


class Lock:
    """A lock that one open file of a machine has, for as long as its process lives."""

    def __init__(self, folder: str, name: str, holder: str) -> None:
        """``holder``: what has it, for the error: "a publisher of 'weights'".

        Raises:
            ExistsError: somebody has it.
            IoError: the file that is locked cannot be made.
        """
        path = os.path.join(folder, name)
        try:
            # Never removed: whoever waits for a removed file locks another one. A link would have
            # its target overwritten, and a pipe would make everybody wait.
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(path, flags, 0o666)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise IoError(f"{path} is a link, which is not followed; remove it") from error
            raise failure("write to", path, error) from error
        self._descriptor: int | None = descriptor
        try:
            self._take(descriptor, path, holder)
        except BaseException:
            self.release()
            raise
        _held.add(self)

    def _take(self, descriptor: int, path: str, holder: str) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _CANNOT:
                return
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise failure("lock", path, error) from error
            said = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
            raise ExistsError(
                f"there is {holder} already{f', {said}' if said else ''}, which locks {path}: "
                "close it, or choose another name or folder"
            ) from None
        # For the error alone, so that it does not matter whether this can be written.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} of {socket.gethostname()}\n".encode(), 0)

    @property
    def is_held(self) -> bool:
        return self._descriptor is not None

    def release(self) -> None:
        """Gives the lock up. A forked child does not hold that of its parent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __del__(self) -> None:
        if getattr(self, "_descriptor", None) is not None:
            self.release()


# A lock belongs to an open file, which forked children share: they would hold it when the parent is
# killed.
_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _release_all() -> None:
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_release_all)
