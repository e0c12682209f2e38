"""Matrix products."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import reduce

import numpy as np

from nnvk.base.sizes import broadcast_sizes
from nnvk.importers import charged
from nnvk.importers.decompositions.arithmetic import with_number
from nnvk.importers.decompositions.block_quantized import Blocks, block_product, packed, packed_later
from nnvk.importers.decompositions.moving import flat_picked, transposed
from nnvk.importers.decompositions.reductions import folded
from nnvk.importers.emitter import F32, I32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Value
from nnvk.importers.onnx.context import Context
from nnvk.importers.onnx.mappers.quantised_operands import QuantisedOperands, wanted_operands
from nnvk.importers.onnx.registry import operator
from nnvk.importers.onnx.tensors import BlockLevels, Tensor
from nnvk.ops.extension.block_quantized import DEFAULT_ZERO_POINT, WORD_LEVELS
from nnvk.types.codes import FuseCode, OperandCode, OperationCode, PaddingCode
from nnvk.types.constant import Constant, QuantisedConstant, elements, portion
from nnvk.types.constant import transposed as transposed_constant
from nnvk.types.extension import ExtendedOperationCode
from nnvk.types.operand import OperandType

Op = OperationCode
_EXACT = 1 << 24
"""The largest number up to which FLOAT32 has every integer."""
_MOST = 255
"""The largest magnitude of a byte minus its zero point."""
_AT_ONCE = 64
"""Rows of factors that are looked at together, so that a large constant is not copied."""


def units_of(c: Context, tensor: Tensor, like: Value, by_column: bool) -> Value:
    """A constant matrix as the weights of a FULLY_CONNECTED, whose outputs are its columns or its rows."""
    type_ = OperandType(like.code, tensor.shape[::-1] if by_column else tensor.shape)
    assert tensor.constant is not None
    units = transposed_constant(tensor.constant, (1, 0)) if by_column else tensor.constant
    return tensor.once((like.code, by_column), lambda: c.graph.kept(type_, units))


def blocks_of(tensor: Tensor, by_column: bool) -> Blocks | None:
    """A constant matrix that was levels of 4 bits, if its blocks lie along what is summed; outputs as in `units_of`."""
    if not isinstance(tensor.levels, BlockLevels) or tensor.rank != 2:
        return None
    levels = tensor.levels.transposed((1, 0)) if by_column else tensor.levels
    if levels.axis != 1:
        return None
    units, blocks = levels.scales.shape
    lowest = -DEFAULT_ZERO_POINT if levels.array.dtype == np.int8 else 0

    def raised(array: np.ndarray) -> np.ndarray:
        return (array - lowest).astype(np.uint8)

    points = raised(charged.zeros((units, blocks), np.int8) if levels.zero_points is None else levels.zero_points)
    usual = bool(np.all(points == DEFAULT_ZERO_POINT))
    zeros = None if usual else packed(points, -(-blocks // WORD_LEVELS) * WORD_LEVELS)
    words = packed_later(units, blocks * levels.size, lambda: raised(levels.array))
    return Blocks(words, levels.scales.astype(np.float32), levels.size, zeros)


def dense(c: Context, rows: Value, weights: np.ndarray | Value, bias: np.ndarray | None = None) -> Value:
    """A FULLY_CONNECTED: rows [n, k] by weights [m, k], real numbers."""
    type_ = OperandType(rows.code)
    units = weights.shape[0]
    addend = c.filled(0, type_, (units,)) if bias is None else c.constant(bias, type_)
    return c.emit(
        Op.FULLY_CONNECTED,
        rows,
        c.constant(weights, type_) if isinstance(weights, np.ndarray) else weights,
        addend,
        FuseCode.NONE,
        out=type_,
    )


def quantised_dense(c: Context, operands: QuantisedOperands, output_axis: int) -> Value:
    """Multiply levels by a constant matrix, and round the sums once, as onnxruntime does.

    Unsigned levels and weights with scales per output become a convolution of images of one pixel, which rounds twice.
    """
    source = operands.source
    weights = operands.weights.T if output_axis else operands.weights
    units, size = weights.shape
    count = source.size // size
    bias = c.constant(operands.bias, operands.bias_type)
    if operands.weights_type is not None or source.code is OperandCode.TENSOR_QUANT8_ASYMM_SIGNED:
        rows = c.reshape(source, (count, size))
        result = c.emit(
            ExtendedOperationCode.FULLY_CONNECTED,
            rows,
            c.constant(weights, operands.type_of(0)),
            bias,
            NONE,
            out=operands.out,
        )
    else:
        pixels = c.reshape(source, (count, 1, 1, size))
        filters = c.constant(weights.reshape(units, 1, 1, size), operands.type_of(0))
        result = c.emit(Op.CONV_2D, pixels, filters, bias, PaddingCode.VALID, 1, 1, NONE, out=operands.out)
    return c.reshape(result, (*source.shape[:-1], units))


def multiplied(c: Context, first: Value, second: Value, *, adj_y: bool = False) -> Value:
    """A product of matrices [..., m, k] and [..., k, n], or [..., n, k] with ``adj_y``; batches broadcast."""
    try:
        batches = broadcast_sizes(first.shape[:-2], second.shape[:-2])
    except ValueError:
        raise Unmapped(f"batches of {list(first.shape)} and {list(second.shape)} don't broadcast") from None
    count = math.prod(batches)
    if len(second.shape) == 2 and count > 1:  # one matrix for all: the batches are rows
        rows = c.reshape(first, (1, first.size // first.shape[-1], first.shape[-1]))
        result = c.emit(Op.BATCH_MATMUL, rows, c.reshape(second, (1, *second.shape)), False, adj_y, out=first.type)
        return c.reshape(result, (*first.shape[:-1], result.shape[-1]))
    values = [c.broadcast(value, (*batches, *value.shape[-2:])) for value in (first, second)]
    flat = [c.reshape(value, (count, *value.shape[-2:])) for value in values]
    result = c.emit(Op.BATCH_MATMUL, *flat, False, adj_y, out=first.type)
    return c.reshape(result, (*batches, *result.shape[-2:]))


@operator("MatMul")
def matmul(c: Context) -> Tensor:
    """Map MatMul. Constant weights become those of a FULLY_CONNECTED. A vector is a matrix of one row, or column."""
    left, right = c.tensor(0), c.tensor(1)
    if not left.rank or not right.rank:
        raise Unmapped("its inputs must have rank 1 at least")
    operands = wanted_operands(c, 1) if right.rank == 2 and left.rank > 1 else None
    if operands is not None:
        return c.give(quantised_dense(c, operands, 1), None, left.dtype)
    is_dense = right.rank == 2 and right.is_constant and left.shape[-1] == right.shape[0]
    first = c.number(0)
    if is_dense and first.code is not I32.code:
        return c.give(_by_constant(c, first, right), (*left.shape[:-1], right.shape[1]), left.dtype)
    if left.shape[-1] != right.shape[-2 if right.rank > 1 else 0]:
        raise Unmapped(f"inputs of shape {list(left.shape)} and {list(right.shape)} can't be multiplied")
    if first.code is I32.code:
        raise Unmapped(f"NNAPI multiplies no matrices of {left.dtype}")
    return c.give(product(c, first, c.number(1)), product_shape(left, right), left.dtype)


def _by_constant(c: Context, first: Value, right: Tensor) -> Value:
    rows = c.reshape(first, (first.size // first.shape[-1], first.shape[-1]))
    blocks = blocks_of(right, by_column=True)
    if blocks is not None:
        return block_product(c, rows, blocks, None)
    return dense(c, rows, units_of(c, right, rows, by_column=True))


def _as_matrices(c: Context, first: Value, second: Value) -> tuple[Value, Value]:
    first = c.reshape(first, (1, *first.shape)) if len(first.shape) == 1 else first
    return first, c.reshape(second, (*second.shape, 1)) if len(second.shape) == 1 else second


def product(c: Context, first: Value, second: Value) -> Value:
    """The product of matrices, or of a vector as a single row or column."""
    return multiplied(c, *_as_matrices(c, first, second))


def product_shape(left: Tensor, right: Tensor) -> tuple[int, ...]:
    """The shape of a product in ONNX, in which a vector has no second axis."""
    batches = broadcast_sizes(left.shape[:-2], right.shape[:-2])
    return (*batches, *left.shape[-2:-1], *(right.shape[-1:] if right.rank > 1 else ()))


@operator("Gemm")
def gemm(c: Context) -> Value:
    """Map Gemm: alpha A' B' + beta C. It is a FULLY_CONNECTED if B is a constant, with a constant C as its bias."""
    alpha, beta = c.node.real("alpha", 1.0), c.node.real("beta", 1.0)
    if alpha == beta == 1 and not c.node.integer("transA", 0) and c.tensor(1).rank == 2:
        axis = 0 if c.node.integer("transB", 0) else 1
        operands = wanted_operands(c, axis)
        if operands is not None:
            return quantised_dense(c, operands, axis)
    first = c.number(0)
    if first.code is I32.code:
        raise Unmapped(f"NNAPI multiplies no matrices of {c.tensor().dtype}")
    if c.node.integer("transA", 0):
        first = c.keep(Op.TRANSPOSE, first, np.array([1, 0]))
    weights, addend = c.tensor(1), c.optional(2)
    if weights.is_constant:
        turned = bool(c.node.integer("transB", 0))
        units = weights.shape[0 if turned else 1]
        bias = None
        known = None if addend is None else addend.known_array
        if known is not None and known.shape in ((), (1,), (1, 1), (units,), (1, units)):
            bias = charged.broadcast_to(known.reshape(-1) * np.asarray(beta, known.dtype), (units,))
            addend = None
        blocks = blocks_of(weights, by_column=not turned)
        if alpha != 1:
            scaled = (weights.array if turned else weights.array.T) * np.asarray(alpha, weights.dtype)
            result = dense(c, first, scaled, bias)
        elif blocks is not None:
            result = block_product(c, first, blocks, bias)
        else:
            result = dense(c, first, units_of(c, weights, first, by_column=not turned), bias)
    else:
        result = multiplied(c, first, c.number(1), adj_y=bool(c.node.integer("transB", 0)))
        if alpha != 1:
            result = with_number(c, Op.MUL, result, alpha, NONE)
    if addend is None:
        return result
    term = c.plain(addend)
    if beta != 1:
        term = with_number(c, Op.MUL, term, beta, NONE)
    return c.emit(Op.ADD, result, term, NONE, out=result.type)


# --- whole numbers -------------------------------------------------------------------------------------------


def centred(c: Context, position: int, zero: int, axis: int) -> Value:
    """An input of 8 bits less its zero point, as real numbers; one zero point for all or for each index of an axis."""
    tensor = c.tensor(position)
    zeros = c.optional(zero)
    if tensor.is_constant and (zeros is None or zeros.is_constant):
        point = charged.zeros(1, np.float32) if zeros is None else zeros.array.astype(np.float32)
        if tensor.dtype.itemsize == 1 and (point == point.flat[0]).all():
            whole = QuantisedConstant(tensor.array, charged.ones(1, np.float32), int(point.flat[0]))
            return tensor.once(whole.zero_point, lambda: c.graph.kept(F32.with_dimensions(tensor.shape), whole))
        points = _along(point, tensor.rank, axis)
        ends = zip(reversed(points.shape), reversed(tensor.shape), strict=False)
        if points.ndim > tensor.rank or any(own not in (1, size) for own, size in ends):
            raise Unmapped(f"zero points of shape {list(point.shape)} do not fit {list(tensor.shape)}")
        return c.deferred(tensor.shape, F32, lambda: tensor.array.astype(np.float32) - points)
    value = c.number(position)
    if zeros is None:
        return c.cast(value, np.dtype(np.float32))
    offset = c.plain(zeros)

    def less() -> Value:
        shift = c.cast(offset, np.dtype(np.float32))
        if shift.size > 1:
            shift = c.reshape(shift, _along(charged.zeros(zeros.shape), tensor.rank, axis).shape)
        return c.emit(Op.SUB, c.cast(value, np.dtype(np.float32)), shift, NONE, out=F32)

    return value.once(("less", offset), less)


def _along(point: np.ndarray, rank: int, axis: int) -> np.ndarray:
    if point.size == 1:
        return point.reshape(1)
    if point.ndim > 1:
        return point
    shape = [1] * rank
    shape[axis] = -1
    return point.reshape(shape)


@operator("MatMulInteger")
def matmul_integer(c: Context) -> Tensor:
    """Map MatMulInteger to FLOAT32, which is exact if rows are not too long. Longer rows are split."""
    left, right = c.tensor(0), c.tensor(1)
    total = exact_product(c, centred(c, 0, 2, left.rank - 2), centred(c, 1, 3, right.rank - 1))
    return c.give(total, product_shape(left, right), np.int32)


def exact_product(c: Context, first: Value, second: Value) -> Value:
    """A product of matrices, or vectors, whose elements are whole numbers of 9 bits at most in FLOAT32; INT32."""
    first, second = _as_matrices(c, first, second)
    size = first.shape[-1]
    shape = *broadcast_sizes(first.shape[:-2], second.shape[:-2]), first.shape[-2], second.shape[-1]
    products = []
    begin = 0
    while begin < size:
        count = exact_count(second.constant, len(second.shape) - 2, begin, size - begin)
        rows = _cut(c, first, len(first.shape) - 1, begin, count)
        columns = _cut(c, second, len(second.shape) - 2, begin, count)
        if columns.is_constant and len(columns.shape) == 2:
            product = dense(c, c.reshape(rows, (rows.size // count, count)), _turned(c, columns))
        else:
            product = multiplied(c, rows, columns)
        products.append(c.reshape(product, shape))
        begin += count
    return whole_sum(c, products)


def whole_sum(c: Context, terms: Sequence[Value]) -> Value:
    """The sum in INT32 of whole numbers in FLOAT32.

    A cast of it to FLOAT32 takes the numbers as they are. The sum of two in FLOAT32 is rounded as that cast would be.
    """
    integers = [c.cast(term, np.dtype(np.int32)) for term in terms]
    total = reduce(lambda one, other: c.emit(Op.ADD, one, other, NONE, out=I32), integers)
    if len(terms) <= 2:
        c.take_cast(total, reduce(lambda one, other: c.emit(Op.ADD, one, other, NONE, out=F32), terms))
    return total


def _turned(c: Context, matrix: Value) -> Value:
    """A constant matrix with rows and columns exchanged."""
    assert matrix.constant is not None
    turned = transposed_constant(matrix.constant, (1, 0))
    return matrix.once("turned", lambda: c.graph.kept(F32.with_dimensions(matrix.shape[::-1]), turned))


def exact_count(factors: Constant | None, axis: int, first: int, size: int) -> int:
    """How many products of whole numbers of 9 bits can be added up exactly in FLOAT32, of ``size`` at most.

    ``factors`` are the second factors where they are constants; sums go along ``axis``, from ``first`` on.
    """
    if factors is None:
        return min(size, _EXACT // _MOST**2)
    before: np.ndarray | float = 0.0
    for at in range(0, size, _AT_ONCE):
        some = elements(portion(factors, axis, first + at, min(_AT_ONCE, size - at)))
        rows = np.moveaxis(some, axis, 0).reshape(some.shape[axis], -1)
        sums = np.cumsum(np.abs(rows), axis=0, dtype=np.float64) + before
        within = int(np.searchsorted(sums.max(axis=1), _EXACT / _MOST, side="right"))
        if within < len(sums):
            return max(1, at + within)
        before = sums[-1]
    return size


def _cut(c: Context, value: Value, axis: int, begin: int, count: int) -> Value:
    if count == value.shape[axis]:
        return value
    if value.is_constant:
        shape = *value.shape[:axis], count, *value.shape[axis + 1 :]
        assert value.constant is not None
        part = portion(value.constant, axis, begin, count)
        return value.once((axis, begin, count), lambda: c.graph.kept(F32.with_dimensions(shape), part))
    begins, sizes = [0] * len(value.shape), list(value.shape)
    begins[axis], sizes[axis] = begin, count
    flat = c.around(value, axis)
    taken = c.keep(Op.SLICE, flat, np.array([0, begin, 0]), np.array([flat.shape[0], count, flat.shape[2]]))
    return c.reshape(taken, sizes)


# --- sums of products ----------------------------------------------------------------------------------------


@operator("Einsum")
def einsum(c: Context) -> Tensor:
    """Map Einsum of one or two inputs. A matrix product sums the letters that both have and the output lacks."""
    equation = c.node.text("equation", "").replace(" ", "")
    left, _, right = equation.partition("->")
    terms = left.split(",")
    values = c.numbers()
    if len(terms) != len(values):
        raise Unmapped(f"the equation '{equation}' has {len(terms)} terms for {len(values)} inputs")
    ranks = [tensor.rank for tensor in c.tensors()]
    letters = [_letters(term, rank) for term, rank in zip(terms, ranks, strict=True)]
    dots = max((term for term in letters), key=lambda term: sum(one < "A" for one in term))
    if "->" in equation:
        result = _letters(right, len(right.replace("...", "")) + sum(one < "A" for one in dots))
    else:
        counts = Counter("".join(letters))
        result = "".join(one for one in dots if one < "A") + "".join(
            sorted(one for one, count in counts.items() if count == 1 and one >= "A")
        )
    if not set(result) <= set("".join(letters)):
        raise Unmapped(f"the equation '{equation}' gives what its inputs have not")
    value, names = _alone(c, values[0], letters[0])
    for position in range(1, len(values)):
        other, others = _alone(c, values[position], letters[position])
        kept = set(result) | set("".join(letters[position + 1 :]))
        value, names = _contracted(c, value, names, other, others, kept)
    extra = [axis for axis, name in enumerate(names) if name not in result]
    if extra:
        value = folded(c, Op.REDUCE_SUM, value, extra)
        value = c.reshape(value, [size for axis, size in enumerate(value.shape) if axis not in extra] or [1])
        names = "".join(name for name in names if name in result)
    if names != result:
        value = transposed(c, value, [names.index(one) for one in result])
    return c.give(value, value.shape if result else ())


def _letters(term: str, rank: int) -> str:
    """The names of axes; those of an ellipsis are digits, the last of them 9."""
    count = rank - len(term.replace("...", ""))
    if (
        count < 0
        or count > 9
        or (count and "..." not in term)
        or not term.replace("...", "").isalpha() * (term != "...")
    ) and term not in ("", "..."):
        raise Unmapped(f"the term '{term}' does not fit an input of rank {rank}")
    return term.replace("...", "".join(str(10 - count + one) for one in range(count)))


def _alone(c: Context, value: Value, names: str) -> tuple[Value, str]:
    """An input without axes that it has twice, of which the diagonal counts."""
    while len(set(names)) < len(names):
        name = next(one for one in names if names.count(one) > 1)
        first, second = names.index(name), names.rindex(name)
        places = charged.arange(value.size).reshape(value.shape)
        places = np.moveaxis(np.diagonal(places, 0, first, second), -1, first)
        value, names = flat_picked(c, value, places), names[:second] + names[second + 1 :]
    return value, names


def _contracted(c: Context, first: Value, left: str, second: Value, right: str, kept: set[str]) -> tuple[Value, str]:
    """The product of two inputs, summed over the axes that both have and nobody else."""
    both = [name for name in left if name in right and name in kept]
    summed = [name for name in left if name in right and name not in kept]
    own1 = [name for name in left if name not in right]
    own2 = [name for name in right if name not in left]
    sizes = {**dict(zip(left, first.shape, strict=False))}
    for name, size in zip(right, second.shape, strict=False):
        sizes[name] = max(size, sizes.get(name, 1))
    first = _arranged(c, first, left, [*both, *own1, *summed], sizes)
    second = _arranged(c, second, right, [*both, *summed, *own2], sizes)
    count, rows, columns, depth = (math.prod(sizes[name] for name in group) for group in (both, own1, own2, summed))
    product = c.emit(
        Op.BATCH_MATMUL,
        c.reshape(first, (count, rows, depth)),
        c.reshape(second, (count, depth, columns)),
        False,
        False,
        out=first.type,
    )
    names = [*both, *own1, *own2]
    return c.reshape(product, [sizes[name] for name in names] or [1]), "".join(names)


def _arranged(c: Context, value: Value, names: str, order: list[str], sizes: dict[str, int]) -> Value:
    value = c.broadcast(value, tuple(sizes[name] for name in names)) if names else value
    return transposed(c, value, [names.index(name) for name in order]) if names else value
