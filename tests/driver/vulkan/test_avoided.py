"""Shader variants that plans do without: another one takes their place, or the operation is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from against_reference import check_like_the_reference
from profiles import EIGHT_LANES, GPU

import nnvk
from nnvk.base.settings import override
from nnvk.check.device import shaders_of
from nnvk.check.model_rows import parse
from nnvk.driver.vulkan import find_devices
from nnvk.driver.vulkan.planning.cache import key_of
from nnvk.driver.vulkan.planning.planner import Planner
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.profile import ACCELERATED_DOTS, NATIVE_16, DeviceProfile, described, parse_profile

LIBRARY = ShaderLibrary()
NATIVE = replace(GPU, features=LIBRARY.features | {ACCELERATED_DOTS})
CPU = replace(EIGHT_LANES, features=LIBRARY.features - NATIVE_16, max_groups=65535)

BYTES = "FULLY_CONNECTED i8[1,32]*0.5+0 #i8[8,32]*0.1+0 #i32[8] NONE -> i8*0.9+1"
OTHER_WAYS = [
    "CONV_2D f32[1,9,9,64]~3 #f32[64,3,3,64]~1 #f32[64] SAME 1 1 NONE | ADD $ f32[1,9,9,64] RELU",
    "CONV_2D f16[1,9,9,32]~3 #f16[64,1,1,32]~3/256 #f16[64] SAME 1 1 NONE",
    BYTES,
    "SOFTMAX f32[3,64] 1.0f",
    "GATHER f32[10,64] 0 i32[3]<10",
    "RNN f32[1,64]~1 #f32[128,64]~1/16 #f32[128,128]~1/16 #f32[128]~1 f32[1,128]~1 4 -> f32 f32",
    "UNIDIRECTIONAL_SEQUENCE_RNN f32[5,3,5]~1 #f32[7,5]~1 #f32[7,7]~1/16 #f32[7]~1 f32[3,7]~1 4 1",
    "SUB f32[28,64] f32[28,64] NONE | MUL $ $ NONE | ADD $ f32[64] NONE | RELU6 $",
]
"""Rows that dispatch a variant which has another one beside it."""
ON_GPUS = "DEPTHWISE_CONV_2D f16[1,9,9,32]~3 #f16[1,3,3,32]~3/256 #f16[32] SAME 1 1 1 NONE"
"""One whose variant is the only one on a CPU."""


def _planner(profile: DeviceProfile, *avoided: str) -> Planner:
    return Planner(replace(profile, avoided=frozenset(avoided)), LIBRARY, "test")


@pytest.mark.parametrize(
    ("profile", "text"),
    [*((NATIVE, text) for text in (*OTHER_WAYS, ON_GPUS)), *((CPU, text) for text in OTHER_WAYS)],
    ids=lambda value: value if isinstance(value, str) else "cpu" if value.is_cpu else "gpu",
)
def test_another_variant_is_planned(profile: DeviceProfile, text: str) -> None:
    row = parse(text)
    some = False
    for name in shaders_of(_planner(profile), row):
        planner = _planner(profile, name)
        reasons = list(filter(None, planner.support(row.model)))
        if reasons:
            assert reasons == [f"shader {name} is avoided (NNVK_AVOID_SHADERS)"] * len(reasons)
        else:
            assert name not in shaders_of(planner, row)
            some = True
    assert some


def test_all_ways_of_a_product_are_tried_before_it_is_refused() -> None:
    row, avoided = parse(BYTES), []
    while not any((planner := _planner(NATIVE, *avoided)).support(row.model)):
        avoided += shaders_of(planner, row)
    assert len(avoided) == len(set(avoided)) > 4
    (reason,) = planner.support(row.model)
    assert reason.startswith("shader ") and reason.endswith(" is avoided (NNVK_AVOID_SHADERS)")
    assert all(name in reason for name in avoided)


def test_a_native_variant_leaves_its_place_to_the_packed_one() -> None:
    row = parse("ADD f16[3,5] f16[5] NONE")
    assert shaders_of(_planner(NATIVE), row) == ("binary.add.f16.native",)
    assert shaders_of(_planner(NATIVE, "binary.add.f16.native"), row) == ("binary.add.f16",)
    (reason,) = _planner(NATIVE, "binary.add.f16.native", "binary.add.f16").support(row.model)
    assert reason == "shader binary.add.f16 is avoided (NNVK_AVOID_SHADERS)"


def test_a_variant_of_another_type_changes_nothing() -> None:
    row = parse("ADD f32[3,5] f32[5] NONE")
    assert not any(_planner(NATIVE, "binary.add.i32").support(row.model))


@pytest.mark.usefixtures("any_gemm_pays")
def test_a_relaxed_model_is_computed_on_32_bits_where_16_are_avoided() -> None:
    row = parse("FULLY_CONNECTED f32[3,64] #f32[32,64]~1/16 #f32[32] NONE")
    row = replace(row, model=row.model.with_relaxed(True))
    in_halves = shaders_of(_planner(NATIVE), row)
    assert any(".f16." in name for name in in_halves)
    for avoided in in_halves:
        assert avoided not in (others := shaders_of(_planner(NATIVE, avoided), row)) and others
        assert not avoided.endswith(".native") or "half" in avoided or not any("f16" in name for name in others)


@pytest.mark.parametrize("text", OTHER_WAYS)
def test_results_stay_right(text: str) -> None:
    with override(avoid_shaders=""):
        found, reason = find_devices()
    if not found:
        pytest.skip(reason)
    names = [
        name
        for name in shaders_of(found[0].planner, parse(text))
        if not any(_planner(found[0].profile, name).support(parse(text).model))
    ]
    with override(avoid_shaders=",".join(names[:1])):
        (device, *_), _ = find_devices()
    check_like_the_reference(device, text)


def test_the_cpu_runs_what_is_refused() -> None:
    with override(avoid_shaders="binary.add.f32"):
        found, reason = find_devices()
    if not found:
        pytest.skip(reason)
    model = nnvk.Model()
    type_ = nnvk.OperandType(nnvk.OperandCode.TENSOR_FLOAT32, (3,))
    operands = [model.add_operand(type_) for _ in range(2)]
    activation = model.add_operand(nnvk.OperandType(nnvk.OperandCode.INT32))
    model.set_operand_value(activation, 0)
    result = model.add_operand(type_)
    model.add_operation(nnvk.OperationCode.ADD, [*operands, activation], [result])
    model.identify_inputs_and_outputs(operands, [result])
    model.finish()
    cpu = nnvk.get_devices()[-1]
    compilation = nnvk.Compilation.create_for_devices(model, [nnvk.Device(found[0]), cpu])
    compilation.finish()
    assert [step.device.name for step in compilation.partitions] == [cpu.name]
    (sums,) = nnvk.run(compilation, [np.ones(3, np.float32), np.ones(3, np.float32)])
    assert sums.tolist() == [2, 2, 2]


def test_names_that_are_none_are_an_error() -> None:
    with override(avoid_shaders="binary.add.f32, binary.add"), pytest.raises(ValueError) as caught:
        find_devices()
    assert str(caught.value).startswith("NNVK_AVOID_SHADERS must name shader variants")
    assert "'binary.add'" in str(caught.value)


def test_plans_are_kept_for_what_they_avoid() -> None:
    model = parse("ADD f32[3] f32[3] NONE").model
    profile = replace(NATIVE, avoided=frozenset({"lookup"}))
    assert key_of("", NATIVE, LIBRARY, model) != key_of("", profile, LIBRARY, model)
    assert Planner(NATIVE, LIBRARY, "").autotune_results.path != Planner(profile, LIBRARY, "").autotune_results.path


def test_a_profile_says_what_it_avoids() -> None:
    profile = replace(NATIVE, avoided=frozenset({"lookup", "binary.add.f32"}))
    assert described(profile)["avoided"] == ["binary.add.f32", "lookup"]
    assert parse_profile(described(profile)) == profile
    assert parse_profile({name: value for name, value in described(NATIVE).items() if name != "avoided"}) == NATIVE
