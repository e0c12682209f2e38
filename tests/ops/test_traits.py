"""The traits of operations agree with their signatures, with each other and with the shaders."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from generators import Draw, draw_case, generators
from generators.build import build

from nnvk.ops import internal, registry
from nnvk.ops.call import Call
from nnvk.ops.registry import OpDef
from nnvk.ops.strided import Box
from nnvk.ops.traits import Effect, Elementwise, Fp16, Function, Traits
from nnvk.types.codes import FuseCode, OperationCode
from nnvk.types.extension import KnownCode

SHADERS = Path(__file__).resolve().parents[2] / "shaders"
EVERY = pytest.mark.parametrize(
    "definition",
    [pytest.param(each, id=f"{type(code).__name__}.{code.name}") for code, each in registry.definitions().items()],
)

ELEMENTWISE = {
    code: each.traits.elementwise
    for code, each in registry.definitions().items()
    if each.code is code and each.traits.elementwise is not None
}


def names(definition: OpDef) -> set[str]:
    """The names of the parameters that every overload has."""
    return set.intersection(*({param.name for param in each.params} for each in definition.signatures))


def test_a_definition_says_whether_it_is_foldable_and_runs_in_16_bits() -> None:
    with pytest.raises(TypeError, match="'foldable' and 'fp16'"):
        Traits()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="'traits'"):
        registry.define(OperationCode.ADD, types={}, signatures=(), infer=lambda call: [], reference=None)  # type: ignore[call-arg]


@EVERY
def test_operands_are_parameters(definition: OpDef) -> None:
    traits = definition.traits
    if traits.elementwise is not None:
        trait = traits.elementwise
        assert set(trait.operands) <= names(definition)
        assert len(trait.operands) in (1, 2)
        assert set(trait.numbers) <= names(definition)
        assert len(trait.numbers) <= 2
        assert not trait.numbers or (len(trait.operands) == 1 and trait.clip is FuseCode.NONE)
        assert trait.is_fused == ("activation" in names(definition))
        assert (trait.approximate is not None) == ("approximate" in names(definition))
        assert trait.function is None or trait.clip is FuseCode.NONE
    if traits.gemm is not None:
        operands = {traits.gemm.input, traits.gemm.weights, *filter(None, [traits.gemm.bias])}
        assert operands <= names(definition)
        assert (traits.gemm.bias is None) == ("bias" not in names(definition))


@EVERY
def test_gemms_start_16_bit_floats(definition: OpDef) -> None:
    is_depthwise = definition.code.name == "DEPTHWISE_CONV_2D"  # it gains too little for a conversion
    starts = definition.traits.gemm is not None and not is_depthwise
    assert starts == (definition.traits.fp16 is Fp16.STARTS)


@EVERY
def test_only_operations_with_a_reference_are_folded(definition: OpDef) -> None:
    traits = definition.traits
    assert not traits.foldable or definition.reference is not None
    assert not traits.foldable or (traits.gemm is None and Effect.RANDOM not in traits.effects)


def test_kinds_and_functions_are_told_apart() -> None:
    traits = {each.code: each.traits.elementwise for each in registry.definitions().values()}
    pairs = [(each.kind, each.function) for each in traits.values() if each is not None and each.kind != "clamp"]
    pairs += [each.approximate for each in traits.values() if each is not None and each.approximate is not None]
    assert len(dict(pairs)) == len(pairs)
    functions = [function for _, function in pairs if function is not None]
    others = [Function.AT_LEAST, Function.AT_MOST, Function.SATURATE]  # of activations, and of conversions
    assert sorted([*functions, *others]) == list(Function)


def test_shaders_number_and_compute_each_function() -> None:
    text = (SHADERS / "include" / "elementwise.glsl").read_text(encoding="utf-8")
    declared = re.search(r"const uint ([^;]*ADD = [^;]*);", text)
    assert declared is not None
    numbers = {name: int(number) for name, number in re.findall(r"(\w+) = (\d+)", declared[1])}
    assert numbers == {function.name: function.value for function in Function}
    branches = re.findall(r"WHERE\((\w+)\) result = ", text)
    assert sorted(branches) == sorted(numbers)
    assert max(numbers.values()) < 32, "a word has a bit for each"


@pytest.mark.parametrize("trait", ELEMENTWISE.values(), ids=lambda trait: trait.kind)
def test_shaders_have_a_variant_of_each_kind(trait: Elementwise) -> None:
    text = (SHADERS / ("unary.comp" if len(trait.operands) == 1 else "binary.comp")).read_text(encoding="utf-8")
    assert f"KIND_{trait.kind.upper()}" in text
    assert trait.approximate is None or f"KIND_{trait.approximate[0].upper()}" in text


# --- operations that only move elements --------------------------------------------------------------------------


def calls_of(code: KnownCode) -> Iterator[tuple[Call, list[np.ndarray]]]:
    """Drawn calls of an operation with all inputs known, and the outputs of its reference."""
    for seed in range(40):
        case = draw_case(Draw(seed), code)
        model, _ = build(case, data_is_input=False)
        model.finish()
        ((_, call),) = registry.calls(model.frozen, [], final=True)
        if call.unknown is None and not any(output.size == 0 for output in call.outputs):
            yield call, internal.compute(call)


@pytest.mark.parametrize(
    "code", [code for code in generators() if registry.lookup(code).traits.boxes], ids=lambda code: code.name
)
def test_boxes_are_what_references_give(code: KnownCode) -> None:
    boxes = registry.lookup(code).traits.boxes
    assert boxes is not None
    compared = 0
    for call, expected in calls_of(code):
        found = boxes(call)
        if found is not None:
            compared += 1
            for box, output in zip(found, expected, strict=True):
                np.testing.assert_array_equal(box.of(call.input.data), output.reshape(-1))
    assert compared


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))), ids=str)
def test_the_inverse_of_a_box_takes_its_elements_back(axes: tuple[int, ...]) -> None:
    data = np.arange(3 * 5 * 7)
    box = Box.transposed((3, 5, 7), axes)
    assert box.reorders(data.size)
    np.testing.assert_array_equal(box.inverse.of(box.of(data)), data)
    assert box.is_whole(data.size) == (axes == (0, 1, 2))
