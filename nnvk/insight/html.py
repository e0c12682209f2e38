"""Pages as one HTML file: templates of Jinja2, nothing from elsewhere, no script but nnvk's own.

Names out of files, which may hold anything, are only ever text: Jinja2 escapes all values, and invisible characters are
written as escapes.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nnvk.base.text import printable

if find_spec("jinja2") is None:
    raise ModuleNotFoundError("pages need the jinja2 package: pip install jinja2 matplotlib")

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

TEMPLATES = Path(__file__).with_name("templates")
LONGEST = 120
"""Characters of a name."""
_LONGEST_TEXT = 1000


@dataclass(frozen=True, slots=True)
class Marked:
    """A cell's text that is not plain: a link, or a result that is off."""

    text: str
    href: str = ""
    is_off: bool = False


Cell = str | Marked


@dataclass(frozen=True, slots=True)
class Table:
    """A table that readers can sort by any column."""

    key: str
    """Its ``id``, which no other element has."""
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numbers: Sequence[int] = ()
    """The positions of columns of numbers."""
    longest: int = LONGEST
    """Characters of a cell."""


def render(template: str, scripts: Sequence[str], *, has_pictures: bool = False, **values: Any) -> str:
    """A page from a file of `TEMPLATES`, which gets the ``values``; it runs these ``scripts`` and no others.

    ``has_pictures`` allows images whose bytes are in the page.
    """
    hashes = " ".join(f"'sha256-{b64encode(hashlib.sha256(each.encode()).digest()).decode()}'" for each in scripts)
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {hashes}"
    policy += "; img-src data:" if has_pictures else ""
    marked = [markup(each) for each in scripts]
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["shown"] = printable
    return environment.get_template(template).render(policy=policy, scripts=marked, **values)


def markup(text: str) -> Any:
    """Text that stands in a page as it is, and is not escaped: of nnvk itself, never of a file."""
    return Markup(text)


def script(name: str) -> str:
    """The text of a script in `TEMPLATES`."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _shown(value: Any) -> Any:
    """Text, in which invisible characters are escaped; markup stays."""
    return printable(value, _LONGEST_TEXT) if isinstance(value, str) and not isinstance(value, Markup) else value
