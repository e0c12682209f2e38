"""16-bit floats of relaxed models: which operations have them, and who converts at their edges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fused import F16, F32, Net, Op
from rewritten import codes, context_of, graph_of, native, rewritten, through
from verified import run

from nnvk.check.model_rows import parse, reference
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.graph.ir import Graph
from nnvk.driver.vulkan.planning.passes import PIPELINE
from nnvk.driver.vulkan.planning.passes.conversions import fuse_conversions
from nnvk.driver.vulkan.planning.passes.fp16 import FLOAT16, FLOAT32, LARGEST, nodes_in_float16, ranked, use_float16
from nnvk.driver.vulkan.shaders.profile import NATIVE_16
from nnvk.ops.internal import InternalCode
from nnvk.types.codes import OperandCode
from nnvk.types.model import Model
from nnvk.types.operand import OperandType
from nnvk.types.request import PrepareOptions

pytestmark = pytest.mark.usefixtures("any_gemm_pays")
NEAR = 5e-2
"""How much results of 16-bit floats may differ."""


def relaxed(net: Net, *outputs: int) -> Model:
    return net.finish(*outputs).with_relaxed(True)


def chosen(model: Model) -> list[str]:
    """The operations that are computed on 16-bit floats."""
    graph = graph_of(model)
    found = nodes_in_float16(graph)
    return [node.code.name for node in graph.nodes if node in found]


def weights(net: Net, *shape: int, size: float = 1.0) -> int:
    return net.build.value(np.full(shape, size, np.float32))


def dense(net: Net, x: int, outputs: int, depth: int, size: float = 1.0, bias: float = 1.0) -> int:
    return net.op(
        Op.FULLY_CONNECTED, x, weights(net, outputs, depth, size=size), weights(net, outputs, size=bias), net.code(0)
    )


@pytest.mark.parametrize(
    ("size", "is_narrow"),
    [(1.0, True), (0.0, True), (LARGEST, True), (65505.0, False), (2.0**-14, True), (2.0**-14.1, False)],
)
@pytest.mark.parametrize("which", ["weights", "bias"])
def test_constants_in_the_range_of_16_bits(size: float, which: str, is_narrow: bool) -> None:
    net = Net()
    sizes = {"size": size} if which == "weights" else {"bias": size}
    assert chosen(relaxed(net, dense(net, net.input(2, 3), 4, 3, **sizes))) == ["FULLY_CONNECTED"] * is_narrow


def test_16_bits_begin_at_gemms() -> None:
    net = Net()
    x = net.op(Op.TANH, net.input(2, 3))
    y = net.op(Op.TANH, dense(net, x, 4, 3))
    model = relaxed(net, net.op(Op.ABS, net.op(Op.MUL, y, y)), net.op(Op.SQRT, net.op(Op.ABS, y)))
    # MUL reads the result of TANH in 32 bits, so that ABS and SQRT find it there.
    assert chosen(model) == ["FULLY_CONNECTED", "TANH"]


def test_operations_on_other_numbers_do_not_have_them() -> None:
    net = Net()
    y = dense(net, net.input(2, 3), 4, 3)
    found = net.build.operation(Op.ARGMAX, [y, net.code(1)], replace(net.real, code=OperandCode.TENSOR_INT32))
    table = net.op(Op.GATHER, net.input(5, 3), net.code(0), found)
    assert "GATHER" not in chosen(relaxed(net, table))


def test_normalisations_do_not_have_them() -> None:
    """Neither their squares and roots, nor what these are applied to."""
    net = Net()
    y = dense(net, net.input(2, 16), 16, 16)
    mean = net.op(Op.MEAN, y, np.array([1], np.int32), net.code(1))
    less = net.op(Op.SUB, y, mean)
    root = net.op(Op.RSQRT, net.op(Op.MEAN, net.op(Op.MUL, less, less), np.array([1], np.int32), net.code(1)))
    scaled = net.op(Op.MUL, root, weights(net, 16))
    result = net.op(Op.ADD, net.op(Op.MUL, less, scaled), weights(net, 16))
    after = dense(net, result, 4, 16)
    # The mean of something else is subtracted as any number is.
    other = net.op(Op.SUB, y, net.op(Op.MEAN, net.op(Op.ABS, y), np.array([1], np.int32), net.code(1)))
    model = relaxed(net, after, other)
    assert chosen(model) == ["FULLY_CONNECTED", "FULLY_CONNECTED", "ABS", "MEAN", "SUB"]


@pytest.mark.parametrize(
    ("is_cpu", "features", "is_relaxed"),
    [(False, True, True), (True, True, True), (False, False, True), (False, True, False)],
)
def test_when_relaxed_models_have_them(is_cpu: bool, features: bool, is_relaxed: bool) -> None:
    profile = replace(native(), is_cpu=is_cpu)
    if not features:
        profile = replace(profile, features=profile.features - NATIVE_16)
    net = Net()
    model = net.finish(dense(net, net.input(2, 3), 4, 3)).with_relaxed(is_relaxed)
    graph, count = rewritten(model, use_float16, profile=profile, near=NEAR)
    assert count == (not is_cpu and features and is_relaxed)
    assert ("CONVERT_FLOAT" in codes(graph)) == bool(count)


def test_a_cpu_has_them_if_that_was_measured_to_be_faster() -> None:
    assert ranked(native()) == [FLOAT16, FLOAT32]
    assert ranked(replace(native(), is_cpu=True)) == [FLOAT32, FLOAT16]
    net = Net()
    model = relaxed(net, dense(net, net.input(2, 3), 4, 3))
    asked: list[tuple[str, bool]] = []

    def choose(tuning_key: str, ranked: Any, *, of_all: bool) -> str:
        asked.append((tuning_key, of_all))
        return FLOAT16

    context = replace(context_of(model, replace(native(), is_cpu=True)), choose=choose)
    _, count = use_float16(graph_of(model), context)
    assert (count, [of_all for _, of_all in asked]) == (1, [True])
    other = Net()
    use_float16(graph_of(relaxed(other, dense(other, other.input(5, 3), 4, 3))), context)
    assert len({key for key, _ in asked}) == 2, "another model is measured by itself"


def test_nothing_to_compute_on_16_bits() -> None:
    net = Net()
    model = relaxed(net, net.op(Op.TANH, net.input(2, 3)))
    graph = graph_of(model)
    assert use_float16(graph, context_of(model)) == (graph, 0)


def narrowed(net: Net, *outputs: int) -> Graph:
    graph, _ = rewritten(relaxed(net, *outputs), use_float16, near=NEAR)
    return graph


def test_conversions_stand_at_the_edges() -> None:
    """One for a tensor that several read, and none between operations on 16 bits; numbers beyond are saturated."""
    net = Net()
    x = net.input(2, 3)
    one, two = dense(net, x, 4, 3), dense(net, x, 4, 3)
    total = net.op(Op.ADD, one, two)
    graph = narrowed(net, total, net.op(Op.SQRT, total))
    assert codes(graph) == ["CONVERT_FLOAT", "FULLY_CONNECTED", "FULLY_CONNECTED", "ADD", "CONVERT_FLOAT", "SQRT"]
    conversions = [node.call for node in graph.nodes if node.code is InternalCode.CONVERT_FLOAT]
    assert [(call.output.code, call.saturate) for call in conversions] == [(F16, True), (F32, False)]


# --- who converts ------------------------------------------------------------------------------------------------


def fused(net: Net, *outputs: int, **options: Any) -> tuple[list[str], int]:
    """The operations after the passes up to `fuse_conversions`."""
    graph, count = rewritten(relaxed(net, *outputs), *through(fuse_conversions), near=NEAR, **options)
    return codes(graph), count


def image(net: Net, channels: int, **input_options: Any) -> int:
    return net.input(1, 6, 5, channels, **input_options)


def conv(net: Net, x: int, outputs: int, depth: int) -> int:
    rest = [net.code(each) for each in (1, 1, 1, 0)]
    return net.op(Op.CONV_2D, x, weights(net, outputs, 3, 3, depth, size=0.1), weights(net, outputs), *rest)


def test_a_gemm_converts_images_of_few_channels() -> None:
    net = Net()
    y = conv(net, image(net, 3), 4, 3)
    names, count = fused(net, net.op(Op.SQRT, y))
    assert (names, count) == (["CONV_2D<1", "CONVERT_FLOAT", "SQRT"], 1)


def test_the_conversion_before_a_gemm_saturates() -> None:
    net = Net()
    graph, _ = rewritten(relaxed(net, conv(net, image(net, 3), 4, 3)), *through(fuse_conversions), near=NEAR)
    (before,) = (node.prologue for node in graph.nodes if node.prologue)
    assert [(call.code, call.saturate) for call in before] == [(InternalCode.CONVERT_FLOAT, True)]
    assert graph.nodes[0].operations == {0}


def test_conversions_to_32_bits_alone() -> None:
    net = Net()
    x = net.op(Op.CAST, net.input(3, 32, code=F16), type_=OperandType(F32))
    square = net.op(Op.MEAN, net.op(Op.MUL, x, x), np.array([1], np.int32), net.code(1))
    y = net.op(Op.MUL, x, net.op(Op.RSQRT, net.op(Op.ADD, square, net.scalar(1.0))))
    graph, count = rewritten(net.finish(y), *through(fuse_conversions), near=NEAR)
    assert (codes(graph), count) == (["ROW_NORM"], 1)
    assert graph.nodes[0].call.input.code is F16


@pytest.mark.parametrize("change", ["many channels", "read twice"])
def test_images_that_are_converted_before(change: str) -> None:
    net = Net()
    channels = 16 if change == "many channels" else 3
    x = image(net, channels)
    outputs = [conv(net, x, 4, channels)]
    if change == "read twice":
        outputs.append(conv(net, conv(net, x, 8, channels), 8, 8))
    names, _ = fused(net, *outputs)
    assert names[0] == "CONVERT_FLOAT"


def test_a_row_norm_reads_and_stores_16_bits() -> None:
    for length, activation, is_fused in ((32, True, True), (30, True, False), (32, False, True)):
        net = Net()
        x = dense(net, net.input(3, 8), length, 8, size=0.1)
        less = net.op(Op.SUB, x, net.op(Op.MEAN, x, np.array([1], np.int32), net.code(1)))
        square = net.op(Op.MEAN, net.op(Op.MUL, less, less), np.array([1], np.int32), net.code(1))
        y = net.op(Op.MUL, less, net.op(Op.RSQRT, net.op(Op.ADD, square, net.scalar(1.0))))
        result = dense(net, y, 8, length, size=0.1) if activation else y
        names, _ = fused(net, result)
        kept = [name for name in names if name != "VIEW"]
        at = kept.index("ROW_NORM")
        assert ("CONVERT_FLOAT" not in kept[at - 1 : at + 1]) == is_fused
        assert kept[at + 1 : at + 2] != ["CONVERT_FLOAT"] or not (is_fused and activation)


@pytest.mark.parametrize(("is_read", "count"), [(False, 1), (True, 0)])
def test_gemms_store_floats_of_32_bits(is_read: bool, count: int) -> None:
    """If no operation on 16 bits reads the results, too."""
    net = Net()
    y = dense(net, net.input(3, 8), 8, 8)
    outputs = [
        net.op(Op.SQRT, y),
        *(
            [
                net.op(
                    Op.MAX_POOL_2D,
                    net.op(Op.RESHAPE, y, np.array([1, 3, 8, 1], np.int32)),
                    *map(net.code, (1, 1, 1, 2, 2, 0)),
                )
            ]
            if is_read
            else []
        ),
    ]
    graph, found = rewritten(relaxed(net, *outputs), *[each for _, each in PIPELINE], near=NEAR)
    assert found == count
    assert ("FULLY_CONNECTED>1" in codes(graph)) == bool(count)


WIDENED = """
FULLY_CONNECTED f16[19,33] #f16[8,33] #f16[8] NONE | CAST $ -> f32
FULLY_CONNECTED f16[1,33] #f16[7,33] #f16[7] NONE | CAST $ -> f32
FULLY_CONNECTED f16[19,33] #f16[8,33] #f16[8] NONE | TANH $ | CAST $ -> f32
BATCH_MATMUL f16[3,9,22] f16[3,22,8] | CAST $ -> f32
CAST f32[1,9,7,3] -> f16 | CONV_2D $ #f16[8,3,3,3] #f16[8] SAME 1 1 NONE | CAST $ -> f32
TRANSPOSE_CONV_2D f16[1,5,3,4] #f16[8,3,3,4] #f16[8] (1,9,5,8) SAME 2 2 NONE nhwc | CAST $ -> f32
DEPTHWISE_CONV_2D f16[1,5,5,8] #f16[1,3,3,8] #f16[8] SAME 1 1 1 NONE | CAST $ -> f32
""".strip().splitlines()


@pytest.mark.parametrize("place", range(len(WIDENED)))
def test_floats_of_32_bits_behind_gemms(device: VulkanDevice, place: int) -> None:
    """Devices that pack numbers of 16 bits in words convert these by themselves."""
    row = parse(WIDENED[place])
    right = reference(row)
    for ours, theirs in zip(run(device, row.model, row.inputs, right, options=PrepareOptions()), right, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-2, atol=1e-2 * np.abs(theirs).max())


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("one", "CONVERT_FLOAT>2"),
        ("two", "CONVERT_FLOAT>5"),
        ("a number", "CONVERT_FLOAT>3"),
        ("reshaped", "CONVERT_FLOAT>2"),
        ("a row", None),
        ("an input", None),
        ("an output", None),
        ("read by others", None),
        ("broadcast", None),
        ("moved", None),
    ],
)
def test_elementwise_operations_between_gemms_keep_32_bits_in_registers(case: str, name: str | None) -> None:
    """If they read 16 bits or numbers alone, all of one size, and nobody else reads what they compute."""
    net = Net()
    source, other = (dense(net, net.input(3, 8), 8, 8, size=0.1) for _ in range(2))
    if case == "reshaped":
        source = net.op(Op.RESHAPE, source, np.array([2, 12], np.int32))
    root = y = net.op(Op.SQRT, source)
    outputs = [root] if case == "an output" else []
    if case == "two":
        y = net.op(Op.MUL, root, net.op(Op.SQRT, other))
    elif case == "a number":
        y = net.op(Op.MUL, root, net.scalar(0.5))
    elif case == "reshaped":
        y = net.op(Op.RESHAPE, root, np.array([3, 8], np.int32))
    elif case == "a row":
        y = net.op(Op.MUL, root, weights(net, 8, size=0.5))
    elif case == "an input":
        y = net.op(Op.MUL, root, net.input(3, 8))
    elif case == "read by others":
        y, outputs = net.op(Op.MUL, root, net.scalar(0.5)), [net.op(Op.RSQRT, root)]
    elif case == "broadcast":
        y = net.op(Op.MUL, root, net.op(Op.SQRT, dense(net, net.input(3, 8), 1, 8, size=0.1)))
    elif case == "moved":
        y = net.op(Op.SQRT, net.op(Op.REVERSE, root, np.array([1], np.int32)))
    model = relaxed(net, dense(net, y, 4, 8), *outputs)
    graph, count = rewritten(model, *through(fuse_conversions), near=NEAR)
    assert [each for each in codes(graph) if ">" in each] == ([] if name is None else [name])
    assert count == (name is not None)
    assert name is None or not {"SQRT", "MUL"} & set(codes(graph)), "they are computed once"
    for node in graph.nodes:
        if node.epilogue:
            kept = {at for at, operation in enumerate(model.operations) if operation.code in (Op.SQRT, Op.MUL)}
            assert node.operations >= kept
            assert node.operation not in node.fused
