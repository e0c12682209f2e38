"""Models of attention, in parts that can be exchanged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from fused import F16, F32, Net, Op
from rewritten import codes, context_of, graph_of

from nnvk.driver.vulkan.planning.passes.attention import fuse_attention
from nnvk.driver.vulkan.planning.passes.softmax import fuse_softmax
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Call
from nnvk.ops.internal import InternalCode
from nnvk.types.codes import FuseCode, OperandCode
from nnvk.types.operand import OperandType

TOLERANCES = {F32: 5e-5, F16: 2e-2}
"""Scores in another order of sums differ in the last place; they are about 50, and so shares differ by 50 such units.
Separate operations round shares to 16 bits."""


@dataclass(frozen=True)
class Step:
    """The attention of a step, in parts that can be exchanged."""

    batches: tuple[int, ...] = (2, 3)
    rows: int = 1
    keys: int = 13
    own: int = 0
    """Keys and values in tensors of their own, whose scores are concatenated."""
    depth: int = 8
    columns: int = 8
    mask: tuple[int, ...] = ()
    """The shape of what is added to the scores of the keys, but for those of their own."""
    scale: float | None = None
    beta: float = 1.0
    by_rows: bool = True
    """Whether keys are rows."""
    zeros: bool = False
    """Whether shares that are NaN become zeros."""
    activation: FuseCode = FuseCode.NONE
    """The activation of the ADD at the end."""

    is_wide: bool = False
    """Whether keys, values and the mask are cast from 32 bits, but for those of their own."""

    def cached(self, net: Net, *shape: int) -> int:
        """Keys, values or a mask."""
        return net.op(Op.CAST, net.input(*shape, code=F32)) if self.is_wide else net.input(*shape)

    def scores(self, net: Net, query: int, count: int, *, is_own: bool = False) -> int:
        shape = (count, self.depth) if self.by_rows else (self.depth, count)
        flags = [net.build.value(flag) for flag in (False, self.by_rows)]
        key = (net.input if is_own else partial(self.cached, net))(*self.batches, *shape)
        found = net.op(Op.BATCH_MATMUL, query, key, *flags)
        return found if self.scale is None else net.op(Op.MUL, found, net.scalar(self.scale), net.code(0))

    def build(self, net: Net) -> list[int]:
        """The result, and the scores and shares behind it."""
        query = net.input(*self.batches, self.rows, self.depth)
        scores = self.scores(net, query, self.keys)
        if self.mask:
            scores = net.op(Op.ADD, scores, self.cached(net, *self.mask), net.code(0))
        rank = len(self.batches)
        if self.own:
            own = self.scores(net, query, self.own, is_own=True)
            scores = net.op(Op.CONCATENATION, scores, own, net.code(rank + 1))
        shares = net.op(Op.SOFTMAX, scores, self.beta)
        if self.zeros:
            shares = zeros_for_nan(net, shares, *self.batches, self.rows, self.keys + self.own)
        if not self.own:
            return [self.mixed(net, shares, self.cached(net, *self.batches, self.keys, self.columns)), scores, shares]
        parts = []
        for first, count in ((0, self.keys), (self.keys, self.own)):
            begin = np.array([0] * (rank + 1) + [first], np.int32)
            size = np.array([*self.batches, self.rows, count], np.int32)
            shape = *self.batches, count, self.columns
            values = net.input(*shape) if first else self.cached(net, *shape)
            parts.append(
                self.mixed(net, net.op(Op.SLICE, shares, begin, size), values, is_row=bool(first) and count == 1)
            )
        return [net.op(Op.ADD, *parts, net.code(int(self.activation))), scores, shares]

    def mixed(self, net: Net, shares: int, values: int, *, is_row: bool = False) -> int:
        if is_row:
            return net.op(Op.MUL, shares, values, net.code(0))
        flags = [net.build.value(False)] * 2
        return net.op(Op.BATCH_MATMUL, shares, values, *flags)


def zeros_for_nan(net: Net, shares: int, *shape: int) -> int:
    """Zeros where shares are NaN, as exporters write it."""
    is_nan = net.op(Op.NOT_EQUAL, shares, shares, type_=OperandType(OperandCode.TENSOR_BOOL8))
    return net.op(Op.SELECT, is_nan, np.zeros(shape, net.real.dtype), shares)


def refusals(
    step: Step, refuse: Callable[[Call], str | None], profile: DeviceProfile | None = None
) -> tuple[list[str], list[str | None]]:
    """The operations that are left by a kernel that may refuse attention, and its answers."""
    net, answers = Net(), []

    def asked(call: Call) -> str | None:
        if call.code is not InternalCode.ATTENTION:
            return None
        answers.append(refuse(call))
        return answers[-1]

    model = net.finish(step.build(net)[0])
    graph, context = graph_of(model), context_of(model, profile, refuse=asked)
    for rewrite in (fuse_softmax, fuse_attention):
        graph, _ = rewrite(graph, context)
    return codes(graph), answers
