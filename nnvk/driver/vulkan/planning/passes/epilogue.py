"""Elementwise operations on the result of a GEMM become its epilogue: activations, residuals, and what follows them.

Floats are summed in the same order as before, and bytes are rounded by the same steps. Products that are to be verified
by checksums or by other shaders get no epilogue that these do not know: it would be better to verify all by
itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnvk.driver.vulkan.graph.ir import Graph, Node
from nnvk.driver.vulkan.lowering.dtypes import F16, F32, Q8, dtype, of
from nnvk.driver.vulkan.lowering.gemm.epilogue import combined_one_for_one, combines, fits, is_exact_with
from nnvk.driver.vulkan.lowering.gemm.problem import Epilogue
from nnvk.driver.vulkan.lowering.kernel import kernels
from nnvk.driver.vulkan.lowering.quantised.tensors import is_lookup
from nnvk.driver.vulkan.planning.passes.context import Context
from nnvk.driver.vulkan.planning.passes.elements import Elements
from nnvk.driver.vulkan.planning.passes.elementwise import Group, groups_of, replaced, replacements
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Call, Tensor
from nnvk.ops.internal import InternalCode
from nnvk.types.codes import OperationCode

_WITHOUT_CHECKSUMS = {OperationCode.TRANSPOSE_CONV_2D, OperationCode.BATCH_MATMUL}
"""Products of quantised values that `exact.py` verifies, which knows no epilogues."""


def fuse_epilogues(graph: Graph, context: Context) -> tuple[Graph, int]:
    """Let GEMMs compute the elementwise operations that follow them."""
    graph, on_bytes = _fuse_on_bytes(graph, context)
    graph, on_floats = _fuse_on_floats(graph, context)
    return graph, on_bytes + on_floats


# --- floats ------------------------------------------------------------------------------------------------------


def _fuse_on_floats(graph: Graph, context: Context) -> tuple[Graph, int]:
    if not any(node.traits.gemm is not None for node in graph.nodes):
        return graph, 0
    elements = Elements(graph)
    instead: dict[Node, Node | None] = {}
    count = 0
    for group in groups_of(graph, elements):
        gemm = _leader(group, elements, context.profile)
        if gemm is not None and (not context.verifies or _is_verified_with(gemm, group.calls)):
            instead.update(replacements(group, gemm, (gemm.call, *group.calls), elements))
            count += 1
    return replaced(graph, instead), count


def _leader(group: Group, elements: Elements, profile: DeviceProfile) -> Node | None:
    """The last GEMM that a group reads, if the group fits its epilogue; else None."""
    if len(group.results) != 1:
        return None
    gemms = [
        gemm
        for call in group.calls
        for tensor in call.every_tensor()
        if tensor.size == group.last.outputs[0].size
        and (gemm := elements.producer(tensor)) is not None
        and gemm.traits.gemm is not None
        and not gemm.epilogue
        and gemm.outputs[0].code is group.last.outputs[0].code
        and channels_of(gemm, profile) is not None
        and not elements.is_given(tensor)
        and all(reader in group.nodes for reader in elements.readers(tensor))
    ]
    if not gemms:
        return None
    gemm = max(gemms, key=elements.places.__getitem__)
    channels = channels_of(gemm, profile)
    assert channels is not None
    return gemm if fits(group.program, gemm.outputs[0].whole, channels) else None


# --- bytes -------------------------------------------------------------------------------------------------------


class _Gemms:
    """GEMMs on bytes, with the operations that have become their epilogues so far."""

    def __init__(self, elements: Elements, profile: DeviceProfile) -> None:
        self.instead: dict[Node, Node | None] = {}
        """The nodes in the places of those of the graph."""
        self._elements = elements
        self._profile = profile
        self._fused: dict[int, tuple[Node, Node]] = {}

    def place_of(self, tensor: Tensor) -> Node | None:
        """The node of the graph in whose place a tensor is computed."""
        known = self._fused.get(self._elements.source(tensor).index)
        return self._elements.producer(tensor) if known is None else known[1]

    def gemm(self, tensor: Tensor, reader: Node) -> Node | None:
        """The GEMM that computes a tensor for one reader alone, with its epilogue; None if it can't have one."""
        known = self._fused.get(self._elements.source(tensor).index)
        node = self._elements.producer(tensor) if known is None else known[0]
        if node is None or node.traits.gemm is None or of(node.call.output) is not Q8:
            return None
        fits_ = channels_of(node, self._profile) is not None and is_only_reader(self._elements, tensor, reader)
        return node if fits_ else None

    def extend(self, gemm: Node, tensor: Tensor, node: Node) -> None:
        """Append a node, which reads the tensor that a GEMM computes, to the GEMM's epilogue."""
        place = self.place_of(tensor)
        assert place is not None
        fused = with_behind(self._elements, gemm, node)
        self.instead |= {place: None, node: fused}
        self._fused[node.call.output.index] = fused, node


def _fuse_on_bytes(graph: Graph, context: Context) -> tuple[Graph, int]:
    """A sum or product of a GEMM's result with another tensor, then a table."""
    if not any(node.traits.gemm is not None and of(node.call.output) is Q8 for node in graph.nodes):
        return graph, 0
    elements = Elements(graph)
    gemms = _Gemms(elements, context.profile)
    count = 0
    for node in graph.nodes:
        if isinstance(node.code, InternalCode) or not node.outputs[0].size or of(node.outputs[0]) is not Q8:
            continue
        found = _looked_up(gemms, node) if is_lookup(node.call) else _combined(gemms, elements, node, context.profile)
        if found is not None and (not context.verifies or _is_verified_with(found[0], (elements.call(node),))):
            gemms.extend(*found, node)
            count += 1
    return replaced(graph, gemms.instead), count


def _looked_up(gemms: _Gemms, node: Node) -> tuple[Node, Tensor] | None:
    """The GEMM whose results a table maps, with the tensor of these, if its epilogue can look them up."""
    tensor = node.call.input
    gemm = gemms.gemm(tensor, node)
    return None if gemm is None or any(map(is_lookup, gemm.epilogue)) else (gemm, tensor)


def _combined(gemms: _Gemms, elements: Elements, node: Node, profile: DeviceProfile) -> tuple[Node, Tensor] | None:
    """The last GEMM of which an operation combines the results with another tensor, with the tensor of these."""
    call, sides = elements.call(node), []
    for tensor in (each for each in call.every_tensor() if each is not call.output):
        gemm = gemms.gemm(tensor, node)
        channels = None if gemm is None else channels_of(gemm, profile)
        if gemm is not None and channels is not None and not gemm.epilogue and combines(call, tensor, channels):
            sides.append((gemm, tensor))
    return max(sides, key=lambda side: elements.places[side[0]], default=None)


# --- GEMMs -------------------------------------------------------------------------------------------------------


def channels_of(gemm: Node, profile: DeviceProfile) -> int | None:
    """The channels of the pixels that a GEMM stores, if its kernel takes epilogues and no variant is to be avoided."""
    kernel = kernels()[gemm.code]
    if kernel.epilogue_channels is None:
        return None
    if profile.avoided:  # a variant that the build leaves out is chosen for no GEMM
        fused = {("DTYPE", dtype(gemm.call.output)), ("EPILOGUE", "fused")}
        every = (variant for shader in kernel.shaders for variant in shader.variants if fused.issubset(variant.axes))
        if any(profile.native_variant(variant).name in profile.avoided for variant in every):
            return None
    return kernel.epilogue_channels(gemm.call, profile)


def _is_verified_with(gemm: Node, calls: Sequence[Call]) -> bool:
    """Whether a GEMM can be verified with an epilogue, or can't be without it (`lowering/verification.py`)."""
    call, names = gemm.call, gemm.traits.gemm
    assert names is not None
    result, type_ = call.output.index, of(getattr(call, names.input))
    if type_ in (F32, F16) and of(call.output) is type_:
        return is_exact_with(Epilogue((*gemm.epilogue, *calls), result, calls[-1].output), call)
    if type_ is not Q8:
        return True
    constants = [getattr(call, name) for name in (names.weights, names.bias) if name is not None]
    are_constant = all(tensor is None or tensor.is_constant for tensor in constants)
    if gemm.code in _WITHOUT_CHECKSUMS or not are_constant:
        return False
    return combined_one_for_one(Epilogue((*gemm.epilogue, *calls), result, calls[-1].output)) is not None


def is_only_reader(elements: Elements, tensor: Tensor, node: Node) -> bool:
    """Whether nobody else reads the elements of a tensor."""
    return not elements.is_given(tensor) and all(reader is node for reader in elements.readers(tensor))


def with_behind(elements: Elements, gemm: Node, node: Node) -> Node:
    """A GEMM that also computes a node which reads its result."""
    call = elements.call(node)
    result = frozenset({call.output.index})
    absorbed = (node, *elements.reshapes(node))
    return replace(gemm.with_call(gemm.call, absorbed), epilogue=(*gemm.epilogue, call), results=result)
