"""Parts that kernels of recurrent operations share: time steps, loops over them, sequences in both directions.

A time step takes one dispatch or two. `drive` first computes the contribution of the inputs to the sums of all time
steps. `recurrent_step.comp` then multiplies the state of the previous time step by the recurrent weights and applies
the cell's gates to the sums. One dispatch computes all time steps of a small cell (`recurrent_loop.comp`).

The kernels compute in float32. They convert float16 inputs before and float16 outputs afterwards.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from nnvk.driver.vulkan.graph.program import ElementwiseProgram
from nnvk.driver.vulkan.lowering.copies.arrange import arrange
from nnvk.driver.vulkan.lowering.copies.convert import finish_float32, float32_result, widened
from nnvk.driver.vulkan.lowering.copies.move import move
from nnvk.driver.vulkan.lowering.dtypes import F32, of
from nnvk.driver.vulkan.lowering.gemm.gemm import GEMM_SHADERS, lower_gemm, refuse_long_sums
from nnvk.driver.vulkan.lowering.gemm.problem import Epilogue, Gemm, Operands
from nnvk.driver.vulkan.lowering.gemm.tiles.subgroup import uses_subgroups
from nnvk.driver.vulkan.lowering.gemm.weights import packed, weights_of
from nnvk.driver.vulkan.lowering.lowering import MOST_ROUNDS, Lowering
from nnvk.driver.vulkan.lowering.recurrent.gates import GATES_SHADERS, beside, floats
from nnvk.driver.vulkan.lowering.recurrent.time_steps import time_steps_of
from nnvk.driver.vulkan.shaders.commands import TensorRef
from nnvk.driver.vulkan.shaders.declaration import Shader
from nnvk.driver.vulkan.shaders.profile import DeviceProfile
from nnvk.ops.call import Call, Tensor
from nnvk.ops.fused import REAL_RANGES
from nnvk.ops.internal import call_of
from nnvk.ops.recurrent import sequence_shape
from nnvk.ops.strided import Box
from nnvk.types.codes import FuseCode, OperationCode

TIME_STEP = Shader(
    "recurrent_step",
    where=lambda choice: choice["TILE"] == "shared" or choice["BATCHES"] == "some",
    CELL=("lstm", "rnn", "gru"),
    TILE=("subgroup", "shared"),
    BATCHES=("one", "some"),
)
LOOP = Shader("recurrent_loop", CELL=("lstm", "rnn", "gru"), TILE=("subgroup", "shared"))
SHADERS = (TIME_STEP, LOOP, *GEMM_SHADERS, *GATES_SHADERS)
"""The shaders that this module may dispatch."""

_LANES = 8
"""Vec4s of columns in a block of packed weights."""
_LOCAL = {"subgroup": {"local_x": _LANES, "local_y": 1}, "shared": {"local_x": _LANES, "local_y": 16}}
_ROWS = {"subgroup": 16, "shared": 4}
"""The most batches that a workgroup computes in a time step."""
LOOP_WEIGHTS, LOOP_READS = 1 << 14, 1 << 16
"""The most recurrent weights, and the most reads of them by all batches, for one workgroup per batch to compute all its
time steps. A core of a CPU reads weights as fast in one workgroup as in several: the second limit is enough there."""
_LOOP_INVOCATIONS = 128


# --- activations ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limits:
    """An activation for shaders: its number, and the limits of an activation that only clips."""

    number: int
    low: float
    high: float

    @classmethod
    def of(cls, activation: int) -> Limits:
        """The limits of an activation, by its number in `nnvk.ops.recurrent.ACTIVATIONS`."""
        codes = [code for code in FuseCode if code == activation]
        return cls(activation, *(REAL_RANGES[codes[0]] if codes else (-math.inf, math.inf)))

    @classmethod
    def clip(cls, threshold: float) -> Limits:
        """Clipping at a threshold, or none at 0."""
        bound = threshold if threshold > 0 else math.inf
        return cls(FuseCode.NONE, -bound, bound)


# --- sequences -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a tensor, one for each batch: the first element of the first row, and the distance to the next row."""

    tensor: TensorRef
    first: int
    stride: int


@dataclass(frozen=True, slots=True)
class Span:
    """The time steps and batches of sequences, and their order in memory."""

    time: int
    batches: int
    time_major: bool
    reverse: bool = False

    def rows(self, tensor: TensorRef, width: int, time_step: int, before: int = 0) -> Rows:
        """The rows of a time step, of ``width`` elements each. ``before`` rows precede the sequence in ``tensor``."""
        per_time_step, per_batch = (self.batches, 1) if self.time_major else (1, self.time)
        return Rows(tensor, (before + time_step * per_time_step) * width, per_batch * width)

    def stride(self, width: int) -> int:
        """The distance in elements from a time step to the one that is computed next."""
        return (self.batches if self.time_major else 1) * width * (-1 if self.reverse else 1)

    @property
    def time_steps(self) -> list[int]:
        """The time steps in the order in which they are computed."""
        return list(reversed(range(self.time))) if self.reverse else list(range(self.time))


# --- dispatches ----------------------------------------------------------------------------------------------


def _tile(device: DeviceProfile) -> str:
    """The value of the axis TILE, which is the same for all shaders of this module."""
    of_subgroups = [
        variant for shader in (TIME_STEP, LOOP) for variant in shader.variants if "subgroup" in variant.name
    ]
    may_be = not any(device.avoids(variant) for variant in of_subgroups)
    return "subgroup" if may_be and uses_subgroups(device) else "shared"


def drive(g: Lowering, source: Tensor, weights: Tensor, bias: Tensor) -> TensorRef:
    """Compute the contribution of the inputs [..., K] to the sums of all time steps, [rows, columns]."""
    columns, length = weights.shape
    rows = math.prod(source.shape[:-1])
    target = g.intermediate("driven", floats(rows, columns))
    if not length:
        arrange(g, F32.moved, g.tensor(bias), g.tensor(target), Box(((rows, 0), (columns, 1))))
    elif rows <= _ROWS[_tile(g.device)] and not g.adds_in_order:
        time_step(
            g,
            "rnn",
            rows=rows,
            columns=columns,
            source=Rows(g.tensor(source), 0, length),
            length=length,
            weights=weights,
            driven=Rows(g.tensor(bias), 0, 0),
            target=Rows(g.tensor(target), 0, columns),
            limits=Limits.of(FuseCode.NONE),
        )
    else:
        gemm = Gemm.of_rows(rows, length, columns)
        lower_gemm(g, Operands(OperationCode.FULLY_CONNECTED, source, weights_of(weights), bias, target), gemm)
    return g.tensor(target)


@dataclass(frozen=True, slots=True)
class Driven:
    """The contribution of a cell's inputs to its sums."""

    tensor: TensorRef
    row: int
    """The row of ``tensor`` that the contribution begins in."""


def drive_time_steps(g: Lowering, source: Tensor, weights: Tensor, bias: Tensor) -> Driven:
    """Call `drive` once for all time steps of an unrolled layer, or for this cell alone. The result is read-only."""
    time_steps = time_steps_of(g, source, weights, bias)
    if time_steps is None:
        return Driven(drive(g, source, weights, bias), 0)
    made_with = weights.index, bias.index
    return Driven(time_steps.once(g, made_with, lambda inputs: drive(g, inputs, weights, bias)), time_steps.row)


def time_step(
    g: Lowering,
    cell: str,
    *,
    rows: int,
    columns: int,
    source: Rows,
    length: int,
    weights: Tensor,
    driven: Rows,
    target: Rows,
    limits: Limits,
    spec: Mapping[str, int | bool] | None = None,
    tensors: Mapping[str, TensorRef] | None = None,
    **push: int | float,
) -> None:
    """Dispatch a time step: multiply ``source`` [rows, length] by the weights, add ``driven``, and apply the cell.

    ``columns`` is the width of ``target``: the number of sums, or units. An LSTM and a GRU pass their options in
    ``spec``, ``tensors`` and ``push``. In verified and reproducible plans a GEMM multiplies and adds.
    """
    if g.adds_in_order and length:
        driven, length = _sums(g, rows, source, length, weights, driven), 0
    factors = packed_once(g, weights) if length else driven.tensor
    tile = _tile(g.device)
    few = tile == "shared" and rows == 1
    few = few and not g.device.avoids(TIME_STEP.variant(CELL=cell, TILE=tile, BATCHES="one"))
    tiles = -(-rows // _ROWS[tile])
    together = 1 if few else _ROWS[tile] if tile == "shared" else -(-rows // tiles)
    quads = -(-weights.shape[0] // 4)
    g.dispatch(
        TIME_STEP.variant(CELL=cell, TILE=tile, BATCHES="one" if few else "some"),
        groups=(-(-quads // _LANES), -(-rows // together), 1),
        spec={
            **_LOCAL[tile],
            **({"ROWS": together} if tile == "subgroup" else {}),
            "ALIGNED": not (length % 4 or source.first % 4 or source.stride % 4),
            "VECTOR_STORES": not (columns % 4 or target.first % 4 or target.stride % 4),
            "ACTIVATION": limits.number,
            **(spec or {}),
        },
        tensors={**_tensors(source, factors, driven, target), **(tensors or {})},
        rows=rows,
        columns=columns,
        length=length,
        **_places(source, driven, target),
        low=limits.low,
        high=limits.high,
        **push,
    )


def packed_once(g: Lowering, weights: Tensor) -> TensorRef:
    """Weights [columns, K] as the shaders of time steps read them."""
    return g.once(("packed", weights.index), lambda: packed(g, weights_of(weights)))


def _sums(g: Lowering, rows: int, source: Rows, length: int, weights: Tensor, driven: Rows) -> Rows:
    """The sums of a time step by a GEMM, which another shader verifies (`lowering/gemm/verification/exact.py`)."""
    columns = weights.shape[0]
    product, sums = (g.intermediate(name, floats(rows, columns)) for name in ("products", "sums"))
    added = _dense(g, "added", driven, rows, columns)
    addition = call_of(OperationCode.ADD, sums, input0=product, input1=added, activation=FuseCode.NONE)
    operands = Operands(
        OperationCode.FULLY_CONNECTED,
        _dense(g, "state", source, rows, length),
        weights_of(weights),
        None,
        product,
        epilogue=Epilogue((addition,), product.index, sums, ElementwiseProgram.of((addition,))),
    )
    lower_gemm(g, operands, Gemm.of_rows(rows, length, columns))
    return Rows(g.tensor(sums), 0, columns)


def _dense(g: Lowering, name: str, rows: Rows, count: int, width: int) -> Tensor:
    """A tensor of so many rows: the same memory if they lie there one after the other, else a copy."""
    tensor = g.intermediate(name, floats(count, width))
    if (rows.first, rows.stride, rows.tensor.nbytes) == (0, width, 4 * count * width):
        g.alias(rows.tensor, tensor)
    else:
        arrange(g, F32.moved, rows.tensor, g.tensor(tensor), Box(((count, rows.stride), (width, 1)), rows.first))
    return tensor


def _tensors(source: Rows, weights: TensorRef, driven: Rows, target: Rows) -> dict[str, TensorRef]:
    """The tensors that every cell reads and writes."""
    return {"src": source.tensor, "weights": weights, "driven": driven.tensor, "dst": target.tensor}


def _places(source: Rows, driven: Rows, target: Rows) -> dict[str, int]:
    """Where their rows are. The shaders read ``driven`` in vec4s."""
    return {
        "src_first": source.first,
        "src_stride": source.stride,
        "driven_first": driven.first // 4,
        "driven_stride": driven.stride // 4,
        "dst_first": target.first,
        "dst_stride": target.stride,
    }


@dataclass(frozen=True, slots=True)
class LoopSize:
    """The sizes of a workgroup that computes many time steps, and of its shared memory."""

    quads: int
    slices: int
    hidden: int
    """Vec4s of the state."""
    vectors: int
    """Vec4s of all vectors."""
    time_steps: int
    """The most time steps of a dispatch."""

    @property
    def nbytes(self) -> int:
        """The bytes of shared memory."""
        return 16 * (self.vectors + self.quads * self.slices)


def loop_size(g: Lowering, quads: int, length: int, projected: int = 0, *, norm: bool = False) -> LoopSize:
    """The sizes for a cell with ``quads`` vec4s of columns, ``length`` elements of state and ``projected`` elements."""
    device = g.device
    hidden, squeezed = max(1, -(-length // 4)), -(-projected // 4)
    subgroup = _tile(device) == "subgroup"
    lanes = (
        _LANES
        if subgroup or (norm and g.reproducible)
        else min(_LOOP_INVOCATIONS, max(_LANES, 1 << (quads - 1).bit_length()))
    )
    slices = 1
    while not subgroup and not g.reproducible and lanes * slices * 2 <= _LOOP_INVOCATIONS and hidden >= 8 * slices:
        slices *= 2

    def rounds(quads: int, vec4s: int) -> int:
        """The rounds of a GEMM's loops; each loop takes one more to find its end."""
        passes = -(-quads // lanes)
        return 2 + passes * (5 + -(-vec4s // (_LANES if subgroup else slices)) + slices)

    of_time_step = 2 + rounds(quads, hidden)
    if projected:
        of_time_step += rounds(hidden, squeezed)
    if norm:
        of_time_step += 5 * (2 + -(-quads // lanes)) + 4 * (2 + lanes.bit_length())
    return LoopSize(lanes, slices, hidden, 2 * hidden + squeezed, max(1, MOST_ROUNDS // of_time_step))


def takes_loop(g: Lowering, cell: str, size: LoopSize, span: Span, weights: int) -> bool:
    """Whether one workgroup should compute all time steps of a batch. ``weights``: the number of recurrent weights.

    A verified plan has a GEMM for a single time step. Many of them would take too long.
    """
    device, batches = g.device, span.batches
    fits = size.nbytes <= device.max_shared_memory and batches <= device.max_groups
    if device.avoids(LOOP.variant(CELL=cell, TILE=_tile(device))) or (g.verifies_products and span.time == 1):
        return False
    return fits and (device.is_cpu or weights <= LOOP_WEIGHTS) and batches * weights <= LOOP_READS


def loop(
    g: Lowering,
    cell: str,
    size: LoopSize,
    span: Span,
    time_steps: int,
    *,
    quads: int,
    length: int,
    state: Rows,
    weights: TensorRef,
    driven: Rows,
    target: Rows,
    limits: Limits,
    spec: Mapping[str, int | bool] | None = None,
    tensors: Mapping[str, TensorRef] | None = None,
    **push: int | float,
) -> None:
    """Compute many time steps of a cell in one dispatch.

    The cell has ``quads`` vec4s of columns and a state of ``length`` elements. ``driven`` and ``target`` are the rows
    of the first time step.
    """
    g.dispatch(
        LOOP.variant(CELL=cell, TILE=_tile(g.device)),
        groups=(span.batches, 1, 1),
        spec={
            "local_x": size.quads * size.slices,
            "QUADS": size.quads,
            "SLICES": size.slices,
            "HIDDEN": size.hidden,
            "VECTORS": size.vectors,
            "ACTIVATION": limits.number,
            "VECTOR_STORES": length % 4 == 0,
            **(spec or {}),
        },
        tensors={**_tensors(state, weights, driven, target), **(tensors or {})},
        time_steps=time_steps,
        quads=quads,
        length=length,
        **_places(state, driven, target),
        driven_time_stride=span.stride(quads) & 0xFFFFFFFF,
        dst_time_stride=span.stride(length) & 0xFFFFFFFF,
        low=limits.low,
        high=limits.high,
        **push,
    )


def in_turns(*layers: Iterable[None]) -> None:
    """Alternate between the dispatches of several cells, so that a device may run them at the same time."""
    for _ in itertools.zip_longest(*layers):
        pass


def chunks(time_steps: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    """Split time steps into parts of at most ``size``."""
    for first in range(0, len(time_steps), size):
        yield time_steps[first : first + size]


# --- operations ----------------------------------------------------------------------------------------------


class Layer(ABC):
    """A cell over a sequence."""

    cell = "rnn"
    """The value of the axis CELL of shaders."""
    _norm = False
    """Whether sums are normalised."""
    _further = 0
    """The elements of the vectors besides the state that a loop keeps in shared memory."""
    _projection: Tensor | None = None
    """Weights of a second product."""
    _recurrent: Tensor
    _driven: Driven
    _limits: Limits

    def __init__(self, g: Lowering, span: Span, quads: int, width: int, state: Tensor, target: TensorRef) -> None:
        """``quads``: vec4s of columns; ``width`` is that of the state, which is the output of a time step."""
        self._g = g
        self._span = span
        self._quads = quads
        self._width = width
        self._state = g.tensor(widened(g, state))
        self._target = target

    def dispatch(self) -> Iterator[None]:
        """Dispatch the time steps one by one, or many at once, and yield after each dispatch."""
        state = Rows(self._state, 0, self._width)
        size = self._loop_size() if self._span.time else None
        for part in chunks(self._span.time_steps, 1 if size is None else size.time_steps):
            if size is None:
                yield from self._time_step(part[0], state)
            else:
                self._loop(size, part, state)
                yield
            state = self._rows(part[-1])

    def states(self) -> Sequence[Rows]:
        """The states after the last time step, in the order of the operation's outputs."""
        time_steps = self._span.time_steps
        return [self._rows(time_steps[-1]) if time_steps else Rows(self._state, 0, self._width)]

    def _loop_size(self) -> LoopSize | None:
        """The sizes of the workgroup that computes many time steps, or None if each is computed by itself."""
        weights = self._recurrent.size + (0 if self._projection is None else self._projection.size)
        size = loop_size(self._g, self._quads, self._width, self._further, norm=self._norm)
        return size if takes_loop(self._g, self.cell, size, self._span, weights) else None

    def _loop(self, size: LoopSize, part: Sequence[int], state: Rows) -> None:
        """Dispatch many time steps at once."""
        spec, tensors, push = self._options(part[0])
        loop(
            self._g,
            self.cell,
            size,
            self._span,
            len(part),
            quads=self._quads,
            length=self._width,
            state=state,
            weights=packed_once(self._g, self._recurrent),
            driven=self._sums(part[0]),
            target=self._rows(part[0]),
            limits=self._limits,
            spec=spec,
            tensors=tensors,
            **push,
        )

    def _options(self, number: int) -> tuple[Mapping[str, bool], Mapping[str, TensorRef], Mapping[str, float]]:
        """The constants, tensors and push constants that only loops of this cell take, from a time step on."""
        return {}, {}, {}

    @abstractmethod
    def _time_step(self, number: int, state: Rows) -> Iterator[None]:
        """Dispatch a time step, and yield after each dispatch."""

    def _sums(self, number: int) -> Rows:
        """The contribution of a time step's inputs to its sums."""
        return self._span.rows(self._driven.tensor, 4 * self._quads, number, self._driven.row)

    def _rows(self, number: int) -> Rows:
        """The outputs of a time step."""
        return self._span.rows(self._target, self._width, number)


class MakeLayer(Protocol):
    """A function that makes the layer of a cell. The names of the cell's operands begin with ``prefix``."""

    def __call__(
        self, g: Lowering, call: Call, prefix: str, span: Span, source: Tensor, target: TensorRef, *, aux: bool = False
    ) -> Layer:
        """``source`` are the inputs, followed by those of an auxiliary input if ``aux``; outputs go to ``target``."""


def one_direction(
    g: Lowering, call: Call, make: MakeLayer, span: Span, result: Tensor, states: Sequence[Tensor]
) -> None:
    """Lower an operation of one cell, with outputs ``result`` [time, batches, width]."""
    target = float32_result(g, result)
    layer = make(g, call, "", span, widened(g, call.input), target)
    in_turns(layer.dispatch())
    if result.size:
        finish_float32(g, target, result)
    for output, rows in zip(states, layer.states(), strict=False):
        finish_state(g, output, rows, span.batches)


def both_directions(
    g: Lowering, call: Call, make: MakeLayer, linking: tuple[str, bool], widths: Sequence[int], states: int
) -> None:
    """Lower an operation of a forward and a backward cell with so many outputs, and ``states`` each."""
    time, batches, _ = sequence_shape(call)
    backward_input, crossed = linking
    spans = [Span(time, batches, bool(call.time_major), reverse) for reverse in (False, True)]
    sources = [widened(g, call.input), widened(g, getattr(call, backward_input))]
    if crossed:
        sources = [beside(g, call.input, call.aux_input)] * 2
    merged = bool(call.merge_outputs)
    results = [None, None] if merged else call.outputs[:2]
    targets = [
        g.scratch(4 * time * batches * width) if result is None else float32_result(g, result)
        for result, width in zip(results, widths, strict=True)
    ]
    layers = [
        make(g, call, prefix, span, source, target, aux=crossed) if width else None
        for prefix, span, source, target, width in zip(("fw_", "bw_"), spans, sources, targets, widths, strict=True)
    ]
    in_turns(*(layer.dispatch() for layer in layers if layer is not None))
    if merged and call.output.size:
        merge(g, call.output, list(zip(targets, widths, strict=True)))
    for result, target in zip(results, targets, strict=True):
        if result is not None and result.size:
            finish_float32(g, target, result)
    rest = call.outputs[1 if merged else 2 :]
    for layer, outputs in zip(layers, (rest[:states], rest[states:]), strict=True):
        if layer is not None:
            for output, rows in zip(outputs, layer.states(), strict=False):
                finish_state(g, output, rows, batches)


def refuse_long(*lengths: int) -> str | None:
    """The reason why a vector of a cell is too long, or None."""
    return next((reason for length in lengths if (reason := refuse_long_sums((1, 1), length))), None)


def merge(g: Lowering, output: Tensor, parts: Sequence[tuple[TensorRef, int]]) -> None:
    """Concatenate sequences along the last axis. ``parts``: each sequence and the elements of its rows."""
    target = float32_result(g, output)
    rows, width = math.prod(output.shape[:-1]), output.shape[-1]
    first = 0
    for part, size in parts:
        if size:
            move(g, F32.moved, part, target, [rows, size], [size, 1], [width, 1], target_first=first)
        first += size
    finish_float32(g, target, output)


def finish_state(g: Lowering, output: Tensor, rows: Rows, batches: int) -> None:
    """Write rows, one for each batch, to an output of any shape."""
    width = output.size // max(batches, 1)
    if (rows.first, rows.stride, rows.tensor.nbytes) != (0, width, 4 * output.size):
        target = float32_result(g, output)
        move(g, F32.moved, rows.tensor, target, [batches, width], [rows.stride, 1], [width, 1], rows.first)
        finish_float32(g, target, output)
    elif of(output) is F32:
        g.alias(rows.tensor, output)
    else:
        finish_float32(g, rows.tensor, output)
