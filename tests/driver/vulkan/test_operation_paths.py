"""Every kernel through every way to execute: the bytes that come out are always the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from kernel_cases import KERNELS, supported

from nnvk.check.model_rows import empty_like, reference, request
from nnvk.driver.vulkan import VulkanDevice
from nnvk.hal import IPreparedModel
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.model import Model
from nnvk.types.request import ExecuteOptions, InputArgument, OutputArgument, PrepareOptions, Request

OPTIONS = ExecuteOptions()
Arrays = Sequence[np.ndarray]
Path = Callable[[VulkanDevice, IPreparedModel, Model, Arrays, Arrays], None]


def sync(device: VulkanDevice, prepared: IPreparedModel, model: Model, inputs: Arrays, outputs: Arrays) -> None:
    prepared.execute(request(inputs, outputs), OPTIONS)


def fenced(device: VulkanDevice, prepared: IPreparedModel, model: Model, inputs: Arrays, outputs: Arrays) -> None:
    prepared.create_reusable_execution(request(inputs, outputs)).execute_fenced((), OPTIONS).result()


def burst(device: VulkanDevice, prepared: IPreparedModel, model: Model, inputs: Arrays, outputs: Arrays) -> None:
    execution = prepared.create_reusable_execution(request(inputs, outputs))
    prepared.configure_execution_burst().execute(execution, OPTIONS)


def three_times(device: VulkanDevice, prepared: IPreparedModel, model: Model, inputs: Arrays, outputs: Arrays) -> None:
    execution = prepared.create_reusable_execution(request(inputs, outputs))
    for _ in range(3):
        execution.execute(OPTIONS)


def on_device(device: VulkanDevice, prepared: IPreparedModel, model: Model, inputs: Arrays, outputs: Arrays) -> None:
    sources = [device.allocate(t, array.shape) for t, array in zip(model.input_types(), inputs, strict=True)]
    targets = [device.allocate(t, array.shape) for t, array in zip(model.output_types(), outputs, strict=True)]
    for source, array in zip(sources, inputs, strict=True):
        source.copy_from(array.reshape(-1).view(np.uint8))
    arguments = [InputArgument(None, s.token, array.shape) for s, array in zip(sources, inputs, strict=True)]
    prepared.execute(Request(arguments, [OutputArgument(None, target.token) for target in targets]), OPTIONS)
    for target, array in zip(targets, outputs, strict=True):
        target.copy_to(array.reshape(-1).view(np.uint8))


PATHS: Sequence[Path] = (sync, fenced, burst, three_times, on_device)


def with_open_shapes(model: Model) -> Model:
    """The model with nothing but the ranks of its inputs known."""
    operands = list(model.operands)
    for index in model.inputs:
        type_ = operands[index].type
        operands[index] = replace(operands[index], type=replace(type_, dimensions=(0,) * len(type_.dimensions)))
    return replace(model, operands=tuple(operands))


@pytest.mark.parametrize(("code", "leading"), KERNELS)
@pytest.mark.crossed
def test_all_paths_agree(vulkan: VulkanDevice, code: OperationCode, leading: OperandCode) -> None:
    seed, row = next(supported(vulkan, code, leading, range(200, 210)))
    results = reference(row)
    expected: list[bytes] | None = None
    for version in (row.model, with_open_shapes(row.model)):
        if not vulkan.get_supported_operations(version)[0].supported:
            continue  # its shaders depend on the shapes
        prepared = vulkan.prepare_model(version, PrepareOptions())
        for path in PATHS:
            outputs = empty_like(results)
            path(vulkan, prepared, version, row.inputs, outputs)
            content = [array.tobytes() for array in outputs]
            assert expected in (None, content), f"seed {seed}, {path.__name__}"
            expected = content
