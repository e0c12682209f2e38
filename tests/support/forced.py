"""Plans that take one strategy after the other for a GEMM."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.lowering.gemm import gemm
from nnvk.driver.vulkan.lowering.gemm.problem import Work
from nnvk.driver.vulkan.lowering.gemm.strategies import candidates
from nnvk.driver.vulkan.lowering.gemm.strategy import Strategy
from nnvk.driver.vulkan.lowering.gemm.tiles.depthwise import Depthwise
from nnvk.driver.vulkan.planning.passes import depthwise


def forced_strategies(
    monkeypatch: pytest.MonkeyPatch, device: VulkanDevice, plan: Callable[[], object], tile: str
) -> Iterator[Strategy]:
    """Have plans take the smallest and the largest strategy of a tile, and one with K split, each until the next one.

    ``plan`` plans a model with a single GEMM. The tile `depthwise` makes plans compute depthwise convolutions with the
    1 x 1 convolutions behind them.
    """
    works: list[Work] = []
    if tile == Depthwise.tile:
        monkeypatch.setattr(depthwise, "pays", lambda *_: True)
    with monkeypatch.context() as patch:
        every = gemm.ranked
        patch.setattr(gemm, "ranked", lambda work, profile: works.append(work) or every(work, profile))
        plan()
    found = [each for each in candidates(works[0], device.profile) if each.tile == tile]
    whole = sorted((each for each in found if each.split_k == 1), key=lambda each: (each.sums, each.stage))
    for strategy in {*whole[:1], *whole[-1:], *(each for each in found[-1:] if each.split_k > 1)}:
        with monkeypatch.context() as patch:
            patch.setattr(gemm, "ranked", lambda work, profile, strategy=strategy: [strategy])
            yield strategy
