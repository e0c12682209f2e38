"""The picture of the layers in docs/architecture.md: it is the one that the imports give, and the page stays short."""

import re

import layers_doc
import pytest

PAGE = layers_doc.PAGE.read_text(encoding="utf-8")


def test_picture_is_up_to_date():
    assert layers_doc.page(PAGE) == PAGE


def test_packages_are_told_apart():
    assert layers_doc.package_of("nnvk") == "nnvk.api"
    assert layers_doc.package_of("nnvk.ops.extension.int64") == "nnvk.ops"
    assert layers_doc.package_of("nnvk.driver.cpu.executor") == "nnvk.driver.cpu"
    assert layers_doc.package_of("nnvk.driver.vulkan.planning.plan") == "nnvk.driver.vulkan.planning"
    assert layers_doc.package_of("nnvk.driver.vulkan") == "nnvk.driver.vulkan"


def test_an_arrow_that_others_imply_is_left_out():
    imports = {"a": frozenset("bc"), "b": frozenset("c"), "c": frozenset()}
    assert layers_doc.reduced(imports) == {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset()}


def test_every_import_is_implied_by_the_arrows():
    imports = layers_doc.imports_of_packages()
    drawn = layers_doc.reduced(imports)

    def reached(package):
        return {package}.union(*(reached(other) for other in drawn[package]))

    for package, others in imports.items():
        assert others <= reached(package), package


def test_a_page_without_marks_is_refused():
    with pytest.raises(ValueError, match="lacks"):
        layers_doc.page("no marks")


def test_the_page_is_short_and_has_three_pictures():
    text = re.sub(r"```mermaid.*?```", "", PAGE, flags=re.DOTALL)
    assert len(text.split()) <= 1100
    assert PAGE.count("```mermaid") == 3
