"""Dispatches that verify several products by checksums: a table says what each workgroup has to do.

A launch costs a GPU a few microseconds, and the checks of a small product fill it badly. So products that are verified
at the same time, by the same shader and specialisation constants, share a dispatch. The shader binds the tensors of the
first one. Those of the others lie so many words behind these, in the same page. The table has these distances, which
are known when all tensors are placed (`planning/tables.py`), and the sizes of each product. It lies in one constant
with the filters of the products (``shaders/include/checksum_table.glsl``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nnvk.driver.vulkan.lowering.copies.relayout import round_up
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import Dispatch, Storage, Table, TensorRef, name_of
from nnvk.driver.vulkan.shaders.declaration import Variant

MOST_PRODUCTS = 16
"""The most products of a dispatch."""
_DISTANCES = "src", "filters", "computed", "checks", "extra", "dst"
"""The first words of a product in a table: how far its tensors are behind those of the first one."""
_FIRST_REGION = "first_region"


def factors(first: int, count: int) -> np.ndarray:
    """The factors of the numbers from ``first`` on, uint32 [count], as `checksum_factor` has them."""
    numbers = (np.arange(first, first + count, dtype=np.uint32) + np.uint32(1)) * np.uint32(0x85EBCA77)
    numbers ^= numbers >> np.uint32(15)
    return (numbers ^ numbers << np.uint32(13)) | np.uint32(1)


def products(dispatch: Dispatch, names: Sequence[str], words: np.ndarray) -> list[dict[str, int]]:
    """The products of a dispatch by its table: ``words`` of its filters, and ``names`` of those of a product."""
    count, every = int(dispatch.push["products"]), (*_DISTANCES, _FIRST_REGION, *names)
    pitch = round_up(len(every) + 1, 4)
    first = int(dispatch.push["table"]) + round_up(count - 1, 4)
    rows = words[first : first + count * pitch].reshape(count, pitch).tolist()
    return [dict(zip(every, row, strict=False)) for row in rows]


@dataclass(frozen=True, slots=True)
class Shared:
    """The decisions for all products of a dispatch together."""

    spec: Mapping[str, int | bool]
    values: Sequence[Mapping[str, int]]
    """More words of the table, for each product."""
    slices: int = 1
    """The workgroups of a region."""
    counters: int = 0
    """Counters per region, for the workgroups that share it."""


@dataclass(frozen=True, slots=True)
class Check:
    """The verification of a product, by some workgroups."""

    variant: Variant
    spec: Mapping[str, int | bool]
    """The specialisation constants that products of a dispatch must have in common."""
    tensors: Mapping[str, TensorRef]
    """Without the copy, and without the other tensor of an epilogue, if there is none."""
    filters: np.ndarray
    regions: int
    """The regions: each is verified by one workgroup or by several."""
    values: Mapping[str, int]
    """Words of the table, by name."""
    names: Sequence[str]
    """The names of the words of a product in the table of this shader that follow its first region. A last one makes
    all of them add up to 0.
    """
    share: Callable[[Sequence[Check]], Shared]
    """The function that decides for all products of a dispatch together."""
    task: object = None
    """The facts that ``share`` needs."""
    operation: int = 0
    fused: tuple[int, ...] = ()

    @property
    def key(self) -> object:
        """The properties that the products of a dispatch have in common."""
        places = tuple(
            (name, tensor if tensor.storage is not Storage.ARENA else tensor.storage)
            for name, tensor in sorted(self.tensors.items())
        )
        return self.variant, tuple(sorted(self.spec.items())), places


def verify(g: Lowering, check: Check) -> None:
    """Verify a product: by a dispatch of its own, or by the next one of `verify_deferred`."""
    check = replace(check, operation=g.operation, fused=g.fused)
    every = check.regions * (check.regions + 1) // 2  # the shader adds 1 and the place of each region
    g.checksums = (g.checksums + every * int(factors(check.values["number"], 1)[0])) % 2**32
    if g.deferred is None:
        _dispatch(g, [check])
    else:
        g.deferred.append(check)


def verify_deferred(g: Lowering, lower: Callable[[], None]) -> None:
    """Lower again, and verify all products of the second lowering in as few dispatches as possible."""
    g.deferred = []
    lower()
    groups: dict[object, list[Check]] = {}
    for check in g.deferred:
        groups.setdefault(check.key, []).append(check)
    g.deferred = None
    for checks in groups.values():
        for first in range(0, len(checks), MOST_PRODUCTS):
            _dispatch(g, checks[first : first + MOST_PRODUCTS])


def _dispatch(g: Lowering, checks: Sequence[Check]) -> None:
    """Dispatch the verification of products that have a key in common."""
    first, regions = checks[0], sum(check.regions for check in checks)
    shared = first.share(checks)
    weights = [np.append(each.filters, np.zeros(-each.filters.size % 4, np.uint32)) for each in checks]
    sizes = np.array([0, *(each.size for each in weights)])
    ends = np.cumsum([check.regions for check in checks])
    begun = np.full(round_up(len(checks) - 1, 4), 0xFFFFFFFF, np.uint32)
    begun[: len(checks) - 1] = ends[:-1]
    names = *_DISTANCES, _FIRST_REGION, *first.names
    rows = np.zeros((len(checks), round_up(len(names) + 1, 4)), np.uint32)
    tensors, distances = dict(first.tensors), dict[int, tuple[str, int]]()
    table = int(sizes.sum())
    for number, (check, own) in enumerate(zip(checks, shared.values, strict=True)):
        values = {
            **dict.fromkeys(_DISTANCES, 0),
            "filters": int(sizes[: number + 1].sum()),
            _FIRST_REGION: int(ends[number]) - check.regions,
            **check.values,
            **own,
        }
        rows[number, : len(names)] = [int(values[name]) & 0xFFFFFFFF for name in names]
        rows[number, -1] = -rows[number].sum(dtype=np.uint32)
        row = table + begun.size + number * rows.shape[1]
        for place, name in enumerate(_DISTANCES):
            if number and name in first.tensors and check.tensors[name] is not first.tensors[name]:
                tensors[name_of(name, number)] = check.tensors[name]
                distances[row + place] = name_of(name, number), row + rows.shape[1] - 1
    data = np.concatenate([*weights, begun, rows.reshape(-1)]).astype(np.uint32)
    tensors["filters"] = g.constant(data)
    tensors.setdefault("extra", tensors["checks"])
    if "dst" not in tensors:
        tensors["dst"] = tensors["flag"]
    if distances:
        g.tables.append(Table(tensors["filters"], data, distances))
    if shared.counters:
        is_shared = shared.slices > 1
        tensors["counters"] = g.counters(shared.counters * regions) if is_shared else tensors["flag"]
    operations = {place for check in checks for place in (check.operation, *check.fused)}
    lowered = g.operation, g.fused
    g.operation = first.operation
    g.fused = tuple(sorted(operations - {first.operation}))
    with g.apart_from_choices():
        g.dispatch(
            first.variant,
            groups=g.flat(regions * shared.slices, 1),
            spec={**first.spec, **shared.spec},
            tensors=tensors,
            regions=regions,
            table=table,
            products=len(checks),
        )
    g.operation, g.fused = lowered
