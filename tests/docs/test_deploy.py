"""The page about deployment: its web service answers, and the image has the packages that nnvk needs at run time."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnvk
from nnvk.demo.assets import MODELS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of the service's program, with a model of the demo as its file."""
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    (program,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    shutil.copy(MODELS[0].path, tmp_path / "model.tflite")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "service"}
    exec(compile(program, "deploy.md", "exec"), names)
    return names


def test_the_service_computes_what_the_model_does(service: dict[str, Any]) -> None:
    from_fastapi = pytest.importorskip("fastapi.testclient")
    with nnvk.load("model.tflite") as model, from_fastapi.TestClient(service["app"]) as client:
        values = np.linspace(0, 1, model.inputs[0].shape[1] ** 2, dtype=np.float32).reshape(model.inputs[0].shape)
        answer = client.post("/run", json=values.tolist())
        assert answer.status_code == 200
        np.testing.assert_array_equal(answer.json()[model.outputs[0].name], model(values))
        assert client.get("/health").json() == {"ok": True}


def test_the_service_refuses_wrong_and_too_many_requests(service: dict[str, Any]) -> None:
    from_fastapi = pytest.importorskip("fastapi.testclient")
    with from_fastapi.TestClient(service["app"]) as client:
        for wrong in ([1, 2, 3], [[1], [2, 3]], ["a"]):
            answer = client.post("/run", json=wrong)
            assert answer.status_code == 422
            assert "of shape (1, " in answer.json()["detail"]
        service["waiting"] = service["MOST_WAITING"]
        assert client.post("/run", json=[0]).status_code == 422
        values = np.zeros(service["model"].inputs[0].shape).tolist()
        assert client.post("/run", json=values).status_code == 503
        service["waiting"] = 0
        assert client.post("/run", json=values).status_code == 200


def test_a_lost_device_is_not_healthy(service: dict[str, Any]) -> None:
    from_fastapi = pytest.importorskip("fastapi.testclient")
    with from_fastapi.TestClient(service["app"]) as client:
        model = service["model"]

        def lose(*inputs: object) -> None:
            raise nnvk.NnapiError(nnvk.ResultCode.DEAD_OBJECT, "the device is lost")

        lose.inputs, lose.close = model.inputs, model.close  # type: ignore[attr-defined]
        service["model"] = lose
        answer = client.get("/health")
        assert (answer.status_code, answer.json()) == (503, {"ok": False, "reason": "the device is lost"})


def test_the_image_has_the_packages_of_the_scripts() -> None:
    image = (ROOT / "Containerfile").read_text(encoding="utf-8")
    table = (ROOT / "scripts" / "packages.sh").read_text(encoding="utf-8")
    (installed,) = re.findall(r"--no-install-recommends (.*?) *\\$", image, re.MULTILINE)
    debian = dict(re.findall(r"^(\S+) +(\S+) +\S+ +\S+ +\S+$", table, re.MULTILINE))
    needed = [debian[name] for name in ("python", "venv", "libvulkan.so.1", "vulkan-driver")]
    assert installed.split() == needed


def test_the_image_takes_nnvk_from_the_folder_alone() -> None:
    """The index may have a stranger's package of the same name."""
    image = (ROOT / "Containerfile").read_text(encoding="utf-8")
    (first, *_) = re.findall(r"pip install (.*?) *\\?$", image, re.MULTILINE)
    assert {"--no-index", "--no-deps"} < set(first.split())
