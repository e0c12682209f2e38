"""Strided views: let a dispatch read or write a column range of a larger tensor in place.

Shaders go from row to row by pitches in their push constants. Loads and stores stay what they are, so that columns of
whole vec4s are for shaders that take vec4s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from nnvk.driver.vulkan.graph.program import Spread
from nnvk.driver.vulkan.lowering.copies.arrange import RANK, arranged, box_of
from nnvk.driver.vulkan.lowering.copies.move import RANK as MOVE_RANK
from nnvk.driver.vulkan.lowering.copies.move import folded, in_pieces, moving, ways_of
from nnvk.driver.vulkan.lowering.divide import magic
from nnvk.driver.vulkan.lowering.dtypes import F32, SIZES
from nnvk.driver.vulkan.lowering.gemm.epilogue import TO_FLOATS
from nnvk.driver.vulkan.lowering.gemm.gemm import FROM_FLOATS, channels_of, inputs_of, width_of_weights
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.shaders.commands import Dispatch, integer
from nnvk.ops.strided import Box, fold

_MOST = (1 << 16) - 1
"""Channels of the larger pixels that products write to: two numbers share a push constant."""


@dataclass(frozen=True, slots=True)
class StridedView:
    """The byte range of each row of a larger tensor that holds the rows of a smaller one."""

    first: int
    width: int
    pitch: int
    """Bytes of a larger row."""

    @property
    def are_inside(self) -> bool:
        """Whether the larger rows have them."""
        return 0 <= self.first <= self.pitch - self.width

    def within(self, outer: StridedView | None) -> StridedView:
        """The same where the larger tensor is columns of a yet larger one."""
        return self if outer is None else StridedView(outer.first + self.first, self.width, outer.pitch)

    def elements(self, itemsize: int) -> StridedView | None:
        """In elements of so many bytes; None where one would be cut, or the first one's place is within a word."""
        if self.first % max(itemsize, 4) or self.width % itemsize or self.pitch % itemsize:
            return None
        return StridedView(self.first // itemsize, self.width // itemsize, self.pitch // itemsize)

    def are_multiples(self, number: int) -> bool:
        """Whether all of them begin and end so."""
        return not (self.first % number or self.width % number or self.pitch % number)


def on_strided_views(g: Lowering, dispatch: Dispatch, views: Mapping[str, StridedView]) -> Dispatch | None:
    """A dispatch whose tensors of these names are columns of larger ones; None where its shader can't take that."""
    way = _WAYS.get(dispatch.shader.family)
    if way is None:
        return None
    found: dict[str, StridedView] = {}
    for name, each in views.items():
        counted = each.elements(itemsize(dispatch, name))
        if counted is None:
            return None
        found[name] = counted
    return way(g, dispatch, found)


def itemsize(dispatch: Dispatch, name: str) -> int:
    """Bytes of an element of a tensor that has data of the dispatch's type."""
    if dispatch.shader.family in _OF_BYTES:
        return _OF_BYTES[dispatch.shader.family]
    shader, widened = dispatch.shader, {"src": FROM_FLOATS, "dst": TO_FLOATS}.get(name, "")
    if shader.has_constant(widened) and shader.constant(dispatch.specialization, widened):
        return SIZES[F32.name]
    types = [SIZES[value] for value in shader.choice if value in SIZES]
    return types[-1] if name == "dst" else types[0]  # convert.comp has two


_OF_BYTES = {"lookup": 1, "lookup_16": 2}
"""Bytes of the elements of shaders that have one data type alone."""


# --- products ------------------------------------------------------------------------------------------------


def _gemm(g: Lowering, dispatch: Dispatch, views: Mapping[str, StridedView]) -> Dispatch | None:
    shader, words, push = dispatch.shader, dispatch.specialization, dict(dispatch.push)
    pitches = {"dst": 0, "extra": 0}
    for name, each in views.items():
        if name == "src":
            if each.width != inputs_of(dispatch) or not each.are_multiples(_load(dispatch)):
                return None
            push[_SOURCE_PITCHES[shader.family]] = each.pitch
            if "last_word" in push:
                rows = dispatch.tensors["src"].nbytes // each.width
                push["last_word"] = ((rows - 1) * each.pitch + each.width - 1) // 4
            continue
        if name == "weights":
            is_row = "weights_pitch" in push and each.width == width_of_weights(dispatch)
            if not is_row or not each.are_multiples(4):
                return None
            push["weights_pitch"] = each.pitch
            continue
        is_read_so = name == "dst" or (name == "extra" and shader.constant(words, "EXTRA") == Spread.EACH_ONE)
        if not is_read_so or each.width != channels_of(dispatch) or each.pitch > _MOST:
            return None
        in_vec4s = shader.choice[0] != F32.name or shader.constant(words, "VECTOR_STORES")
        if in_vec4s and not (each.are_multiples(4) and push["out_channels"] % 4 == 0):
            return None
        pitches[name] = each.pitch
    if "pitches" in push:
        push["pitches"] = pitches["extra"] << 16 | pitches["dst"]
    return replace(dispatch, push=push)


_SOURCE_PITCHES = {
    "gemm": "channels",
    "depthwise_conv2d": "channels",
    "fully_connected": "src_pitch",
    "winograd_input": "src_pitch",
    "winograd_output": "src_pitch",
}
"""Push constants that are the elements from a pixel of the input to the next."""


def _load(dispatch: Dispatch) -> int:
    """How many elements of its input a GEMM loads at once."""
    shader, words = dispatch.shader, dispatch.specialization
    if shader.family == "gemm":
        return shader.constant(words, "SPAN")
    if shader.family == "fully_connected":
        return 1
    in_vec4s = shader.constant(words, "VECTOR_LOADS" if shader.family == "depthwise_conv2d" else "VECTORS")
    return 4 if in_vec4s else 1


# --- pixels --------------------------------------------------------------------------------------------------


def _pixels(g: Lowering, dispatch: Dispatch, views: Mapping[str, StridedView]) -> Dispatch | None:
    """Shaders that take four channels of a pixel: pools and RESIZE."""
    push = dict(dispatch.push)
    if not dispatch.shader.constant(dispatch.specialization, "VECTOR"):
        return None
    for name, each in views.items():
        if f"{name}_pitch" not in push or each.width != push["channels"] or not each.are_multiples(4):
            return None
        push[f"{name}_pitch"] = each.pitch
    return replace(dispatch, push=push)


# --- element by element --------------------------------------------------------------------------------------


def _row(views: Mapping[str, StridedView]) -> int | None:
    """The length of a row, common to all views; None if lengths differ or a row isn't whole vec4s."""
    widths = {each.width for each in views.values()}
    return widths.pop() if len(widths) == 1 and all(each.are_multiples(4) for each in views.values()) else None


def _elementwise(g: Lowering, dispatch: Dispatch, views: Mapping[str, StridedView]) -> Dispatch | None:
    row, push = _row(views), dict(dispatch.push)
    if row is None or any(f"{name}_pitch" not in push for name in views):
        return None
    push |= {"row": row // 4, "magic_row": magic(row // 4)}
    for name in ("src", "dst"):
        push[f"{name}_pitch"] = (views[name].pitch if name in views else row) // 4
    return replace(dispatch, push=push, specialization=_with(dispatch, STRIDED=True))


def _fused_elementwise(g: Lowering, dispatch: Dispatch, views: Mapping[str, StridedView]) -> Dispatch | None:
    shader, words = dispatch.shader, dispatch.specialization
    own: dict[str, StridedView] = {}  # by the names of the pitches; what is read or written in places that are not used
    for name, each in views.items():
        kind, number = ("SOURCE", "pitch") if name.startswith("in") else ("RESULT", "result_pitch")
        used = shader.constant(words, f"{kind}_{name[-1]}")
        if used == Spread.ABSENT:
            continue
        if kind == "SOURCE" and used != Spread.EACH_ONE:
            return None
        own[f"{number}_{name[-1]}"] = each
    row = _row(own)
    if row is None:
        return None
    push = {name: row // 4 if "pitch" in name else value for name, value in dispatch.push.items()}
    push |= {"row": row // 4, "magic_row": magic(row // 4)} | {name: each.pitch // 4 for name, each in own.items()}
    return replace(dispatch, push=push, specialization=_with(dispatch, STRIDED=True))


def _binary(g: Lowering, dispatch: Dispatch, views: Mapping[str, StridedView]) -> Dispatch | None:
    row, push = _row(views), dict(dispatch.push)
    if row is None:
        return None
    words = dispatch.specialization
    if dispatch.shader.constant(words, "CONTIGUOUS"):
        rows = integer(push, "elements") // row
        for axis, size, stride in ((0, 1, 0), (1, 1, 0), (2, rows, row), (3, row, 1)):
            push |= {f"{side}_stride_{axis}": stride for side in ("lhs", "rhs")}
            if axis:
                push |= {f"size_{axis}": size, f"magic_{axis}": magic(size)}
        words = _with(dispatch, CONTIGUOUS=False, ROWS=True, LHS_SPREAD=False, RHS_SPREAD=False)
    if push["size_3"] != row or not dispatch.shader.constant(words, "ROWS"):
        return None
    for side in {"lhs", "rhs"} & views.keys():
        strides = [integer(push, f"{side}_stride_{axis}") for axis in range(4)]
        if strides[3] != 1 or any(stride % row for stride in strides[:3]):
            return None
        pitch = views[side].pitch
        push |= {f"{side}_stride_{axis}": stride // row * pitch for axis, stride in enumerate(strides[:3])}
    if "dst" in views:
        push["dst_pitch"] = views["dst"].pitch
        words = dispatch.shader.with_constants(words, STRIDED=True)
    return replace(dispatch, push=push, specialization=words)


def _with(dispatch: Dispatch, **constants: bool) -> tuple[int, ...]:
    return dispatch.shader.with_constants(dispatch.specialization, **constants)


# --- copies --------------------------------------------------------------------------------------------------


def _box(dispatch: Dispatch, name: str, views: StridedView) -> Box:
    """Where the elements of a tensor lie."""
    rows = dispatch.tensors[name].nbytes // (views.width * itemsize(dispatch, name))
    return Box(((rows, views.pitch), (views.width, 1)))


def _arrange(g: Lowering, dispatch: Dispatch, views: Mapping[str, StridedView]) -> Dispatch | None:
    box = box_of(dispatch)
    if views.keys() != {"src"}:
        return None
    outer = _box(dispatch, "src", views["src"])
    together = box.through(outer)
    if together is None or len(fold(together.dimensions)) > RANK:
        return None
    (bits,) = dispatch.shader.choice
    source, target = dispatch.tensors["src"], dispatch.tensors["dst"]
    return _copied(arranged(g, bits, source, target, together, dispatch.operation), views)


def _move(g: Lowering, dispatch: Dispatch, views: Mapping[str, StridedView]) -> Dispatch | None:
    sizes, strides, first = ways_of(dispatch)
    for name, other in (("src", "dst"), ("dst", "src")):
        if name in views:
            box = Box(tuple(zip(sizes, strides[name], strict=True)), first[name])
            outer = _box(dispatch, name, views[name])
            within = box.within(outer)
            if within is None:
                return None
            first[name] = box.first_within(outer)
            sizes, strides[name], strides[other] = in_pieces(within, strides[other])
    if len(folded(sizes, strides["src"], strides["dst"])[0]) > MOVE_RANK:
        return None
    (bits,) = dispatch.shader.choice
    source, target = dispatch.tensors["src"], dispatch.tensors["dst"]
    ways = sizes, strides["src"], strides["dst"]
    made = moving(g, bits, source, target, *ways, first["src"], first["dst"], dispatch.operation)
    return _copied(made, views)


def _copied(made: Dispatch | None, views: Mapping[str, StridedView]) -> Dispatch | None:
    """A copy that takes vec4s only where they are aligned: a tensor that is columns may begin amid one."""
    if made is None or all(each.first % 4 == 0 for each in views.values()):
        return made
    return replace(made, specialization=_with(made, DENSE=False))


_WAYS: Mapping[str, Callable[[Lowering, Dispatch, Mapping[str, StridedView]], Dispatch | None]] = {
    **dict.fromkeys(_SOURCE_PITCHES, _gemm),
    **dict.fromkeys(("pool2d", "resize"), _pixels),
    **dict.fromkeys(("unary", "lookup", "lookup_16", "convert"), _elementwise),
    "fused_elementwise": _fused_elementwise,
    "binary": _binary,
    "arrange": _arrange,
    "move": _move,
}
"""The functions that make strided views, by shader."""
