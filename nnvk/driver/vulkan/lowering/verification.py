"""Verified plans: every node is computed twice, and the device compares both results bit by bit.

A second lowering of a product that checksums verify (`lowering/checksum.py`), or a bound on its rounding errors
(`lowering/gemm_bound.py`), verifies it, and copies the first result in place of computing it.

The second computations read and write memory of their own, so that a tensor that changes after its comparison is found
in the next one. Candidates for a product of quantised numbers all give the same bits. The second computation takes
another one than the first, if there is one: of another kind, which is another variant of the shader, or else another
tile. Other computations run the same shader again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnvk.driver.vulkan.graph.ir import Node
from nnvk.driver.vulkan.lowering.lowering import Lowering, Subject
from nnvk.driver.vulkan.lowering.node import lower
from nnvk.driver.vulkan.shaders.commands import Storage, TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.types.model import Model
from nnvk.types.operand import Shape

VERIFICATION = Shader("verification", ROWS=("all", "counted"))
EXCHANGE = -1
"""Stands for an operation where inputs come from the host, and outputs go there."""
_LOCAL = 64
_MOST_GROUPS = 256


def compute_again(g: Lowering, node: Node) -> None:
    """Add a second computation of a node that was lowered, and a comparison for each tensor that it writes."""
    tensors = {tensor.index: tensor for call in node.calls for tensor in call.outputs}
    partly_written = {index: tensor.view is not None for index, tensor in tensors.items()}
    results, counts = g.add_second(partly_written, lambda: lower(node, g))
    for index, (first, second) in results.items():
        if g.is_copied(index, first):
            continue  # that is verified, and the second result is a copy
        tensor, rows = tensors[index].whole, g.counts.get(index)
        compare(g, Subject(g.operation, tensor.name, tensor.dtype.name, tensor.shape), first, second, rows)
    for index, (first, second) in counts.items():
        name = f"the number of rows of {tensors[index].name}"
        compare(g, Subject(g.operation, name, "uint32", (1,)), first, second)


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
    """Add a comparison of all bytes of two tensors of equal size; none if they are the same tensor or a constant.

    ``rows`` has the number of rows if that depends on data.
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
        spec={"local_x": _LOCAL},
        tensors=tensors,
        number=number,
        **limits,
    )
