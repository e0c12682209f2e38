"""``nnvk tune``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nnvk import get_devices
from nnvk.demo.assets import DATA


def test_it_measures_and_says_what_it_found(nnvk_command: Any) -> None:
    if not get_devices()[0].name.startswith("vulkan"):
        pytest.skip("there is no Vulkan device")
    result = nnvk_command("tune", DATA / "digits_int8.tflite", "--json")
    assert result.exit_code == 0, result.output
    (model,) = json.loads(result.stdout)["models"]
    operations = {each["operation"] for each in model["operations"]}
    assert operations - {"DEPTHWISE_CONV_2D"} == {"CONV_2D", "FULLY_CONNECTED"}
    assert all(each["strategy"].endswith("(measured)") for each in model["operations"])
    text = nnvk_command("tune", DATA / "digits_int8.tflite").stdout
    assert f"{len(model['operations'])} operations with a choice of strategies" in text
