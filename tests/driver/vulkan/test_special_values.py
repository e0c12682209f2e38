"""Every kernel on NaN, infinities, and truth values that are neither 0 nor 1, against the reference."""

from dataclasses import replace

import numpy as np
import pytest
from recipes import Case, Draw, draw_case, frozen, run_case
from rows import empty_like, request

from nnvk.driver.vulkan.kernel import kernels
from nnvk.ops import registry
from nnvk.ops.signature import BOOL8, F32
from nnvk.types.request import ExecuteOptions, PrepareOptions

SEEDS = 12
NUMBERS = (np.nan, -np.nan, np.inf, -np.inf)


def cases(of):
    """All kernels that have an operand of a type, with the types of their first operand."""
    return [
        pytest.param(code, leading, id=f"{code.name}-{leading.name}")
        for code, kernel in sorted(kernels().items())
        for leading in registry.lookup(code).types
        if leading in kernel.types and any(arg.type.code is of for arg in draw_case(Draw(0), code, leading).inputs)
    ]


def execute(vulkan, case: Case) -> list[np.ndarray] | None:
    """The outputs, None where the driver refuses."""
    model = frozen(case)
    if not vulkan.get_supported_operations(model)[0].supported:
        return None
    outputs = empty_like(run_case(case))
    inputs = [case.inputs[index].data for index in model.inputs]
    vulkan.prepare_model(model, PrepareOptions()).execute(request(inputs, outputs), ExecuteOptions())
    return outputs


@pytest.mark.parametrize(("code", "leading"), cases(F32))
def test_numbers_that_are_none(vulkan, code, leading):
    """As data. As weights they are beyond what devices agree on: whether padding is multiplied is theirs."""
    compared = 0
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        case = draw_case(Draw(seed), code, leading)
        inputs = list(case.inputs)
        for place, arg in enumerate(inputs):
            if arg.type.code is F32 and arg.data is not None and not arg.is_parameter:
                chosen = rng.choice(np.array(NUMBERS[:2] if seed % 2 else NUMBERS, np.float32), arg.shape)
                inputs[place] = replace(arg, data=np.where(rng.random(arg.shape) < 0.15, chosen, arg.data))
        case = replace(case, inputs=tuple(inputs))
        outputs = execute(vulkan, case)
        for want, got in zip(run_case(case), outputs or (), strict=False):
            tolerance = 1e-5 if want.dtype.kind == "f" else int(want.dtype in (np.uint8, np.int8))
            np.testing.assert_allclose(
                got.astype(float), want.astype(float), rtol=1e-5, atol=tolerance, err_msg=f"seed {seed}"
            )
            compared += 1
    assert compared


@pytest.mark.parametrize(("code", "leading"), cases(BOOL8))
def test_any_other_byte_is_true(vulkan, code, leading):
    compared = 0
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        case = draw_case(Draw(seed), code, leading)
        inputs = list(case.inputs)
        for place, arg in enumerate(inputs):
            if arg.type.code is BOOL8 and arg.data is not None:
                some = rng.integers(1, 256, arg.shape, np.uint8)
                inputs[place] = replace(arg, data=(some * arg.data).view(np.bool_))
        outputs = execute(vulkan, replace(case, inputs=tuple(inputs)))
        for want, got in zip(run_case(case), outputs or (), strict=False):
            if want.dtype == np.bool_:
                want, got = want.view(np.uint8) > 0, got.view(np.uint8) > 0
            np.testing.assert_array_equal(got, want, err_msg=f"seed {seed}")
            compared += 1
    assert compared
