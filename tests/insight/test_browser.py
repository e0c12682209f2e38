"""The pages in Chromium, on a phone and on a desk: nothing in the console, nothing cut off, and all that moves."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from nnvk.cli.main import app
from nnvk.demo.assets import DATA

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WIDTHS = (420, 1280)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The addresses of a report and of a graph."""
    folder = tmp_path_factory.mktemp("pages")
    commands = {
        "report": ["report", DATA, "--runs", 2, "--out", folder / "report.html"],
        "graph": ["graph", DATA / "digits_int8.tflite", "--html", folder / "graph.html"],
    }
    for command in commands.values():
        result = CliRunner().invoke(app, [str(word) for word in command])
        assert result.exit_code == 0, result.output
    return {name: (folder / f"{name}.html").as_uri() for name in commands}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a window."""
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Any, pages: dict[str, str]) -> Iterator[Any]:
    """Open a page of a width; its complaints and its requests fail the test at the end."""
    found: list[str] = []
    opened = []

    def open_(name: str, width: int, **options: Any) -> Any:
        page = browser.new_page(viewport={"width": width, "height": 900}, **options)
        page.on("console", lambda message: found.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: found.append(str(error)))
        page.on("request", lambda request: request.url == pages[name] or found.append(f"fetches {request.url}"))
        page.goto(pages[name])
        opened.append(page)
        return page

    yield open_
    for page in opened:
        page.close()
    assert not found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["report", "graph"])
def test_nothing_is_cut_off_or_too_narrow(open_page: Any, name: str, width: int, scheme: str) -> None:
    page = open_page(name, width, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    cells = page.evaluate(
        """[...document.querySelectorAll("td, dd")].filter((cell) => cell.textContent.length > 8)
           .map((cell) => [cell.clientWidth, cell.clientHeight, cell.textContent])"""
    )
    assert cells
    assert [cell for cell in cells if cell[0] < 50 or cell[1] > 12 * cell[0]] == []
    red = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]")
    assert int(red) < 60 if scheme == "dark" else int(red) > 200


@pytest.mark.parametrize("width", WIDTHS)
def test_charts_are_readable(open_page: Any, width: int) -> None:
    """Their words are not scaled down, and contrast with the page."""
    page = open_page("report", width, color_scheme="dark")
    heights = page.evaluate(
        '[...document.querySelectorAll("svg text")].map((text) => text.getBoundingClientRect().height)'
    )
    assert min(heights) >= 9
    assert page.evaluate('getComputedStyle(document.querySelector("svg text")).fill') == page.evaluate(
        "getComputedStyle(document.body).color"
    )


def test_tables_sort(open_page: Any) -> None:
    page = open_page("report", 1280)
    column = '[...document.querySelectorAll("#summary tbody tr")].map((row) => row.cells[2].textContent)'
    before = page.evaluate(column)
    head = page.locator("#summary th").nth(2)
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert page.evaluate(column) == sorted(before, key=float)
    page.keyboard.press("Enter")  # the button has the focus
    assert head.get_attribute("aria-sort") == "descending"
    assert page.evaluate(column) == sorted(before, key=float, reverse=True)
    page.locator("#summary th").nth(1).get_by_role("button").click()
    assert head.get_attribute("aria-sort") is None


def test_printing(open_page: Any) -> None:
    page = open_page("report", 1280, color_scheme="dark")
    page.emulate_media(media="print")
    overflows = page.evaluate('getComputedStyle(document.querySelector(".wide")).overflow')
    assert overflows == "visible"
    assert page.pdf().startswith(b"%PDF")


def test_the_graph_searches_and_zooms(open_page: Any) -> None:
    page = open_page("graph", 1280)
    assert page.evaluate("cy.nodes().length") == 13
    boxes = page.evaluate("cy.nodes().map((node) => node.renderedBoundingBox())")
    wide, high = page.evaluate("[cy.width(), cy.height()]")
    assert all(box["x1"] >= 0 and box["y1"] >= 0 and box["x2"] <= wide and box["y2"] <= high for box in boxes)
    page.get_by_label("Search").fill("depthwise stem")
    assert page.locator("#found").text_content() == "0 found"
    page.get_by_label("Search").fill("DEPTHWISE block")
    assert page.locator("#found").text_content() == "2 found"
    assert page.locator("#operations tbody tr:visible").count() == 2
    assert page.evaluate('cy.nodes(".found").map((node) => node.id())') == ["op1", "op4"]
    page.get_by_role("button", name="Next").click()
    assert page.locator("#found").text_content() == "1 of 2"
    # The page's policy refuses the text that wait_for_function would evaluate.
    off = page.evaluate(
        """new Promise((resolve) => cy.$("#op1").cy().one("render", () => setTimeout(() =>
           resolve(Math.abs(cy.$("#op1").renderedPosition().x - cy.width() / 2)), 500)))"""
    )
    assert off < 2
    zoom = page.evaluate("cy.zoom()")
    page.get_by_role("button", name="Zoom in").click()
    assert page.evaluate("cy.zoom()") > zoom
    page.get_by_role("button", name="Zoom out").click()
    assert page.evaluate("cy.zoom()") == pytest.approx(zoom)
    page.get_by_role("button", name="Show all").click()
    assert page.evaluate("cy.zoom()") < zoom
