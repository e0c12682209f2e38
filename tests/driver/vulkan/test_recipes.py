"""Every kernel on drawn cases, against the reference: all types, options and overloads."""

import numpy as np
import pytest
from guarded import run_guarded
from recipes import Draw, draw_case, frozen, run_case
from rows import empty_like, request

from nnvk.driver.vulkan.lowering.kernel import kernels
from nnvk.ops import registry
from nnvk.types.request import ExecuteOptions, PrepareOptions

CASES = [
    pytest.param(code, leading, id=f"{code.name}-{leading.name}")
    for code in sorted(kernels())
    for leading in registry.lookup(code).types
]
SEEDS = 6


@pytest.mark.parametrize(("code", "leading"), CASES)
def test_like_the_reference(vulkan, code, leading):
    refusals = []
    for seed in range(SEEDS):
        case = draw_case(Draw(seed), code, leading)
        model, expected = frozen(case), run_case(case)
        (support,) = vulkan.get_supported_operations(model)
        if not support.supported:
            refusals.append(support.reason)
            continue
        inputs = [case.inputs[index].data for index in model.inputs]
        outputs, guarded = empty_like(expected), empty_like(expected)
        vulkan.prepare_model(model, PrepareOptions()).execute(request(inputs, outputs), ExecuteOptions())
        for want, got in zip(expected, outputs, strict=True):
            agree(want, got, f"seed {seed}")
        assert run_guarded(vulkan, model, inputs, guarded) == []
        assert [a.tobytes() for a in outputs] == [a.tobytes() for a in guarded]
    assert len(refusals) < SEEDS, f"no case is supported: {refusals[0]}"


def agree(want, got, what):
    """Floats to 1e-5 and 5 units in the last place, as Android's tests ask; 16-bit ones to a unit; the rest equal."""
    if want.dtype == np.float32:
        np.testing.assert_allclose(got, want, rtol=6e-7, atol=1e-5, err_msg=what)
    elif want.dtype == np.float16:
        np.testing.assert_allclose(got, want, rtol=2**-10, atol=2**-17, err_msg=what)
    else:
        np.testing.assert_array_equal(got, want, what)
