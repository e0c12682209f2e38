"""Every kernel of the Vulkan driver on what the generators draw: the cases of the tests that are the same for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from generators import Draw, draw_case, drawn

from nnvk.check.model_rows import Row
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.lowering.kernel import kernels
from nnvk.ops import registry
from nnvk.types.codes import OperandCode
from nnvk.types.extension import KnownCode

KERNELS = [
    pytest.param(code, leading, id=f"{code.name}-{leading.name}")
    for code, definition in registry.definitions().items()
    if definition.code in kernels()
    for leading in definition.types
]
"""All operations that have a kernel, with all their leading types."""


def supported(
    vulkan: VulkanDevice, code: KnownCode, leading: OperandCode, seeds: Sequence[int], *, late: bool = False
) -> Iterator[tuple[int, Row]]:
    """The seed and the row of what the device takes; a failure where it takes none.

    ``late`` makes inputs of the parameters, so that they come with the execution.
    """
    reason = "no seed"
    taken = 0
    for seed in seeds:
        row = drawn(draw_case(Draw(seed), code, leading), late=late)
        (support,) = vulkan.get_supported_operations(row.model)
        reason = support.reason
        if support.supported:
            taken += 1
            yield seed, row
    assert taken, f"no case is supported: {reason}"
