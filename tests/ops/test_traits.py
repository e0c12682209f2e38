"""The traits of operations agree with their signatures, with each other and with the shaders."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nnvk.ops import registry
from nnvk.ops.registry import OpDef
from nnvk.ops.traits import Effect, Elementwise, Fp16, Function, Traits
from nnvk.types.codes import FuseCode, OperationCode

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
    assert (definition.traits.gemm is not None) == (definition.traits.fp16 is Fp16.STARTS)


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
    assert sorted([*functions, Function.AT_LEAST, Function.AT_MOST]) == list(Function), "limits belong to activations"


def test_shaders_number_and_compute_each_function() -> None:
    text = (SHADERS / "include" / "elementwise.glsl").read_text(encoding="utf-8")
    declared = re.search(r"const uint ([^;]*ADD = [^;]*);", text)
    assert declared is not None
    numbers = {name: int(number) for name, number in re.findall(r"(\w+) = (\d+)", declared[1])}
    assert numbers == {function.name: function.value for function in Function}
    branches = re.findall(r"if \(operation == (\w+)\) result = ", text)
    assert sorted(branches) == sorted(numbers)


@pytest.mark.parametrize("trait", ELEMENTWISE.values(), ids=lambda trait: trait.kind)
def test_shaders_have_a_variant_of_each_kind(trait: Elementwise) -> None:
    text = (SHADERS / ("unary.comp" if len(trait.operands) == 1 else "binary.comp")).read_text(encoding="utf-8")
    assert f"KIND_{trait.kind.upper()}" in text
    assert trait.approximate is None or f"KIND_{trait.approximate[0].upper()}" in text
