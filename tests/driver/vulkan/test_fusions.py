"""Fused plans give the same bits as plans with a dispatch for each operation, and have as few as they should."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from fused import F16, F32, I8, U8, Net, Op, byte_conv, families, plans, run_both, run_random_graph
from tflite_net import Net as TfliteNet
from tflite_net import T, write

from nnvk.check.model_rows import parse
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.lowering.gemm import gemm
from nnvk.driver.vulkan.lowering.gemm.problem import Work
from nnvk.driver.vulkan.lowering.gemm.strategies import candidates
from nnvk.driver.vulkan.lowering.gemm.strategy import Strategy
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.shaders.commands import Dispatch, describe
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.importers.tflite import load
from nnvk.ops import registry
from nnvk.types.codes import FuseCode, OperandCode
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import OperandType

# --- elementwise operations -------------------------------------------------------------------------------------


def swish(net: Net, x: int) -> int:
    return net.op(Op.MUL, x, net.op(Op.LOGISTIC, x))


def gelu(net: Net, x: int) -> int:
    cube = net.op(Op.MUL, net.op(Op.MUL, net.op(Op.MUL, x, x), x), net.scalar(0.044715))
    inner = net.op(Op.MUL, net.op(Op.ADD, x, cube), net.scalar(0.7978846))
    return net.op(Op.MUL, net.op(Op.MUL, x, net.scalar(0.5)), net.op(Op.ADD, net.op(Op.TANH, inner), net.scalar(1.0)))


def elu(net: Net, x: int) -> int:
    return net.op(Op.NEG, net.op(Op.ELU, x, 0.7))


def relu6(net: Net, x: int) -> int:
    return net.op(Op.RELU6, net.op(Op.ADD, x, net.weights(8)))


def prelu(net: Net, x: int) -> int:
    return net.op(Op.ABS, net.op(Op.PRELU, x, net.weights(8)))


def fused_relu(net: Net, x: int) -> int:
    one = net.build.operation(Op.SUB, [x, net.scalar(0.5), net.code(FuseCode.RELU1)], net.real)
    return net.op(Op.SQRT, net.op(Op.MAXIMUM, one, net.scalar(0.25)))


def layers(net: Net, x: int) -> int:
    exp = net.op(Op.EXP, net.op(Op.MINIMUM, x, net.scalar(2.0)))
    return net.op(Op.RSQRT, net.op(Op.FLOOR, net.op(Op.LOG, net.op(Op.DIV, exp, net.scalar(0.01)))))


def waves(net: Net, x: int) -> int:
    return net.op(Op.SIN, net.op(Op.HARD_SWISH, x))


@pytest.fixture(params=[F32, F16], ids=lambda code: code.name)
def real(request: pytest.FixtureRequest) -> OperandCode:
    """The type of all real numbers of a model."""
    code: OperandCode = request.param
    return code


CHAINS: dict[str, Callable[[Net, int], int]] = {
    each.__name__: each for each in (swish, gelu, elu, relu6, prelu, fused_relu, layers, waves)
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("shape", [(2, 5, 8), (1, 8), (7, 3, 8)], ids=str)
@pytest.mark.crossed
def test_chains(vulkan: VulkanDevice, real: OperandCode, name: str, shape: tuple[int, ...]) -> None:
    net = Net(real=real)
    model = net.finish(CHAINS[name](net, net.input(*shape)))
    assert families(run_both(vulkan, model, net.arrays)) == "fused_elementwise"


def test_operations_without_a_fused_function_are_left_alone(
    vulkan: VulkanDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operation may have the trait `elementwise` without a function that fused dispatches compute."""
    definition = registry.lookup(Op.SIN)
    assert definition.traits.elementwise is not None
    traits = replace(definition.traits, elementwise=replace(definition.traits.elementwise, function=None))
    monkeypatch.setitem(registry._registry, Op.SIN, replace(definition, traits=traits))
    net = Net(real=F32)
    model = net.finish(net.op(Op.ABS, net.op(Op.SIN, net.op(Op.NEG, net.op(Op.SQRT, net.input(3, 8))))))
    assert families(run_both(vulkan, model, net.arrays)) == "fused_elementwise unary unary"


@pytest.mark.parametrize("name", ["swish", "gelu", "elu", "layers"])
def test_chains_of_odd_sizes(vulkan: VulkanDevice, real: OperandCode, name: str) -> None:
    net = Net(real=real)
    model = net.finish(CHAINS[name](net, net.input(3, 7)))
    assert families(run_both(vulkan, model, net.arrays)) == "fused_elementwise"


def test_special_values(vulkan: VulkanDevice, real: OperandCode) -> None:
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 3e38, -3e38, 1.0, -1.0, 0.5], np.float32)
    for make in CHAINS.values():
        net = Net(real=real)
        model = net.finish(make(net, net.input(len(special), 8)))
        with np.errstate(over="ignore"):
            rows = np.repeat(special[:, None], 8, axis=1).astype(net.real.dtype)
        run_both(vulkan, model, [rows])


def test_rows_and_columns_are_repeated(vulkan: VulkanDevice, real: OperandCode) -> None:
    """An operand for each row, one for each column, and one that no chain can read."""
    net = Net(real=real)
    x = net.input(4, 6, 8)
    rows, columns, middle = net.input(4, 6, 1), net.input(8), net.input(4, 1, 8)
    y = net.op(Op.MUL, net.op(Op.ADD, x, rows), columns)
    model = net.finish(net.op(Op.TANH, net.op(Op.ADD, y, middle)))
    assert families(run_both(vulkan, model, net.arrays)) == "fused_elementwise binary unary"


def test_values_that_others_read_are_written(vulkan: VulkanDevice, real: OperandCode) -> None:
    """An output of the model amid a chain, and one that a pool reads."""
    net = Net(real=real)
    x = net.input(1, 4, 4, 8)
    a = net.op(Op.TANH, x)
    b = net.op(Op.MUL, a, net.scalar(2.0))
    pooled = net.build.operation(Op.MAX_POOL_2D, [b, *map(net.code, [2, 1, 1, 2, 2, 0])], net.real)
    c = net.op(Op.ADD, b, x)
    model = net.finish(a, net.op(Op.ABS, c), pooled)
    plan = run_both(vulkan, model, net.arrays)
    assert families(plan).replace("pool2d", "").split() == ["fused_elementwise", "fused_elementwise"]


def test_a_reader_in_between_keeps_a_chain_apart(vulkan: VulkanDevice, real: OperandCode) -> None:
    """Whoever reads a value before the chain's end can't wait for it."""
    net = Net(real=real)
    x = net.input(1, 5, 5, 8)
    a = net.op(Op.TANH, net.op(Op.ABS, x))
    b = net.conv(a, 8, 8)
    model = net.finish(net.op(Op.MUL, net.op(Op.ADD, a, b), net.scalar(3.0)))
    assert families(run_both(vulkan, model, net.arrays)) == "fused_elementwise gemm end"


def test_limits_leave_what_others_take_as_it_was_stored(vulkan: VulkanDevice, real: OperandCode) -> None:
    net = Net(real=real)
    x = net.input(4, 5, 8)
    y = net.op(Op.MUL, x, net.weights(8))
    model = net.finish(net.op(Op.ADD, net.op(Op.RELU6, y), net.op(Op.MUL, y, x)))
    assert families(run_both(vulkan, model, net.arrays)) == "fused_elementwise"


def test_long_chains_are_cut(vulkan: VulkanDevice, real: OperandCode) -> None:
    net = Net(real=real)
    y = net.input(3, 8)
    for number in range(60):
        y = net.op((Op.ABS, Op.TANH, Op.SQRT, Op.NEG)[number % 4], y)
    plan = run_both(vulkan, net.finish(y), net.arrays)
    assert set(families(plan).split()) == {"fused_elementwise"}
    assert len(plan.commands) <= 6


def test_lstm_gates(vulkan: VulkanDevice, real: OperandCode) -> None:
    """A cell as TensorFlow Lite's converter unrolls it: a GEMM, SPLIT, and one dispatch for all gates."""
    net = Net(real=real)
    x, state, cell = net.input(1, 12), net.input(1, 16), net.input(1, 16)
    joined = net.build.operation(Op.CONCATENATION, [x, state, net.code(1)], net.real)
    gates = net.dense(joined, 64, 28)
    parts = net.build.outputs(Op.SPLIT, [gates, net.code(1), net.code(4)], *[net.real] * 4)
    i, j, f, o = parts
    kept = net.op(Op.MUL, net.op(Op.LOGISTIC, net.op(Op.ADD, f, net.scalar(1.0))), cell)
    new = net.op(Op.ADD, kept, net.op(Op.MUL, net.op(Op.LOGISTIC, i), net.op(Op.TANH, j)))
    out = net.op(Op.MUL, net.op(Op.TANH, new), net.op(Op.LOGISTIC, o))
    plan = run_both(vulkan, net.finish(new, out), net.arrays)
    assert families(plan).replace("fully_connected", "gemm").split()[-2:] == ["gemm", "fused_elementwise"]


# --- products ----------------------------------------------------------------------------------------------------

PRODUCTS: dict[str, Callable[[Net], int]] = {
    "conv": lambda net: net.conv(net.input(1, 9, 7, 8), 8, 8),
    "conv of odd channels": lambda net: net.conv(net.input(2, 5, 5, 3), 7, 3),
    "depthwise": lambda net: net.depthwise(net.input(1, 9, 7, 8), 8),
    "vector": lambda net: net.dense(net.input(1, 33), 40, 33),
    "matrix": lambda net: net.dense(net.input(41, 33), 40, 33),
}


def has_epilogue(plan: Plan) -> bool:
    """Whether nothing follows the GEMM of a plan; but where its pixels are padded, they are made dense before."""
    *_, before, last = ("", *families(plan).replace(" end", "-end").split())
    return last.endswith("-end") or before == "arrange"


def channels(name: str) -> int:
    return 7 if "odd" in name else 40 if name in ("vector", "matrix") else 8


ACTIVATIONS = (Op.RELU, Op.RELU6, Op.LOGISTIC, Op.TANH, Op.HARD_SWISH)


@pytest.mark.parametrize("place", [0, 2], ids=["first", "third"])
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.crossed
def test_activations_are_ends(vulkan: VulkanDevice, real: OperandCode, name: str, place: int) -> None:
    """Two of the activations for each product, in turn."""
    code = ACTIVATIONS[(list(PRODUCTS).index(name) + place) % len(ACTIVATIONS)]
    net = Net(real=real)
    model = net.finish(net.op(code, PRODUCTS[name](net)))
    # SwiftShader's compiler divides before it multiplies where both follow a GEMM, `precise` or not.
    assert has_epilogue(run_both(vulkan, model, net.arrays, ulps=2 if code is Op.HARD_SWISH else 0))


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.crossed
def test_swish_and_prelu_are_ends(vulkan: VulkanDevice, real: OperandCode, name: str) -> None:
    net = Net(real=real)
    y = PRODUCTS[name](net)
    assert has_epilogue(run_both(vulkan, net.finish(swish(net, y)), net.arrays))
    net = Net(real=real)
    y = net.op(Op.PRELU, PRODUCTS[name](net), net.weights(channels(name)))
    plan = run_both(vulkan, net.finish(y), net.arrays)
    assert has_epilogue(plan) or channels(name) % 4


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.crossed
def test_residuals_are_ends(vulkan: VulkanDevice, real: OperandCode, name: str, swapped: bool) -> None:
    net = Net(real=real)
    y = PRODUCTS[name](net)
    shape = {"conv": (1, 9, 7, 8), "conv of odd channels": (2, 5, 5, 7), "depthwise": (1, 9, 7, 8)}.get(name)
    other = net.input(*(shape or ((1, 40) if name == "vector" else (41, 40))))
    pair = (other, y) if swapped else (y, other)
    y = net.build.operation(Op.SUB, [*pair, net.code(FuseCode.RELU)], net.real)
    assert has_epilogue(run_both(vulkan, net.finish(net.op(Op.TANH, y)), net.arrays))


def test_a_product_that_others_read_keeps_its_result(vulkan: VulkanDevice, real: OperandCode) -> None:
    net = Net(real=real)
    y = net.conv(net.input(1, 6, 6, 8), 8, 8)
    assert families(run_both(vulkan, net.finish(net.op(Op.RELU, y), y), net.arrays)) == "gemm unary"


def test_two_products_are_added(vulkan: VulkanDevice, real: OperandCode) -> None:
    net = Net(real=real)
    x = net.input(1, 6, 6, 8)
    y = net.op(Op.ADD, net.conv(x, 8, 8), net.conv(x, 8, 8, 1))
    assert families(run_both(vulkan, net.finish(net.op(Op.RELU, y)), net.arrays)) == "gemm gemm end"


# --- bytes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Op.ADD, Op.SUB, Op.MUL])
def test_bytes_that_meet_themselves_in_another_shape(vulkan: VulkanDevice, kind: Op) -> None:
    """Both operands are the result of the GEMM, which would not be stored."""
    net = Net()
    type_ = OperandType(U8, (), 0.11, 100)
    y = byte_conv(net, U8, net.input(1, 7, 9, 8, code=U8, scale=0.05, zero=120), 8, 8, type_)
    again = net.op(Op.RESHAPE, y, net.build.value(np.array([7, 9, 8], np.int32)), type_=type_)
    z = net.build.operation(kind, [y, again, net.code(FuseCode.NONE)], OperandType(U8, (), 0.9, 110))
    assert families(run_both(vulkan, net.finish(z), net.arrays)) == "gemm binary"


@pytest.mark.parametrize("code", [I8, U8], ids=lambda code: code.name)
@pytest.mark.parametrize(
    ("kind", "scale"),
    [(Op.ADD, 0.16), (Op.SUB, 0.16), (Op.MUL, 0.16), (Op.ADD, 1.1e-7), (Op.SUB, 3e-9)],
    ids=lambda each: each.name if isinstance(each, Op) else str(each),
)
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.crossed
def test_bytes_are_combined(vulkan: VulkanDevice, code: OperandCode, kind: Op, swapped: bool, scale: float) -> None:
    """Sums with a tiny scale are multiplied by more than 1 in the end."""
    net = Net()
    middle = 0 if code is I8 else 128
    x = net.input(1, 5, 7, 8, code=code, scale=0.05, zero=middle + 3)
    other = net.input(1, 5, 7, 8, code=code, scale=0.09, zero=middle - 7)
    y = byte_conv(net, code, x, 8, 8, OperandType(code, (), 0.11, middle - 20))
    pair = (other, y) if swapped else (y, other)
    out = OperandType(code, (), scale, middle + 9)
    y = net.build.operation(kind, [*pair, net.code(FuseCode.RELU)], out)
    assert families(run_both(vulkan, net.finish(y), net.arrays)) == "gemm end"


@pytest.mark.parametrize("code", [I8, U8], ids=lambda code: code.name)
def test_bytes_are_looked_up(vulkan: VulkanDevice, code: OperandCode) -> None:
    net = Net()
    middle = 0 if code is I8 else 128
    x = net.input(1, 5, 7, 8, code=code, scale=0.05, zero=middle + 3)
    y = byte_conv(net, code, x, 8, 8, OperandType(code, (), 0.11, middle - 20))
    y = net.op(Op.ADD, y, x, type_=OperandType(code, (), 0.2, middle))
    y = net.op(Op.LOGISTIC, y, type_=OperandType(code, (), 1 / 256, middle - 128))
    assert families(run_both(vulkan, net.finish(y), net.arrays)) == "gemm end"


@pytest.mark.parametrize("tile", ["register", "quads", "shared"])
@pytest.mark.parametrize("code", [F32, F16, I8, U8], ids=lambda code: code.name)
@pytest.mark.crossed
def test_sums_in_pieces_have_ends(
    vulkan: VulkanDevice, monkeypatch: pytest.MonkeyPatch, code: OperandCode, tile: str
) -> None:
    """The workgroup that comes last adds up the K slices and applies the epilogue."""

    def ranked(work: Work, device: DeviceProfile) -> list[Strategy]:
        ways = [way for way in candidates(work, device) if way.tile == tile] or pytest.skip(f"there is no {tile}")
        return [replace(way, split_k=3) for way in ways]

    monkeypatch.setattr(gemm, "ranked", ranked)
    if code in (F32, F16):
        net = Net(real=code)
        x = net.input(1, 5, 7, 12)
        y = net.op(Op.TANH, net.op(Op.ADD, net.conv(x, 12, 12), x))
    else:
        net, middle = Net(), 0 if code is I8 else 128
        x = net.input(1, 5, 7, 12, code=code, scale=0.05, zero=middle + 3)
        y = byte_conv(net, code, x, 12, 12, OperandType(code, (), 0.11, middle - 20))
        y = net.op(Op.ADD, y, x, type_=OperandType(code, (), 0.2, middle))
        y = net.op(Op.LOGISTIC, y, type_=OperandType(code, (), 1 / 256, middle - 128))
    plan = run_both(vulkan, net.finish(y), net.arrays)
    assert families(plan) == "gemm end"
    assert any(".split." in command.shader.name for command in plan.commands if isinstance(command, Dispatch))


def test_bytes_whose_pixels_are_padded_stay_apart(vulkan: VulkanDevice) -> None:
    net = Net()
    x = net.input(1, 5, 7, 7, code=I8, scale=0.05, zero=3)
    y = byte_conv(net, I8, x, 7, 7, OperandType(I8, (), 0.11, -20))
    model = net.finish(net.op(Op.ADD, y, x, type_=OperandType(I8, (), 0.2, 0)))
    assert families(run_both(vulkan, model, net.arrays)) == "gemm arrange binary"


# --- paddings ----------------------------------------------------------------------------------------------------

PADS = {
    "around": [[0, 0], [1, 1], [1, 1], [0, 0]],
    "below": [[0, 0], [0, 2], [0, 0], [0, 0]],
    "right": [[0, 0], [0, 0], [0, 3], [0, 0]],
    "left and above": [[0, 0], [2, 0], [1, 0], [0, 0]],
}


@pytest.mark.parametrize("pads", PADS)
@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("channels", [1, 3, 8])
@pytest.mark.crossed
def test_pads_go_into_convolutions(vulkan: VulkanDevice, pads: str, batches: int, channels: int) -> None:
    for kind in ("conv", "depthwise"):
        net = Net()
        x = net.input(batches, 6, 5, channels)
        padded = net.op(Op.PAD, x, np.array(PADS[pads], np.int32))
        y = net.conv(padded, 4, channels, 3, 2) if kind == "conv" else net.depthwise(padded, channels)
        plan = run_both(vulkan, net.finish(y), net.arrays)
        assert "pad" not in families(plan).split()


def test_pads_of_bytes(vulkan: VulkanDevice) -> None:
    for code, zero in ((I8, -7), (U8, 99)):
        for channels in (3, 8):
            net = Net()
            x = net.input(1, 6, 5, channels, code=code, scale=0.05, zero=zero)
            type_ = OperandType(code, (), 0.05, zero)
            padded = net.op(Op.PAD, x, np.array(PADS["around"], np.int32), type_=type_)
            y = byte_conv(net, code, padded, 8, channels, OperandType(code, (), 0.3, zero))
            assert families(run_both(vulkan, net.finish(y), net.arrays)) == "gemm"


@pytest.mark.parametrize("what", ["channels", "batches", "another value"])
def test_other_pads_stay(vulkan: VulkanDevice, what: str) -> None:
    net = Net()
    x = net.input(1, 6, 5, 8)
    if what == "another value":
        padded = net.op(Op.PAD_V2, x, np.array(PADS["around"], np.int32), 0.25)
        model = net.finish(net.conv(padded, 4, 8))
    else:
        pads = [[0, 0], [0, 0], [0, 0], [0, 4]] if what == "channels" else [[1, 0], [0, 0], [0, 0], [0, 0]]
        padded = net.op(Op.PAD, x, np.array(pads, np.int32))
        model = net.finish(net.conv(padded, 4, 12 if what == "channels" else 8))
    assert families(run_both(vulkan, model, net.arrays)) == "pad gemm"


def test_a_pad_that_others_read_stays(vulkan: VulkanDevice) -> None:
    net = Net()
    padded = net.op(Op.PAD, net.input(1, 6, 5, 8), np.array(PADS["around"], np.int32))
    model = net.finish(net.conv(padded, 4, 8), net.op(Op.ABS, padded))
    assert families(run_both(vulkan, model, net.arrays)) == "pad gemm unary"


@pytest.mark.parametrize("pads", PADS)
@pytest.mark.parametrize("channels", [1, 3, 8])
@pytest.mark.parametrize("code", [Op.MAX_POOL_2D, Op.AVERAGE_POOL_2D, Op.L2_POOL_2D], ids=lambda code: code.name)
@pytest.mark.crossed
def test_pads_go_into_pools(vulkan: VulkanDevice, code: Op, pads: str, channels: int) -> None:
    """Where what is around counts, and the pool's own padding beyond it does not."""
    for scheme, stride, window in ((2, 1, 3), (1, 2, 3), (1, 3, 5)):
        net = Net()
        padded = net.op(Op.PAD, net.input(2, 6, 5, channels), np.array(PADS[pads], np.int32))
        rest = map(net.code, [scheme, stride, stride, window, window, FuseCode.NONE])
        y = net.build.operation(code, [padded, *rest], OperandType(F32))
        assert families(run_both(vulkan, net.finish(y), net.arrays)) == "pool2d"


@pytest.mark.parametrize("real", [F32, F16], ids=lambda code: code.name)
@pytest.mark.parametrize("approximate", [False, True])
def test_gelu_is_the_end_of_a_product(vulkan: VulkanDevice, real: OperandCode, approximate: bool) -> None:
    net = Net(real=real)
    x = net.conv(net.input(1, 5, 6, 8), 12, 8)
    y = net.op(ExtendedOperationCode.GELU, x, net.build.value(approximate))
    assert families(run_both(vulkan, net.finish(y), net.arrays)) == "gemm end"


@pytest.mark.parametrize("kind", [F16, I8, U8], ids=lambda code: code.name)
def test_pads_of_other_types_go_into_pools(vulkan: VulkanDevice, kind: OperandCode) -> None:
    for code in (Op.MAX_POOL_2D, Op.AVERAGE_POOL_2D):
        for channels in (3, 8):
            scale, zero = (0.0, 0) if kind is F16 else (0.05, -7 if kind is I8 else 99)
            net = Net()
            x = net.input(1, 6, 5, channels, code=kind, scale=scale, zero=zero)
            type_ = OperandType(kind, (), scale, zero)
            padded = net.op(Op.PAD, x, np.array(PADS["around"], np.int32), type_=type_)
            rest = map(net.code, [1, 2, 2, 3, 3, FuseCode.NONE])
            y = net.build.operation(code, [padded, *rest], type_)
            assert families(run_both(vulkan, net.finish(y), net.arrays)) == "pool2d"


def test_pads_of_values_go_into_the_largest_alone(vulkan: VulkanDevice) -> None:
    for code, names in ((Op.MAX_POOL_2D, "pool2d"), (Op.AVERAGE_POOL_2D, "pad pool2d")):
        net = Net()
        padded = net.op(Op.PAD_V2, net.input(1, 6, 5, 8), np.array(PADS["around"], np.int32), -0.75)
        y = net.build.operation(code, [padded, *map(net.code, [2, 1, 1, 3, 3, 0])], OperandType(F32))
        assert families(run_both(vulkan, net.finish(y), net.arrays)) == names


def test_pads_around_large_windows(vulkan: VulkanDevice) -> None:
    """Several invocations share out such a window, and which of them adds what would differ without the padding."""
    for code, names in ((Op.MAX_POOL_2D, "pool2d"), (Op.AVERAGE_POOL_2D, "pad pool2d")):
        net = Net()
        padded = net.op(Op.PAD, net.input(1, 95, 97, 4), np.array(PADS["around"], np.int32))
        y = net.build.operation(code, [padded, *map(net.code, [1, 50, 50, 95, 95, 0])], OperandType(F32))
        assert families(run_both(vulkan, net.finish(y), net.arrays)) == names


def test_a_pad_of_a_pad_goes_in_once(vulkan: VulkanDevice) -> None:
    net = Net()
    x = net.op(Op.PAD, net.input(1, 6, 5, 8), np.array(PADS["around"], np.int32))
    x = net.op(Op.PAD_V2, x, np.array(PADS["below"], np.int32), 2.0)
    y = net.build.operation(Op.MAX_POOL_2D, [x, *map(net.code, [2, 1, 1, 3, 3, 0])], OperandType(F32))
    assert families(run_both(vulkan, net.finish(y), net.arrays)) == "pad pool2d"


# --- rounding of activations -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("asymmetric", [False, True], ids=["symmetric", "asymmetric"])
@pytest.mark.parametrize(
    ("shape", "on_cpu", "on_gpu"),
    [((1, 640), 1, 1), ((3, 37), 1, 1), ((2, 9000), 2, 1), ((5, 66), 1, 1), ((1, 7003), 2, 1), ((1, 66_004), 2, 2)],
    ids=str,
)
@pytest.mark.crossed
def test_activations_are_rounded_at_once(
    device: VulkanDevice, shape: tuple[int, int], on_cpu: int, on_gpu: int, asymmetric: bool
) -> None:
    """A product of real activations with weights of 8 bits, as the importer makes it. Rows have one or more parts."""
    rng = np.random.default_rng(1)
    weights = T("INT8", data=rng.integers(-127, 127, (24, shape[1]), np.int8), scale=0.02)
    source, result = T(shape=shape), T()
    net = TfliteNet([source], [result])
    options = {"AsymmetricQuantizeInputs": asymmetric}
    net.op("FULLY_CONNECTED", [source, weights, T(data=np.ones(24))], result, "FullyConnectedOptions", **options)
    model = load(write(net)).model.frozen
    data = rng.normal(0.3, 2, shape).astype(np.float32)
    for values in (data, np.zeros(shape, np.float32), np.where(data > 4, np.nan, data), -abs(data)):
        names = families(run_both(device, model, [values.astype(np.float32)])).split()
        assert names.count("round_rows") == (on_cpu if device.planner.profile.is_cpu else on_gpu)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MUL f32[1] #f32[1]=0.3 NONE | MUL f32[3,5,4] $0 NONE | ADD $1 f32[4] NONE", "fused_elementwise"),
        ("MUL f32[1] #f32[4]~3 NONE | MUL f32[3,5,4] $0 NONE", "binary binary"),
        ("SQRT f32[1] | MUL f32[3,4] $0 NONE | ADD f32[5,4] $0 NONE", "unary binary binary"),
        ("SQRT f32[1] | ABS $0 | MUL f32[3,4] $1 NONE", "fused_elementwise binary"),
        (
            "FULLY_CONNECTED f32[1,8] #f32[1,8]~3 #f32[1]~3 NONE | MUL $0 f32[1] NONE | MUL f32[3,4] $1 NONE",
            "gemm end binary",
        ),
        (
            "FULLY_CONNECTED f32[2,8] #f32[4,8]~3 #f32[4]~3 NONE | MUL f32[1] f32[1] NONE | MUL $0 $1 NONE",
            "binary gemm end",
        ),
    ],
    ids=str,
)
def test_a_single_number_is_computed_where_it_is_read(device: VulkanDevice, text: str, expected: str) -> None:
    """Each invocation computes it, if one operation computes it for one other."""
    row = parse(text)
    data = [np.abs(array) for array in row.inputs]
    assert families(run_both(device, row.model, data)) == expected


# --- everything --------------------------------------------------------------------------------------------------


def test_names_say_what_was_fused(vulkan: VulkanDevice) -> None:
    net = Net()
    y = net.op(Op.RELU, net.op(Op.ADD, net.conv(net.input(1, 6, 6, 8), 8, 8), net.input(1, 6, 6, 8)))
    model = net.finish(y)
    (command,) = (
        command
        for command in plans(vulkan, model, [array.shape for array in net.arrays])[0].commands
        if isinstance(command, Dispatch)
    )
    _, details = describe(command, model)
    assert details["code"] == "CONV_2D + ADD + RELU"
    assert details["operation"] == 0


CODES = [
    Op.CONV_2D,
    Op.DEPTHWISE_CONV_2D,
    Op.FULLY_CONNECTED,
    Op.BATCH_MATMUL,
    Op.ADD,
    Op.SUB,
    Op.MUL,
    Op.DIV,
    Op.MAXIMUM,
    Op.PRELU,
    Op.RELU,
    Op.RELU6,
    Op.TANH,
    Op.LOGISTIC,
    Op.HARD_SWISH,
    Op.ABS,
    Op.EXP,
    Op.NEG,
    Op.PAD,
    Op.SPLIT,
    Op.CONCATENATION,
    Op.RESHAPE,
    Op.TRANSPOSE,
    Op.AVERAGE_POOL_2D,
]
"""Random graphs are made of these operations, which take part in fusions."""


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(own: VulkanDevice, seed: int) -> None:
    run_random_graph(own, seed, CODES)
