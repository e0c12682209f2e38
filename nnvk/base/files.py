"""Files that keep what can be made again: nobody finds a part of one, and one that was changed is found out.

A file is a magic number, its format's number, the lengths of two parts, the parts, and an HMAC-SHA-256 of all that (RFC
2104). Its key is in a file beside it, which only its owner can read: who can write files there, but has not the owner's
rights, can make none that counts.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import secrets
import stat
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import platformdirs

from nnvk.base.settings import settings

_START = struct.Struct("<8sIQQ")
"""Magic number, format, bytes of the header and of the body."""
_DIGEST_BYTES = hashlib.sha256().digest_size
KEY_NAME = ".nnvk-key"
"""The file of the key, in the folder of the files that it is for."""
_KEY_BYTES = 32
_ABANDONED_S = 3600
"""The age from which a temporary file belongs to a process that died."""


class UnusableFileError(Exception):
    """Raised with the reason why a file cannot be used."""


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of such files."""

    magic: bytes
    """8 bytes."""
    format: int
    """The number of the format. It must increase with every change of the header or the body."""

    def read(self, path: Path, *, most_header: int, most_body: int) -> tuple[bytes, memoryview]:
        """Header and body of a file, which are not read where they are longer than ``most_header`` and ``most_body``.

        Raises OSError (FileNotFoundError) where it can't be read, and `UnusableFileError` where it is no whole file of
        this kind, or was not written by this user.
        """
        with _regular(path) as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise UnusableFileError("others may have written it")
            start = file.read(_START.size)
            if len(start) < _START.size:
                raise UnusableFileError("it is cut off")
            magic, format_, header, body = _START.unpack(start)
            if magic != self.magic or format_ != self.format:
                raise UnusableFileError("it is of another kind or format")
            expected = _START.size + header + body + _DIGEST_BYTES
            if status.st_size != expected:
                raise UnusableFileError(f"it has {status.st_size} bytes instead of {expected}")
            if header > most_header or body > most_body:
                raise UnusableFileError(f"{header} and {body} bytes are more than {most_header} and {most_body}")
            content = memoryview(start + file.read(expected - _START.size))
        digest = hmac.digest(_key(path.parent), content[:-_DIGEST_BYTES], "sha256")
        if not hmac.compare_digest(digest, content[-_DIGEST_BYTES:]):
            raise UnusableFileError("it is damaged, or was made with another key")
        end = _START.size + header
        return bytes(content[_START.size : end]), content[end:-_DIGEST_BYTES]

    def write(self, path: Path, header: bytes, body: Iterable[bytes | memoryview], nbytes: int | None = None) -> None:
        """Put a file in its place atomically. OSError: that failed.

        ``nbytes`` are those of the whole body, for parts that are made one after the other.
        """
        if nbytes is None:
            body = list(body)
            nbytes = sum(memoryview(part).nbytes for part in body)
        digest = hmac.new(_key_or_new(path.parent), digestmod="sha256")
        with replacing(path) as file:
            start = _START.pack(self.magic, self.format, len(header), nbytes)
            for part in chain((start, header), body):
                digest.update(part)
                file.write(part)
            file.write(digest.digest())


def signature(folder: Path, content: Iterable[bytes | memoryview]) -> bytes:
    """The digest of some bytes with the key of a folder, which only this user can make.

    A key is made if there is none. OSError: there can be none.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    digest = hmac.new(_key_or_new(folder), digestmod="sha256")
    for part in content:
        digest.update(part)
    return digest.digest()


def open_regular(path: str | os.PathLike[str], flags: int = 0) -> BinaryIO:
    """A file to read, open. OSError: it can't be opened, or is no regular file: pipes and devices may be endless."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)  # a pipe waits for no writer
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        raise OSError(errno.EINVAL, "is no regular file", os.fspath(path))
    return open(descriptor, "rb")


MOST_TEXT = 1 << 28
"""The bytes of the longest text that is read."""


def read_text(path: Path) -> str:
    """A text in UTF-8. OSError: it can't be read. UnicodeDecodeError, a ValueError: it is none."""
    with open_regular(path) as file:
        content = file.read(MOST_TEXT + 1)
    if len(content) > MOST_TEXT:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), os.fspath(path))
    return content.decode()


def _regular(path: Path) -> BinaryIO:
    """A file of this user's to read, open. UnusableFileError: it is no regular file."""
    try:
        return open_regular(path, os.O_NOFOLLOW)  # a link would read something else
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EISDIR):
            raise
        raise UnusableFileError("it is no regular file") from error


def _key(folder: Path) -> bytes:
    """The key of the files in a folder. UnusableFileError: there is none, or others may know it."""
    try:
        file = _regular(folder / KEY_NAME)
    except (OSError, UnusableFileError) as error:
        raise UnusableFileError(f"its key, {KEY_NAME}, can't be read: {error}") from error
    with file:
        status = os.fstat(file.fileno())
        key = file.read(_KEY_BYTES + 1)
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UnusableFileError(f"others may know its key, {KEY_NAME}")
    if len(key) != _KEY_BYTES:
        raise UnusableFileError(f"its key, {KEY_NAME}, has not {_KEY_BYTES} bytes")
    return key


def _key_or_new(folder: Path) -> bytes:
    """The key of the files in a folder; a new one where there is none that can be used. OSError: it can't be made."""
    try:
        return _key(folder)
    except UnusableFileError:
        with replacing(folder / KEY_NAME) as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
    try:
        return _key(folder)  # another process may have made one at the same time
    except UnusableFileError as error:  # on a file system without owners, say
        raise OSError(str(error)) from error


@contextmanager
def replacing(path: Path, mode: int = 0o600) -> Iterator[BinaryIO]:
    """A file to write, which replaces the old one atomically when all of it is on the disk.

    ``mode`` is that of the file, less what the process's mask takes away. OSError, which names a file, where that can't
    be done.
    """
    _remove_abandoned(path)
    name = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with writing(path), open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """An OSError in the block names the file ``path``, which it writes: a full disk alone doesn't say what it is."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
        raise


def _remove_abandoned(path: Path) -> None:
    for other in path.parent.glob(f".{path.name}.*.tmp"):
        with suppress(OSError):
            if time.time() - other.stat().st_mtime > _ABANDONED_S:
                other.unlink()


def is_folder(path: Path) -> bool:
    """Whether a path is that of a folder. OSError: that can't be found out."""
    try:  # Path.is_dir hides such errors from Python 3.14 on
        return stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, where files are to be written. OSError: that can't be, and why not."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(error.errno or errno.EIO, path) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise unwritable(errno.EROFS if os.statvfs(path).f_flag & os.ST_RDONLY else errno.EACCES, path)


def unwritable(code: int, path: Path) -> OSError:
    """The error of a file or folder that can't be written, of the subclass that belongs to the number ``code``."""
    reason = "the folder takes no new files" if code == errno.ENOENT else os.strerror(code)
    return OSError(code, f"can't be written ({reason[:1].lower()}{reason[1:]})", str(path))


def cache_folder() -> Path | None:
    """The folder of NNVK_CACHE_DIR, or the user's; None where nothing shall be kept, or the user has no home folder."""
    wanted = settings().cache_dir
    if wanted == "0":
        return None
    if wanted:
        with suppress(OSError):  # the current folder is gone: what is written there fails, and that is logged
            return Path(wanted).absolute()
        return Path(wanted)
    try:
        folder = platformdirs.user_cache_path("nnvk")
    except RuntimeError:  # neither HOME nor an entry for the user
        return None
    home = Path(os.path.expanduser("~"))
    # A home folder that is not there, such as Debian's /nonexistent, is not to be made, not even by root.
    is_homeless = folder.is_relative_to(home) and not os.path.isdir(home)
    return folder if folder.is_absolute() and not is_homeless else None
