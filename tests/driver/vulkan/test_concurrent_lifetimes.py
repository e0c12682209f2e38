"""Commands that a GPU computes at once share no memory in turns, unless that took too much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from fused import Net, Op, run_both
from hypothesis import given
from hypothesis import strategies as st
from profiles import GPU

from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.lowering.gemm import gemm
from nnvk.driver.vulkan.lowering.gemm.problem import Work
from nnvk.driver.vulkan.lowering.gemm.strategies import candidates
from nnvk.driver.vulkan.lowering.gemm.strategy import Strategy
from nnvk.driver.vulkan.planning.barriers import barriers
from nnvk.driver.vulkan.planning.concurrent_lifetimes import Lifetimes, prolonged
from nnvk.driver.vulkan.planning.memory_plan import Block, most_alive, place
from nnvk.driver.vulkan.planning.plan import Address
from nnvk.driver.vulkan.planning.planner import lower
from nnvk.driver.vulkan.shaders.commands import Command, Copy, Storage, TensorRef
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.passes import FUSIONS
from nnvk.driver.vulkan.shaders.profile import DeviceProfile


def copies(*pairs: str, nbytes: int = 64) -> tuple[list[Command], Lifetimes]:
    """Copies from tensor to tensor, which are letters, and when each is touched."""
    tensors = {letter: TensorRef(ord(letter), nbytes, Storage.ARENA) for letter in sorted({*"".join(pairs)})}
    lifetimes: dict[TensorRef, tuple[int, int]] = {}
    for position, pair in enumerate(pairs):
        for letter in pair:
            lifetimes[tensors[letter]] = lifetimes.get(tensors[letter], (position, position))[0], position
    return [Copy(tensors[a], tensors[b], nbytes) for a, b in pairs], lifetimes


def waits(commands: Sequence[Command], lifetimes: Lifetimes, *, apart: bool) -> set[int]:
    """Return the commands that wait if tensors are placed by their lifetimes or, with ``apart``, each by itself."""
    blocks = [Block(tensor.nbytes, *span) for tensor, span in lifetimes.items()]
    places = place(blocks, 1 << 30).places
    addresses = {
        tensor.number: Address(tensor.storage, page if apart else spot.page, 0 if apart else spot.offset, tensor.nbytes)
        for page, (tensor, spot) in enumerate(zip(lifetimes, places, strict=True))
    }
    return set(barriers(commands, addresses))


@given(st.lists(st.sampled_from([a + b for a in "abcdefgh" for b in "abcdefgh" if a != b]), min_size=1, max_size=14))
def test_nobody_waits_for_memory_alone(pairs: list[str]) -> None:
    commands, lifetimes = copies(*pairs)
    longer = prolonged(commands, {}, lifetimes)
    assert waits(commands, longer, apart=False) == waits(commands, lifetimes, apart=True)
    for tensor, (first, last) in lifetimes.items():
        assert longer[tensor][0] <= first <= last <= longer[tensor][1]


def test_what_is_done_with_stays_for_those_beside_it() -> None:
    commands, lifetimes = copies("ab", "ac", "bd", "ce", "df")
    spans = {chr(tensor.number): span for tensor, span in prolonged(commands, {}, lifetimes).items()}
    assert spans == {"a": (0, 1), "b": (0, 3), "c": (0, 3), "d": (2, 4), "e": (2, 3), "f": (4, 4)}


def test_large_tensors_take_turns() -> None:
    """No more is alive at once than without."""
    commands, lifetimes = copies("ab", "bc", "cd", "ae", "af", "bg", nbytes=8 << 20)
    longer = prolonged(commands, {}, lifetimes)
    alive = [most_alive([Block(tensor.nbytes, *span) for tensor, span in each.items()]) for each in (lifetimes, longer)]
    assert alive[1] <= alive[0]
    commands, lifetimes = copies("ab", "ac", nbytes=12 << 20)
    assert prolonged(commands, {}, lifetimes) == lifetimes


@pytest.mark.parametrize(("nbytes", "are_prolonged"), [(4 << 20, True), ((4 << 20) + 64, False)])
def test_so_much_memory_may_be_taken_for_it(nbytes: int, are_prolonged: bool) -> None:
    """Four tensors of 4 MiB are 16 MiB together, which are free."""
    commands, lifetimes = copies("ab", "ac", "ad", nbytes=nbytes)
    longer = prolonged(commands, {}, lifetimes)
    assert longer == (dict.fromkeys(lifetimes, (0, 2)) if are_prolonged else lifetimes)


def test_what_the_host_exchanges_is_not_counted() -> None:
    """Only the arena has what is free, however large inputs and constants are."""
    commands, lifetimes = copies("ab", "ac", nbytes=4 << 20)
    kept = {storage: TensorRef(number, 64 << 20, storage) for number, storage in enumerate(Storage)}
    del kept[Storage.ARENA]
    spans = lifetimes | dict.fromkeys(kept.values(), (0, 0))
    assert prolonged(commands, {}, spans) == dict.fromkeys(spans, (0, 1))


def test_what_is_no_longer_alive_is_not_counted() -> None:
    """Tensors of 6 MiB: each step has two that are computed at once, and three that are alive."""
    commands, lifetimes = copies("ab", "bc", "cd", "de", "ef", nbytes=6 << 20)
    assert prolonged(commands, {}, lifetimes) == lifetimes
    commands, lifetimes = copies("ab", "bc", "cd", "de", "ef", "eg", nbytes=5 << 20)
    longer = {chr(tensor.number): span for tensor, span in prolonged(commands, {}, lifetimes).items()}
    assert (longer["e"], longer["f"], longer["g"]) == ((3, 5), (4, 5), (4, 5))


def in_pieces(work: Work, device: DeviceProfile) -> list[Strategy]:
    """A way with K in pieces, whatever it costs."""
    whole = next(way for way in candidates(work, device) if way.tile == "shared")
    return [replace(whole, split_k=3)]


def test_products_of_one_tensor_do_not_wait_for_each_other(
    vulkan: VulkanDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has counters and sums of its own, where K is in pieces."""
    monkeypatch.setattr(gemm, "ranked", in_pieces)
    net = Net()
    x = net.op(Op.TANH, net.input(9, 40))
    some = [net.dense(x, 24, 40) for _ in range(3)]
    model = net.finish(net.op(Op.MUL, net.op(Op.MUL, some[0], some[1]), some[2]))
    run_both(vulkan, model, net.arrays)
    plan = lower(model, [(9, 40)], replace(GPU, disabled_passes=FUSIONS), ShaderLibrary())
    products = [
        position
        for position, command in enumerate(plan.commands)
        if getattr(command, "shader", None) is not None and command.shader.family == "gemm"
    ]
    assert len(products) == 3
    assert plan.barriers.intersection(products) == {products[0]}
