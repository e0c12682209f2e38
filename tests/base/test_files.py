"""Files that keep what can be made again: whole, of the right kind, and one's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nnvk.base.files import FileKind, UnusableFileError, replacing

KIND = FileKind(b"testkind", 3)
HEADER, BODY = b"header", [b"first ", memoryview(b"second")]


def read(path: Path, kind: FileKind = KIND, most: tuple[int, int] = (100, 100)) -> tuple[bytes, memoryview]:
    return kind.read(path, most_header=most[0], most_body=most[1])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of the kind."""
    KIND.write(tmp_path / "kept", HEADER, BODY)
    return tmp_path / "kept"


def test_what_is_written_is_read(path: Path) -> None:
    header, body = read(path)
    assert (header, bytes(body)) == (HEADER, b"first second")
    KIND.write(path, b"", [])
    assert read(path) == (b"", b"")
    assert [other.name for other in path.parent.iterdir()] == [path.name]


def test_every_damaged_byte_is_noticed(path: Path) -> None:
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x40]) + content[place + 1 :])
        with pytest.raises(UnusableFileError):
            read(path)
        path.write_bytes(content[:place])
        with pytest.raises(UnusableFileError):
            read(path)


@pytest.mark.parametrize("kind", [FileKind(b"otherknd", 3), FileKind(b"testkind", 4)])
def test_other_kinds(path: Path, kind: FileKind) -> None:
    with pytest.raises(UnusableFileError, match="another kind or format"):
        read(path, kind)


@pytest.mark.parametrize("most", [(len(HEADER) - 1, 100), (100, len(b"first second") - 1)])
def test_files_that_are_too_long(path: Path, most: tuple[int, int]) -> None:
    with pytest.raises(UnusableFileError, match="are more than"):
        read(path, most=most)


def test_what_is_no_regular_file(path: Path) -> None:
    os.mkfifo(path.parent / "pipe")
    (path.parent / "link").symlink_to(path)
    (path.parent / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises((UnusableFileError, IsADirectoryError)):
            read(path.parent / name)
    with pytest.raises(OSError, match="symbolic links"):
        read(path.parent / "link")
    with pytest.raises(FileNotFoundError):
        read(path.parent / "nothing")


def test_what_others_may_have_written(path: Path) -> None:
    path.chmod(0o666)
    with pytest.raises(UnusableFileError, match="others may have written it"):
        read(path)
    if os.geteuid() == 0:
        path.chmod(0o600)
        os.chown(path, 12345, 12345)
        os.seteuid(54321)
        try:
            with pytest.raises(OSError, match="Permission denied"):
                read(path)
        finally:
            os.seteuid(0)
        with pytest.raises(UnusableFileError, match="others may have written it"):
            read(path)


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("before")
    with pytest.raises(RuntimeError, match="in the middle"), replacing(path) as file:
        file.write(b"half")
        file.flush()
        assert path.read_text() == "before"
        raise RuntimeError("in the middle")
    assert [each.name for each in tmp_path.iterdir()] == ["x.txt"]
    assert path.read_text() == "before"
    for mode in (0o600, 0o666):
        with replacing(path, mode) as file:
            file.write(b"after")
        assert path.read_text() == "after"
        mask = os.umask(0)
        os.umask(mask)
        assert path.stat().st_mode & 0o777 == mode & ~mask
