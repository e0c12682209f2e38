"""Attention of many rows of queries in one dispatch: its results, its tiles, and where it is chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from attention_step import TOLERANCES, Step, refusals
from fused import F16, F32, Net, Op, families, heads, merged, run_both
from profiles import DEVICES, GPU
from rewritten import codes, rewritten

from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.lowering.attention import tiled
from nnvk.driver.vulkan.lowering.attention.tiled import AttentionTile, Problem, pays, refuse, tiles
from nnvk.driver.vulkan.lowering.gemm.tiles import cooperative_matrix
from nnvk.driver.vulkan.planning.passes.attention import fuse_attention
from nnvk.driver.vulkan.planning.passes.softmax import fuse_softmax
from nnvk.driver.vulkan.planning.planner import PlanOptions, lower
from nnvk.driver.vulkan.shaders.commands import Dispatch
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.profile import NATIVE_16
from nnvk.types.codes import OperandCode
from nnvk.types.request import Redundancy

MINILM = Step(batches=(12,), rows=128, keys=128, depth=32, columns=32)
STEPS = {
    "sizes of vec4s": Step(rows=16, keys=24, depth=16, columns=16),
    "five rows": Step(rows=5),
    "prime sizes": Step(rows=17, keys=13, depth=7, columns=5),
    "more keys than a round": Step(batches=(2,), rows=9, keys=301, depth=12, columns=20),
    "more rows than keys": Step(batches=(2,), rows=67, keys=6, depth=4, columns=8),
    "one key": Step(rows=6, keys=1, depth=1, columns=1),
    "heads of 128": Step(batches=(1,), rows=19, keys=37, depth=128, columns=128),
    "heads of 96 and 80": Step(batches=(1,), rows=8, keys=33, depth=96, columns=80),
    "keys by columns": Step(rows=10, by_rows=False),
    "a factor": Step(rows=11, scale=0.3, beta=0.7),
    "a mask of keys": Step(rows=6, keys=16, mask=(16,)),
    "a mask of heads": Step(rows=6, mask=(3, 1, 13)),
    "a mask of rows": Step(rows=6, mask=(2, 1, 6, 1)),
    "a mask of all": Step(batches=(2, 3), rows=18, keys=150, mask=(2, 3, 18, 150), scale=0.5),
}
HALVES = {
    "sizes of vec4s": Step(rows=16, keys=24, columns=16, scale=0.05),
    "prime sizes": Step(rows=17, keys=13, depth=7, columns=5, scale=0.05),
    "a mask of rows": Step(rows=6, mask=(2, 1, 6, 1), scale=0.05),
    "more keys than a round": Step(batches=(2,), rows=9, keys=301, depth=4, columns=20, scale=0.05),
}
"""Those that also run on 16-bit floats. Scores are small: separate operations round them to 16 bits."""
MASKS = -np.inf, -1e9, np.nan, np.inf


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the one dispatch wherever it is possible."""
    monkeypatch.setattr(tiled, "pays", lambda problem, device: True)


def shaders_of(device: VulkanDevice, step: Step, kind: OperandCode = F32) -> list[str]:
    """Run a step as it is and by separate operations; the shaders of the former."""
    net = Net(real=kind)
    model = net.finish(step.build(net)[0])
    return families(run_both(device, model, net.arrays, tolerance=TOLERANCES[kind])).split()


def in_turn(cases: Mapping[str, Sequence[object]]) -> list[Any]:
    """Each case on one device in turn, as compiling its shaders takes seconds; those of `HALVES` on both."""
    devices = "gpu", "mobile-min"
    return [
        pytest.param(device, *values, id=f"{device}-{name}")
        for number, (name, values) in enumerate(cases.items())
        for device in (devices if name in HALVES else (devices[number % 2],))
    ]


@pytest.mark.parametrize(
    ("as_gpu", "step", "kind"),
    in_turn(
        {name: (step, F32) for name, step in STEPS.items()}
        | {f"{name}, f16": (step, F16) for name, step in HALVES.items()}
    ),
    indirect=["as_gpu"],
)
def test_results(as_gpu: VulkanDevice, step: Step, kind: OperandCode, always: None) -> None:
    assert "attention_tile" in shaders_of(as_gpu, step, kind)


@pytest.mark.parametrize("step", [Step(batches=(2,), rows=35, keys=70, depth=20, columns=36, mask=(35, 70))])
def test_every_tile(as_gpu: VulkanDevice, step: Step, always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem("f32", 2, step.rows, step.keys, step.depth, step.columns, masked=True)
    every = tiles(problem, as_gpu.profile)
    assert len(every) > 3
    for tile in every:
        monkeypatch.setattr(tiled, "tiles", lambda problem, device, tile=tile: [tile])
        assert shaders_of(as_gpu, step) == ["attention_tile"], tile


@pytest.mark.parametrize(
    ("as_gpu", "mask", "which"),
    in_turn(
        {f"some {mask}": (mask, "some") for mask in MASKS} | {f"all {mask}": (mask, "all") for mask in reversed(MASKS)}
    ),
    indirect=["as_gpu"],
)
def test_special_values(as_gpu: VulkanDevice, mask: float, which: str, always: None) -> None:
    """Whole rounds of keys are masked as well."""
    for zeros in (False, True):
        net = Net()
        step = Step(batches=(2,), rows=7, keys=290, depth=4, columns=4, mask=(290,), zeros=zeros)
        model = net.finish(step.build(net)[0])
        (place,) = (at for at, array in enumerate(net.arrays) if array.shape == (290,))
        net.arrays[place] = np.zeros(290, np.float32)
        net.arrays[place][slice(None) if which == "all" else slice(0, 271)] = mask
        assert families(run_both(as_gpu, model, net.arrays, tolerance=TOLERANCES[F32])) == "attention_tile"


def test_infinite_values_at_the_end(as_gpu: VulkanDevice, always: None) -> None:
    """Keys that do not exist have no part in the sums, not even by 0 times infinity."""
    net, step = Net(), Step(batches=(2,), rows=7, keys=13, depth=4, columns=8)
    model = net.finish(step.build(net)[0])
    net.arrays[-1][:, -1] = np.inf
    run_both(as_gpu, model, net.arrays, tolerance=TOLERANCES[F32])


def test_heads_are_read_and_written_where_they_lie(as_gpu: VulkanDevice, always: None) -> None:
    net, kind, (batches, count, rows, columns) = Net(), "float32", (2, 3, 12, 8)
    query, keys, values = (
        heads(net, kind, net.input(batches, rows, count * columns), batches, count, rows, columns) for _ in range(3)
    )
    flags = [[net.build.value(adj) for adj in (False, adj_y)] for adj_y in (True, False)]
    shares = net.op(Op.SOFTMAX, net.op(Op.BATCH_MATMUL, query, keys, *flags[0]), 1.0)
    mixed = net.op(Op.BATCH_MATMUL, shares, values, *flags[1])
    model = net.finish(merged(net, kind, mixed, batches, count, rows, columns))
    assert families(run_both(as_gpu, model, net.arrays, tolerance=TOLERANCES[F32])) == "attention_tile"


# --- where it is chosen ----------------------------------------------------------------------------------------------


def problem_of(step: Step, kind: str = "f32") -> Problem:
    return Problem(kind, int(np.prod(step.batches)), step.rows, step.keys, step.depth, step.columns, bool(step.mask))


@pytest.mark.parametrize("name", DEVICES)
def test_a_gpu_takes_it_for_minilm(name: str) -> None:
    assert pays(problem_of(MINILM), DEVICES[name]) == (not DEVICES[name].is_cpu)


@pytest.mark.parametrize("name", DEVICES)
def test_the_pass_asks_the_cost_model(name: str) -> None:
    net = Net()
    model = net.finish(Step(rows=24, keys=20).build(net)[0])
    graph, count = rewritten(model, fuse_softmax, fuse_attention, profile=DEVICES[name])
    assert count == (not DEVICES[name].is_cpu)
    assert ("ATTENTION" in codes(graph)) == bool(count)


def test_matrix_cores_are_faster_for_long_texts() -> None:
    native = replace(GPU, features=ShaderLibrary().features | NATIVE_16 | cooperative_matrix.FEATURES)
    with_matrices = replace(native, cooperative_matrices=frozenset({"f16 16x16x16"}))
    long = replace(MINILM, rows=4096, keys=4096, depth=128, columns=128)
    assert pays(problem_of(MINILM, "f16"), with_matrices)
    assert not pays(problem_of(long, "f16"), with_matrices)


def test_shaders_that_are_avoided_are_not_chosen() -> None:
    device = replace(GPU, avoided=frozenset({"attention_tile.f32"}))
    assert not pays(problem_of(MINILM), device)
    assert pays(problem_of(MINILM, "f16"), device)


def test_more_keys_take_longer() -> None:
    problem = problem_of(MINILM)
    every = [tiled.cost(tiles(each, GPU)[0], each, GPU) for each in (problem, replace(problem, keys=256))]
    assert every[0] < every[1]


def test_a_small_device_has_small_tiles() -> None:
    """Its invocations and its shared memory limit them."""
    problem, small = problem_of(MINILM), DEVICES["smallest"]
    for tile in tiles(problem, small):
        assert tile.local <= small.max_invocations
        assert tile.nbytes(problem.vec4s) <= small.max_shared_memory
    assert 0 < len(tiles(problem, small)) < len(tiles(problem, GPU))
    assert tiles(problem, replace(small, max_shared_memory=1 << 10)) == []
    assert not pays(problem, replace(small, max_shared_memory=1 << 10))


def test_tiles_say_what_they_are() -> None:
    assert str(AttentionTile(16, 32)) == "16 rows by 128 keys"


@pytest.mark.parametrize("redundancy", Redundancy)
def test_verified_plans_keep_gemms(redundancy: Redundancy) -> None:
    """GEMMs are verified by another shader. A plan that computes all twice has the fused operation."""
    net = Net()
    model = net.finish(MINILM.build(net)[0])
    shapes = [array.shape for array in net.arrays]
    plan = lower(model, shapes, GPU, ShaderLibrary(), PlanOptions(redundancy=redundancy))
    used = {command.shader.family for command in plan.commands if isinstance(command, Dispatch)}
    assert ("attention_tile" in used) == (redundancy is not Redundancy.CHECKSUMS)
    assert ({"gemm", "gemm_exact"} <= used) == (redundancy is Redundancy.CHECKSUMS)


refusals_on_gpu = partial(refusals, refuse=refuse, profile=GPU)


def test_keys_of_a_cache_and_others_are_separate() -> None:
    left, reasons = refusals_on_gpu(Step(rows=8, own=2))
    assert "ATTENTION" not in left
    assert reasons == ["more keys follow, which the shader for many rows does not take"]


def test_too_many_rows() -> None:
    left, reasons = refusals_on_gpu(Step(batches=(1,), rows=600_000, keys=2, depth=4, columns=4))
    assert "ATTENTION" not in left
    assert reasons == ["there are 600000 rows of queries, the shader takes 524280"]


def test_too_many_rounds() -> None:
    left, reasons = refusals_on_gpu(Step(batches=(1,), rows=5, keys=16_000, depth=64, columns=4))
    assert "ATTENTION" not in left
    assert reasons == ["there are 16000 keys, which take too many rounds"]
