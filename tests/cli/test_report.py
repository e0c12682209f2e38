"""``nnvk report``: the page is one file, well formed, and says what the JSON says."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from base64 import b64encode
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tflite_net import Net, T, write

import nnvk
from nnvk.base.machine import describe_machine
from nnvk.base.text import milliseconds
from nnvk.cli import report as module
from nnvk.demo.assets import DATA
from nnvk.insight.html import script

FLOAT, INT8 = DATA / "digits_float.tflite", DATA / "digits_int8.tflite"
DEVICES = [device.name for device in nnvk.get_devices()]
VOID = {"meta", "br", "hr", "img", "link", "input"}
EVIL = '"><script>alert(1)</script><img src=x onerror=alert(2)>&amp;\x1b[2J\u202e</title></style>'


class Page(HTMLParser):
    """Reads tables by their ids, and all that could do harm or come from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.scripts: list[str] = []
        self._open: list[str] = []
        self._rows: list[list[str]] | None = None
        self._in_cell = False
        self.feed(text)
        self.close()
        assert not self._open, "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)
        if tag == "table":
            self._rows = self.tables.setdefault(dict(attrs)["id"] or "", [])
        elif tag == "tr" and self._rows is not None:
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        if tag in ("td", "th"):
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["script"]:
            self.scripts.append(data)
            return
        self.text += data
        if self._in_cell:
            self._rows[-1][-1] += data


def made(nnvk_command: Any, tmp_path: Path, *arguments: object, exit_code: int = 0) -> tuple[Page, dict[str, Any]]:
    out, data = tmp_path / "out.html", tmp_path / "out.json"
    result = nnvk_command("report", *arguments, "--runs", 2, "--out", out, f"--json={data}")
    assert result.exit_code == exit_code, result.output
    text = out.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>\n<html lang=")
    page = Page(text)
    # Nothing is run but the script that sorts tables, and nothing is fetched.
    assert page.tags.isdisjoint({"img", "link", "iframe", "object", "embed", "form", "base"})
    assert page.scripts == [script("sort.js")]
    names = {name for name, _ in page.attributes}
    assert names.isdisjoint({"src", "srcset", "data", "action"})
    assert not [name for name in names if name.startswith("on")]
    links = [value for name, value in page.attributes if name in ("href", "xlink:href")]
    assert all(value.startswith("#model-") for value in links)
    assert "@import" not in text and "url(" not in text
    digest = b64encode(hashlib.sha256(page.scripts[0].encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert ("content", policy) in page.attributes
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {value[1:] for value in links} <= set(ids)
    return page, json.loads(data.read_text())


def test_the_tables_are_the_json(nnvk_command: Any, tmp_path: Path) -> None:
    page, content = made(nnvk_command, tmp_path, FLOAT, INT8)
    assert [one["model"] for one in content["models"]] == [FLOAT.name, INT8.name]
    summary = page.tables["summary"]
    expected = []
    for number, model in enumerate(content["models"]):
        assert [one["device"] for one in model["devices"]] == DEVICES
        for place, one in enumerate(model["devices"]):
            key = f"{number}-{place}"
            comparison = one["comparison"]
            worst = None if comparison is None else max(each["of_range"] for each in comparison["outputs"])
            median, p90, compiled = (milliseconds(one[name]) for name in ("median_ns", "p90_ns", "compile_ns"))
            speed = f"{model['devices'][-1]['median_ns'] / one['median_ns']:.3g}"
            memory = f"{sum(one['memory'].values()) / 1e6:.2f}" if one["memory"] else "-"
            agrees = ["reference", "-"] if worst is None else ["yes", f"{worst:.2g}"]
            whole = f"{one['operations_on_device']}/{one['operations']}"
            row = [model["model"], one["device"], median, p90, speed, "2", *agrees, whole, str(one["partitions"])]
            expected.append([*row, compiled, memory])
            layers = page.tables[f"layers-{key}"][1:]
            parts = one["profile"]["parts"]
            names = [f"{each['layer']['operator']} {each['layer']['name']}" for each in parts if each["layer"]]
            assert {row[0] for row in layers} == set(names) | {"(none)" for each in parts if not each["layer"]}
            operations = page.tables[f"operations-{key}"][1:]
            assert {row[0] for row in operations} == {part["operation"] for part in parts}
            assert sum(float(row[-1].rstrip("%")) for row in operations) == pytest.approx(100, abs=2)
            if comparison is not None:
                inside = page.tables[f"inside-{key}"][1:]
                assert [row[0] for row in inside] == [f"{e['number']} {e['operation']}" for e in comparison["inside"]]
                assert [row[3] for row in inside] == [f"{each['largest']:.3g}" for each in comparison["inside"]]
                assert [row[5] for row in inside] == [f"{each['tolerated']:.2g}" for each in comparison["inside"]]
    assert summary[1:] == expected
    assert [row[0] for row in page.tables["devices"][1:]] == DEVICES
    assert page.tables["ports-0"][1] == ["input", content["models"][0]["inputs"][0]]
    assert "1x16x16x1" in page.tables["ports-0"][1][1]
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", page.text)
    assert describe_machine() in page.text
    assert f"nnvk {nnvk.__version__}, Python" in page.text
    assert "2 of each model on each device, after 3 that are not counted" in page.text


def test_each_chart_is_before_its_table(nnvk_command: Any, tmp_path: Path) -> None:
    page, _ = made(nnvk_command, tmp_path, FLOAT)
    charts = [value for name, value in page.attributes if name == "aria-label" and "The table after the chart" in value]
    compared = len(DEVICES) - 1
    assert len(charts) == 1 + len(DEVICES) + compared
    assert sum("logarithmic axis" in one for one in charts) == compared
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert len(re.findall(r"</figure>\s*<div class=\"wide\"[^>]*>\s*<table", text)) == text.count("<svg") == len(charts)


def test_a_part_of_the_devices_has_no_speed(nnvk_command: Any, tmp_path: Path) -> None:
    page, _ = made(nnvk_command, tmp_path, FLOAT, "--device", DEVICES[0])
    assert page.tables["summary"][1][4] == ("-" if len(DEVICES) > 1 else "1")


def test_a_folder_with_what_is_no_model(nnvk_command: Any, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    (folder / "below").mkdir(parents=True)
    shutil.copy(FLOAT, folder / "below" / "good.tflite")
    (folder / "bad.tflite").write_bytes(b"no model")
    (folder / "notes.txt").write_text("no model either")
    page, content = made(nnvk_command, tmp_path, folder, "--device", DEVICES[-1], exit_code=2)
    assert [row[0] for row in page.tables["summary"][1:]] == ["good.tflite"]
    (failure,) = page.tables["failures"][1:]
    assert failure[0] == "bad.tflite"
    assert failure[1].startswith("not a .tflite file")
    assert failure[1] == content["failures"][0]["why"]
    assert [each["what"] for each in content["failures"]] == ["bad.tflite"]


def test_names_are_only_ever_text(nnvk_command: Any, tmp_path: Path) -> None:
    net = Net([T("FLOAT32", (1, 2), name=EVIL)], [T("FLOAT32", (1, 2), name=EVIL)])
    net.op("NEG", net.inputs, net.outputs)
    path = tmp_path / f"{EVIL.replace('/', '')}.tflite"
    path.write_bytes(write(net, description=EVIL))
    page, content = made(nnvk_command, tmp_path, path)
    assert content["models"][0]["inputs"][0].startswith(EVIL)
    shown = EVIL.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e")
    assert any(shown in cell for row in page.tables["ports-0"] for cell in row)
    assert page.text.count("alert(1)") >= 2
    assert "\x1b" not in page.text and "\u202e" not in page.text


def test_a_device_that_fails_leaves_the_others(
    nnvk_command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examine = module.examine

    def fail(title: str, imported: Any, device: nnvk.Device, *more: Any) -> Any:
        if device.name == DEVICES[0]:
            raise MemoryError("3 GiB")
        return examine(title, imported, device, *more)

    monkeypatch.setattr(module, "examine", fail)
    page, content = made(nnvk_command, tmp_path, FLOAT, exit_code=2)
    assert [row[0] for row in page.tables["failures"][1:]] == [f"{FLOAT.name} on {DEVICES[0]}"]
    assert [one["device"] for one in content["models"][0]["devices"]] == DEVICES[1:]


def test_the_file_is_checked_before_the_work(nnvk_command: Any, tmp_path: Path) -> None:
    result = nnvk_command("report", FLOAT, "--out", tmp_path / "absent" / "x.html")
    reason = f"can't write x.html there (there is no such folder): {tmp_path}/absent"
    assert (result.exit_code, result.stderr) == (2, f"nnvk: {reason}\n")
    (tmp_path / "empty").mkdir()
    result = nnvk_command("report", tmp_path / "empty", "--out", tmp_path / "x.html")
    assert (result.exit_code, result.stderr) == (2, f"nnvk: there are no .tflite or .onnx files in {tmp_path}/empty\n")
    assert not (tmp_path / "x.html").exists()


def test_there_is_no_table_where_no_model_could_be_examined(nnvk_command: Any, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    result = nnvk_command("report", tmp_path / "absent.tflite", "--out", out)
    assert (result.exit_code, result.stdout) == (2, f"wrote {out}\n")
    assert "no such file" in result.stderr and "no such file" in out.read_text(encoding="utf-8")
