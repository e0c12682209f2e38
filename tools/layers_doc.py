"""Draw the picture of the layers in ``docs/architecture.md`` from the imports of the package.

    python tools/layers_doc.py           # writes the picture, between its two marks
    python tools/layers_doc.py --check   # fails if the picture is not the one that would be written

An arrow means that modules of one package import modules of the other. An arrow is left out if other arrows lead
there, so that the picture shows the order of the packages and not every import.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import generated_page
import grimp

PAGE = Path(__file__).resolve().parent.parent / "docs" / "architecture.md"
BEGIN = "<!-- The layers: written by tools/layers_doc.py. -->"
END = "<!-- End of the layers. -->"
_SPLIT = ("nnvk.driver",)
"""Packages of which each subpackage is drawn by itself."""
_DEEP = ("nnvk.driver.vulkan",)
"""Packages of which the parts are drawn too, in a box."""

Imports = Mapping[str, frozenset[str]]
"""For each package the packages that it imports."""


def package_of(module: str) -> str:
    """The drawn package that a module belongs to. The package ``nnvk`` itself has the names of ``nnvk.api``."""
    parts = module.split(".")
    if len(parts) == 1:
        return "nnvk.api"
    for deep in (*_DEEP, *_SPLIT):
        if module.startswith(f"{deep}."):
            return ".".join(parts[: deep.count(".") + 2])
    return ".".join(parts[:3] if module in _DEEP else parts[:2])


def imports_of_packages() -> Imports:
    """Read the package's source and return which drawn packages import which."""
    graph = grimp.build_graph("nnvk")
    found: dict[str, set[str]] = {package_of(module): set() for module in graph.modules if module not in _SPLIT}
    for module in graph.modules - {"nnvk"}:  # which names what is in nnvk.loading, and imports it late
        for other in graph.find_modules_directly_imported_by(module):
            first, second = package_of(module), package_of(other)
            # `from nnvk import _native` reads as an import of the package, which imports everything.
            if first in found and second in found and first != second and other != "nnvk":
                found[first].add(second)
    # A box's own module, its __init__.py, is drawn as its device, which it declares.
    for deep in _DEEP:
        found[f"{deep}.device"] |= found.pop(deep, set())
        for others in found.values():
            if deep in others:
                others.remove(deep)
                others.add(f"{deep}.device")
    return {package: frozenset(others - {package}) for package, others in found.items()}


def reduced(imports: Imports) -> Imports:
    """The same order of packages with the fewest arrows: the transitive reduction. The imports must have no cycle."""

    def reached(package: str) -> set[str]:
        every: set[str] = set()
        for other in imports[package]:
            every |= {other} | reached(other)
        return every

    return {
        package: others - {far for other in others for far in reached(other)} for package, others in imports.items()
    }


def picture(imports: Imports) -> str:
    """A Mermaid flowchart of packages and their imports."""
    return "\n".join(["```mermaid", "flowchart TD", *_lines(imports), "```"])


def _lines(imports: Imports) -> Iterator[str]:
    for deep in _DEEP:
        yield f'    subgraph "{deep.removeprefix("nnvk.")}"'
        yield from (f"        {_box(package)}" for package in sorted(imports) if package.startswith(f"{deep}."))
        yield "    end"
    yield from (f"    {_box(package)}" for package in sorted(imports) if not package.startswith(_DEEP))
    for package, others in sorted(imports.items()):
        for other in sorted(others):
            yield f"    {_name(package)} --> {_name(other)}"


def _box(package: str) -> str:
    shown = package.removeprefix("nnvk.")
    for deep in _DEEP:
        shown = shown.removeprefix(f"{deep.removeprefix('nnvk.')}.")
    return f'{_name(package)}["{shown}"]'


def _name(package: str) -> str:
    return package.removeprefix("nnvk.").replace(".", "_")


def page(text: str) -> str:
    """The page with a new picture. ValueError: a mark is missing."""
    return generated_page.between(text, BEGIN, END, picture(reduced(imports_of_packages())))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool and return the exit status."""
    return generated_page.run(__file__, PAGE, page, arguments, __doc__ or "")


if __name__ == "__main__":
    sys.exit(main())
