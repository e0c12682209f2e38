"""Verified plans: every node is computed twice, and the device compares both results bit by bit.

A second lowering of a product that checksums verify (`lowering/gemm/verification/checksum.py`) verifies it, and copies
the first result in place of computing it. `Verifier` says when checksums do without the copy.

The second computations read and write memory of their own, so that a tensor that changes after its comparison is found
in the next one. All strategies for a product of integers give the same bits, and so do those that add up floats in
order. Where no checksum verifies it, a shader that shares no code with these computes it once more
(`lowering/gemm/verification/exact.py`). If everything is to be computed twice, the second computation takes another
strategy than the first, if there is one that gives the same bits: of another kind, which is another variant of the
shader, or else another tile. Other computations run the same shader again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from nnvk.driver.vulkan.graph.ir import Node
from nnvk.driver.vulkan.lowering.compared import Subject
from nnvk.driver.vulkan.lowering.gemm.verification.checksum_dispatch import verify_deferred
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.node import lower
from nnvk.driver.vulkan.shaders.commands import Storage, TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Tensor
from nnvk.types.model import Model
from nnvk.types.operand import Shape

VERIFICATION = Shader("verification", ROWS=("all", "counted"))
EXCHANGE = -1
"""Stands for an operation where inputs come from the host, and outputs go there."""
_LOCAL = 64
_MOST_GROUPS = 256
_HELD_BY_CPU, _HELD_BY_GPU = 1 << 20, 16 << 20
"""Bytes that may wait to be verified."""


class Verifier:
    """Adds second computations of the nodes of a graph, which are lowered one after the other.

    Results that checksums verify are verified after other nodes were lowered, which may read them: so what these have
    read is known to be right. If all readers of a result are among them, and are verified by checksums too, nobody
    needs a copy of it. Results wait until their memory, with what else the shader reads, would be more than `most_held`
    says, or a node reads them that is computed twice.
    """

    def __init__(self, g: Lowering, nodes: Sequence[Node], outputs: Collection[int], *, together: bool = True) -> None:
        """``outputs`` are the tensors that the model returns. ``together``: products may share dispatches."""
        self._g = g
        self._outputs = frozenset(outputs)
        self._readers = Counter(tensor.index for node in nodes for tensor in node.inputs)
        self._readers.update(outputs)
        self._read = Counter[int]()  # by nodes that were lowered, and that checksums verify
        self._most = most_held(g.device, nodes) if together else 0
        self._left: list[Node] = []

    def follow(self, node: Node) -> None:
        """Verify what is known to be read now that a node was lowered."""
        if self._has_checksums(node):
            self._read.update(tensor.index for tensor in node.inputs)
            for were_read in (True, False):  # those that need no copy first
                if self._left and self._held((*self._left, node)) > self._most:
                    self._verify([each for each in self._left if self._were_read(each) or not were_read])
            self._left.append(node)
        else:
            written = {tensor.index for each in self._left for tensor in each.outputs}
            if not written.isdisjoint(tensor.index for tensor in node.inputs):
                self._verify(self._left)
            compute_again(self._g, node)

    def finish(self) -> None:
        """Verify the rest, when all nodes were lowered."""
        self._verify(self._left)

    def _verify(self, nodes: Sequence[Node]) -> None:
        """Verify some that are left: the last node first, so that none reads a copy that another one makes."""
        self._left = [node for node in self._left if node not in nodes]

        def lower_again() -> None:
            for node in reversed(nodes):
                compute_again(self._g, node, copies=not self._were_read(node))

        verify_deferred(self._g, lower_again)

    def _has_checksums(self, node: Node) -> bool:
        return all(self._g.is_checked(tensor) for tensor in node.outputs)

    def _were_read(self, node: Node) -> bool:
        return all(self._read[tensor.index] == self._readers[tensor.index] for tensor in node.outputs)

    def _held(self, nodes: Iterable[Node]) -> int:
        """The bytes that verifications of nodes read."""
        tensors = {
            tensor
            for node in nodes
            for tensor in (
                *(self._g.tensor(each.whole) for each in node.inputs if not each.is_constant),
                *(self._g.checked[each.index].results for each in node.outputs),
                *(self._g.checked[each.index].words for each in node.outputs),
            )
        }
        return sum(tensor.nbytes for tensor in tensors)


def most_held(device: DeviceProfile, nodes: Sequence[Node]) -> int:
    """The most bytes that wait to be verified.

    On a CPU that is what stays in its cache. On a GPU it is what the largest node reads and writes, which a plan needs
    anyway, or `_HELD_BY_GPU` if that is more.
    """
    if device.is_cpu:
        return _HELD_BY_CPU
    return max(_HELD_BY_GPU, *(_nbytes((*node.inputs, *node.outputs)) for node in nodes))


def _nbytes(tensors: Iterable[Tensor]) -> int:
    sizes = {each.index: each.size * each.dtype.itemsize for each in tensors if not each.is_constant}
    return sum(sizes.values())


def compute_again(g: Lowering, node: Node, *, copies: bool = True) -> None:
    """Compute a lowered node again, and compare each tensor of its outputs.

    ``copies``: results that are verified in place of that are copied.
    """
    lowered = g.operation, g.fused
    g.operation, g.fused = node.operation, tuple(sorted(node.fused))
    tensors = {tensor.index: tensor for call in node.calls for tensor in call.outputs}
    partly_written = {index: tensor.view is not None for index, tensor in tensors.items()}
    results, counts = g.add_second(partly_written, lambda: lower(node, g), copies=copies)
    for index, (first, second) in results.items():
        is_copied = g.is_copied(index, first)
        if is_copied:
            continue  # that is verified, and the second result is a copy
        tensor, rows = tensors[index].whole, g.counts.get(index)
        compare(g, Subject(g.operation, tensor.name, tensor.dtype.name, tensor.shape), first, second, rows)
    for index, (first, second) in counts.items():
        name = f"the number of rows of {tensors[index].name}"
        compare(g, Subject(g.operation, name, "uint32", (1,)), first, second)
    g.operation, g.fused = lowered


def copy_inputs_again(g: Lowering, model: Model, shapes: Sequence[Shape]) -> None:
    """Add a second copy of each input that commands copy, for the second computations, and a comparison of both."""
    for position, (index, shape) in enumerate(zip(model.inputs, shapes, strict=True)):
        copies = g.copy_input_again(index)
        if copies is not None:
            name, dtype = f"input {position}", model.operands[index].type.dtype.name
            compare(g, Subject(EXCHANGE, name, dtype, shape), *copies)


def compare_outputs(
    g: Lowering, model: Model, shapes: Mapping[int, Shape], outputs: Sequence[TensorRef | None]
) -> None:
    """Add a comparison of each output, where the host finds it, with the second result."""
    for position, (index, output) in enumerate(zip(model.outputs, outputs, strict=True)):
        if output is not None:
            name, dtype = f"output {position}", model.operands[index].type.dtype.name
            subject = Subject(EXCHANGE, name, dtype, shapes[index])
            compare(g, subject, output, g.second_result(index), g.counts.get(index))


def compare(g: Lowering, subject: Subject, first: TensorRef, second: TensorRef, rows: TensorRef | None = None) -> None:
    """Add a comparison of all bits of two tensors of equal size; none if they are the same tensor or a constant.

    All NaN count as the same. ``rows`` has the number of rows if that depends on data.
    """
    nbytes = min(first.nbytes, second.nbytes)
    if first is second or not nbytes or first.storage is Storage.CONSTANTS:
        return
    flag, number = g.compared(subject)
    tensors, limits = {"computed": first, "again": second, "flag": flag}, {"row_bytes": nbytes}
    if rows is not None:
        tensors["rows"] = rows
        limits = {"row_bytes": nbytes // subject.shape[0], "most_rows": subject.shape[0]}
    g.dispatch(
        VERIFICATION.variant(ROWS="all" if rows is None else "counted"),
        groups=(min(-(-nbytes // (16 * _LOCAL)), _MOST_GROUPS),),
        spec={"local_x": _LOCAL, "FLOAT_BITS": {"float32": 32, "float16": 16}.get(subject.dtype, 0)},
        tensors=tensors,
        number=number,
        **limits,
    )
