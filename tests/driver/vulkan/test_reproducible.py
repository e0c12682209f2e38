"""Reproducible models: the device's floats have the reference's bits, whatever the kernel and the tile."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builder import Builder
from generators import Draw, draw_case, drawn
from guarded import run_guarded
from kernel_cases import KERNELS, supported
from networks import classifier, images
from random_graph import random_graph
from samples import f32

import nnvk
from nnvk.check.cases import cases
from nnvk.check.comparison import bit_difference
from nnvk.check.model_rows import Row, empty_like, execute, parse, reference
from nnvk.demo.assets import DATA
from nnvk.driver.vulkan import VulkanDevice
from nnvk.ops import registry
from nnvk.ops.flow import CONTROL_FLOW
from nnvk.ops.reproducible import elementary, functions, refuse
from nnvk.ops.traits import Effect
from nnvk.runtime.reproducible import refusal
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.model import Model

FLOATS = {OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_FLOAT16}
HASHES = Path(__file__).with_name("reproducible.txt")
"""SHA-256 of the outputs of models, each after its name: the same on every machine. `hashes` makes the lines."""
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 3e38, -3e38, 1e-30, 88.8, -87.4, -103, -20.5, -13.2], np.float32)


def is_defined(row: Row) -> bool:
    """Whether a row has floats, and is not refused."""
    has_floats = any(operand.type.code in FLOATS for operand in row.model.operands)
    return has_floats and not any(refusal(row.model, operation) for operation in row.model.operations)


DEFINED = [kernel for kernel in KERNELS if is_defined(drawn(draw_case(Draw(0), *kernel.values)))]
ANY_FLOATS = [
    kernel
    for kernel in DEFINED
    if kernel.values[1] is OperandCode.TENSOR_FLOAT32
    and Effect.CHECKS_DATA not in registry.lookup(kernel.values[0]).traits.effects
]
"""Those that take any floats."""
GRAPH_CODES = [code for code in registry.definitions() if code not in CONTROL_FLOW and not refuse(code, [f32(1)])]


def difference(want: np.ndarray, got: np.ndarray) -> str:
    """`bit_difference`, where devices may flush subnormal numbers."""
    if want.dtype == np.float32:
        want, got = functions.normal(want), functions.normal(got)
    return bit_difference(want, got)


def check_bits(device: VulkanDevice, row: Row, what: str) -> None:
    """The outputs have the reference's bits, also where every tensor lies by itself."""
    row = replace(row, model=row.model.as_reproducible())
    expected = reference(row)
    outputs, guarded = empty_like(expected), empty_like(expected)
    execute(device, row, outputs)
    assert run_guarded(device, row.model, row.inputs, guarded) == []
    for want, got, alone in zip(expected, outputs, guarded, strict=True):
        assert not difference(want, got), f"{what}: {difference(want, got)}"
        assert not difference(want, alone), f"{what}, amid guards: {difference(want, alone)}"


@pytest.mark.parametrize(("code", "leading"), DEFINED)
def test_the_bits_of_the_reference(device: VulkanDevice, code, leading) -> None:
    for seed, row in supported(device, code, leading, range(2)):
        if is_defined(row):
            check_bits(device, row, f"seed {seed}")


@pytest.mark.parametrize(("code", "leading"), ANY_FLOATS)
def test_special_values(device: VulkanDevice, code, leading) -> None:
    """NaN, infinities, zeros of both signs, and numbers whose results are none or subnormal."""
    for seed, row in supported(device, code, leading, range(50, 52)):
        rng = np.random.default_rng(seed)
        inputs = [
            np.where(rng.random(data.shape) < 0.25, rng.choice(SPECIAL, data.shape), data).astype(data.dtype)
            if data.dtype == np.float32
            else data
            for data in row.inputs
        ]
        if is_defined(row):
            check_bits(device, Row(row.model, inputs), f"seed {seed}")


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(device: VulkanDevice, seed: int) -> None:
    graph = random_graph(seed, 12, GRAPH_CODES)
    outputs = [_run(graph.model.frozen, graph.inputs, driver) for driver in (device, nnvk.get_devices()[-1].driver)]
    for got, want in zip(*outputs, strict=True):
        assert not bit_difference(want, got)


def _run(model: Model, inputs: Sequence[np.ndarray], driver: nnvk.hal.IDevice) -> list[np.ndarray]:
    compilation = nnvk.Compilation(nnvk.Model.of(model), [nnvk.Device(driver)])
    compilation.set_reproducible()
    compilation.finish()
    return [np.array(array) for array in nnvk.run(compilation, inputs)]


UNARY = {
    OperationCode.EXP: functions.exp,
    OperationCode.LOG: functions.log,
    OperationCode.LOGISTIC: functions.logistic,
    OperationCode.RSQRT: functions.inverse_square_root,
    OperationCode.SIN: functions.sin,
    OperationCode.SQRT: functions.square_root,
    OperationCode.TANH: functions.tanh,
    ExtendedOperationCode.ACOS: elementary.acos,
    ExtendedOperationCode.ACOSH: elementary.acosh,
    ExtendedOperationCode.ASIN: elementary.asin,
    ExtendedOperationCode.ASINH: elementary.asinh,
    ExtendedOperationCode.ATAN: elementary.atan,
    ExtendedOperationCode.ATANH: elementary.atanh,
    ExtendedOperationCode.CBRT: elementary.cbrt,
    ExtendedOperationCode.COS: functions.cos,
    ExtendedOperationCode.COSH: elementary.cosh,
    ExtendedOperationCode.ERF: functions.erf,
    ExtendedOperationCode.GELU: functions.gelu,
    ExtendedOperationCode.MISH: functions.mish,
    ExtendedOperationCode.SINH: elementary.sinh,
    ExtendedOperationCode.SOFTPLUS: functions.softplus,
    ExtendedOperationCode.TAN: elementary.tan,
}


@pytest.mark.parametrize("code", UNARY, ids=lambda code: code.name)
def test_functions_over_all_numbers(device: VulkanDevice, code) -> None:
    """Bits at random: all exponents, and few numbers that a model has."""
    bits = np.random.default_rng(9).integers(0, 1 << 32, 100_003, np.uint64).astype(np.uint32)
    numbers = bits.view(np.float32)
    numbers = np.where(np.abs(numbers) < 2.0**-126, np.float32(0), numbers)
    build, type_ = Builder(), f32(len(numbers))
    model = build.finish([source := build.operand(type_)], [build.operation(code, [source], type_)])
    with np.errstate(all="ignore"):
        want = UNARY[code](numbers)
    assert not bit_difference(want, _run(model.frozen, [numbers], device)[0])


@pytest.mark.parametrize("code", [OperationCode.ADD, OperationCode.MUL], ids=lambda code: code.name)
def test_subnormal_results_are_kept_or_zeros(device: VulkanDevice, code: OperationCode) -> None:
    """The one thing in which devices may differ: whether sums and products that are subnormal are kept."""
    a = np.float32(2.0**-126) * np.linspace(1, 2, 1001, dtype=np.float32)
    b = np.full(1001, -(2.0**-126) if code is OperationCode.ADD else 0.25, np.float32)
    build, type_ = Builder(), f32(1001)
    sources = [build.operand(type_), build.operand(type_)]
    model = build.finish(sources, [build.operation(code, [*sources, build.value(0)], type_)])
    want, (got,) = (a + b if code is OperationCode.ADD else a * b), _run(model.frozen, [a, b], device)
    assert not bit_difference(want, got) or not bit_difference(functions.normal(want), got)


def _on_grid(row: Row) -> Row:
    """The row with multiples of 2^-10: the last digits of normal draws depend on the C library's logarithm."""

    def rounded(array: np.ndarray) -> np.ndarray:
        return (np.round(array * np.float32(1024)) / np.float32(1024)).astype(array.dtype)

    operands = tuple(
        replace(operand, constant=rounded(operand.value))
        if operand.value is not None and operand.type.code in FLOATS
        else operand
        for operand in row.model.operands
    )
    inputs = [rounded(array) if array.dtype.kind == "f" else array for array in row.inputs]
    return Row(replace(row.model, operands=operands), inputs)


def _rows() -> Iterator[tuple[str, Row]]:
    """Rows with their names in `HASHES`: the demo's model, small networks, and the cases of `nnvk check`."""
    digits = nnvk.importers.tflite.load(DATA / "digits_float.tflite")
    picture = np.random.default_rng(0).random((1, *digits.inputs[0].shape[1:]), np.float32)
    yield "digits_float.tflite", Row(digits.model.frozen, [picture])
    yield from ((f"classifier {n}", _on_grid(Row(classifier(3, n).frozen, [images(3, n)]))) for n in range(4))
    for case in cases():
        row = parse(case.text)
        if is_defined(row):
            yield case.operations, _on_grid(row)


def hashes(driver: nnvk.hal.IDevice) -> list[str]:
    """The lines of `HASHES` as a device computes them. NaN counts as the usual one."""
    digests: dict[str, Any] = defaultdict(hashlib.sha256)
    for name, row in _rows():
        for array in _run(row.model, row.inputs, driver):
            if array.dtype.kind == "f":
                array[np.isnan(array)] = np.nan
            digests[name].update(array.tobytes())
    return [f"{name}: {digest.hexdigest()}" for name, digest in digests.items()]


def test_the_hashes_of_models(device: VulkanDevice) -> None:
    assert hashes(device) == HASHES.read_text(encoding="utf-8").splitlines()


def test_the_hashes_of_models_on_the_reference() -> None:
    assert hashes(nnvk.get_devices()[-1].driver) == HASHES.read_text(encoding="utf-8").splitlines()
