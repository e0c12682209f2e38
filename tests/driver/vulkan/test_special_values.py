"""Every kernel on NaN, infinities, and truth values that are neither 0 nor 1, against the reference."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from data_errors import data_error
from generators import Case, Draw, draw_case, drawn, run_case
from kernel_cases import KERNELS

from nnvk.check.model_rows import empty_like, execute
from nnvk.ops.signature import BOOL8, F32

pytestmark = pytest.mark.numbers
SEEDS = 12
ROOM = [np.zeros(1000, np.float32)] * 4
"""For outputs that are not to come."""
NUMBERS = (np.nan, -np.nan, np.inf, -np.inf)


def cases(of):
    """All kernels that have an operand of a type, with the types of their first operand."""
    return [
        kernel for kernel in KERNELS if any(arg.type.code is of for arg in draw_case(Draw(0), *kernel.values).inputs)
    ]


def results(vulkan, case: Case, expected: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs, none where the driver refuses."""
    row = drawn(case)
    if not vulkan.get_supported_operations(row.model)[0].supported:
        return []
    outputs = empty_like(expected)
    execute(vulkan, row, outputs)
    return outputs


def with_data(case: Case, of, change) -> Case:
    """The case with its data of a type replaced by what ``change`` makes of it. Parameters stay."""
    inputs = tuple(
        replace(arg, data=change(np.asarray(arg.data)))
        if arg.type.code is of and arg.data is not None and not arg.is_parameter
        else arg
        for arg in case.inputs
    )
    return replace(case, inputs=inputs)


@pytest.mark.parametrize(("code", "leading"), cases(F32))
def test_numbers_that_are_none(vulkan, code, leading):
    """As data. As weights they are beyond what devices agree on: whether padding is multiplied is theirs."""
    compared = 0
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        numbers = np.array(NUMBERS[:2] if seed % 2 else NUMBERS, np.float32)

        def spoilt(data: np.ndarray, rng=rng, numbers=numbers) -> np.ndarray:
            chosen = rng.choice(numbers, data.shape)
            return np.where(rng.random(data.shape) < 0.15, chosen, data)

        case = with_data(draw_case(Draw(seed), code, leading), F32, spoilt)
        refused = data_error(lambda case=case: run_case(case))
        if refused is not None:
            assert data_error(lambda case=case: results(vulkan, case, ROOM[: len(case.outputs)])) == refused
            compared += 1
            continue
        expected = run_case(case)
        for want, got in zip(expected, results(vulkan, case, expected), strict=False):
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
        other = with_data(
            case, BOOL8, lambda data, rng=rng: (rng.integers(1, 256, data.shape, np.uint8) * data).view(np.bool_)
        )
        expected = run_case(case)
        for want, got in zip(expected, results(vulkan, other, expected), strict=False):
            if want.dtype == np.bool_:
                want, got = want.view(np.uint8) > 0, got.view(np.uint8) > 0
            np.testing.assert_array_equal(got, want, err_msg=f"seed {seed}")
            compared += 1
    assert compared
