"""``nnvk devices``."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from nnvk import get_devices, unavailable
from nnvk.base.settings import override
from nnvk.cli.main import app
from nnvk.runtime.devices import manager


def test_the_table_has_every_device() -> None:
    result = CliRunner().invoke(app, ["devices"])
    assert result.exit_code == 0
    header, *rows = result.stdout.splitlines()
    assert header.split() == ["device", "type", "version", "feature", "level"]
    for device, row in zip(get_devices(), rows, strict=False):
        assert row.startswith(device.name)
        assert device.type.name in row
        assert device.version in row


def test_json() -> None:
    result = CliRunner().invoke(app, ["devices", "--json"])
    assert result.exit_code == 0
    printed = json.loads(result.stdout)
    assert [device["name"] for device in printed["devices"]] == [device.name for device in get_devices()]
    assert printed["devices"][-1]["type"] == "CPU"
    assert printed["devices"][-1]["feature_level"] == 1000008
    assert printed["unavailable"] == unavailable()


def test_it_says_why_the_gpu_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "_devices", None)
    with override(vulkan=False):
        table = CliRunner().invoke(app, ["devices"])
        printed = json.loads(CliRunner().invoke(app, ["devices", "--json"]).stdout)
    assert table.exit_code == 0
    assert table.stdout.splitlines()[-1] == "not available: Vulkan is switched off by NNVK_VULKAN=0"
    assert [device["name"] for device in printed["devices"]] == ["nnapi-reference"]
    assert printed["unavailable"] == ["Vulkan is switched off by NNVK_VULKAN=0"]
