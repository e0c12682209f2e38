"""MkDocs' hook for the site of ``docs/``: pages from elsewhere in the repository, and links as GitHub reads them.

The pages are written for GitHub. There, links lead anywhere in the repository, anchors follow GitHub's rule, a list
may follow a paragraph without an empty line, and a backslash ends a line. A link to a file of ``examples/`` that is a
paragraph of its own becomes the text of the file. Notebooks are run, and become pages with their outputs. MkDocs calls
these functions by name.
"""

from __future__ import annotations

import os
import posixpath
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
import notebooks
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
    "benchmarks/results/compilers.md": "results/compilers.md",
    "benchmarks/results/llvmpipe.md": "results/llvmpipe.md",
    "benchmarks/results/nvidia-h100-80gb-hbm3.md": "results/nvidia-h100-80gb-hbm3.md",
    "benchmarks/results/nvidia-h200.md": "results/nvidia-h200.md",
    "benchmarks/results/swiftshader-device.md": "results/swiftshader-device.md",
    "README.md": "index.md",
}
"""Pages outside of ``docs/``, and their places on the site."""
_GENERATED = {place: path for path, place in PAGES.items() if path != "README.md"}
NOTEBOOKS = {f"notebooks/{path.stem}.md": path for path in sorted(notebooks.FOLDER.glob("*.ipynb"))}
"""The places of notebooks on the site."""
_LANGUAGES = {".py": "python", ".service": "ini"}
_ONLY_LINK = re.compile(r"^\[`?[^\]`]+`?\]\(([^()\s]+)\)$", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])+)\]\(([^()\s]+)\)")
_FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
_LIST_AFTER_TEXT = re.compile(r"^((?!\s*[-*>|#]|\s*\d+\. |\s*$).*\n)(?=- )", re.MULTILINE)
_LINE_BREAK = re.compile(r"\\$", re.MULTILINE)


def slug(text: str, separator: str) -> str:
    """The anchor of a heading by GitHub's rule."""
    return re.sub(r"[^\w -]", "", text.lower()).strip().replace(" ", separator)


def on_config(config: MkDocsConfig) -> None:
    """Set the rule for anchors, which a YAML file can't hold."""
    config.mdx_configs["toc"]["slugify"] = slug


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside of ``docs/``."""
    root = posixpath.dirname(config.docs_dir)
    for place, path in _GENERATED.items():
        files.append(File.generated(config, place, abs_src_path=f"{root}/{path}"))
    if config.extra["execute_notebooks"]:
        with ThreadPoolExecutor() as pool:
            read = list(pool.map(notebooks.executed, NOTEBOOKS.values()))
    else:
        read = [nbformat.read(path, as_version=4) for path in NOTEBOOKS.values()]
    for (place, path), notebook in zip(NOTEBOOKS.items(), read, strict=True):
        text, pictures = notebooks.as_markdown(notebook, path.stem)
        files.append(File.generated(config, place, content=text))
        for name, content in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    for file in files:
        if file.src_uri.startswith("results/"):
            file.inclusion = file.inclusion.NOT_IN_NAV  # they are linked from the page on performance
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Point links at the site's pages; a link to a file that is none of them becomes its text."""
    here = page.file.src_uri
    if here in NOTEBOOKS:
        return markdown
    path = _GENERATED.get(here, f"docs/{here}")
    root = posixpath.dirname(config.docs_dir)

    def quoted(match: re.Match[str]) -> str:
        file = Path(root, posixpath.dirname(path), match[1])
        if file.suffix not in _LANGUAGES or not file.is_file():
            return match[0]
        name = posixpath.relpath(file.resolve(), root)
        return f"`{name}`\n\n```{_LANGUAGES[file.suffix]}\n{file.read_text(encoding='utf-8')}```"

    def link(match: re.Match[str]) -> str:
        text, target = match.groups()
        name, hash_, anchor = target.partition("#")
        if "://" in target or not name:
            return match[0]
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
        if wanted.endswith(".ipynb"):
            wanted = f"docs/notebooks/{Path(wanted).stem}.md"
        place = PAGES.get(wanted, wanted.removeprefix("docs/") if wanted.startswith("docs/") else "")
        if files.get_file_from_path(place) is None:
            is_elsewhere = not wanted.startswith("docs/") and os.path.exists(f"{root}/{wanted}")
            return text if is_elsewhere else match[0]  # MkDocs reports a link to nothing
        return f"[{text}]({posixpath.relpath(place, posixpath.dirname(here))}{hash_}{anchor})"

    parts = _FENCE.split(_ONLY_LINK.sub(quoted, markdown))
    for number in range(0, len(parts), 2):  # the others are code
        text = _LIST_AFTER_TEXT.sub(r"\1\n", _LINK.sub(link, parts[number]))
        parts[number] = _LINE_BREAK.sub("  ", text)
    return "".join(parts)
