"""MkDocs' hook for the site of ``docs/``: pages from elsewhere in the repository, and links as GitHub reads them.

The pages are written for GitHub. There, links lead anywhere in the repository, anchors follow GitHub's rule, a list
may follow a paragraph without an empty line, and a backslash ends a line. MkDocs calls these functions by name.
"""

from __future__ import annotations

import os
import posixpath
import re
from typing import Any

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
    "benchmarks/results/swiftshader-device.md": "results/swiftshader-device.md",
    "README.md": "index.md",
}
"""Pages outside of ``docs/``, and their places on the site."""
_GENERATED = {place: path for path, place in PAGES.items() if path != "README.md"}
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
    for file in files:
        if file.src_uri.startswith("results/"):
            file.inclusion = file.inclusion.NOT_IN_NAV  # they are linked from the page on performance
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Point links at the site's pages; a link to a file that is none of them becomes its text."""
    here = page.file.src_uri
    path = _GENERATED.get(here, f"docs/{here}")
    root = posixpath.dirname(config.docs_dir)

    def link(match: re.Match[str]) -> str:
        text, target = match.groups()
        name, hash_, anchor = target.partition("#")
        if "://" in target or not name:
            return match[0]
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
        place = PAGES.get(wanted, wanted.removeprefix("docs/") if wanted.startswith("docs/") else "")
        if files.get_file_from_path(place) is None:
            is_elsewhere = not wanted.startswith("docs/") and os.path.exists(f"{root}/{wanted}")
            return text if is_elsewhere else match[0]  # MkDocs reports a link to nothing
        return f"[{text}]({posixpath.relpath(place, posixpath.dirname(here))}{hash_}{anchor})"

    parts = _FENCE.split(markdown)
    for number in range(0, len(parts), 2):  # the others are code
        text = _LIST_AFTER_TEXT.sub(r"\1\n", _LINK.sub(link, parts[number]))
        parts[number] = _LINE_BREAK.sub("  ", text)
    return "".join(parts)
