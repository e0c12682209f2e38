"""``nnvk graph``: a page that holds all it needs, a text for Graphviz, and errors."""

from __future__ import annotations

import json
import re
import webbrowser
from pathlib import Path
from typing import Any

import pytest
from tflite_net import Net, T, write

import nnvk
from nnvk.demo.assets import DATA

MODEL = DATA / "digits_int8.tflite"
CPU = nnvk.get_devices()[-1].name
EVIL = '"></script><script>alert(1)</script>\x1b'


def test_both_files(nnvk_command: Any, tmp_path: Path) -> None:
    html, dot = tmp_path / "a.html", tmp_path / "a.dot"
    result = nnvk_command("graph", MODEL, "--html", html, "--dot", dot, "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        f"{MODEL.name}: 11 operations: 11 on {CPU}",
        f"wrote {html}",
        f"wrote {dot}",
    ]
    text = html.read_text(encoding="utf-8")
    data = json.loads(re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)[0])
    assert [node["key"] for node in data["nodes"]] == ["input0", *(f"op{n}" for n in range(11)), "output0"]
    assert "0 CONV_2D\nstem" in data["nodes"][1]["label"]
    assert len(data["edges"]) == 13
    assert not re.findall(r'(?:src|href)="', text)
    assert len(re.findall(r"sha256-[\w+/]{43}=", text)) == 3
    shown = json.loads(nnvk_command("graph", MODEL, "--device", "cpu", "--json").stdout)
    assert [node["key"] for node in shown["nodes"]] == [node["key"] for node in data["nodes"]]
    assert shown["edges"] == data["edges"]
    drawn = dot.read_text(encoding="utf-8")
    assert set(re.findall(r"^  (\w+) -> (\w+) ", drawn, re.MULTILINE)) == {
        (edge["source"], edge["target"]) for edge in data["edges"]
    }


def test_names_are_only_ever_text(nnvk_command: Any, tmp_path: Path) -> None:
    net = Net([T("FLOAT32", (1, 2))], [T("FLOAT32", (1, 2), name=EVIL)])
    net.op("NEG", net.inputs, net.outputs)
    path = tmp_path / "model.tflite"
    path.write_bytes(write(net))
    result = nnvk_command("graph", path, "--html", tmp_path / "a.html")
    assert result.exit_code == 0, result.output
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "alert(1)" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("opens", [True, False])
def test_a_browser_opens_it(nnvk_command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opens: bool) -> None:
    opened: list[str] = []

    def open_(address: str) -> bool:
        opened.append(address)
        return opens

    monkeypatch.setattr(webbrowser, "open", open_)
    result = nnvk_command("graph", MODEL, "--html", tmp_path / "a.html", "--open")
    assert opened == [(tmp_path / "a.html").as_uri()]
    assert result.exit_code == (0 if opens else 2)
    assert result.stderr == ("" if opens else f"nnvk: there is no browser to open {tmp_path}/a.html in\n")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "give the file to write: --html FILE, --dot FILE or --json"),
        (["--dot", "/tmp/x.dot", "--open"], "--open opens the page: give --html FILE too"),
        (["--dot", "/absent/x.dot"], "can't write x.dot there (there is no such folder): /absent"),
        (["--html", "/"], "can't be written (is a directory): /"),
    ],
)
def test_errors_are_one_line(nnvk_command: Any, arguments: list[str], error: str) -> None:
    result = nnvk_command("graph", MODEL, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"nnvk: {error}")
    assert result.stderr.count("\n") == 1
