"""The right class of each input: from a file with a line for each, or from folders that are named by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from PIL import Image

from nnvk.base.text import did_you_mean, plural, printable
from nnvk.inputs.reader import Say
from nnvk.insight.classes import read_labels

_SEPARATORS = ("\t", ",", ";", " ")
_FEWEST = 3
"""Names that an error lists."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The statements of ``--labels`` files."""

    names: list[str] | None = None
    """The names of the classes."""
    truth: Mapping[str, str] = field(default_factory=dict)
    """The class of an input, a number or a name, by the input's name."""


def read_truth(files: Sequence[Path], inputs: Sequence[str]) -> Labels:
    """Read files that name the classes, one a line, or have the class of each input, in lines ``FILE,CLASS``.

    ``inputs`` are the names of the inputs, relative to their folder; a line may also have the file's name alone. Lines
    for other files are ignored. ValueError: two files are of the same kind, or a file names inputs that do not exist.
    """
    known = _by_file(inputs)
    names: list[str] | None = None
    truth: dict[str, str] = {}
    for path in files:
        lines = read_labels(path)
        found = dict(pair for line in lines for pair in _pairs(line, known))
        if not found and lines and (first := _first_word(lines[-1])) is not None:
            raise ValueError(f"no line of {path} names one of the inputs: it has {first!r}, they have {inputs[0]!r}")
        if (truth if found else names) is not None and (truth or not found):
            kind = "the class of each input" if found else "the names of the classes"
            raise ValueError(f"--labels gives {kind} twice: {path}")
        if found:
            truth = found
        else:
            names = lines
    return Labels(names, truth)


def classes_of(
    inputs: Sequence[str], labels: Labels, names: Sequence[str] | None, count: int, say: Say | None = None
) -> tuple[list[int], Sequence[str]]:
    """The class of each input, and the names of all classes.

    The class stands in ``labels.truth``, or else is the folder that the input lies in. It is one of ``names``, or a
    number below ``count``. If there is a folder for each class and nothing knows their names, the order of the names is
    taken for that of the classes, as torchvision's ImageFolder does it; ``say`` takes a remark on it. ValueError names
    an input without a class, or a class that does not exist.
    """
    words = _words(inputs, labels.truth)
    numbers = _numbers(names or (), count)
    unknown = sorted({word for word in words if _plain(word) not in numbers})
    if not unknown:
        known = [str(number) for number in range(count)] if names is None else names
        return [numbers[_plain(word)] for word in words], known
    folders = sorted(set(words))
    if not labels.truth and names is None and len(folders) == count:
        if say is not None:
            say(
                f"the folders, by their names from {folders[0]!r} to {folders[-1]!r}, are taken for the classes 0 to "
                f"{count - 1}, which is a guess; --labels names the classes"
            )
        order = {word: number for number, word in enumerate(folders)}
        return [order[word] for word in words], folders
    shown = ", ".join(repr(printable(word)) for word in unknown[:_FEWEST])
    more = f" and {len(unknown) - _FEWEST} more" if len(unknown) > _FEWEST else ""
    if names is None:
        raise ValueError(
            f"{shown}{more}: no number from 0 to {count - 1}, and the model does not name its classes; give "
            "--labels FILE with their names, one a line"
        )
    raise ValueError(f"no class is called {shown}{more}{did_you_mean(unknown[0], names)}")


def _words(inputs: Sequence[str], truth: Mapping[str, str]) -> list[str]:
    """The class of each input, as it is written."""
    if truth:
        missing = [name for name in inputs if name not in truth]
        if missing:
            raise ValueError(f"--labels has no line for {plural(len(missing), 'input')}, such as {missing[0]}")
        return [truth[name] for name in inputs]
    for name in inputs:
        if len(PurePath(name).parts) < 2:
            raise ValueError(
                f"the class of {name} is unknown: give --labels FILE with lines FILE,CLASS, or put inputs into folders "
                "that are named by class"
            )
    return [PurePath(name).parts[0] for name in inputs]


def _numbers(names: Sequence[str], count: int) -> dict[str, int]:
    """The classes by their names, each part of which may stand alone (``tabby, tabby cat``), and by their numbers."""
    numbers = {str(number): number for number in range(count)}
    parts: dict[str, set[int]] = {}
    for number, name in enumerate(names):
        for part in name.split(","):
            parts.setdefault(_plain(part), set()).add(number)
    numbers.update({part: found.pop() for part, found in parts.items() if len(found) == 1})
    numbers.update({_plain(name): number for number, name in reversed(list(enumerate(names)))})
    return numbers


def _plain(name: str) -> str:
    """A name without what folders' names differ in: case, and ``_`` for spaces."""
    return name.strip().replace("_", " ").casefold()


def _by_file(inputs: Sequence[str]) -> dict[str, list[str]]:
    """The inputs by their names, and by those of their files alone."""
    known: dict[str, list[str]] = {}
    for name in inputs:
        for key in {name, PurePath(name).name}:
            known.setdefault(key, []).append(name)
    return known


def _pairs(line: str, known: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """The inputs that a line names, and their class; none where it is no such line."""
    for separator in _SEPARATORS:
        for split in (str.partition, str.rpartition):
            file, _, word = split(line, separator)
            name = file.strip().strip('"').removeprefix("./")
            if name in known and word.strip():
                return [(each, word.strip().strip('"')) for each in known[name]]
    return []


def _first_word(line: str) -> str | None:
    """The file of a line that is like ``FILE,CLASS``; None where it is not."""
    suffixes = {*Image.registered_extensions(), ".npy", ".npz"}
    words = (line.partition(separator)[0].strip() for separator in _SEPARATORS if separator in line)
    return next((word for word in words if PurePath(word).suffix.lower() in suffixes), None)
