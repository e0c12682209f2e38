"""Tables of dispatches that work on several tensors of a page: how far these are from each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from nnvk.driver.vulkan.planning.plan import Address
from nnvk.driver.vulkan.shaders.commands import Command, Dispatch, Table, binding_of


class ApartError(Exception):
    """Tensors that a dispatch binds together lie in different pages."""


@np.errstate(over="ignore")
def fill(tables: Iterable[Table], commands: Sequence[Command], addresses: Mapping[int, Address]) -> None:
    """Add all distances, in words. Raises `ApartError` where there is none."""
    dispatches = {tensor: each for each in commands if isinstance(each, Dispatch) for tensor in each.tensors.values()}
    for table in tables:
        dispatch = dispatches[table.tensor]
        for place, (name, balance) in table.distances.items():
            first, own = (addresses[dispatch.tensors[each].number] for each in (binding_of(name), name))
            if (first.storage, first.page) != (own.storage, own.page):
                raise ApartError(f"{dispatch.shader.name}: {name} lies apart from the first one")
            distance = np.array([(own.offset - first.offset) // 4], np.int64).astype(np.uint32)
            table.data[balance] -= distance[0]
            table.data[place] += distance[0]
