"""The pass indices: the GATHER that it takes, and its results."""

from __future__ import annotations

import pytest
from fused import Net, families, run_both, wrapped_gather
from rewritten import codes, rewritten

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.planning.passes.indices import wrap_indices
from nnvk.types.request import ExecuteOptions, InputArgument, OutputArgument, PrepareOptions, Request

INDICES = [4, -1, 0, -5, 2, 2]


@pytest.mark.parametrize("indices", [[3], INDICES], ids=["one", "some"])
@pytest.mark.parametrize(("shape", "axis"), [((5,), 0), ((5, 3), 0), ((3, 5, 8), 1), ((3, 5), -1)], ids=str)
def test_results(vulkan: VulkanDevice, shape: tuple[int, ...], axis: int, indices: list[int]) -> None:
    net = Net()
    model = net.finish(wrapped_gather(net, shape, axis, indices))
    graph, count = rewritten(model, wrap_indices)
    assert (codes(graph), count) == (["GATHER_WRAPPED"], 1)
    assert families(run_both(vulkan, model, net.arrays)) in ("gather", "gather_rows")


@pytest.mark.parametrize("other", [{"below": 1}, {"one": 2}, {"zero": 1}, {"size": 4}], ids=str)
def test_other_numbers_stay(other: dict[str, int]) -> None:
    net = Net()
    graph, count = rewritten(net.finish(wrapped_gather(net, (5, 3), 0, [3, 1], **other)), wrap_indices)
    assert (len(graph.nodes), count) == (5, 0)


@pytest.mark.parametrize("shape", [(5, 3), (5, 8)], ids=str)
@pytest.mark.parametrize("wrong", [5, -6])
def test_indices_out_of_range(vulkan: VulkanDevice, shape: tuple[int, ...], wrong: int) -> None:
    net = Net()
    model = net.finish(wrapped_gather(net, shape, 0, [0, wrong]))
    prepared = vulkan.prepare_model(model, PrepareOptions())
    request = Request([*map(InputArgument, net.arrays)], [OutputArgument(None)])
    with pytest.raises(NnapiError) as error:
        prepared.execute(request, ExecuteOptions())
    assert error.value.code is ResultCode.OP_FAILED
    assert error.value.reason.endswith(f"must be in [-5, 5), got {wrong}")
