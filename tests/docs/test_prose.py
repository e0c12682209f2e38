"""Sentences of docstrings, comments and pages have a plain subject: none begins with "What" or "Of".

A docstring also does not begin with a relative clause or with "By", for then it is no sentence and says no noun.
"""

import ast
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
ROOT = TREE / "nnvk"
FOLDERS = ("benchmarks", "tests", "tools")
PAGES = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md", "tools/isa/README.md"]
PAGES += sorted(page.relative_to(TREE).as_posix() for page in TREE.glob("docs/*.md"))
SHADERS = sorted(path.relative_to(TREE).as_posix() for path in TREE.glob("shaders/**/*") if path.is_file())
NATIVE = sorted(
    path.relative_to(TREE).as_posix()
    for folder in ("clib", "native", "provider", "tests")
    for path in (TREE / folder).rglob("*")
    if path.suffix in (".c", ".cpp", ".h", ".hpp", ".comp")
)
_BEGINS = re.compile(r"(?:What|Of)\b")
_MAY_BEGIN = re.compile(r"#.*\b(?:What|Of)\b")
_FRAGMENT = re.compile(r"(?:That|Which|Whose|By|But for|(?:At|For|From|In|On|To|With) (?:what|which|whom))\b(?!.*\?$)")
"""The beginning of a docstring that is no sentence, unless it is a question."""
_CODE_BLOCK = re.compile(r"^```.*?^```$|^(?: {4}.*\n)+", re.MULTILINE | re.DOTALL)
_SENTENCE = re.compile(
    r"(?:\A\s*|\n[ \t]*\n|^[ \t]*(?:[-*#>|]+|\d+\.)[ \t]+|[.:;?!*|][*_]*\s+)[ \t]*(?=(?:What|Of)\b)", re.MULTILINE
)
"""The place before a sentence with "What" or "Of": in a new paragraph, list item, heading or cell, or after another."""


@cache
def docstrings(path: Path) -> list[tuple[int, str]]:
    """The line and the text of each docstring of a module, those of attributes among them."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for statement in node.body:
            if (
                isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str)
            ):
                found.append((statement.lineno, statement.value.value))
    return found


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """The line and the text of each sentence that begins with "What" or "Of" as its subject, so not of questions.

    ``text`` is Markdown without its code, or comments without their marks. A line that continues a sentence does not
    begin one.
    """
    for match in _SENTENCE.finditer(text):
        sentence = re.split(r"(?<=[.?!|])|\n\n", text[match.end() :], maxsplit=1)[0].rstrip()
        if not sentence.endswith("?"):
            yield text.count("\n", 0, match.end()) + 1, sentence


def python_comments(path: Path) -> Iterator[tuple[int, str]]:
    """The first line and the text of each block of comments, in files where one may begin with "What" or "Of".

    A comment behind code is a block by itself.
    """
    if not _MAY_BEGIN.search(path.read_text(encoding="utf-8")):
        return  # tokens take long
    first, block, is_open = 0, list[str](), False
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type != tokenize.COMMENT:
                continue
            is_alone, line = token.line.lstrip().startswith("#"), token.start[0]
            if not (is_open and is_alone and line == first + len(block)):
                yield first, "\n".join(block)
                first, block = line, []
            block.append(token.string.lstrip("# "))
            is_open = is_alone
    yield first, "\n".join(block)


def python_sentences(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the text of each sentence of docstrings and comments that begins with "What" or "Of"."""
    for line, text in (*docstrings(path), *python_comments(path)):
        for within, sentence in sentences(text):
            yield line + within - 1, sentence


def fragments(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the first line of each docstring that begins as no sentence and no noun phrase does."""
    for line, text in docstrings(path):
        first = text.partition("\n")[0]
        if _FRAGMENT.match(first):
            yield line, first


def comments(path: Path) -> str:
    """The comments of a shader or of C++ code, each on its line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(line.partition("//")[2].strip() for line in lines)


def package_of(path: Path) -> str:
    """The package below nnvk, or below the Vulkan driver, that a file is in."""
    parts = path.relative_to(ROOT).parts[:-1]
    return "/".join(parts[:3] if parts[:2] == ("driver", "vulkan") else parts[:1])


PACKAGES = sorted({package_of(path) for path in ROOT.rglob("*.py")})


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_begin_with_a_subject(package):
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in sorted(ROOT.rglob("*.py"))
        if package_of(path) == package
        for line, text in docstrings(path)
        if _BEGINS.match(text)
    ]
    assert not found, "\n".join(found)


SOURCES = sorted(
    path.relative_to(TREE).as_posix()
    for path in (*ROOT.rglob("*.py"), *(path for folder in FOLDERS for path in (TREE / folder).rglob("*.py")))
)


@pytest.mark.parametrize("folder", sorted({source.rpartition("/")[0] for source in SOURCES}))
def test_sentences_of_sources_have_a_subject(folder):
    found = [
        f"{source}:{line}: {sentence}"
        for source in SOURCES
        if source.rpartition("/")[0] == folder
        for line, sentence in (*python_sentences(TREE / source), *fragments(TREE / source))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", PAGES)
def test_sentences_of_pages_begin_with_a_subject(page):
    text = _CODE_BLOCK.sub(lambda block: "\n" * block[0].count("\n"), (TREE / page).read_text(encoding="utf-8"))
    found = [f"{page}:{line}: {sentence}" for line, sentence in sentences(text)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("source", [*SHADERS, *NATIVE])
def test_comments_of_shaders_and_native_code_begin_with_a_subject(source):
    assert [f"{source}:{line}: {sentence}" for line, sentence in sentences(comments(TREE / source))] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("What it takes.", [(1, "What it takes.")]),
        ("One. What it takes\nis this. Of two", [(1, "What it takes\nis this."), (2, "Of two")]),
        ("- **Sizes.** What a\n- Of a.\n\nOf b.", [(1, "What a\n- Of a."), (2, "Of a."), (4, "Of b.")]),
        ("| a | What it does |", [(1, "What it does |")]),
        ("## What there is", [(1, "What there is")]),
        ("What does it take? It is\nWhat it is, Of course: no.", []),
        ("It is\nnot.\nWhat is?\nIt is.\nWhat is.", [(5, "What is.")]),
    ],
)
def test_sentences_are_found(text, found):
    assert list(sentences(text)) == found


def test_comments_are_found(tmp_path):
    path = tmp_path / "a.comp"
    path.write_text("#version 450\n// What a\nint b;    // of c\n\n// Of d\n")
    assert comments(path) == "\nWhat a\nof c\n\nOf d"
    assert [line for line, _ in sentences(comments(path))] == [2, 5]


def test_all_kinds_of_docstrings_are_found(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        '"""What."""\nX = 1\n"""Of X."""\n\n\nclass C:\n    """What."""\n\n    def f(self):\n        """Of."""\n'
    )
    assert sorted(docstrings(path)) == [(1, "What."), (3, "Of X."), (7, "What."), (10, "Of.")]


def test_sentences_of_python_are_found(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        '"""One.\n\nWhat a. What is b? It is\nWhat.\n"""\n\n# It is c. Of\n# d.\n# What of it\nX = 1  # e\n# Of f\n'
        'TEXT = "# What"\n'
    )
    assert list(python_sentences(path)) == [(3, "What a."), (7, "Of\nd."), (9, "What of it"), (11, "Of f")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("That come with one packet.", True),
        ("By shader.", True),
        ("At which a tile is seen.", True),
        ("Which operations run.", True),
        ("But for those.", True),
        ("Which operations run?", False),
        ("Bytes of the tensor. By default 0.", False),
        ("The bytes that come.", False),
        ("Thatched.", False),
    ],
)
def test_fragments_are_found(tmp_path, text, found):
    path = tmp_path / "module.py"
    path.write_text(f'"""{text}"""\n')
    assert list(fragments(path)) == ([(1, text)] if found else [])
