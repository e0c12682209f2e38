"""Each call of Vulkan fails once, or never returns: a clear error or a right result, and the next load works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import fault_campaign
import onnx
import pytest
from onnx import TensorProto, helper
from processes import python
from proxy_driver import build_driver, library_of, working_driver

import nnvk

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "tests" / "support" / "faulty_driver.cpp"
DIGITS = Path(nnvk.__file__).parent / "demo" / "data" / "digits_int8.tflite"


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The manifest of the faulty driver."""
    options = ("-std=c++17", "-DVK_NO_PROTOTYPES", f"-I{ROOT / 'native'}")
    return build_driver(SOURCE, tmp_path_factory.mktemp("faulty"), "c++", *options)


@pytest.fixture
def environment(faulty: Path, tmp_path: Path) -> dict[str, str]:
    """The variables of a machine that has the faulty driver alone, which stands for one that works."""
    return {
        **os.environ,
        "VK_DRIVER_FILES": str(faulty),
        "VK_ICD_FILENAMES": str(faulty),
        "FAULTY_DRIVER": library_of(working_driver()),
        "NNVK_CACHE_DIR": str(tmp_path),
        "NNVK_KEEP_PLANS": "0",
        "NODEVICE_SELECT": "1",
    }


@pytest.fixture(scope="module")
def addition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of one operation."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [64]) for name in "abc"]
    graph = helper.make_graph([helper.make_node("Add", ["a", "b"], ["c"])], "addition", ports[:2], ports[2:])
    path = tmp_path_factory.mktemp("model") / "addition.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("temperature, calls", [("cold", "1"), ("warm", "1")])
def test_each_call_fails_once(
    faulty: Path, environment: dict[str, str], addition: Path, temperature: str, calls: str
) -> None:
    """All errors of the first calls of each function. `fault_campaign` as a program tries all calls of any model."""
    library = faulty.parent / f"lib{SOURCE.stem}.so"
    words = [sys.executable, fault_campaign.__file__, str(library), temperature, calls, str(addition)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "OUT_OF_MEMORY" in done.stdout and "OP_FAILED" in done.stdout, done.stdout


@pytest.mark.parametrize("function", ["vkQueueSubmit", "vkAllocateMemory"])
def test_patience_ends_a_call_that_never_returns(environment: dict[str, str], function: str) -> None:
    variables = {"FAULTY_ONLY": function, "FAULTY_CALL": "1", "FAULTY_ERROR": "hang"}
    python(
        """
        began = time.monotonic()
        refused("DEAD_OBJECT", add, "vulkan-0", 64)
        assert time.monotonic() - began < 60
        """,
        **environment | variables | {"NNVK_DRIVER_PROCESS": "1", "NNVK_PATIENCE": "1"},
    )


def test_a_deadline_ends_a_wait_for_work_that_never_ends(faulty: Path, environment: dict[str, str]) -> None:
    python(
        """
        import ctypes
        run = ready(compiled("vulkan-0", 64), np.zeros(64, np.float32), np.zeros(64, np.float32))
        run.set_timeout(200_000_000)
        ctypes.CDLL(sys.argv[1]).faulty_fail(ctypes.c_long(1), ctypes.c_long(-2))
        refused("MISSED_DEADLINE_TRANSIENT", run.compute)
        os._exit(0)  # else it waits for the work
        """,
        str(faulty.parent / f"lib{SOURCE.stem}.so"),
        **environment,
    )


def test_a_driver_that_does_not_tell_its_version(environment: dict[str, str]) -> None:
    """The Vulkan loader takes it for one of Vulkan 1.0, and answers in its place; the device itself says more."""
    python(
        """
        if "vulkan-0" in [device.name for device in nnvk.get_devices()]:
            nnvk.load(sys.argv[1], device="vulkan-0")
        else:
            assert "nnvk needs 1.1" in str(nnvk.unavailable()), nnvk.unavailable()
        """,
        str(DIGITS),
        **environment,
        FAULTY_ONLY="vkEnumerateInstanceVersion",
        FAULTY_CALL="1",
        FAULTY_ERROR="0",
    )
