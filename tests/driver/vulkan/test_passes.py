"""Passes: their names, their switches, how often they apply, and the same results without each one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from fused import I8, Net, Op, heads, joined, made, maximum, merged, multiplied, run_both, transposed, wrapped_gather
from profiles import GPU

from nnvk.base.errors import NnapiError
from nnvk.base.settings import override
from nnvk.driver.vulkan import VulkanDevice, check_settings
from nnvk.driver.vulkan.planning.cache import key_of
from nnvk.driver.vulkan.planning.passes import PIPELINE
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.planning.planner import lower
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.passes import FUSIONS, Pass, parse_passes
from nnvk.driver.vulkan.shaders.profile import NATIVE_16, DeviceProfile, described, parse_profile
from nnvk.types.codes import OperandCode as Code
from nnvk.types.model import Model
from nnvk.types.operand import ChannelQuant, OperandType

CHANNELS = Code.TENSOR_QUANT8_SYMM_PER_CHANNEL
NATIVE = replace(GPU, features=GPU.features | NATIVE_16)
"""A GPU on which relaxed models are computed with 16-bit floats."""


def equal_constants(net: Net) -> int:
    x, weights = net.input(3, 5), net.rng.normal(0, 1, (3, 5)).astype(np.float32)
    return net.op(Op.POW, net.op(Op.POW, x, weights), weights.copy())


def dense(net: Net) -> int:
    return net.dense(net.input(3, 5), 8, 5)


def attention(net: Net) -> int:
    x = net.input(9, 24)
    query, key, value = (heads(net, "float32", net.dense(x, 24, 24), 1, 3, 9, 8) for _ in range(3))
    scores = net.op(Op.SOFTMAX, multiplied(net, "float32", query, key, adj_y=True), 1.0)
    return merged(net, "float32", multiplied(net, "float32", scores, value, adj_y=False), 1, 3, 9, 8)


def attention_of_a_row(net: Net) -> int:
    query, key, value = net.input(3, 1, 8), net.input(3, 7, 8), net.input(3, 7, 4)
    shares = net.op(Op.SOFTMAX, multiplied(net, "float32", query, key, adj_y=True), 1.0)
    return multiplied(net, "float32", shares, value, adj_y=False)


def twice(net: Net) -> int:
    x = net.input(3, 5, 7)
    one, other = (net.op(Op.GATHER, x, net.code(0), np.array([2, 0, 1], np.int32)) for _ in range(2))
    return net.op(Op.MAXIMUM, one, other)


def transposed_twice(net: Net) -> int:
    return transposed(net, transposed(net, net.input(3, 5, 7), 2, 0, 1), 2, 0, 1)


def padded(net: Net) -> int:
    pads = np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)
    return net.conv(net.op(Op.PAD, net.input(1, 5, 7, 8), pads), 8, 8, padding=2)


def layer_norm(net: Net) -> int:
    x = net.input(7, 48)
    less = net.op(Op.SUB, x, mean(net, x))
    root = net.op(Op.RSQRT, net.op(Op.ADD, mean(net, net.op(Op.MUL, less, less)), net.scalar(1e-5)))
    return net.op(Op.MUL, less, root)


def mean(net: Net, x: int) -> int:
    return net.op(Op.MEAN, x, np.array([-1], np.int32), net.code(1))


def scaled_softmax(net: Net) -> int:
    return net.op(Op.SOFTMAX, net.op(Op.MUL, net.input(4, 6, 5), net.scalar(0.3), net.code(0)), 1.0)


def activated(net: Net) -> int:
    return net.op(Op.LOGISTIC, net.conv(net.input(1, 5, 7, 8), 8, 8))


def separable(net: Net) -> int:
    return net.conv(net.depthwise(net.input(1, 14, 10, 32), 32), 16, 32, size=1)


def chain(net: Net) -> int:
    return net.op(Op.TANH, net.op(Op.ABS, net.input(3, 5)))


def channels(net: Net) -> int:
    x = net.input(1, 5, 7, 8)
    return maximum(net, joined(net, 3, net.conv(x, 8, 8), net.conv(x, 12, 8)))


def rows(net: Net) -> int:
    whole = joined(net, 0, *(made(net, "float32", 16, 5) for _ in range(2)))
    return net.op(Op.TILE, whole, np.array([2, 1], np.int32))


def dead_channel(net: Net) -> int:
    x = net.input(1, 5, 7, 4, code=I8, scale=0.05, zero=3)
    quantised = ChannelQuant((0.02, 1e-9, 0.03), 0)
    levels = net.rng.integers(-127, 128, (3, 1, 1, 4)).astype(np.int8)
    filters = net.build.constant(OperandType(CHANNELS, levels.shape, channel_quant=quantised), levels)
    bias = net.build.constant(OperandType(Code.TENSOR_INT32, (3,)), np.array([5, 1 << 29, -7], np.int32))
    codes = map(net.code, [1, 1, 1, 0])
    return net.build.operation(Op.CONV_2D, [x, filters, bias, *codes], OperandType(I8, (), 0.11, -20))


BUILD: dict[Pass, Callable[[Net], int]] = {
    Pass.CONSTANTS: equal_constants,
    Pass.HORIZONTAL: attention,
    Pass.CSE: twice,
    Pass.HEADS: attention,
    Pass.TRANSPOSES: transposed_twice,
    Pass.PAD: padded,
    Pass.CHANNELS: dead_channel,
    Pass.ROW_NORM: layer_norm,
    Pass.SOFTMAX: scaled_softmax,
    Pass.ATTENTION: attention_of_a_row,
    Pass.INDICES: lambda net: wrapped_gather(net, [5, 3], 0, [0, -5, 4, -1]),
    Pass.EPILOGUE: activated,
    Pass.ELEMENTWISE: chain,
    Pass.DEPTHWISE: separable,
    Pass.IN_PLACE: channels,
    Pass.COALESCE: rows,
    Pass.OUTPUTS: chain,
}
"""Models that passes rewrite on every device; `HORIZONTAL` and `DEPTHWISE` do on GPUs alone."""
TOLERANCES = {Pass.ROW_NORM: 2e-6, Pass.SOFTMAX: 2e-6, Pass.ATTENTION: 5e-5}
"""Where sums are taken in another order."""


def model_of(pass_: Pass) -> Model:
    """A model that a pass rewrites on `NATIVE`."""
    net = Net()
    if pass_ in (Pass.FP16, Pass.CONVERTS):
        return replace(net.finish(dense(net)), relaxed=True)
    return net.finish(BUILD[pass_](net))


@cache
def library() -> ShaderLibrary:
    return ShaderLibrary()


def planned(model: Model, profile: DeviceProfile = NATIVE, *disabled: Pass) -> Plan:
    profile = replace(profile, disabled_passes=frozenset(each.value for each in disabled))
    return lower(model, [type_.dimensions for type_ in model.input_types()], profile, library())


@pytest.mark.usefixtures("any_gemm_pays")
@pytest.mark.parametrize("pass_", Pass)
def test_a_pass_is_applied_unless_it_is_disabled(pass_: Pass) -> None:
    model = model_of(pass_)
    with_it, without = planned(model), planned(model, NATIVE, pass_)
    assert with_it.applied[pass_] > 0
    assert without.applied[pass_] == 0
    assert with_it.commands != without.commands


@pytest.mark.usefixtures("in_one_order")
@pytest.mark.parametrize("pass_", BUILD)
def test_results_are_the_same_without_it(vulkan: VulkanDevice, pass_: Pass) -> None:
    net = Net()
    model = net.finish(BUILD[pass_](net))
    disabled = frozenset({pass_.value})
    run_both(vulkan, model, net.arrays, tolerance=TOLERANCES.get(pass_, 0.0), disabled=disabled)


@pytest.mark.usefixtures("in_one_order")
def test_results_on_a_gpu_are_the_same_without_horizontal_fusion(as_gpu: VulkanDevice) -> None:
    net = Net()
    run_both(as_gpu, net.finish(attention(net)), net.arrays, disabled=frozenset({Pass.HORIZONTAL.value}))


def test_all_leave_a_command_for_each_operation() -> None:
    model = model_of(Pass.EPILOGUE)
    profile = replace(NATIVE, disabled_passes=parse_passes("all"))
    plan = lower(model, [(1, 5, 7, 8)], profile, library())
    assert not any(plan.applied[each] for each in Pass if each.value in FUSIONS)
    assert len(plan.commands) > len(planned(model).commands)


def test_each_pass_has_a_sentence() -> None:
    for sentence in (each.description for each in Pass):
        assert sentence[0].isupper() and sentence.endswith(".") and ". " not in sentence


@pytest.mark.parametrize(
    "text, expected",
    [("", set()), ("pad", {"pad"}), (" pad, cse,", {"pad", "cse"}), ("all", FUSIONS), ("all,fp16", FUSIONS | {"fp16"})],
)
def test_names(text: str, expected: set[str]) -> None:
    assert parse_passes(text) == expected


def test_passes_are_listed_in_their_order() -> None:
    """The list has the passes on the graph as they run first, then those on commands."""
    first = list(dict.fromkeys(pass_ for pass_, _ in PIPELINE if pass_ is not None))
    assert first == list(Pass)[: len(first)]


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match=r"must name passes, of constants, cse, .*, outputs, got 'pads'"):
        parse_passes("pad,pads")
    with override(disable_passes="pads"), pytest.raises(ValueError, match=r"^NNVK_DISABLE_PASSES must name .* 'pads'$"):
        check_settings()
    profile = {**described(GPU), "disabled_passes": ["pads"]}
    with pytest.raises(NnapiError, match=r"disabled_passes of a device profile must name passes, .* 'pads'"):
        parse_profile(profile)


def test_profiles_and_cache_keys_have_the_passes() -> None:
    disabled = replace(GPU, disabled_passes=frozenset({"pad", "cse"}))
    assert described(disabled)["disabled_passes"] == ["cse", "pad"]
    assert parse_profile(described(disabled)) == disabled
    model = model_of(Pass.PAD)
    assert key_of("1", disabled, library(), model)["profile"] != key_of("1", GPU, library(), model)["profile"]
