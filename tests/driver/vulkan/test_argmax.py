"""ARGMAX and ARGMIN on the GPU: what the reference gives, on shapes that leave a tail."""

import numpy as np
import pytest

from nnvk.api import Compilation, Model, OperandCode, OperandType, OperationCode, get_device, run
from nnvk.driver.vulkan.kernels.argmax import LONGEST

TYPES = {
    "f32": OperandType(OperandCode.TENSOR_FLOAT32),
    "i32": OperandType(OperandCode.TENSOR_INT32),
    "q8": OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (), 0.5, 128),
    "q8_signed": OperandType(OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, (), 0.5, 3),
}
SHAPES = [((1,), 0), ((7,), 0), ((5, 11), 1), ((5, 11), -2), ((2, 3, 5, 7), 1), ((3, 1, 4), 1), ((2, 2, 3, 2, 5), 3)]


def model_of(code, type_, shape, axis):
    model = Model()
    source = model.add_operand(type_.with_dimensions(shape))
    parameter = model.add_operand(OperandType(OperandCode.INT32))
    model.set_operand_value(parameter, axis)
    output = model.add_operand(OperandType(OperandCode.TENSOR_INT32))
    model.add_operation(code, [source, parameter], [output])
    model.identify_inputs_and_outputs([source], [output])
    model.finish()
    return model


def compute(model, device, source):
    compilation = Compilation(model, [get_device(device)])
    compilation.finish()
    return run(compilation, [source])[0]


@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("code", [OperationCode.ARGMAX, OperationCode.ARGMIN], ids=lambda code: code.name)
def test_like_the_reference(code, kind, shape, axis):
    source = np.random.default_rng(3).integers(-4, 5, shape).astype(TYPES[kind].dtype)  # many equal elements
    model = model_of(code, TYPES[kind], shape, axis)
    np.testing.assert_array_equal(compute(model, "vulkan-0", source), compute(model, "nnapi-reference", source))


def test_long_axes_are_refused():
    model = model_of(OperationCode.ARGMAX, TYPES["f32"], (LONGEST + 1,), 0)
    (support,) = model.get_support(get_device("vulkan-0"))
    assert support.reason == "axis 0 has 60001 elements, the shader searches at most 60000"
