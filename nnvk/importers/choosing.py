"""The choice of operators that devices run, where a library runs the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from nnvk.api import Device
from nnvk.importers.cutting import Key, Node, connected_parts
from nnvk.importers.ports import ImportedModel


@dataclass(frozen=True, slots=True)
class Choice:
    """The operators that devices run."""

    reasons: list[str]
    """The reason why each operator stays; empty where it does not."""
    parts: list[list[int]]
    """Positions of the operators of each part, in the order of the graph."""


def choose(
    nodes: Sequence[Node[Key]], reasons: Sequence[str], refusals: Callable[[Sequence[int]], Mapping[int, str]]
) -> Choice:
    """The largest connected parts of operators that have no reason to stay, and that are not refused as a part.

    ``refusals`` say of a part why operators of it stay all the same.
    """
    found = list(reasons)
    known: dict[tuple[int, ...], Mapping[int, str]] = {}
    while True:
        parts = connected_parts(nodes, [not reason for reason in found])
        refused: dict[int, str] = {}
        for part in map(tuple, parts):
            if part not in known:
                known[part] = refusals(part)
            refused.update(known[part])
        if not refused:
            return Choice(found, parts)
        for position, reason in refused.items():
            found[position] = reason


def without_cheap(choice: Choice, nodes: Sequence[Node[Key]], cheap: Collection[int]) -> Choice:
    """The choice without parts of one cheap operator that exchanges tensors with an operator that stays."""
    reasons = list(choice.reasons)
    stays = [node for node, reason in zip(nodes, reasons, strict=True) if reason]
    written = {name for node in stays for name in node.writes}
    wanted = {name for node in stays for name in node.reads}
    kept = []
    for part in choice.parts:
        node = nodes[part[0]]
        is_cheap = len(part) == 1 and part[0] in cheap
        if is_cheap and not (written.isdisjoint(node.reads) and wanted.isdisjoint(node.writes)):
            reasons[part[0]] = "it costs less than the way to the device and back, between nodes that stay"
        else:
            kept.append(part)
    return Choice(reasons, kept)


def refused_by(devices: Sequence[Device], imported: ImportedModel, positions: Sequence[int]) -> dict[int, str]:
    """Why devices refuse operators of a part, by their positions in the graph."""
    refused: dict[int, str] = {}
    answers = zip(*(imported.model.get_support(device) for device in devices), strict=True)
    for source, answer in zip(imported.sources, answers, strict=True):
        if any(one.supported for one in answer):
            continue
        reasons = [f"{device.name}: {one.reason}" for device, one in zip(devices, answer, strict=True)]
        reason = f"the device does not run it: {', '.join(reasons)}"
        if source is None:
            return dict.fromkeys(positions, reason)
        refused.setdefault(positions[source.number], reason)
    return refused
