"""SOFTMAX of rows in one pass, with what attention does before: scores times a number, plus a mask.

A GEMM's end does that where it can; a mask of its own for each row, or for each of a batch, is none for it. Sums are
added up in another order than in two passes, so that results may differ by a few units in the last place.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace

from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.row_softmax import FLOATS, Mask, RowSoftmax, softmax_rows
from nnvk.driver.vulkan.planning.fusions.command_graph import Graph
from nnvk.driver.vulkan.planning.fusions.epilogues import GEMMS
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef
from nnvk.driver.vulkan.shaders.profile import AvoidedShader


def fuse_softmax(graph: Graph, g: Lowering) -> None:
    """Compute SOFTMAX in one dispatch."""
    for position, apply in graph.dispatches("softmax"):
        pass_, kind = apply.shader.choice
        if pass_ != "apply" or kind not in FLOATS or apply.shader.constant(apply.specialization, "LOGARITHM"):
            continue
        found = graph.dispatch_that_writes(apply.tensors["statistics"], "softmax")
        if found is None or not graph.may_wait(found[0]):
            continue
        at, statistics = found
        rows = _rows(statistics, apply, kind)
        if rows is None or list(graph.readers(apply.tensors["statistics"])) != [position]:
            continue
        rows, before = _with_scores(graph, rows, {at, position})
        with suppress(AvoidedShader):
            made = softmax_rows(g, rows, apply.tensors["dst"], apply.operation)
            if made is not None:
                graph.replace(position, made, [at, *before])


def _rows(statistics: Dispatch, apply: Dispatch, kind: str) -> RowSoftmax | None:
    """What two dispatches compute; None where that is not one pass over rows."""
    push, shader, words = statistics.push, statistics.shader, statistics.specialization
    if shader.choice != ("statistics", kind) or shader.constant(words, "NEGATED") or push["parts"] != 1:
        return None
    source, length = apply.tensors["src"], int(push["length"])
    if push["inner"] != 1 or statistics.tensors["src"] != source or source.nbytes != apply.tensors["dst"].nbytes:
        return None
    return RowSoftmax(FLOATS[kind], source, length, float(push["factor"]))


# --- what comes before -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Step:
    """A dispatch of binary.comp on scores and something else."""

    position: int
    dispatch: Dispatch
    scores: str
    other: str
    """Names of its operands."""


def _with_scores(graph: Graph, rows: RowSoftmax, readers: set[int]) -> tuple[RowSoftmax, list[int]]:
    """With what is done to the scores before, and the positions of the commands that do it now."""
    masking = _step(graph, rows, rows.source, "add", readers)
    before = rows.source if masking is None else masking.dispatch.tensors[masking.scores]
    scaling = _step(graph, rows, before, "mul", readers if masking is None else {masking.position})
    number = None if scaling is None else graph.constant(scaling.dispatch.tensors[scaling.other])
    if scaling is not None and (number is None or number.size != 1):
        scaling = None
    scores = before if scaling is None else scaling.dispatch.tensors[scaling.scores]
    if _is_of_gemm(graph, scores):
        scaling = None  # which is the GEMM's end
        if masking is not None and _may_be_epilogue(masking, rows):
            masking = None
    if scaling is not None and number is not None:
        rows = replace(rows, scale=float(number.item()), source=scaling.dispatch.tensors[scaling.scores])
    if masking is not None:
        if scaling is None:
            rows = replace(rows, source=masking.dispatch.tensors[masking.scores])
        rows = replace(rows, mask=_mask(masking))
    return rows, [step.position for step in (scaling, masking) if step is not None]


def _step(graph: Graph, rows: RowSoftmax, tensor: TensorRef, how: str, readers: set[int]) -> _Step | None:
    """The dispatch of an operation that gives a tensor which these commands alone read, if it has no limits."""
    found = graph.dispatch_that_writes(tensor, "binary")
    if found is None or not graph.is_passed_on(tensor) or not set(graph.readers(tensor)) <= readers:
        return None
    position, dispatch = found
    limits = dispatch.push.get("low"), dispatch.push.get("high")
    if (
        dispatch.shader.choice != (how, rows.dtype.name)
        or limits != (-math.inf, math.inf)
        or not graph.may_wait(position)
    ):
        return None
    sides = [("lhs", "rhs"), ("rhs", "lhs")]
    fitting = [(own, other) for own, other in sides if dispatch.tensors[own].nbytes == tensor.nbytes]
    # Of two that are as large the scores are a GEMM's result, or at least a dispatch's.
    fitting.sort(key=lambda pair: _is_result(graph, dispatch.tensors[pair[0]]), reverse=True)
    if not fitting or (how == "add" and dispatch.push["size_3"] != rows.length):
        return None
    return _Step(position, dispatch, *fitting[0])


def _is_of_gemm(graph: Graph, tensor: TensorRef) -> bool:
    return _is_result(graph, tensor)[1]


def _is_result(graph: Graph, tensor: TensorRef) -> tuple[bool, bool]:
    """Whether a dispatch gives a tensor, and a GEMM's."""
    writer = graph.writer(tensor)
    command = None if writer is None else graph.commands[writer]
    if not isinstance(command, Dispatch):
        return False, False
    return True, command.shader.family in GEMMS


def _may_be_epilogue(masking: _Step, rows: RowSoftmax) -> bool:
    """Whether a GEMM can add the mask to what it gives."""
    other, push = masking.dispatch.tensors[masking.other], masking.dispatch.push
    outer = any(push[f"{masking.other}_stride_{axis}"] for axis in range(3))
    one = rows.dtype.size
    return other.nbytes in (one, masking.dispatch.tensors[masking.scores].nbytes) or (
        other.nbytes == one * rows.length and not outer and rows.length % 4 == 0
    )


def _mask(masking: _Step) -> Mask:
    push = masking.dispatch.push
    strides = [int(push[f"{masking.other}_stride_{axis}"]) for axis in range(4)]
    sizes = int(push["size_1"]), int(push["size_2"])
    return Mask(masking.dispatch.tensors[masking.other], sizes, (strides[0], strides[1], strides[2], strides[3]))
