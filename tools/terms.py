"""Find words that the project no longer uses, by file and line: those of ``scripts/terms.txt``.

``python tools/terms.py`` prints one line for each use, and exits with 1 if there are any.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "scripts" / "terms.txt"
_SUFFIXES = frozenset({".py", ".pyi", ".comp", ".glsl", ".cpp", ".hpp", ".h", ".c", ".md", ".toml", ".sh", ".cmake"})
_LEFT_OUT = ("CHANGELOG.md", "benchmarks/results/", "tools/terms.py", "tests/tools/test_terms.py")
"""The changelog says what was renamed, and results keep the names that they were measured under."""


@dataclass(frozen=True, slots=True)
class Term:
    """A word that is gone."""

    word: str
    standard: str
    """The standard term."""
    paths: tuple[str, ...] = ()
    """The folders (with ``/`` at the end) and files that the word is gone from; everywhere, if empty."""
    qualifiers: tuple[str, ...] = ()
    """Words that may precede the word: "time" allows "time step" and ``time_step``, but not "step" alone."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """The word, as a whole identifier with ``=`` in front, otherwise also as a part of one."""
        word = re.escape(self.word.removeprefix("="))
        if self.word.startswith("="):
            return re.compile(rf"\b{word}\b")
        allowed = "".join(rf"(?<!(?i:{re.escape(qualifier)})[ _])" for qualifier in self.qualifiers)
        return re.compile(rf"{allowed}(?<![A-Za-z{'.' if allowed else ''}]){word}(?![A-Za-z])")

    def is_for(self, path: str) -> bool:
        """Whether the word is gone from a file."""
        return not self.paths or any(path == one or (one.endswith("/") and path.startswith(one)) for one in self.paths)


def read_terms(text: str) -> list[Term]:
    """The terms of a list. ValueError: a line has another form."""
    terms = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        word, *rest = (part.strip() for part in line.split("|"))
        if not word or not 1 <= len(rest) <= 2:
            raise ValueError(f"line {number} of the terms must be: word | standard term | paths, got {line!r}")
        *qualifiers, word = (part.strip() for part in re.split("[:,]", word))
        if not all((*qualifiers, word)):
            raise ValueError(f"line {number} of the terms has an empty word, got {line!r}")
        terms.append(Term(word, rest[0], tuple(rest[1].split()) if len(rest) == 2 else (), tuple(qualifiers)))
    return terms


def uses(terms: Sequence[Term], path: str, text: str) -> Iterator[str]:
    """A line for each use of a term in a file."""
    patterns = [(term, term.pattern) for term in terms if term.is_for(path)]
    before = ""
    for number, line in enumerate(text.splitlines(), 1):
        begin = line.lstrip(" #/")
        for term, pattern in patterns:
            if pattern.search(f"{before} {begin}", len(before)):
                yield f"{path}:{number}: {term.word.removeprefix('=')!r} is now {term.standard!r}"
        before = begin.rpartition(" ")[2]


def main() -> int:
    """Look through all files that git knows and return the exit status."""
    terms = read_terms(LIST.read_text(encoding="utf-8"))
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    found = [
        use
        for path in listed.stdout.splitlines()
        if Path(path).suffix in _SUFFIXES and not path.startswith(_LEFT_OUT) and (ROOT / path).is_file()
        for use in uses(terms, path, (ROOT / path).read_text(encoding="utf-8"))
    ]
    for use in found:
        print(use)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
