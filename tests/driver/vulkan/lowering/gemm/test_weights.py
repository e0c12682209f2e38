"""Weights that several operations share are packed and carried once, and every form of them is the right one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from against_reference import check_like_the_reference
from generators import Draw, draw_case, frozen
from profiles import DISCRETE

from nnvk.check.model_rows import Row, parse
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.lowering.gemm import weights
from nnvk.driver.vulkan.planning.planner import lower
from nnvk.driver.vulkan.shaders.commands import Storage
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.constant import bytes_of
from nnvk.types.model import Model
from nnvk.types.operand import Shape


def repeated(model: Model, times: int) -> Model:
    """The one operation of a model as often as that, with the same inputs and outputs of their own."""
    (operation,) = model.operations
    count = len(operation.outputs)
    first = len(model.operands) - count  # outputs come last
    outputs = range(first, first + times * count)
    operations = tuple(replace(operation, outputs=tuple(outputs[i : i + count])) for i in range(0, len(outputs), count))
    operands = (*model.operands[:first], *model.operands[first:] * times)
    return Model(operands, operations, model.inputs, tuple(outputs))


def carried(library: ShaderLibrary, model: Model) -> int:
    """Bytes of constants in a plan."""
    shapes = [type_.dimensions for type_ in model.input_types()]
    profile = replace(DISCRETE, max_buffer=1 << 28)
    return sum(lower(model, shapes, profile, library).pages[Storage.CONSTANTS])


@pytest.mark.parametrize(
    "text",
    [
        "CONV_2D f32[1,5,5,99] #f32[50,3,3,99] #f32[50] SAME 1 1 NONE nhwc",
        "CONV_2D f16[1,5,5,99] #f16[50,3,3,99] #f16[50] SAME 1 1 NONE nhwc",
        "CONV_2D u8[1,5,5,99]*0.05+120 #u8[50,3,3,99]*0.02+131 #i32[50] SAME 1 1 NONE nhwc -> u8*0.08+100",
        "CONV_2D i8[1,5,5,99]*0.05-7 #pc0[3,9,9,99] #i32[3] SAME 1 1 NONE nhwc -> i8*0.08-20",
        "GROUPED_CONV_2D f32[1,5,5,198] #f32[50,3,3,99] #f32[50] SAME 1 1 2 NONE nhwc",
        "TRANSPOSE_CONV_2D f16[1,5,5,99] #f16[50,3,3,99] #f16[50] 0 0 0 0 2 2 NONE nhwc",
        "DEPTHWISE_CONV_2D f32[1,5,5,99] #f32[1,3,3,99] #f32[99] SAME 1 1 1 NONE nhwc",
        "FULLY_CONNECTED f32[1,999] #f32[50,999] #f32[50] NONE",
        "FULLY_CONNECTED f16[9,999] #f16[50,999] #f16[50] NONE",
        "BATCH_MATMUL f32[1,9,999] #f32[1,999,50]",
        "BATCH_MATMUL i8[1,9,999]*0.5+3 #i8[1,3,999]*0.25-7 false true -> i8*9.5-20",
    ],
    ids=str,
)
def test_filters_are_carried_once(text: str) -> None:
    """An operation's own, small constants are less than a thirtieth of its filter."""
    library, model = ShaderLibrary(), parse(text).model
    assert carried(library, repeated(model, 30)) < 2 * carried(library, model)


class LargeDraw(Draw):
    """All sizes are as large."""

    def sizes(self, rank: int, most: int = 5) -> Shape:
        return (31,) * rank


@pytest.mark.parametrize("leading", [OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_FLOAT16], ids=str)
@pytest.mark.parametrize("code", [OperationCode.RNN, OperationCode.LSTM, OperationCode.SVDF], ids=str)
def test_weights_of_unrolled_cells_are_carried_once(code: OperationCode, leading: OperandCode) -> None:
    library = ShaderLibrary()
    for seed in range(4):
        model = frozen(draw_case(LargeDraw(seed), code, leading))
        assert carried(library, repeated(model, 10)) < 2 * carried(library, model)


def test_filters_are_packed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not before they are wanted."""
    packings = []
    pack = weights.pack
    monkeypatch.setattr(weights, "pack", lambda *arguments: packings.append(arguments) or pack(*arguments))
    model = repeated(parse("CONV_2D f32[1,5,5,8] #f32[40,3,3,8] #f32[40] SAME 1 1 NONE nhwc").model, 2000)
    plan = lower(model, [type_.dimensions for type_ in model.input_types()], DISCRETE, ShaderLibrary())
    assert not packings
    for _, data in plan.constants:
        bytes_of(data)
    assert len(packings) == 1


@pytest.mark.parametrize("kind", ["f32", "f16", "i32", "i8*0.5+3"])
@pytest.mark.parametrize("size", [3, 40])
def test_a_filter_in_several_forms(vulkan: VulkanDevice, kind: str, size: int) -> None:
    """As it is and transposed: the forms are not taken for each other."""
    type_, _, quantisation = kind.partition("*")
    scale = f"*{quantisation}" if quantisation else ""
    draw = "" if scale else "~3"
    row = parse(f"BATCH_MATMUL {type_}[2,9,{size}]{scale}{draw} #{type_}[2,{size},{size}]{scale}{draw} false false")
    (operation,), operands = row.model.operations, list(row.model.operands)
    left, right, adj_x, plain = operation.inputs
    *_, output = operands
    transposed = len(operands)
    operands += [replace(operands[plain], constant=np.array(True)), output, output]
    again = [
        replace(operation, inputs=(left, right, adj_x, transposed), outputs=(transposed + 1,)),
        replace(operation, outputs=(transposed + 2,)),
    ]
    outputs = (*operation.outputs, transposed + 1, transposed + 2)
    model = Model(tuple(operands), (operation, *again), row.model.inputs, outputs)
    check_like_the_reference(vulkan, Row(model, row.inputs))
