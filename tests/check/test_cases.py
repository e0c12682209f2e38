"""The cases of ``nnvk check``: valid, of all operations and types, and of all shaders that planners choose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from profiles import EIGHT_LANES, GPU, SMALLEST

from nnvk.check.cases import Case, cases
from nnvk.check.device import plan_of
from nnvk.check.model_rows import Row, code_of, parse
from nnvk.check.templates import derived
from nnvk.driver.vulkan.lowering.gemm.verification import checksum, exact
from nnvk.driver.vulkan.lowering.verification import VERIFICATION
from nnvk.driver.vulkan.planning.planner import Planner
from nnvk.driver.vulkan.planning.validation import check
from nnvk.driver.vulkan.shaders.assumptions import ASSUMPTIONS
from nnvk.driver.vulkan.shaders.commands import Dispatch
from nnvk.driver.vulkan.shaders.declaration import declared_shaders
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.profile import ACCELERATED_DOTS, NATIVE_16, DeviceProfile
from nnvk.ops.check import validate_model

LIBRARY = ShaderLibrary()
PACKED = LIBRARY.features - NATIVE_16
PROFILES = {
    "gpu": replace(GPU, features=LIBRARY.features | {ACCELERATED_DOTS}),
    "gpu, packed": replace(GPU, features=PACKED - {"shaderIntegerDotProduct"}),
    "cpu": replace(EIGHT_LANES, features=LIBRARY.features, max_groups=65535),
    "cpu, packed": replace(EIGHT_LANES, features=PACKED - {"shaderIntegerDotProduct"}, max_groups=65535),
    "smallest": SMALLEST,
}
_OF_CHECKS = {
    shader.name
    for shader in (
        checksum.CHECKSUM,
        checksum.BY_CHANNEL,
        exact.EXACT,
        exact.BY_CHANNEL,
    )
}
_OF_NO_OPERATION = {ASSUMPTIONS.name, VERIFICATION.name, *_OF_CHECKS}
"""Shaders that no operation dispatches in a plain plan."""
NOT_MET = {
    "attention.f16.f32": "caches of 32-bit floats beside 16-bit floats are relaxed models'",
    "depthwise_conv2d.q8.none.whole_checked.fused": "plain plans have no checksums",
    "depthwise_conv2d.q8.none.whole_checked.plain": "the same",
    "normalize_rows.f16.f16": "both ends of 16-bit floats are relaxed models'",
    "normalize_rows.f32.f16": "the same",
    "quantized_16bit_lstm.shared.dot.driven": "inputs of all steps at once are of unrolled layers",
    "quantized_16bit_lstm.shared.none.driven": "the same",
    "quantized_16bit_lstm.subgroup.dot.driven": "the same",
    "quantized_16bit_lstm.subgroup.none.driven": "the same",
}
"""No case dispatches these variants, for these reasons. The test leaves out GEMMs, of which there are more."""


@pytest.fixture(scope="module")
def rows() -> list[tuple[Case, Row]]:
    """All cases, parsed."""
    return [(case, parse(case.text)) for case in cases()]


def dispatched(profile: DeviceProfile, rows: list[tuple[Case, Row]]) -> set[str]:
    """The variants that all cases dispatch. Each case must be supported.

    A plan that is read from a file has to be valid, so every plan has to be.
    """
    planner = Planner(profile, LIBRARY, "test")
    found: set[str] = set()
    for case, row in rows:
        assert not any(planner.support(row.model)), case.text
        plan = plan_of(planner, row)
        check(plan, row.model, [array.shape for array in row.inputs], planner.profile)
        found.update(command.shader.name for command in plan.commands if isinstance(command, Dispatch))
    return found


def test_cases_are_valid_and_different(rows: list[tuple[Case, Row]]) -> None:
    for case, row in rows:
        validate_model(row.model)
        assert row.model.operations[0].code == case.code, case.text
        for array, index in zip(row.inputs, row.model.inputs, strict=True):
            assert array.shape == row.model.operands[index].type.dimensions, case.text
            assert array.dtype.kind != "f" or np.isfinite(array).all(), case.text
    assert len({case.text for case, _ in rows}) == len(rows)


@pytest.mark.parametrize(
    ("name", "template"),
    [
        ("ABS", "T[3,5]"),
        ("ARGMAX", "T[3,5] 1 -> i32"),
        ("ADD", "T[3,5] T[3,5] NONE"),
        ("ELU", "T[3,5] 1.0R"),
        ("GELU", "T[3,5]"),
        ("SELECT", "b8[3,5] T[3,5] T[3,5] -> T"),
        ("INSTANCE_NORMALIZATION", "T[1,1,3,5] 1.0R 1.0R 1.0R false"),
        ("RNN", "T[3,5] T[3,5] T[3,5] T[5] T[3,5] NONE -> T T"),
        ("ADD_INT64", "T[3,5] none T[3,5] none -> T T"),
        ("RANK", "T[3,5] -> int32"),
        ("CAST", "T[3,5]"),
        ("QUANTIZE", None),
        ("HASHTABLE_LOOKUP", None),
    ],
)
def test_templates_by_signature(name: str, template: str | None) -> None:
    assert derived(code_of(name), (3, 5)) == template


def test_the_most_used_types_come_first() -> None:
    first, last = cases()[0], cases()[-1]
    assert first.text.startswith("CONV_2D f32[")
    assert last.leading.name not in ("TENSOR_FLOAT32", "TENSOR_FLOAT16", "TENSOR_QUANT8_ASYMM")


def test_every_shader_and_variant_is_met(rows: list[tuple[Case, Row]]) -> None:
    """Each device has every shader, and one of them every variant.

    Products are apart, of which a device has many variants that are slower than others at all usual sizes.
    """
    met: set[str] = set()
    for name, profile in PROFILES.items():
        found = dispatched(profile, rows)
        wanted = {shader.name for shader in declared_shaders()} - _OF_NO_OPERATION
        if profile.is_cpu:
            wanted.remove("fully_connected")  # a CPU has tiles for few rows that are thought to be faster
            wanted.remove("attention_tile")  # GEMMs are faster there
        assert wanted <= {variant.partition(".")[0] for variant in found}, name
        met |= found
    missing = {
        variant.name
        for shader in declared_shaders()
        for variant in shader.variants
        if shader.name not in {"gemm", *_OF_NO_OPERATION} and variant.name not in met
    }
    assert missing - {native_variant for name in NOT_MET for native_variant in (name, f"{name}.native")} == set(), (
        "nnvk/check/cases.txt needs lines for these"
    )
    tiles = {tuple(name.split(".")[1:4]) for name in met if name.startswith("gemm.")}
    assert {tile for _, tile, _ in tiles} == {"subgroup", "shared", "register", "quads"}
    assert {arithmetic for *_, arithmetic in tiles} == {"none", "float", "dot", "half", "int8"}
    assert {kind for kind, *_ in tiles} == {"f32", "f16", "i32", "q8", "q16"}
