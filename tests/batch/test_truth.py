"""The right class of each input, from files and from the names of folders."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nnvk.batch.truth import Labels, classes_of, read_truth

INPUTS = ["a.png", "below/b.png", "below/c c.png"]
FOLDERS = ["cat/a.png", "dog/b.png", "cat/more/c.png"]
NAMES = ["tabby, tabby cat", "dog", "sea_lion"]


def file_of(tmp_path: Path, *lines: str, name: str = "labels.txt") -> Path:
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    "lines",
    [
        ["a.png,0", "below/b.png,1", "below/c c.png,2"],
        ["a.png\t0", "b.png\t1", "c c.png\t2"],
        ["a.png 0", "b.png 1", "c c.png 2"],
        ["file,class", '"a.png",0', "./below/b.png, 1", "c c.png;2", "", "other.png,5"],
    ],
)
def test_lines_have_the_class_of_a_file(tmp_path: Path, lines: list[str]) -> None:
    labels = read_truth([file_of(tmp_path, *lines)], INPUTS)
    assert labels.names is None
    assert classes_of(INPUTS, labels, None, 3) == ([0, 1, 2], ["0", "1", "2"])


def test_names_and_classes_together(tmp_path: Path) -> None:
    names = file_of(tmp_path, *NAMES, name="names.txt")
    truth = file_of(tmp_path, "a.png,Tabby Cat", "b.png,sea lion", "c c.png,tabby, tabby cat")
    for files in ([names, truth], [truth, names]):
        labels = read_truth(files, INPUTS)
        assert labels.names == NAMES
        assert classes_of(INPUTS, labels, NAMES, 3) == ([0, 2, 0], NAMES)


def test_folders_are_named_by_class() -> None:
    assert classes_of(FOLDERS, Labels(), ["dog", "cat"], 2)[0] == [1, 0, 1]
    assert classes_of(["1/a.png", "0/b.png"], Labels(), None, 5)[0] == [1, 0]


def test_names_that_several_classes_share_are_no_names() -> None:
    names = ["crane, bird", "crane, machine"]
    assert classes_of(["machine/a.png", "bird/a.png"], Labels(), names, 2)[0] == [1, 0]
    with pytest.raises(ValueError, match="no class is called 'crane'"):
        classes_of(["crane/a.png"], Labels(), names, 2)


def test_the_order_of_all_folders_is_a_guess() -> None:
    said: list[str] = []
    assert classes_of(FOLDERS, Labels(), None, 2, said.append) == ([0, 1, 0], ["cat", "dog"])
    assert said == [
        "the folders, by their names from 'cat' to 'dog', are taken for the classes 0 to 1, which is a guess; --labels "
        "names the classes"
    ]


@pytest.mark.parametrize(
    ("inputs", "truth", "names", "said"),
    [
        (["a.png"], {}, None, "the class of a.png is unknown: give --labels FILE with lines FILE,CLASS, or put inputs"),
        (FOLDERS, {}, None, "'cat', 'dog': no number from 0 to 9, and the model does not name its classes"),
        (FOLDERS, {}, ["dogs", "cat"], "no class is called 'dog'; did you mean 'dogs'?"),
        (INPUTS, {"a.png": "1"}, None, "--labels has no line for 2 inputs, such as below/b.png"),
        (["a.png"], {"a.png": "10"}, None, "'10': no number from 0 to 9"),
        (["a.png"], {"a.png": "-1"}, None, "'-1': no number from 0 to 9"),
    ],
)
def test_classes_that_are_unknown(inputs: list[str], truth: dict[str, str], names: list[str] | None, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        classes_of(inputs, Labels(names, truth), names, 10)


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    truth, other = file_of(tmp_path, "a.png,0"), file_of(tmp_path, "x.png,0", name="other.txt")
    names = file_of(tmp_path, *NAMES, name="names.txt")
    with pytest.raises(ValueError, match=r"gives the class of each input twice: .*labels\.txt"):
        read_truth([truth, truth], INPUTS)
    with pytest.raises(ValueError, match=r"gives the names of the classes twice: .*names\.txt"):
        read_truth([names, names], INPUTS)
    with pytest.raises(ValueError, match=r"no line of .*other\.txt names one of the inputs: it has 'x\.png'"):
        read_truth([other], INPUTS)
