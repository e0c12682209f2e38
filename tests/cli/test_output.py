"""Tables, progress, and numbers, on a terminal and not."""

from __future__ import annotations

import errno
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from nnvk.cli import output


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda stream: True)
    monkeypatch.setattr(output, "Console", partial(Console, force_terminal=True, width=60))
    monkeypatch.setenv("TERM", "xterm")


def test_a_plain_table(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [["ADD", "1", "x" * 200], ["CONV_2D", "10", ""]]
    output.print_table(["operation", "runs so far", "note"], rows, title="Title", right="runs_so_far")
    assert capsys.readouterr().out.splitlines() == [
        "Title",
        "operation  runs so far  note",
        f"ADD                  1  {'x' * 200}",
        "CONV_2D             10",
    ]


def test_a_table_without_rows(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(["a", "b"], [])
    assert capsys.readouterr().out == "a  b\n"


def test_a_table_on_a_terminal_folds_instead_of_cutting(terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(["name", "note"], [["[red]", "y" * 100]], title="Title")
    printed = capsys.readouterr().out
    assert printed.count("y") == 100
    assert "[red]" in printed
    assert all(len(line) <= 60 for line in printed.splitlines())


def test_names_are_folded_between_their_parts(terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = ["1.234"] * 5
    rows = [["mobilenet_v2_quant.tflite", "nnapi-reference", *numbers]]
    output.print_table(["model", "device", *"abcde"], rows, right="a b c d e")
    assert capsys.readouterr().out.splitlines() == [
        "model        device            a      b      c      d      e",
        "mobilenet_   nnapi-        1.234  1.234  1.234  1.234  1.234",
        "v2_quant     reference",
        ".tflite",
    ]


def _work(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    with output.progress("Working", 2) as advance:
        advance("[one]")
        advance("two")
    with output.working("Waiting"):
        pass
    return capsys.readouterr()


def test_progress_is_silent_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert tuple(_work(capsys)) == ("", "")


def test_progress_on_a_terminal_leaves_standard_output_alone(
    terminal: None, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = _work(capsys)
    assert not out
    assert "Working" in err
    assert "2/2" in err


def test_files_that_can_be_written(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("kept")
    output.check_writable(None, old, tmp_path / "new", Path("new-beside"))
    assert list(tmp_path.iterdir()) == [old]
    assert old.read_text() == "kept"


@pytest.mark.parametrize(
    ("name", "error"),
    [(".", IsADirectoryError), ("absent/x", NotADirectoryError), ("old/x", NotADirectoryError)],
)
def test_files_that_can_not_be_written(tmp_path: Path, name: str, error: type[OSError]) -> None:
    (tmp_path / "old").touch()
    with pytest.raises(error) as caught:
        output.check_writable(tmp_path / "new", tmp_path / name)
    assert caught.value.filename == str(tmp_path / name.removesuffix("/x"))


def test_files_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, flags: int) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("os.open", refused)
    with pytest.raises(PermissionError, match="new"):
        output.check_writable(tmp_path / "new")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_an_error_that_names_the_file() -> None:
    with pytest.raises(OSError, match="/dev/full"):
        output.write_json(Path("/dev/full"), {})
