"""Plans as plain data: what each command has, and why some models have no plan before an execution."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fused import F32, Net, Op, joined, maximum
from profiles import GPU
from rewritten import library, native

from nnvk.base.errors import NnapiError
from nnvk.driver.vulkan.planning.outline import outline
from nnvk.driver.vulkan.shaders.passes import Pass
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.types.codes import OperandCode
from nnvk.types.model import Model
from nnvk.types.operand import OperandType


def outlined(model: Model, profile: DeviceProfile = GPU) -> dict[str, Any]:
    """The outline as it comes out of a file."""
    content: dict[str, Any] = json.loads(json.dumps(outline(model, profile, library())))
    return content


def chain() -> Model:
    """Two convolutions, and what reads both."""
    net = Net()
    x = net.conv(net.input(1, 5, 7, 8), 8, 8)
    return net.finish(maximum(net, joined(net, 3, x, net.conv(x, 4, 8))))


def test_commands() -> None:
    model = chain()
    commands = outlined(model)["commands"]
    dispatches = [each for each in commands if each["kind"] == "dispatch"]
    assert not commands[0]["barrier"]
    assert any(each["barrier"] for each in commands)
    for each in dispatches:
        assert each["code"] == model.operations[each["operation"]].code.name
        assert each["shader"].partition(".")[0] in each["spirv"]
        assert np.prod(each["local"]) <= GPU.max_invocations
        shader = library().named(each["shader"])
        assert shader.named_constants(each["specialization"]) == each["constants"]
        assert [each["name"] for each in sorted(each["tensors"], key=lambda one: one["binding"])] == list(
            shader.bindings
        )
        for tensor in each["tensors"]:
            assert tensor["read"] == (tensor["name"] in shader.reads)
            assert tensor["written"] == (tensor["name"] in shader.writes)
    gemms = [each for each in dispatches if each["shader"].startswith("gemm")]
    assert len(gemms) == 2
    assert all(each["strategy"] for each in gemms)
    assert not any(each["strategy"] for each in dispatches if each not in gemms)


def test_memory_and_passes() -> None:
    found = outlined(chain())
    assert set(found["memory"]) == {"arena", "constants", "staging", "upload"}
    assert all(size > 0 for sizes in found["memory"].values() for size in sizes)
    assert found["passes"] == {each.value: found["passes"][each.value] for each in Pass}
    assert found["passes"]["in_place"] > 0


def test_copies_and_clears() -> None:
    """A device with memory of its own copies inputs there; split-K counts the K slices that are ready."""
    net = Net()
    commands = outlined(net.finish(net.dense(net.input(8, 4096), 16, 4096)), native())["commands"]
    assert {each["kind"] for each in commands} >= {"copy", "dispatch"}
    copies = [each for each in commands if each["kind"] == "copy"]
    assert copies[0]["bytes"] == 8 * 4096 * 4
    for each in commands:
        if each["kind"] != "dispatch":
            assert set(each) == {"barrier", "kind", "bytes", "strategy"}
            assert each["bytes"] > 0


def test_numbers_that_are_no_numbers_are_words() -> None:
    net = Net()
    commands = outlined(net.finish(net.op(Op.ADD, net.input(2, 3, 5), net.input(1, 3, 1), net.code(0))))["commands"]
    words = [value for each in commands for value in each.get("push_constants", {}).values() if isinstance(value, str)]
    assert set(words) <= {"inf", "-inf", "nan"}
    assert words


def test_the_text_of_each_pass() -> None:
    seen: list[str] = []
    outline(chain(), GPU, library(), observe=lambda name, lines: seen.append(f"{name} {len(list(lines))}"))
    names = [each.split()[0] for each in seen]
    assert names[0] == "build"
    assert names.index("lower") > names.index("epilogue")
    assert names[-1] == "outputs"
    assert seen[0] == "build 4"


# --- models without a plan ---------------------------------------------------------------------------------------


def reason(model: Model, profile: DeviceProfile = GPU) -> str:
    with pytest.raises(NnapiError) as raised:
        outline(model, profile, library())
    return raised.value.reason


def test_open_dimensions() -> None:
    net = Net()
    x = net.build.operand(OperandType(F32, (0, 5)))
    net.inputs.append(x)
    assert reason(net.finish(net.op(Op.ABS, x))).startswith("operand 0 is an input of open dimensions")


def test_values_that_come_with_an_execution() -> None:
    net = Net()
    x = net.input(3, 5)
    shape = net.input(2, code=OperandCode.TENSOR_INT32)
    text = reason(net.finish(net.op(Op.RESHAPE, x, shape)))
    assert text.startswith("it is planned at execution, for the value of operand 1")


def test_what_the_device_refuses() -> None:
    net = Net()
    model = net.finish(net.op(Op.ABS, net.input(64, 64)))
    small = replace(GPU, name="a small one", max_buffer=4096)
    assert reason(model, small).startswith("ABS can't be planned for a small one: input takes 16384 bytes")
    assert outline(model, replace(GPU, max_buffer=16384), library())["commands"]
