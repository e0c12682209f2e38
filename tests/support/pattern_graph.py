"""Random models of the patterns that passes on the graph look for, with views, broadcasts and other readers between."""

from __future__ import annotations

import math

import numpy as np
from fused import Net, Op, joined, split

Shape = tuple[int, ...]


class PatternGraph:
    """A model that grows by patterns; each goes on from a tensor of some earlier one."""

    def __init__(self, seed: int) -> None:
        self.net, self.rng = Net(seed), np.random.default_rng(seed)
        shape = tuple(int(size) for size in self.rng.choice([1, 2, 3, 4, 6, 16, 20], self.rng.integers(2, 5)))
        self.tensors: list[tuple[int, Shape]] = [(self.net.input(*shape), shape)]

    def grow(self, count: int) -> None:
        """Add so many patterns."""
        for _ in range(count):
            index, shape = self.tensors[-1 if self.rng.random() < 0.8 else int(self.rng.integers(len(self.tensors)))]
            patterns = [self.scale, self.mask, self.softmax, self.view, self.transpose, self.norm, self.pad]
            patterns += [self.transpose, self.part, self.halves, self.reverse, self.mean, self.join, self.heads]
            self.tensors.append(patterns[int(self.rng.integers(len(patterns)))](index, shape))
            if len(self.tensors[-1][1]) == 4 and self.rng.random() < 0.5:
                self.tensors.append(self.image(*self.tensors[-1]))

    def outputs(self) -> list[int]:
        """The last tensor, and now and then one in the middle."""
        (source, _), *given = self.tensors
        last = self.net.op(Op.ABS, given[-1][0] if given else source)
        others = [index for index, _ in given if index != source and self.rng.random() < 0.1]
        return list(dict.fromkeys((last, *others)))

    # --- patterns --------------------------------------------------------------------------------------------

    def broadcast(self, shape: Shape) -> int:
        """A constant, or an input, that broadcasts to a shape."""
        own = tuple(1 if self.rng.random() < 0.4 else size for size in shape)
        own = own[int(self.rng.integers(len(own))) :] if self.rng.random() < 0.3 else own
        return self.net.input(*own) if self.rng.random() < 0.5 else self.net.weights(*own)

    def scale(self, x: int, shape: Shape) -> tuple[int, Shape]:
        return self.net.op(Op.MUL, x, self.net.scalar(0.4)), shape

    def mask(self, x: int, shape: Shape) -> tuple[int, Shape]:
        pair = [x, self.broadcast(shape)]
        return self.net.op(Op.ADD, *(pair if self.rng.random() < 0.5 else pair[::-1])), shape

    def softmax(self, x: int, shape: Shape) -> tuple[int, Shape]:
        return self.net.op(Op.SOFTMAX, x, 1.0), shape

    def view(self, x: int, shape: Shape) -> tuple[int, Shape]:
        at = int(self.rng.integers(len(shape)))
        if len(shape) > 1 and self.rng.random() < 0.5:
            at = min(at, len(shape) - 2)
            new = (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :])
        else:
            outer = next((size for size in (2, 3, 4) if shape[at] % size == 0), 1)
            new = (*shape[:at], outer, shape[at] // outer, *shape[at + 1 :])
        if len(new) > 4:
            return x, shape
        return self.net.op(Op.RESHAPE, x, np.array(new, np.int32)), new

    def transpose(self, x: int, shape: Shape) -> tuple[int, Shape]:
        order = self.rng.permutation(len(shape))
        return self.net.op(Op.TRANSPOSE, x, order.astype(np.int32)), tuple(shape[axis] for axis in order)

    def part(self, x: int, shape: Shape) -> tuple[int, Shape]:
        begin = [int(self.rng.integers(size)) if self.rng.random() < 0.3 else 0 for size in shape]
        new = tuple(size - first for size, first in zip(shape, begin, strict=True))
        return self.net.op(Op.SLICE, x, np.array(begin, np.int32), np.array(new, np.int32)), new

    def halves(self, x: int, shape: Shape) -> tuple[int, Shape]:
        """Split, and joined again in another order, with an operation on one of both."""
        even = [axis for axis, size in enumerate(shape) if size % 2 == 0]
        if not even:
            return x, shape
        axis = int(self.rng.choice(even))
        first, second = split(self.net, x, axis, 2)
        return joined(self.net, axis, second, self.net.op(Op.ABS, first)), shape

    def reverse(self, x: int, shape: Shape) -> tuple[int, Shape]:
        axis = np.array([self.rng.integers(len(shape))], np.int32)
        return self.net.op(Op.REVERSE, x, axis), shape

    def mean(self, x: int, shape: Shape) -> tuple[int, Shape]:
        axes = self.rng.permutation(len(shape))[: int(self.rng.integers(1, len(shape) + 1))]
        new = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
        return self.net.op(Op.MEAN, x, axes.astype(np.int32), self.net.code(1)), new

    def join(self, x: int, shape: Shape) -> tuple[int, Shape]:
        """With an earlier tensor of its shape."""
        axis = int(self.rng.integers(len(shape)))
        same = [index for index, other in self.tensors if other == shape]
        if math.prod(shape) > 20_000:
            return x, shape
        y = joined(self.net, axis, x, same[int(self.rng.integers(len(same)))])
        return y, (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])

    def heads(self, x: int, shape: Shape) -> tuple[int, Shape]:
        """Attention of matrices that lie side by side in the rows of a tensor, each to itself."""
        width, rows = shape[-1], math.prod(shape[:-1])
        heads = next((count for count in (4, 3, 2) if width % count == 0), 1)
        if rows > 100:
            return x, shape
        apart = self.net.op(Op.RESHAPE, x, np.array([rows, heads, width // heads], np.int32))
        places = np.array([1, 0, 2], np.int32), np.array([1, 2, 0], np.int32)
        left, right = (self.net.op(Op.TRANSPOSE, apart, order) for order in places)
        scores = self.net.op(Op.BATCH_MATMUL, left, right, self.net.build.value(False), self.net.build.value(False))
        scores = self.net.op(Op.TANH, scores)
        values = left if self.rng.random() < 0.5 else self.net.op(Op.TRANSPOSE, apart, places[0])
        y = self.net.op(Op.BATCH_MATMUL, scores, values, self.net.build.value(False), self.net.build.value(False))
        y = self.net.op(Op.TRANSPOSE, y, places[0])
        return self.net.op(Op.RESHAPE, y, np.array(shape, np.int32)), shape

    def norm(self, x: int, shape: Shape) -> tuple[int, Shape]:
        count = int(self.rng.integers(1, len(shape) + 1)) if self.rng.random() < 0.2 else 1
        axes = self.rng.permutation(len(shape))[:count] if self.rng.random() < 0.3 else np.arange(-count, 0)
        axes = axes.astype(np.int32)

        def mean(of: int) -> int:
            return self.net.op(Op.MEAN, of, axes, self.net.code(1))

        less = self.net.op(Op.SUB, x, mean(x)) if self.rng.random() < 0.8 else x
        variance = self.net.op(Op.ADD, mean(self.net.op(Op.MUL, less, less)), self.net.scalar(1e-3))
        root = self.rng.random() < 0.5
        y = self.net.op(Op.SQRT if root else Op.RSQRT, variance)
        y = self.net.op(Op.DIV if root else Op.MUL, less, y)
        for code in (Op.MUL, Op.ADD):
            if self.rng.random() < 0.7:
                row = tuple(size if axis - len(shape) in axes or axis in axes else 1 for axis, size in enumerate(shape))
                y = self.net.op(code, y, self.net.weights(*row) if self.rng.random() < 0.8 else self.broadcast(shape))
        return y, shape

    def pad(self, x: int, shape: Shape) -> tuple[int, Shape]:
        pairs = self.rng.integers(0, 3, (len(shape), 2)) * (self.rng.random((len(shape), 1)) < 0.4)
        new = tuple(int(size + sum(pair)) for size, pair in zip(shape, pairs, strict=True))
        if math.prod(new) > 20_000:
            return x, shape
        return self.net.op(Op.PAD, x, pairs.astype(np.int32)), new

    def image(self, x: int, shape: Shape) -> tuple[int, Shape]:
        """A convolution or a pool, in either layout."""
        nchw = bool(self.rng.random() < 0.5)
        height, width, depth = (shape[2], shape[3], shape[1]) if nchw else shape[1:]
        window = min(height, int(self.rng.integers(1, 4))), min(width, int(self.rng.integers(1, 4)))
        padding = int(self.rng.integers(1, 3))
        layout = self.net.build.value(nchw)
        if self.rng.random() < 0.5:
            outputs = int(self.rng.choice([3, 4]))
            filters = self.net.weights(outputs, *window, depth), self.net.weights(outputs)
            y = self.net.op(Op.CONV_2D, x, *filters, *map(self.net.code, (padding, 1, 1, 0)), layout)
        else:
            outputs, code = depth, Op.MAX_POOL_2D if self.rng.random() < 0.5 else Op.AVERAGE_POOL_2D
            y = self.net.op(code, x, *map(self.net.code, (padding, 1, 1, window[1], window[0], 0)), layout)
        if padding == 2:
            height, width = height - window[0] + 1, width - window[1] + 1
        batches = shape[0]
        return y, (batches, outputs, height, width) if nchw else (batches, height, width, outputs)
