"""Tensors without elements: the reference and a GPU beside it give the same, or say the same rule is broken.

The GPU runs what follows the operation that empties the tensors, in one part with it or in one of its own.
"""

from __future__ import annotations

import numpy as np
import pytest
from generators import draw_case
from generators.empty import EmptyDraw, build_empty, has_empty

import nnvk
from nnvk.base.errors import NnapiError, ResultCode
from nnvk.ops import registry
from nnvk.types.codes import DeviceTypeCode, OperandCode
from nnvk.types.codes import OperationCode as Op

CPU = nnvk.get_device("nnapi-reference")
GPUS = [device for device in nnvk.get_devices() if device.type is DeviceTypeCode.GPU][-1:]
SEEDS, MOST_SEEDS = 12, 60
"""As many cases of each type, of which every other one has known sizes; more until one is valid."""
_TILED = registry.lookup(Op.TILE).types
_NEVER = {
    Op.BOX_WITH_NMS_LIMIT: "its generator has boxes; tests of the operation have none, too",
    Op.DETECTION_POSTPROCESSING: "its generator has anchors; tests of the operation have none, too",
    Op.HEATMAP_MAX_KEYPOINT: "its generator has boxes; tests of the operation have none, too",
    Op.QUANTIZED_LSTM: "its generator has batches; tests of the operation have none, too",
    Op.FILL: "its input is a shape",
    Op.SELECT: "TILE has no BOOL8",
}
CODES = [code for code in Op if set(registry.lookup(code).types) & set(_TILED) and code not in _NEVER]


def outcome(builder: nnvk.Model, values: list[np.ndarray], devices: list[nnvk.Device]) -> list[np.ndarray] | None:
    """The outputs; None where a rule is broken."""
    compilation = nnvk.Compilation(builder, devices)
    compilation.finish()
    try:
        return nnvk.run(compilation, values)
    except NnapiError as error:
        assert error.code is ResultCode.OP_FAILED, error
        return None


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_nothing(code: Op, known: bool) -> None:
    executed = 0
    for leading in registry.lookup(code).types:
        for seed in range(known, MOST_SEEDS, 2):
            if seed >= SEEDS and executed:
                break
            executed += _agrees(code, leading, seed, known)
    assert executed


def _agrees(code: Op, leading: OperandCode, seed: int, known: bool) -> bool:
    """Assert that all devices say the same of a case. Whether there was something to say."""
    case = draw_case(EmptyDraw(seed), code, leading)
    if not has_empty(case):
        return False
    builder, values = build_empty(case, known=known)
    try:
        builder.finish()
    except NnapiError as error:
        assert error.code is ResultCode.BAD_DATA, error
        return False
    expected = outcome(builder, values, [CPU])
    for gpu in GPUS:
        results = outcome(builder, values, [gpu, CPU])
        assert (results is None) == (expected is None), f"{leading.name}, seed {seed}"
        for want, got in zip(expected or (), results or (), strict=True):
            # Real numbers as the operations' own tests have them; steps to one.
            tolerance = 1e-4 if want.dtype.kind == "f" else 1 if want.dtype.itemsize == 1 else 0
            np.testing.assert_allclose(
                got.astype(float), want.astype(float), rtol=1e-4, atol=tolerance, err_msg=f"{leading.name}, seed {seed}"
            )
    return expected is not None
