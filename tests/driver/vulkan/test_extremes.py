"""Every kernel with the smallest and largest numbers that scales and parameters can be, against the reference."""

from dataclasses import replace

import numpy as np
import pytest
from against_reference import sums_in_16_bits
from generators import Case, Draw, draw_case, drawn, run_case
from kernel_cases import KERNELS

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.check.model_rows import empty_like, execute
from nnvk.conformance.compare import FLOAT16_TOLERANCE

pytestmark = pytest.mark.numbers
EXTREMES = tuple(float(np.float32(number)) for number in (1e-45, 1e-38, 1e-30, 1e-20, 1e20, 1e30, 3.4e38))
SEEDS = 10
TOLERANCES = {"float32": (1e-4, 1e-5), "float16": (2**-10, 1e-5), "uint8": (0, 1), "int8": (0, 1)}
"""Relative and absolute, by type; 16-bit floats to a unit in the last place, where they are summed in 32 bits."""


class ExtremeDraw(Draw):
    """Every other scale is extreme."""

    def scale(self) -> float:
        return self.pick(EXTREMES) if self.chance() else super().scale()


def spoilt(d: Draw, case: Case) -> Case:
    """The case with other real parameters and scales."""
    inputs = list(case.inputs)
    for place, arg in enumerate(inputs):
        if arg.data is None or not d.chance():
            continue
        if not arg.type.is_tensor and np.asarray(arg.data).dtype.kind == "f":
            with np.errstate(over="ignore"):
                inputs[place] = replace(arg, data=np.array(d.pick(EXTREMES)).astype(arg.type.dtype))
        elif arg.type.scale:
            inputs[place] = replace(arg, type=replace(arg.type, scale=d.pick(EXTREMES)))
    return replace(case, inputs=tuple(inputs))


@pytest.mark.parametrize(("code", "leading"), KERNELS)
def test_like_the_reference(vulkan, code, leading):
    compared = 0
    for seed in range(SEEDS):
        d = ExtremeDraw(seed)
        case = draw_case(d, code, leading)
        case = spoilt(d, case) if seed % 2 else case
        row = drawn(case)
        try:
            expected = run_case(case)
        except NnapiError as error:  # a bias in another scale, say
            assert error.code is ResultCode.BAD_DATA, error
            continue
        if not vulkan.get_supported_operations(row.model)[0].supported:
            continue
        outputs = empty_like(expected)
        execute(vulkan, row, outputs)
        compared += 1
        for want, got in zip(expected, outputs, strict=True):
            relative, absolute = TOLERANCES.get(want.dtype.name, (0, 0))
            if want.dtype == np.float16 and sums_in_16_bits(vulkan, row):
                relative = absolute = FLOAT16_TOLERANCE
            np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=relative, atol=absolute)
    assert compared
