"""``--relaxed``, of all commands that run models."""

from __future__ import annotations

from typing import Any

import pytest

import nnvk
from nnvk.demo.assets import DATA
from nnvk.importers import formats

MODEL = DATA / "digits_float.tflite"
COMMANDS = {
    "info": ["info", MODEL],
    "run": ["run", MODEL, "--input", DATA / "0007_label7.png"],
    "bench": ["bench", MODEL, "--runs", "1"],
    "tune": ["tune", MODEL],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_model_is_relaxed_where_that_is_asked_for(
    nnvk_command: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    loaded: list[Any] = []
    load = formats.ModelFile.load

    def recording(*arguments: Any, **named: Any) -> Any:
        loaded.append(load(*arguments, **named))
        return loaded[-1]

    monkeypatch.setattr(formats.ModelFile, "load", recording)
    for options in ([], ["--relaxed"]):
        result = nnvk_command(*COMMANDS[name], *options)
        assert result.exit_code == 0, result.output
    assert [imported.model.frozen.relaxed for imported in loaded] == [False, True]


@pytest.mark.usefixtures("any_gemm_pays")
def test_info_says_what_comes_of_it(nnvk_command: Any) -> None:
    """On devices with 16-bit floats of their own; on others there is nothing to choose."""
    devices = [device for device in nnvk.get_devices() if device.name == "vulkan-0"]
    if not devices:
        pytest.skip("there is no Vulkan device")
    for relaxed in (False, True):
        result = nnvk_command("info", MODEL, "--device", "vulkan-0", *(["--relaxed"] if relaxed else []))
        said = "-bit floats between operations (" in result.output
        assert said == (relaxed and devices[0].driver.profile.has_native_16)
