"""A variable of the environment with a wrong value is an error of one line."""

import pytest
from typer.testing import CliRunner

from nnvk.base import settings
from nnvk.cli.main import app


@pytest.mark.parametrize(
    "setting",
    [
        "NNVK_VALIDATION=true",
        "NNVK_VLOG=models",
        "NNVK_PARTITION=7",
        "NNVK_AVOID_SHADERS=binary.add",
        "NNVK_DISABLE_PASSES=pads",
    ],
)
def test_wrong_values(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, _, text = setting.partition("=")
    monkeypatch.setattr(settings, "_current", None)
    monkeypatch.setenv(name, text)
    result = CliRunner().invoke(app, ["devices"])
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"nnvk: {name} ")
    assert repr(text) in line
