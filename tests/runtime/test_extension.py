"""Operations of vendor extensions: a driver that knows one, and all that does not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from builder import Builder
from samples import compiled, execution, f32, raises

import nnvk
from nnvk import OperationCode, ResultCode
from nnvk.base.errors import bad_data
from nnvk.driver.cpu import CpuDevice
from nnvk.hal import DeferredExecution, IDevice, IExecution, IFencedExecution, IPreparedModel, Support
from nnvk.ops.check import validate_model, validate_request
from nnvk.types.codes import DeviceTypeCode, ExtensionCode
from nnvk.types.model import Model
from nnvk.types.request import Capabilities, ExecuteOptions, ExecutionResult, OutputShape, PrepareOptions, Request

EXTENSION = "com.example.filters"
SHARPEN, BLUR = 0, 1


class FilterDevice(IDevice):
    """A driver with one operation of its own, and nothing else: SHARPEN, output = 2 x input - its mean."""

    name = "example-filters"
    type = DeviceTypeCode.ACCELERATOR
    version = "1"
    capabilities = Capabilities(relative_time=0.1)
    extensions = (EXTENSION,)

    def get_supported_operations(self, model: Model) -> list[Support]:
        return [
            Support(None if operation.code == ExtensionCode(EXTENSION, SHARPEN) else f"{operation} is no filter")
            for operation in model.operations
        ]

    def prepare_model(self, model: Model, options: PrepareOptions) -> IPreparedModel:
        validate_model(model)
        for support in self.get_supported_operations(model):
            if not support.supported:
                raise bad_data(support.reason)
        return _PreparedFilters(model)


class _PreparedFilters(IPreparedModel):
    def __init__(self, model: Model) -> None:
        self._model = model

    def create_reusable_execution(self, request: Request) -> IExecution:
        validate_request(self._model, request)
        return _Filtering(self._model, request)


class _Filtering(IExecution):
    def __init__(self, model: Model, request: Request) -> None:
        self._model = model
        self._request = request

    def execute(self, options: ExecuteOptions) -> ExecutionResult:
        values = dict(zip(self._model.inputs, (source.array for source in self._request.inputs), strict=True))
        for operation in self._model.operations:
            source = values[operation.inputs[0]]
            values[operation.outputs[0]] = (2 * source - source.mean()).astype(np.float32)
        for index, target in zip(self._model.outputs, self._request.outputs, strict=True):
            if target.buffer is not None:
                target.buffer[:] = values[index].reshape(-1).view(np.uint8)
        shapes = tuple(OutputShape(values[index].shape) for index in self._model.outputs)
        return ExecutionResult(ResultCode.NO_ERROR, shapes)

    def execute_fenced(self, wait_for: Sequence[IFencedExecution], options: ExecuteOptions) -> IFencedExecution:
        return DeferredExecution(lambda: self.execute(options), wait_for)


def filter_model(code: int = SHARPEN, *, around: bool = False, extension: str = EXTENSION) -> nnvk.Model:
    """A filter, on demand between two of NNAPI's operations."""
    build = Builder()
    vendor = build.model.get_extension_operation_type(extension, code)
    source = current = build.operand(f32(4))
    if around:
        current = build.operation(OperationCode.NEG, [current], f32(4))
    current = build.operation(vendor, [current], f32(4))
    if around:
        current = build.operation(OperationCode.ABS, [current], f32(4))
    return build.finish([source], [current])


def places_model(*, number: bool = False) -> nnvk.Model:
    """An operation of nnvk's own extension between two of NNAPI's."""
    build = Builder()
    source, indices = build.operand(f32(5, 7)), build.operand(nnvk.OperandType(nnvk.OperandCode.TENSOR_INT32, (3, 1)))
    code: nnvk.ExtendedOperationCode | int = nnvk.ExtendedOperationCode.GATHER_ND
    if number:
        build.model.get_extension_operation_type("com.example.first", 3)
        code = build.model.get_extension_operation_type(nnvk.EXTENSION, nnvk.ExtendedOperationCode.GATHER_ND.value)
    negated = build.operation(OperationCode.NEG, [source], f32(5, 7))
    rows = build.operation(code, [negated, indices], f32(3, 7))
    return build.finish([source, indices], [build.operation(OperationCode.ABS, [rows], f32(3, 7))])


@pytest.fixture
def filters() -> nnvk.Device:
    return nnvk.Device(FilterDevice())


SOURCE = np.array([1, 2, 3, 6], np.float32)
SHARPENED = 2 * SOURCE - 3
AROUND = np.abs(SHARPENED)


def test_numbers_of_operations_have_the_extension_s_prefix() -> None:
    model = nnvk.Model()
    first = model.get_extension_operation_type("com.example.a", 0)
    second = model.get_extension_operation_type("com.example.b", 7)
    assert first >> 16 and second >> 16
    assert first >> 16 != second >> 16
    assert (first & 0xFFFF, second & 0xFFFF) == (0, 7)
    assert model.get_extension_operation_type("com.example.a", 3) == first + 3


@pytest.mark.parametrize(("extension", "code"), [("", 0), ("com.example", -1), ("com.example", 1 << 16)])
def test_operations_that_no_extension_can_have(extension: str, code: int) -> None:
    with raises(ResultCode.BAD_DATA):
        nnvk.Model().get_extension_operation_type(extension, code)


def test_a_number_without_an_extension() -> None:
    build = Builder()
    source = build.operand(f32(4))
    with raises(ResultCode.BAD_DATA, "no operation"):
        build.operation(1 << 16, [source], f32(4))


def test_the_device_says_so(filters: nnvk.Device, device: nnvk.Device) -> None:
    assert filters.extensions == (EXTENSION,)
    assert filters.get_extension_support(EXTENSION)
    assert not filters.get_extension_support("com.example.other")
    assert not device.get_extension_support(EXTENSION)


def test_a_vendor_s_operation(filters: nnvk.Device) -> None:
    model = filter_model()
    assert model.frozen.operations[0].code == ExtensionCode(EXTENSION, SHARPEN)
    assert str(model.frozen.operations[0]) == f"{EXTENSION}/0"
    assert model.get_supported_operations_for_devices([filters]) == [True]
    compilation = compiled(model, filters)
    output = np.zeros(4, np.float32)
    run = execution(compilation, [SOURCE], [output], reusable=True)
    run.compute()
    np.testing.assert_array_equal(output, SHARPENED)
    output[:] = 0
    run.start_compute_with_dependencies([]).wait()
    np.testing.assert_array_equal(output, SHARPENED)


def test_other_devices_don_t_have_it(device: nnvk.Device) -> None:
    model = filter_model()
    (support,) = model.get_support(device)
    assert not support.supported
    assert f"{EXTENSION}/0" in support.reason
    compilation = nnvk.Compilation(model, [device])
    with raises(ResultCode.BAD_DATA, f"{EXTENSION}/0"):
        compilation.finish()
    with raises(ResultCode.BAD_DATA, "not supported"):
        device.driver.prepare_model(model.frozen, PrepareOptions())


def test_an_operation_that_the_extension_s_device_does_not_have(filters: nnvk.Device) -> None:
    with raises(ResultCode.BAD_DATA, "is no filter"):
        compiled(filter_model(BLUR), filters)


@pytest.mark.parametrize("others", [["nnapi-reference"], ["vulkan-0"], ["vulkan-0", "nnapi-reference"]], ids="+".join)
def test_a_model_on_the_vendor_s_device_and_others(filters: nnvk.Device, others: list[str]) -> None:
    compilation = compiled(filter_model(around=True), filters, *map(nnvk.get_device, others))
    assert [partition.device.name for partition in compilation.partitions] == [others[0], filters.name, others[0]]
    (output,) = nnvk.run(compilation, [SOURCE])
    np.testing.assert_array_equal(output, AROUND)


def test_a_model_on_devices_of_choice(use_devices, gpu: nnvk.Device, cpu: nnvk.Device) -> None:
    use_devices([FilterDevice(), CpuDevice()])
    (output,) = nnvk.run(compiled(filter_model(around=True)), [SOURCE])
    np.testing.assert_array_equal(output, AROUND)


def test_nobody_can_take_over_a_vendor_s_operation(use_devices) -> None:
    class Sick(FilterDevice):
        def prepare_model(self, model: Model, options: PrepareOptions) -> IPreparedModel:
            raise nnvk.NnapiError(ResultCode.OP_FAILED, "it is sick")

    use_devices([Sick(), CpuDevice()])
    with raises(ResultCode.OP_FAILED, "it is sick"):
        compiled(filter_model(around=True))


# --- nnvk's own extension ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [False, True], ids=["code", "number"])
def test_nnvk_s_own_operations(device: nnvk.Device, number: bool) -> None:
    assert device.get_extension_support(nnvk.EXTENSION)
    model = places_model(number=number)
    assert model.frozen.operations[1].code is nnvk.ExtendedOperationCode.GATHER_ND
    assert model.get_supported_operations_for_devices([device]) == [True] * 3
    source = np.arange(35, dtype=np.float32).reshape(5, 7)
    (output,) = nnvk.run(compiled(model, device), [source, np.array([[4], [0], [-2]], np.int32)])
    np.testing.assert_array_equal(output, source[[4, 0, 3]])


def test_nnvk_s_own_operations_by_what_stands_for_others() -> None:
    build = Builder()
    source, indices = build.operand(f32(5)), build.operand(nnvk.OperandType(nnvk.OperandCode.TENSOR_INT32, (3, 1)))
    code = ExtensionCode(nnvk.EXTENSION, nnvk.ExtendedOperationCode.GATHER_ND.value)
    build.model.add_operation(code, [source, indices], [build.operand(f32(3))])
    with raises(ResultCode.BAD_DATA, f"{nnvk.EXTENSION} has no operation 999"):
        build.model.add_operation(ExtensionCode(nnvk.EXTENSION, 999), [source], [indices])


def test_wide_operations_have_nnapi_s_numbers() -> None:
    nnapi = {code.name: code.value for code in nnvk.OperationCode}
    for code in nnvk.ExtendedOperationCode:
        assert code.value == nnapi[code.name] if code.value < 256 else code.name not in nnapi


def test_an_operation_that_nnvk_s_extension_does_not_have() -> None:
    build = Builder()
    number = build.model.get_extension_operation_type(nnvk.EXTENSION, 999)
    with raises(ResultCode.BAD_DATA, f"{nnvk.EXTENSION} has no operation 999"):
        build.operation(number, [build.operand(f32(4))], f32(4))


def test_nnvk_s_own_operations_are_checked_with_the_model() -> None:
    build = Builder()
    inputs = [build.operand(f32(5)), build.operand(f32(3, 1))]
    output = build.operation(nnvk.ExtendedOperationCode.GATHER_ND, inputs, f32(3))
    with raises(ResultCode.BAD_DATA, "GATHER_ND: indices .input 1. must be TENSOR_INT32"):
        build.finish(inputs, [output])
