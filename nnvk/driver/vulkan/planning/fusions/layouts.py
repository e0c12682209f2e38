"""Orders of elements that change more than once: TRANSPOSE after TRANSPOSE, and layouts to and fro around convolutions.

Two changes of order that follow each other become one. Elementwise operations are computed in the order that is there
before a change, which goes behind them: there it meets the next one, and the GEMM that it went away from meets them.
So are channels put together that all change to planes.
What is left where an order is restored is a copy, for `in_place`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nnvk.driver.vulkan.lowering.arrange import RANK, Box, Dimension, arranged, box_of, fold, folded_dimensions
from nnvk.driver.vulkan.lowering.broadcast import broadcast_in_order
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.move import RANK as MOVE_RANK
from nnvk.driver.vulkan.lowering.move import folded, in_pieces, moving, ways_of
from nnvk.driver.vulkan.planning.fusions.command_graph import Graph
from nnvk.driver.vulkan.shaders.commands import Command, Dispatch, TensorRef

_ROUNDS = 3
"""Times that all commands are looked at: what becomes of some makes others possible."""
_BITS = {1: "b8", 2: "b16", 4: "b32"}


def fuse_layouts(graph: Graph, g: Lowering) -> None:
    """Change orders once, and as late as may be."""
    for _ in range(_ROUNDS):
        changes = [_join_at_once(graph, g, target) for target in _joined(graph)]
        changes += [
            _FUSIONS[dispatch.shader.family](graph, g, position, dispatch)
            for position, dispatch in graph.dispatches(*_FUSIONS)
        ]
        if not any(changes):
            break
    for position, dispatch in graph.dispatches("move"):
        _move_at_once(graph, g, position, dispatch)


@dataclass(frozen=True, slots=True)
class _Change:
    """A dispatch that gives the elements of a tensor in another order."""

    position: int
    dispatch: Dispatch
    box: Box

    @property
    def source(self) -> TensorRef:
        """Before."""
        return self.dispatch.tensors["src"]

    @property
    def bits(self) -> str:
        """The kind of the elements."""
        return self.dispatch.shader.name.split(".")[1]


def _change(graph: Graph, tensor: TensorRef) -> _Change | None:
    """The command that gives a tensor, if it changes an order and may run later."""
    found = graph.dispatch_that_writes(tensor, "arrange")
    if found is None or not graph.may_wait(found[0]):
        return None
    return _Change(*found, box_of(found[1]))


def _is_run(box: Box) -> bool:
    ((_, stride), *others) = fold(box.dimensions)
    return not others and (stride == 1 or box.elements == 1)


def _lone(graph: Graph, tensor: TensorRef, position: int) -> bool:
    return graph.is_passed_on(tensor) and list(graph.readers(tensor)) == [position]


# --- changes of changes ------------------------------------------------------------------------------------------


def _arrange_at_once(graph: Graph, g: Lowering, position: int, dispatch: Dispatch) -> bool:
    """An arrangement of what is arranged: one."""
    change = _change(graph, dispatch.tensors["src"])
    if change is None or change.bits != dispatch.shader.name.split(".")[1]:
        return False
    together = box_of(dispatch).through(change.box)
    if together is None:
        return False
    lone = _lone(graph, dispatch.tensors["src"], position)
    if len(fold(together.dimensions)) > RANK or not (lone or _is_run(together)):
        return False
    made = arranged(g, change.bits, change.source, dispatch.tensors["dst"], together, dispatch.operation)
    if made is None:
        return False
    graph.replace(position, made, [change.position] if lone else [])
    return True


def _move_at_once(graph: Graph, g: Lowering, position: int, dispatch: Dispatch) -> None:
    """A strided copy of what is arranged: one."""
    change, push = _change(graph, dispatch.tensors["src"]), dispatch.push
    lone = _lone(graph, dispatch.tensors["src"], position)
    if change is None or not lone or change.bits != dispatch.shader.name.split(".")[1]:
        return
    if push["count"] == push["runs"] and push["src_stride_4"] == push["dst_stride_4"] == 1:
        return  # a run, which `in_place` makes needless
    sizes, strides, first = ways_of(dispatch)
    box = Box(tuple(zip(sizes, strides["src"], strict=True)), first["src"])
    within = box.within(change.box)
    if within is None:
        return
    ways = in_pieces(within, strides["dst"])
    firsts = box.first_within(change.box), first["dst"]
    if len(folded(*ways)[0]) > MOVE_RANK or any(stride < 0 for stride in ways[1]):
        return
    made = moving(g, change.bits, change.source, dispatch.tensors["dst"], *ways, *firsts, dispatch.operation)
    if made is None:
        return
    graph.replace(position, made, [change.position])


def _pack_at_once(graph: Graph, g: Lowering, position: int, dispatch: Dispatch) -> bool:
    """Filters that are packed from where they were before their order was changed."""
    change, push = _change(graph, dispatch.tensors["src"]), dispatch.push
    if change is None:
        return False
    names = ("part_stride", "output_stride", "tap_stride", "channel_stride")
    outputs, taps, channels = (int(push[name]) for name in ("out_channels", "taps", "channels"))
    if push["outer_stride"]:
        return False
    sizes = (int(push["parts_side_by_side"]), outputs, taps, channels)
    box = Box(tuple((size, int(push[name])) for size, name in zip(sizes, names, strict=True)), int(push["first"]))
    within = box.within(change.box)
    if within is None or len(within[0]) > 2 or any(len(pieces) > 1 for pieces in within[1:]):
        return False
    *outer, (side_by_side, _) = within[0]
    strides = {name: pieces[-1][1] for name, pieces in zip(names, within, strict=True)}
    strides["outer_stride"] = outer[0][1] if outer else 0
    if min(strides.values()) < 0 or (outer and not outer[0][1]):
        return False
    places = {"first": box.first_within(change.box), "parts_side_by_side": side_by_side}
    tensors = {**dispatch.tensors, "src": change.source}
    graph.replace(position, replace(dispatch, tensors=tensors, push={**push, **strides, **places}))
    return True


def _mean_at_once(graph: Graph, g: Lowering, position: int, dispatch: Dispatch) -> bool:
    """A mean of what is arranged: of what it was before."""
    change, push, shader = _change(graph, dispatch.tensors["src"]), dispatch.push, dispatch.shader
    if change is None or push["parts"] != 1 or ".sum." not in shader.name:
        return False
    found: dict[str, list[Dimension]] = {}
    for name, count in (("keep", int(push["elements"])), ("fold", int(push["reduced"]))):
        sizes = [int(push[f"{name}_size_{axis}"]) for axis in (1, 2, 3)]
        sizes.insert(0, count // math.prod(sizes))
        found[name] = [(size, int(push[f"{name}_stride_{axis}"])) for axis, size in enumerate(sizes)]
    box = Box((*found["keep"], *found["fold"]))
    within = box.within(change.box)
    if within is None or change.box.first:
        return False
    keep, reduce = (fold([piece for pieces in some for piece in pieces]) for some in (within[:4], within[4:]))
    if len(keep) > 4 or len(reduce) > 4 or any(stride < 0 for _, stride in (*keep, *reduce)):
        return False
    rows = keep[-1][1] == 1 and keep[-1][0] % 4 == 0 and all(stride % 4 == 0 for _, stride in (*keep[:-1], *reduce))
    fused = replace(
        dispatch,
        tensors={**dispatch.tensors, "src": change.source},
        push={**push, **folded_dimensions("keep", keep), **folded_dimensions("fold", reduce)},
        specialization=shader.with_constants(dispatch.specialization, ROWS=rows, FOLD_RANK=len(reduce)),
    )
    lone = _lone(graph, dispatch.tensors["src"], position)
    graph.replace(position, fused, [change.position] if lone else [])
    return True


# --- what is put together ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Planes:
    """A copy of images, NCHW, to where their planes come after those of others."""

    change: _Change
    """The command that made them of images in NHWC."""
    images: int
    channels: int
    pixels: int
    first: int
    """The channel of the larger images that is their first."""
    of: int
    """Channels of these."""
    operation: int

    @property
    def alike(self) -> tuple[str, int, int, int]:
        """The property that all of them have that are put together."""
        return self.change.bits, self.images, self.pixels, self.of


def _joined(graph: Graph) -> Iterable[TensorRef]:
    """The tensors that strided copies write, in order."""
    return dict.fromkeys(dispatch.tensors["dst"] for _, dispatch in graph.dispatches("move"))


def _join_at_once(graph: Graph, g: Lowering, target: TensorRef) -> bool:
    """CONCATENATION of planes that come from NHWC: of channels, there, and the order changes behind it, for all."""
    positions = sorted(graph.writers(target))
    readers = sorted({*graph.readers(target)}.difference(positions))  # some copies read the words that they change
    every = {position: planes for position in positions if (planes := _planes(graph, position)) is not None}
    if not every or len(every) < len(positions) or not readers or not graph.is_passed_on(target):
        return False
    one, *_ = ordered = sorted(every.values(), key=lambda planes: planes.first)
    *firsts, channels = itertools.accumulate((planes.channels for planes in ordered), initial=0)
    if (
        [planes.first for planes in ordered] != firsts
        or {planes.alike for planes in ordered} != {(one.change.bits, one.images, one.pixels, channels)}
        or one.images * one.pixels * channels * int(one.change.bits[1:]) != 8 * target.nbytes
        or readers[0] < positions[-1]
        or not graph.has_room(readers[0])
        or not all(_is_rearranged(graph.commands[reader]) for reader in readers)
        or not any(_lone(graph, planes.change.dispatch.tensors["dst"], at) for at, planes in every.items())
    ):
        return False
    before = g.scratch(target.nbytes)
    box = Box(((one.images, one.pixels * channels), (channels, 1), (one.pixels, channels)))
    operation, rows = one.operation, one.images * one.pixels
    made: dict[int, Dispatch | None] = {}
    for at, planes in every.items():
        sizes, strides = [rows, planes.channels], [planes.channels, 1]
        ways = sizes, strides, [channels, 1]
        made[at] = moving(g, planes.change.bits, planes.change.source, before, *ways, 0, planes.first, operation)
    behind = arranged(g, one.change.bits, before, target, box, operation)
    if behind is None:
        return False
    for at, each in made.items():
        assert each is not None
        graph.replace(at, each)
    graph.insert(readers[0], behind)
    return True


def _planes(graph: Graph, position: int) -> _Planes | None:
    """The planes that a command copies, if they were channels; None for a single channel or pixel."""
    command = graph.commands[position]
    if not isinstance(command, Dispatch) or command.shader.family != "move":
        return None
    change = _change(graph, command.tensors["src"])
    if change is None or change.bits != command.shader.choice[0] or change.box.first:
        return None
    dimensions = fold(change.box.dimensions)
    if len(dimensions) not in (2, 3):
        return None
    images = dimensions[0][0] if len(dimensions) == 3 else 1
    channels, pixels = (size for size, _ in dimensions[-2:])
    size, around = channels * pixels, [(images, channels * pixels)] * (images > 1)
    sizes, strides, first = ways_of(command)
    if (
        dimensions != [*around, (channels, 1), (pixels, channels)]
        or change.source.nbytes * 8 != images * size * int(change.bits[1:])
        or sizes != [1, 1, 1, images, size]
        or (strides["src"][4], strides["dst"][4], first["src"]) != (1, 1, 0)
        or (images > 1 and strides["src"][3] != size)
        or first["dst"] % pixels
    ):
        return None
    larger = strides["dst"][3] if images > 1 else command.tensors["dst"].nbytes * 8 // int(change.bits[1:])
    return _Planes(change, images, channels, pixels, first["dst"] // pixels, larger // pixels, command.operation)


def _is_rearranged(command: Command | None) -> bool:
    """Whether a command may take what it reads in another order, or ahead of a change."""
    return isinstance(command, Dispatch) and command.shader.family in ("move", *_FUSIONS)


# --- element by element ------------------------------------------------------------------------------------------


def _swap(graph: Graph, g: Lowering, position: int, dispatch: Dispatch) -> bool:
    """An elementwise operation on what is arranged: before that."""
    target, sides = dispatch.tensors["dst"], _sides(dispatch)
    changes: dict[str, _Change] = {}
    for side in sides:
        change = _change(graph, dispatch.tensors[side])
        if change is None or not _lone(graph, dispatch.tensors[side], position):
            return False
        changes[side] = change
    if not changes or graph.writer(target) != position:
        return False
    first = next(iter(changes.values()))
    if any((other.box, other.bits) != (first.box, first.bits) for other in changes.values()):
        return False
    elements = first.box.elements
    if not all(other.box.reorders(8 * other.source.nbytes // int(other.bits[1:])) for other in changes.values()):
        return False
    before = g.scratch(target.nbytes)
    sources = {side: change.source for side, change in changes.items()}
    ahead = _in_order(replace(dispatch, tensors={**dispatch.tensors, **sources, "dst": before}), first.box, sides)
    made = arranged(g, _BITS[target.nbytes // elements], before, target, first.box, dispatch.operation)
    if ahead is None or made is None:
        return False
    at = max(change.position for change in changes.values())
    others = [tensor for name, tensor in dispatch.tensors.items() if name not in (*sides, "dst")]
    swallowed = [change.position for change in changes.values()]
    if all(writer < at for tensor in others for writer in graph.writers(tensor)):
        graph.replace(at, ahead, swallowed)
        graph.replace(position, made)
        return True
    if not graph.has_room(position):
        return False
    graph.insert(position, ahead)
    graph.replace(position, made, swallowed)
    return True


def _in_order(dispatch: Dispatch, box: Box, sides: Sequence[str]) -> Dispatch | None:
    """An operation whose operands ``sides`` have their elements in the order from before; None where that can't be."""
    if dispatch.shader.family != "binary" or len(sides) == 2:
        return dispatch
    (other,) = {"lhs", "rhs"} - {*sides}
    if not any(dispatch.push[f"{other}_stride_{axis}"] for axis in range(4)):
        return dispatch  # a number
    found = broadcast_in_order(dispatch.push, box.dimensions, sides)
    if found is None:
        return None
    push, spec = found
    words = dispatch.shader.with_constants(dispatch.specialization, **spec)
    return replace(dispatch, push={**dispatch.push, **push}, specialization=words)


def _sides(dispatch: Dispatch) -> Sequence[str]:
    """Names of the tensors of an elementwise operation whose elements come one for one."""
    target = dispatch.tensors["dst"]
    if dispatch.shader.family != "binary":
        by_channel = dispatch.shader.name.endswith(".channel")
        return () if by_channel or target.nbytes > dispatch.tensors["src"].nbytes else ("src",)
    return [side for side in ("lhs", "rhs") if dispatch.tensors[side].nbytes == target.nbytes]


_FUSIONS: Mapping[str, Callable[[Graph, Lowering, int, Dispatch], bool]] = {
    "arrange": _arrange_at_once,
    "pack_filter": _pack_at_once,
    "mean": _mean_at_once,
    "unary": _swap,
    "lookup": _swap,
    "convert": _swap,
    "binary": _swap,
}
"""By the shader of the command that reads what is arranged."""
