"""Products of matrices that lie side by side, as the heads of attention: no order is changed before or after them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from fused import (
    TYPES,
    Net,
    Op,
    families,
    heads,
    merged,
    multiplied,
    net_of,
    run_both,
    shaped,
    split,
    transposed,
    typed,
    without_packing,
)

from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.lowering.gemm import gemm
from nnvk.driver.vulkan.lowering.gemm.problem import Work
from nnvk.driver.vulkan.lowering.gemm.strategies import candidates, ranked
from nnvk.driver.vulkan.lowering.gemm.strategy import Strategy
from nnvk.driver.vulkan.planning.validation import check
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.types.codes import FuseCode

kinds = pytest.mark.parametrize("kind", ["float32", "float16", "signed"])

SIZES = [(1, 2, 5, 3, 8), (1, 3, 17, 8, 32), (2, 3, 6, 12, 8), (3, 2, 1, 5, 4), (2, 5, 9, 33, 36), (1, 4, 11, 4, 1)]
"""Batches, heads, rows of the left matrices, those of the right ones, and columns of both."""
sizes = pytest.mark.parametrize("size", SIZES, ids=str)


def scores(net: Net, kind: str, size: Sequence[int]) -> int:
    """Multiply each left row by each right one, head by head."""
    batches, count, rows, others, columns = size
    left, right = (typed(net, kind, batches, each, count * columns) for each in (rows, others))
    left, right = (heads(net, kind, x, batches, count, n, columns) for x, n in ((left, rows), (right, others)))
    return multiplied(net, kind, left, right, adj_y=True)


def mixed(net: Net, kind: str, size: Sequence[int]) -> int:
    """Right rows, as much of each as the left matrices say."""
    batches, count, rows, others, columns = size
    left = typed(net, kind, batches, count, rows, others)
    right = heads(net, kind, typed(net, kind, batches, others, count * columns), batches, count, others, columns)
    return merged(net, kind, multiplied(net, kind, left, right, adj_y=False), batches, count, rows, columns)


def reads_as_they_lie(device: VulkanDevice) -> bool:
    """Whether matrices are not rearranged for cooperative matrices."""
    return not device.profile.cooperative_matrices


@kinds
@sizes
@pytest.mark.crossed
def test_left_matrices(vulkan: VulkanDevice, size: Sequence[int], kind: str) -> None:
    net = net_of(kind)
    plan = run_both(vulkan, net.finish(scores(net, kind, size)), net.arrays)
    if all(each % 4 == 0 for each in size[3:]) and reads_as_they_lie(vulkan):
        assert without_packing(plan) == ["gemm"]


@kinds
@sizes
@pytest.mark.crossed
def test_right_matrices_and_results(vulkan: VulkanDevice, size: Sequence[int], kind: str) -> None:
    net = net_of(kind)
    plan = run_both(vulkan, net.finish(mixed(net, kind, size)), net.arrays)
    if size[-1] % 4 == 0 and reads_as_they_lie(vulkan):
        assert without_packing(plan) == ["gemm"]


TILES = ("register", "quads", "shared", "subgroup")


@kinds
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.crossed
def test_every_tile(vulkan: VulkanDevice, monkeypatch: pytest.MonkeyPatch, tile: str, kind: str) -> None:
    """Also with weights in order, and with K in pieces."""

    def forced(work: Work, device: DeviceProfile, in_order: bool, way: str, pieces: int) -> list[Strategy]:
        ways = [each for each in candidates(work, device) if each.tile == tile and each.split_k == 1]
        found = [each for each in ways if each.arithmetic in ("none", way)]
        found.sort(key=lambda each: each.packed == in_order)
        split = [replace(each, split_k=pieces) for each in found]
        return [each for each in split if each.is_busy(work)][:1] or list(candidates(work, device))[:1]

    pieces = (1, 2) if tile != "subgroup" else (1,)
    for wanted in itertools.product((False, True), ("float", "dot") if kind == "signed" else ("none",), pieces):
        monkeypatch.setattr(gemm, "ranked", lambda work, device, wanted=wanted: forced(work, device, *wanted))
        net = net_of(kind)
        size = 2, 3, 9, 34, 8
        run_both(vulkan, net.finish(scores(net, kind, size), mixed(net, kind, size)), net.arrays)


@kinds
@pytest.mark.parametrize("tile", ["shared", "quads", "any"])
@pytest.mark.crossed
def test_heads_of_one_product(vulkan: VulkanDevice, monkeypatch: pytest.MonkeyPatch, kind: str, tile: str) -> None:
    """Queries, keys and values that lie side by side themselves: their matrices are columns of columns."""

    def forced(work: Work, device: DeviceProfile) -> list[Strategy]:
        ways = list(candidates(work, device))
        return sorted(ways, key=lambda way: (way.tile != tile, way.packed)) if tile != "any" else ranked(work, device)

    monkeypatch.setattr(gemm, "ranked", forced)
    net = net_of(kind)
    whole = typed(net, kind, 2, 6, 3 * 5 * 8)
    query, key, value = (heads(net, kind, each, 2, 5, 6, 8) for each in split(net, whole, 2, 3, kind))
    probabilities = multiplied(net, kind, query, key, adj_y=True)
    y = merged(net, kind, multiplied(net, kind, probabilities, value, adj_y=False), 2, 5, 6, 8)
    model = net.finish(y)
    plan = run_both(vulkan, model, net.arrays)
    if tile == "shared" and kind == "float32":
        assert families(plan) == "gemm gemm"
    shapes = [array.shape for array in net.arrays]
    check(plan, model, shapes, replace(vulkan.profile, barriers_by_buffer=False))


def _shared(work: Work, device: DeviceProfile) -> Iterator[Strategy]:
    return (way for way in candidates(work, device) if way.tile == "shared")


@kinds
@sizes
@pytest.mark.crossed
def test_right_matrices_turned_over(
    vulkan: VulkanDevice, monkeypatch: pytest.MonkeyPatch, size: Sequence[int], kind: str
) -> None:
    """With steps of K outside where output channels are wanted there, and the other way round."""
    monkeypatch.setattr(gemm, "ranked", lambda work, device: [next(_shared(work, device))])
    net = net_of(kind)
    batches, count, rows, others, columns = size
    results = []
    for depth, adj_y in ((columns, False), (others, True)):
        left = typed(net, kind, batches, count, rows, depth)
        right = shaped(net, kind, typed(net, kind, batches, others, count * columns), batches, others, count, columns)
        results.append(multiplied(net, kind, left, transposed(net, right, 0, 2, 3, 1, kind=kind), adj_y))
    plan = run_both(vulkan, net.finish(*results), net.arrays)
    if kind == "float32" and all(each % 4 == 0 for each in size[3:]):
        assert families(plan) == "gemm gemm"


@kinds
def test_all_of_a_tensor_turned_over(vulkan: VulkanDevice, kind: str) -> None:
    """As one TRANSPOSE makes heads of what was [rows, 3, heads, columns]."""
    net = net_of(kind)
    whole = transposed(net, typed(net, kind, 7, 3, 2, 8), 1, 2, 0, 3, kind=kind)
    query, key, value = (shaped(net, kind, each, 2, 7, 8) for each in split(net, whole, 0, 3, kind))
    probabilities = multiplied(net, kind, query, key, adj_y=True)
    y = transposed(net, multiplied(net, kind, probabilities, value, adj_y=False), 1, 0, 2, kind=kind)
    plan = run_both(vulkan, net.finish(y), net.arrays)
    if kind == "float32":
        assert families(plan).split().count("arrange") <= 2  # copies of columns, where more memory is not to be taken


@kinds
@pytest.mark.parametrize("end", ["channels", "residual", "both", "a number"])
@pytest.mark.crossed
def test_what_follows_is_the_products_end(vulkan: VulkanDevice, end: str, kind: str) -> None:
    net = net_of(kind)
    x = mixed(net, kind, (2, 3, 6, 7, 8))
    others = {"channels": [(24,)], "residual": [(2, 6, 24)], "both": [(24,), (2, 6, 24)], "a number": [(1,)]}
    for shape in others[end]:
        x = net.op(Op.ADD, x, typed(net, kind, *shape), net.code(FuseCode.NONE), type_=TYPES[kind])
    plan = run_both(vulkan, net.finish(x), net.arrays)
    if kind == "float32" or end != "both":
        assert "binary" not in families(plan)
    assert "gemm" in families(plan)


@kinds
def test_matrices_that_are_there_for_others_too(vulkan: VulkanDevice, kind: str) -> None:
    """The same ones left and right; and ones that the model gives. All are columns of larger rows."""
    net = net_of(kind)
    whole = typed(net, kind, 2, 6, 2 * 3 * 8)
    one, two = (heads(net, kind, each, 2, 3, 6, 8) for each in split(net, whole, 2, 2, kind))
    alike = multiplied(net, kind, one, one, adj_y=True)
    given = multiplied(net, kind, two, typed(net, kind, 2, 3, 8, 4), adj_y=False)
    run_both(vulkan, net.finish(alike, given, two), net.arrays)


@kinds
def test_results_are_columns(vulkan: VulkanDevice, kind: str) -> None:
    """Two GEMMs write their results side by side, as column ranges of a larger tensor."""
    net = net_of(kind)
    one, two = (mixed(net, kind, (1, 3, 6, 7, 8)) for _ in range(2))
    y = net.build.operation(Op.CONCATENATION, [one, two, net.code(2)], TYPES[kind])
    z = net.op(Op.RESHAPE, y, np.array([1, 2, 3, 48], np.int32), type_=TYPES[kind])
    pooled = net.build.operation(Op.MAX_POOL_2D, [z, *map(net.code, [1, 1, 1, 2, 2, 0])], TYPES[kind])
    plan = run_both(vulkan, net.finish(pooled), net.arrays)
    assert families(plan).split().count("move") <= 1  # where inputs are copied, both take more memory at once


@kinds
@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))), ids=str)
def test_other_orders(vulkan: VulkanDevice, axes: Sequence[int], kind: str) -> None:
    """A GEMM reads transposed tensors of 2 x 6 x 8 elements as matrices of 4 by 8 and 8 by 4."""
    net = net_of(kind)
    left = shaped(net, kind, transposed(net, typed(net, kind, 2, 6, 8), *axes, kind=kind), 3, 4, 8)
    right = shaped(net, kind, transposed(net, typed(net, kind, 2, 6, 8), *axes, kind=kind), 3, 8, 4)
    y = multiplied(net, kind, left, right, adj_y=False)
    y = transposed(net, shaped(net, kind, y, 2, 6, 4), *axes, kind=kind)
    run_both(vulkan, net.finish(y), net.arrays)


def test_matrices_that_others_read_are_there(vulkan: VulkanDevice) -> None:
    net = Net()
    left = heads(net, "float32", net.input(2, 5, 24), 2, 3, 5, 8)
    y = multiplied(net, "float32", left, net.input(2, 3, 8, 4), adj_y=False)
    run_both(vulkan, net.finish(merged(net, "float32", y, 2, 3, 5, 4), left, y), net.arrays)
