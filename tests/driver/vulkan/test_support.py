"""Why a device does not run an operation: each reason by itself, and which one is given where there are several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from builder import Builder
from fused import F32, Net, Op
from profiles import GPU
from rewritten import graph_of, library, native, nothing

from nnvk.check.model_rows import parse
from nnvk.driver.vulkan.graph.builder import build
from nnvk.driver.vulkan.lowering.kernel import Kernel, kernels
from nnvk.driver.vulkan.planning import support as module
from nnvk.driver.vulkan.planning.support import refuse, support
from nnvk.driver.vulkan.shaders.commands import padded
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.ops.call import Call, UnknownValue
from nnvk.types.codes import OperandCode
from nnvk.types.model import Model
from nnvk.types.operand import OperandType

ADD = "ADD f32[3,5] f32[5] NONE"


def call_of_row(text: str, *shapes: tuple[int, ...]) -> Call:
    """The call of a row's operation, with inputs of these shapes instead of its own."""
    model = parse(text).model
    if not shapes:
        return graph_of(model).nodes[0].call
    return build(model, list(shapes), {}, nothing)[0].nodes[0].call


class Lacking(ShaderLibrary):
    """A library whose device lacks what some shaders need."""

    def __init__(self, *families: str) -> None:
        super().__init__()
        self.families = families

    def refuse(self, shader: Shader, features: frozenset[str]) -> str | None:
        return f"{shader.name} is lacking" if shader.name in self.families else None


def with_kernel(monkeypatch: pytest.MonkeyPatch, call: Call, **changes: object) -> Kernel:
    """Let the kernel of a call be another one."""
    kernel = replace(kernels()[call.code], **changes)  # type: ignore[arg-type]
    monkeypatch.setattr(module, "kernels", lambda: {call.code: kernel})
    return kernel


def test_operations_without_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    call = call_of_row(ADD)
    assert refuse(call, GPU, library()) is None
    monkeypatch.setattr(module, "kernels", dict)
    assert refuse(call, GPU, library()) == "ADD has no shader"


@pytest.mark.parametrize("which", [0, 1])
def test_each_of_its_shaders_has_to_run(which: int) -> None:
    call = call_of_row(ADD)
    families = [shader.name for shader in kernels()[call.code].shaders]
    assert len(families) == 2
    assert refuse(call, GPU, Lacking(families[which])) == f"{families[which]} is lacking"


def test_the_order_of_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Features that the device lacks come before the reason of the kernel; variants that are avoided come last."""
    call = call_of_row(ADD)
    kernel = with_kernel(monkeypatch, call, refuse=lambda each: f"{each.code.name} is too much")
    names = frozenset(variant.name for shader in kernel.shaders for variant in shader.variants)
    avoiding = replace(GPU, avoided=names)
    assert refuse(call, avoiding, Lacking("binary")) == "binary is lacking"
    assert refuse(call, avoiding, library()) == "ADD is too much"
    with_kernel(monkeypatch, call, refuse=lambda each: None)
    assert (refuse(call, avoiding, library()) or "").endswith("is avoided (NNVK_AVOID_SHADERS)")
    assert refuse(call, GPU, library()) is None
    with_kernel(monkeypatch, call, refuse=None)
    assert (refuse(call, avoiding, library()) or "").endswith("is avoided (NNVK_AVOID_SHADERS)")


def test_what_is_not_known_yet_is_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    call = call_of_row(ADD)

    def later(call: Call) -> str | None:
        raise UnknownValue(0, "the activation")

    with_kernel(monkeypatch, call, refuse=later)
    assert refuse(call, GPU, library()) is None


@pytest.mark.parametrize(
    ("text", "shapes", "is_refused"),
    [
        ("GATHER f32[10,64] 0 i32[3]<10", [(10, 64), (0,)], True),  # it checks the indices all the same
        ("GATHER f32[10,64] 0 i32[3]<10", [(10, 64), (3,)], True),
        ("ADD f32[3,5] f32[5] NONE", [(0, 5), (5,)], False),
        ("ADD f32[3,5] f32[5] NONE", [(3, 5), (5,)], True),
    ],
)
def test_what_nothing_runs_for_needs_no_shader(text: str, shapes: Sequence[tuple[int, ...]], is_refused: bool) -> None:
    call = call_of_row(text, *shapes)
    names = {each.name for shader in kernels()[call.code].shaders for each in shader.variants}
    native_names = {each.native.name for shader in kernels()[call.code].shaders for each in shader.variants}
    profile = replace(native(), avoided=frozenset(names | native_names))
    assert bool(refuse(call, profile, library())) == is_refused


def test_the_largest_output_of_a_call_is_lowered() -> None:
    """The data decides how many rows there are, so that a shape of no rows says nothing."""
    row = parse("NON_MAX_SUPPRESSION f32[3,5,4] f32[3,2,5] 4 f32[1]=0.5 f32[1]=0 0 false 0.5f -> i32 f32 i32")
    call = graph_of(row.model).nodes[0].call
    names = {each.name for shader in kernels()[call.code].shaders for each in shader.variants}
    assert refuse(call, replace(GPU, avoided=frozenset(names)), library()) is not None
    assert [output.shape for output in call.outputs] == [
        output.shape for output in graph_of(row.model).nodes[0].call.outputs
    ]


def doubled(net_type: OperandType) -> Model:
    build_ = Builder()
    x = build_.operand(net_type)
    return build_.finish([x], [build_.operation(Op.ADD, [x, x, build_.value(0)], net_type)]).frozen


@pytest.mark.parametrize("columns", [63, 64, 65])
@pytest.mark.parametrize("code", [F32, OperandCode.TENSOR_FLOAT16])
def test_a_tensor_of_so_many_bytes_can_be_bound(columns: int, code: OperandCode) -> None:
    type_ = OperandType(code, (3, columns))
    nbytes = padded(3 * columns * type_.dtype.itemsize)
    for most, is_refused in ((nbytes, False), (nbytes - 1, True)):
        (reason,) = support(doubled(type_), replace(GPU, max_buffer=most), library())
        assert reason == (f"input0 takes {nbytes} bytes, the device binds at most {most}" if is_refused else None)


def test_tensors_whose_sizes_are_known_are_refused_beside_others() -> None:
    net = Net()
    x = net.build.operand(OperandType(F32, (0, 64)))
    net.inputs.append(x)
    model = net.finish(net.op(Op.FULLY_CONNECTED, x, net.weights(32, 64), net.weights(32), net.code(0)))
    assert support(model, GPU, library()) == [None]
    (reason,) = support(model, replace(GPU, max_buffer=32 * 64 * 4 - 1), library())
    assert reason == f"weights takes {32 * 64 * 4} bytes, the device binds at most {32 * 64 * 4 - 1}"


def test_each_operation_of_a_model_has_its_own_reason() -> None:
    net = Net()
    small = net.op(Op.ABS, net.input(3, 5))
    large = net.op(Op.RESHAPE, net.op(Op.ABS, net.input(3, 500)), np.array([1500], np.int32))
    model = net.finish(small, large)
    reasons = support(model, replace(GPU, max_buffer=5000), library())
    assert [reason is None for reason in reasons] == [True, False, False]
    assert not any(support(model, replace(GPU, max_buffer=6144), library()))
