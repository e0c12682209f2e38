"""ATTENTION of many rows of queries: a workgroup computes a tile of rows (`shaders/attention_tile.comp`).

Instead of two GEMMs with a softmax between them there is one dispatch, and the scores stay in shared memory. That
spares two launches, but tiles are smaller than those of GEMMs, and each of them reads all keys and values. The cost
model says which is faster (`pays`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from nnvk.base.extents import hint
from nnvk.driver.vulkan.lowering.attention.layout import MOST_MATRICES, Layout, has_masks_of_vec4s, strides
from nnvk.driver.vulkan.lowering.costs import NEAR, Costs, Run, costs_of, cycles
from nnvk.driver.vulkan.lowering.dtypes import F16, F32, SIZES, dtype
from nnvk.driver.vulkan.lowering.gemm.problem import WeightLayout, Work
from nnvk.driver.vulkan.lowering.gemm.strategies import candidates
from nnvk.driver.vulkan.lowering.gemm.strategies import cost as cost_of_gemm
from nnvk.driver.vulkan.lowering.lowering import MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Call

TILE = Shader("attention_tile", DTYPE=(F32.name, F16.name))
_BLOCKS = {"query": "query", "key": "keys", "value": "values", "output": "dst"}
"""The blocks of the shader, by the operands that they are."""
_STRIDES = "query", "key", "value", "mask", "output"
"""The operands whose strides the shader gets, in its order."""
_ROWS = 8, 16, 32
_TEAMS = 4, 8, 16, 32, 64
_MOST_VEC4S = 4
"""Vec4s of columns of values that an invocation adds up (`shaders/attention_tile.comp`)."""
_MOST_VEC4S_FEW_REGISTERS = 1
_MOST_TOGETHER = 2
_LEAST_LOCAL = 32
"""Invocations of a workgroup, or more: a subgroup has so many on most GPUs."""
_EXPONENTIAL = {"f32": 25, "f16": 8}
"""Cycles of a subgroup for an exponential."""
_LANES = 64
"""Invocations for which the costs of a GPU are."""


@dataclass(frozen=True, slots=True)
class Problem:
    """The requirements of an ATTENTION."""

    kind: str
    """Its data type, as the axis DTYPE has it."""
    matrices: int
    rows: int
    """The rows of queries of a matrix."""
    keys: int
    depth: int
    columns: int
    """The columns of values."""
    masked: bool

    @property
    def vec4s(self) -> int:
        """Vec4s of depth."""
        return -(-self.depth // 4)

    @staticmethod
    def of(call: Call) -> Problem:
        """The requirements of a call."""
        *batches, rows, columns = call.output.shape
        keys, depth = call.key.shape[-2:]
        masked = call.mask is not None
        return Problem(dtype(call.output), math.prod(batches), rows, keys, depth, columns, masked)


@dataclass(frozen=True, slots=True)
class AttentionTile:
    """The rows of queries of a workgroup, and the invocations for four of them."""

    rows: int
    team: int

    def __str__(self) -> str:
        return f"{self.rows} rows by {self.keys} keys"

    @property
    def keys(self) -> int:
        """Keys whose shares are in shared memory at once."""
        return 4 * self.team

    @property
    def local(self) -> int:
        """Invocations of a workgroup."""
        return self.rows // 4 * self.team

    def nbytes(self, vec4s: int) -> int:
        """Bytes of shared memory."""
        return 4 * (4 * self.rows // 4 * (self.keys + 1) + 4 * self.rows * vec4s + self.local + self.rows)

    def across(self, columns: int) -> int:
        """Invocations that share the columns of a row of values."""
        return min(-(-columns // 4), self.team)

    def own_vec4s(self, columns: int) -> int:
        """Vec4s of the columns in an invocation's registers."""
        return -(-columns // (4 * self.across(columns)))


def tiles(problem: Problem, device: DeviceProfile) -> list[AttentionTile]:
    """The tiles that a device can compute an ATTENTION by, the fastest by the cost model first; none may be left."""
    size = hint(problem)
    return sorted(_tiles(problem, device), key=lambda tile: (cost(hint(tile), size, device), tile.rows, tile.team))


def _tiles(problem: Problem, device: DeviceProfile) -> Iterator[AttentionTile]:
    has_few = device.has_small_subgroups or device.has_few_registers
    most = _MOST_VEC4S_FEW_REGISTERS if has_few else _MOST_VEC4S
    for rows in _ROWS:
        for team in _TEAMS:
            tile = AttentionTile(rows, team)
            fits = tile.local <= device.max_invocations and tile.nbytes(problem.vec4s) <= device.max_shared_memory
            # An invocation has four keys, and later four columns of values.
            is_busy = tile.local >= _LEAST_LOCAL and tile.keys < 2 * max(problem.keys, problem.columns, 4 * _TEAMS[0])
            if fits and is_busy and tile.own_vec4s(problem.columns) <= most:
                yield tile


def refuse(call: Call) -> str | None:
    """The reason why the shader can't compute a call on any device, or None."""
    keys, depth = call.key.shape[-2:]
    if call.own_key is not None:
        return "more keys follow, which the shader for many rows does not take"
    if call.key.code is not call.output.code:
        return "keys and queries have different types"
    rows, most_rows = call.output.shape[-2], _ROWS[0] * MOST_MATRICES
    if rows > most_rows:
        return f"there are {rows} rows of queries, the shader takes {most_rows}"
    rounds = -(-keys // (4 * _TEAMS[0])) * (depth + 8)
    return None if rounds <= MOST_ROUNDS else f"there are {keys} keys, which take too many rounds"


def _has_registers(device: DeviceProfile) -> bool:
    return not (device.is_cpu or device.has_small_subgroups or device.has_few_registers)


def _together(tile: AttentionTile, device: DeviceProfile) -> int:
    """Vec4s of depth, and of keys, that are loaded before they are used."""
    return min(tile.rows // 4, _MOST_TOGETHER) if _has_registers(device) else 1


def _loads_ahead(tile: AttentionTile, problem: Problem, device: DeviceProfile) -> bool:
    """Whether keys and values are loaded before their turn."""
    return _has_registers(device) and tile.own_vec4s(problem.columns) == 1


# --- the cost model --------------------------------------------------------------------------------------------------


def cost(tile: AttentionTile, problem: Problem, device: DeviceProfile) -> float:
    """Cycles that a device is thought to take for an ATTENTION."""
    costs = _costs(problem, device)
    together, own, team = _together(tile, device), tile.own_vec4s(problem.columns), tile.team
    slices = team // tile.across(problem.columns)
    chunks = -(-problem.keys // tile.keys)
    stages = chunks * -(-problem.vec4s // (tile.rows // 4))
    products = 4 * costs.products[problem.kind]
    by_elements = 4 if problem.depth % 4 else 1
    of_scores = chunks * -(-problem.vec4s // together)
    of_values = chunks * -(-min(team, -(-problem.keys // 4)) // (slices * together))
    stage = 4 * (costs.load * by_elements + costs.brought) + 2 * costs.barrier
    both = max if costs.overlaps else sum
    scores = together * both((8 * costs.staged, products))
    values = together * both((4 * costs.staged, own * (4 * costs.load + products)))
    of_chunk = 12 * costs.staged + 16 * _EXPONENTIAL[problem.kind] + 3 * costs.barrier
    if problem.masked:
        of_chunk += 4 * costs.load
    rounds = of_scores + of_values
    groups = problem.matrices * -(-problem.rows // tile.rows)
    waits = (stages + of_values) * costs.latency + (of_scores + 3 * chunks) * costs.staged_latency / 4
    run = Run(
        groups,
        groups * -(-tile.local // _LANES),
        rounds=rounds,
        step=(stages * stage + of_scores * scores + of_values * values + chunks * of_chunk) / rounds,
        end=own * (4 * costs.stored["any"] + slices * costs.staged),
        wait=waits / rounds,
        moved=4 * (stages + of_values * own * together / NEAR),
        held=4 * own + 8 * together + 4,
        size=tile.local,
        memory=_bytes(problem),
    )
    return cycles(run, costs, device)


def pays(problem: Problem, device: DeviceProfile) -> bool:
    """Whether a device takes less time than for two GEMMs and a softmax, by the cost model. A CPU never does."""
    if device.is_cpu or device.prefers_matrices or device.avoids(TILE.variant(DTYPE=problem.kind)):
        return False
    found = tiles(problem, device)
    size = hint(problem)
    return bool(found) and cost(hint(found[0]), size, device) < separate_cost(size, device)


def separate_cost(problem: Problem, device: DeviceProfile) -> float:
    """Cycles that a device is thought to take for two GEMMs and a softmax, with two launches more than for one."""
    by_outputs = WeightLayout.BY_OUTPUTS if problem.depth % 4 == 0 else WeightLayout.IN_BLOCKS
    by_k = WeightLayout.BY_K if problem.columns % 4 == 0 else WeightLayout.IN_BLOCKS

    def work(columns: int, depth: int, *, in_order: bool, order: WeightLayout) -> Work:
        kind, rows, parts = problem.kind, problem.rows, problem.matrices
        layout = {"constant": False, "in_order": in_order, "matrix": parts == 1}
        return Work(kind, rows, columns, parts, 1, depth, **layout, order=order)

    scores = work(problem.keys, problem.depth, in_order=False, order=by_outputs)
    values = work(problem.columns, problem.keys, in_order=True, order=by_k)
    costs = costs_of(device)
    return _least(scores, device) + _softmax(problem, device) + _least(values, device) + 2 * costs.launch


@lru_cache(maxsize=64)
def _least(work: Work, device: DeviceProfile) -> float:
    """The cycles of the best strategy; infinite if there is none."""
    return min((cost_of_gemm(strategy, work, device) for strategy in candidates(work, device)), default=math.inf)


def _softmax(problem: Problem, device: DeviceProfile) -> float:
    """Cycles for the softmax of the scores, in a dispatch of its own."""
    costs = _costs(problem, device)
    vec4s = problem.matrices * problem.rows * -(-problem.keys // 4)
    groups = -(-vec4s // _LANES)
    loads = 2 + problem.masked
    run = Run(
        groups,
        groups,
        rounds=1,
        step=loads * costs.load + 4 * _EXPONENTIAL[problem.kind] + costs.stored["any"],
        end=2 * costs.barrier,
        wait=costs.latency + 2 * costs.staged_latency,
        moved=loads,
        memory=2 * 4 * vec4s * SIZES[problem.kind],
    )
    return cycles(run, costs, device)


def _costs(problem: Problem, device: DeviceProfile) -> Costs:
    costs = costs_of(device)
    if problem.kind == F16.name and device.has_native_16:
        costs = replace(costs, load=costs.load / 2)  # of half the bytes
    return costs


def _bytes(problem: Problem) -> int:
    """The bytes that are read and written in memory."""
    rows, keys = problem.rows, problem.keys
    return problem.matrices * SIZES[problem.kind] * (rows + keys) * (problem.depth + problem.columns)


# --- the dispatch ----------------------------------------------------------------------------------------------------


def dispatch(g: Lowering, call: Call, layout: Layout) -> None:
    """Compute ATTENTION by tiles of rows."""
    problem, places, mask = Problem.of(call), layout.places, call.mask
    found = g.once(("attention tiles", problem), lambda: tiles(problem, g.device))
    tile = g.choose(g.tuning_key("attention", problem), found)
    columns, depth, keys = problem.columns, problem.depth, problem.keys
    operands = {name: g.tensor(getattr(call, name).whole) for name in _BLOCKS}
    g.dispatch(
        TILE.variant(DTYPE=problem.kind),
        groups=(-(-problem.rows // tile.rows), *layout.batches),
        spec={
            "local_x": tile.local,
            "ROWS": tile.rows,
            "TEAM": tile.team,
            "ACROSS": tile.across(columns),
            "OWN_VEC4S": tile.own_vec4s(columns),
            "TOGETHER": _together(tile, g.device),
            "STEPS": problem.vec4s,
            "AHEAD": _loads_ahead(tile, problem, g.device),
            "ONE_ROUND": keys <= tile.keys,
            "RAGGED": keys % 4 != 0,
            "MASKED": mask is not None,
            "DEPTH_VEC4S": all(places[name].in_vec4s(depth) for name in ("query", "key")),
            "VALUES_VEC4S": places["value"].in_vec4s(columns),
            "DST_VEC4S": places["output"].in_vec4s(columns),
            "ZEROS": call.zeros,
            "MASK_VEC4S": has_masks_of_vec4s(call, places["mask"]),
        },
        tensors={
            **{_BLOCKS[name]: tensor for name, tensor in operands.items()},
            "mask": operands["query"] if mask is None else g.tensor(mask),
            "strides": strides(g, layout, _STRIDES),
        },
        **{f"{block}_first": places[name].first for name, block in _BLOCKS.items()},
        rows=problem.rows,
        depth=depth,
        columns=columns,
        count=keys,
        masked=keys,
        scale=1.0 if call.scale is None else call.scale,
        factor=call.beta,
    )
