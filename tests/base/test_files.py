"""Files that keep what can be made again: whole, of the right kind, and one's own."""

from __future__ import annotations

import errno
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest
from unprivileged import locked, unprivileged

from nnvk.base.files import KEY_NAME, FileKind, UnusableFileError, cache_folder, is_folder, replacing
from nnvk.base.settings import override

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
    assert {other.name for other in path.parent.iterdir()} == {path.name, KEY_NAME}


def test_every_damaged_byte_is_noticed(path: Path) -> None:
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x40]) + content[place + 1 :])
        with pytest.raises(UnusableFileError):
            read(path)
        path.write_bytes(content[:place])
        with pytest.raises(UnusableFileError):
            read(path)


def test_what_was_made_with_another_key_is_noticed(path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Its content may be anything: who made it knows how digests are made, but not the key."""
    elsewhere = tmp_path_factory.mktemp("elsewhere") / path.name
    KIND.write(elsewhere, HEADER, [b"other content"])
    assert read(elsewhere)
    path.write_bytes(elsewhere.read_bytes())
    with pytest.raises(UnusableFileError, match="made with another key"):
        read(path)


@pytest.mark.parametrize("change", ["gone", "short", "readable", "a link", "a folder", "another's"])
def test_a_key_that_others_may_know_is_not_used(path: Path, change: str) -> None:
    key = path.parent / KEY_NAME
    content = key.read_bytes()
    assert (len(content), key.stat().st_mode & 0o777) == (32, 0o600)
    if change in ("gone", "a link", "a folder"):
        key.rename(path.parent / "elsewhere")
    if change == "short":
        key.write_bytes(content[:-1])
    elif change == "readable":
        key.chmod(0o640)
    elif change == "a link":
        key.symlink_to("elsewhere")
    elif change == "a folder":
        key.mkdir()
    elif change == "another's":
        if os.geteuid() != 0:
            pytest.skip("only root gives files away")
        os.chown(key, 12345, 12345)
    with pytest.raises(UnusableFileError, match=r"its key, \.nnvk-key"):
        read(path)
    if change == "a folder":
        with pytest.raises(OSError, match=KEY_NAME):
            KIND.write(path, HEADER, BODY)
        return
    KIND.write(path, HEADER, BODY)
    assert read(path)[0] == HEADER
    assert key.read_bytes() != content


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
    for mode in (0o666, 0o660, 0o620, 0o602):
        path.chmod(mode)
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


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"No space left on device: '.*/x\.txt'"), replacing(tmp_path / "x.txt"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(PermissionError, match="another"), replacing(tmp_path / "x.txt"):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "another")
    assert list(tmp_path.iterdir()) == []


def test_folders(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert is_folder(tmp_path)
    assert not any(is_folder(tmp_path / name) for name in ("file", "file/x", "absent", "absent/x"))
    with locked(tmp_path / "locked") as folder:
        script = "import sys; from nnvk.base.files import *; is_folder(Path(sys.argv[1]))"
        command = unprivileged([sys.executable, "-c", script, folder / "inside"])
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd="/")
    assert f"PermissionError: [Errno 13] Permission denied: '{folder}/inside'" in done.stderr


# --- the folder of caches ------------------------------------------------------------------------------------------


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The home folder of a user who has said nothing about caches."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def folder(setting: str = "") -> Path | None:
    with override(cache_dir=setting):
        return cache_folder()


def test_where_caches_are(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert folder() == user / ".cache" / "nnvk"
    assert folder("0") is None
    assert folder("/some/folder") == Path("/some/folder")
    monkeypatch.chdir(user)
    assert folder("here") == user / "here"
    monkeypatch.setenv("XDG_CACHE_HOME", "/absent/caches")
    assert folder() == Path("/absent/caches/nnvk"), "XDG's folders are to be made"


@pytest.mark.parametrize("place", ["absent", "file", "file/x"])
def test_homes_that_are_not_there(user: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    (user / "file").touch()
    monkeypatch.setenv("HOME", str(user / place))
    assert folder() is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(user / place / ".cache"))
    assert folder() is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(user))
    assert folder() == user / "nnvk"


@pytest.mark.parametrize("home", [None, "", "relative"])
def test_users_without_home_and_entry(user: Path, monkeypatch: pytest.MonkeyPatch, home: str | None) -> None:
    """As in containers that run as a number that their system does not know."""

    def unknown(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.delenv("HOME")
    if home is not None:
        monkeypatch.setenv("HOME", home)
    found = folder()
    assert found is None or found == Path("/.cache/nnvk"), "older versions of platformdirs take an empty HOME for /"
    monkeypatch.setenv("XDG_CACHE_HOME", str(user))
    assert folder() == user / "nnvk"


def test_a_current_folder_that_is_gone(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = user / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    try:
        assert folder("here") == Path("here"), "what is written there fails, and that is logged"
        assert folder() == user / ".cache" / "nnvk"
    finally:
        os.chdir(user)
