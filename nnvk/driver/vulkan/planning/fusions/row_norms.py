"""Layer normalisation, which models compose of ten operations: one pass over each row.

(x - MEAN(x)) * RSQRT(MEAN((x - MEAN(x)) ** 2) + epsilon) * weights + bias, where any of the last two may be missing; or
divided by a SQRT; or x * scale + (bias - MEAN(x) * scale); or without the mean taken away. Sums are added up in another
order than MEAN has, so that results may differ by a few units in the last place.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field, replace

from nnvk.driver.vulkan.lowering.convert import converts
from nnvk.driver.vulkan.lowering.dtypes import F16, F32
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.row_norm import LONGEST, SHORTEST, RowNorm, normalize_rows
from nnvk.driver.vulkan.planning.fusions.command_graph import Graph
from nnvk.driver.vulkan.shaders.commands import Dispatch, TensorRef
from nnvk.driver.vulkan.shaders.profile import AvoidedShader


def fuse_row_norms(graph: Graph, g: Lowering) -> None:
    """Normalise rows in one dispatch."""
    for position, dispatch in graph.dispatches("unary"):
        if dispatch.shader.name in ("unary.rsqrt.f32", "unary.sqrt.f32"):
            found = _Found(graph)
            norm = found.norm(position, dispatch)
            if norm is not None:
                found.replace(g, norm)


@dataclass(slots=True)
class _Found:
    """The dispatches of a normalisation, from the root in its middle to both sides."""

    graph: Graph
    positions: list[int] = field(default_factory=list)
    between: list[TensorRef] = field(default_factory=list)
    """What nobody else may read."""
    target: TensorRef | None = None
    mean: TensorRef | None = None

    def norm(self, position: int, root: Dispatch) -> RowNorm | None:
        """What is computed; None where it is something else."""
        is_root = ".sqrt." in root.shader.name
        self.positions.append(position)
        added = self._written(root.tensors["src"], "binary.add.f32")
        if added is None:
            return None
        variance, epsilon = self._with_number(added)
        mean = None if variance is None else self._mean(variance)
        if mean is None or epsilon is None:
            return None
        squares, length = mean
        squared = self._square(squares)
        if squared is None:
            return None
        centre = self._centre(squared, length)
        if centre is not None:
            self.between.append(squared)
        norm = RowNorm(centre or squared, length, epsilon, centre is not None, is_root)
        return self._applied(norm, squared, root.tensors["dst"])

    # --- before the root -------------------------------------------------------------------------------------

    def _written(self, tensor: TensorRef, name: str) -> Dispatch | None:
        """The dispatch that gives a tensor which is needed for nothing else."""
        found = self.graph.dispatch_that_writes(tensor, name.partition(".")[0])
        if found is None or found[1].shader.name != name or not _is_plain(found[1]):
            return None
        self.positions.append(found[0])
        self.between.append(tensor)
        return found[1]

    def _with_number(self, dispatch: Dispatch) -> tuple[TensorRef | None, float | None]:
        """The operand that is no number, and the one that is."""
        for own, other in (("lhs", "rhs"), ("rhs", "lhs")):
            data = self.graph.constant(dispatch.tensors[other])
            if data is not None and data.size == 1:
                return dispatch.tensors[own], float(data.item())
        return None, None

    def _mean(self, tensor: TensorRef) -> tuple[TensorRef, int] | None:
        """What a tensor has the means of the rows of, and how long they are."""
        found = self._written(tensor, "mean.sum.f32")
        if found is None:
            return None
        push, length = found.push, int(found.push["reduced"])
        source, rows = found.tensors["src"], int(found.push["elements"])
        is_row = (
            push["parts"] == 1
            and found.shader.constant(found.specialization, "FOLD_RANK") == 1
            and push["fold_stride_3"] == 1
            and (rows == 1 or (push["keep_stride_3"] == length and push["keep_size_3"] == rows))
        )
        return (
            (source, length)
            if is_row and SHORTEST <= length <= LONGEST and 4 * rows * length == source.nbytes
            else None
        )

    def _square(self, tensor: TensorRef) -> TensorRef | None:
        """What a tensor is the square of."""
        found = self._written(tensor, "binary.mul.f32")
        if found is not None:
            return found.tensors["lhs"] if found.tensors["lhs"] == found.tensors["rhs"] else None
        found = self._written(tensor, "binary.pow.f32")
        data = None if found is None else self.graph.constant(found.tensors["rhs"])
        is_square = found is not None and data is not None and data.size == 1 and data.item() == 2
        return found.tensors["lhs"] if found is not None and is_square else None

    def _centre(self, tensor: TensorRef, length: int) -> TensorRef | None:
        """What a tensor is the elements of, less the means of their rows."""
        found = self.graph.dispatch_that_writes(tensor, "binary")
        if found is None or found[1].shader.name != "binary.sub.f32" or not _is_plain(found[1]):
            return None
        source, mean = found[1].tensors["lhs"], found[1].tensors["rhs"]
        before = len(self.positions), len(self.between)
        if source.nbytes == tensor.nbytes and _is_of_rows(found[1], "rhs", length):
            self.positions.append(found[0])
            if self._mean(mean) == (source, length):
                self.mean = mean
                return source
        del self.positions[before[0] :], self.between[before[1] :]
        return None

    # --- behind it -------------------------------------------------------------------------------------------

    def _applied(self, norm: RowNorm, centred: TensorRef, root: TensorRef) -> RowNorm | None:
        """With what follows: rows are multiplied by the root's inverse, or divided, then weights and bias."""
        self.between.append(root)
        found = self._reader(root, "div" if norm.root else "mul")
        if found is None:
            return None
        side, other = _sides(found, root)
        self.target = found.tensors["dst"]
        if not _is_of_rows(found, side, norm.length) or self.target.nbytes != norm.source.nbytes:
            return None
        if found.tensors[other] != centred:
            is_scale = not norm.root and _is_row(found, other, norm.length)
            return self._spread(norm, found.tensors[other]) if is_scale else None
        if norm.root and side == "lhs":
            return None
        norm = replace(norm, weights=self._next("mul", norm.length))
        norm = replace(norm, bias=self._next("add", norm.length))
        return norm if self._is_alone() else None

    def _spread(self, norm: RowNorm, weights: TensorRef) -> RowNorm | None:
        """With the inverse times the weights: x times that, plus the bias less the mean times that."""
        scale = self.target
        assert scale is not None
        readers = self.graph.readers(scale)
        commands = [self.graph.commands[reader] for reader in readers]
        products = {
            command.tensors[_sides(command, scale)[1]]: command
            for command in commands
            if isinstance(command, Dispatch) and command.shader.name == "binary.mul.f32" and _is_plain(command)
        }
        if self.mean is None or len(readers) != 2 or set(products) != {norm.source, self.mean}:
            return None
        scaled, moved = products[norm.source].tensors["dst"], products[self.mean].tensors["dst"]
        if not _is_of_rows(products[self.mean], _sides(products[self.mean], scale)[1], norm.length):
            return None
        self.positions += readers
        less = self._reader(moved, "sub")
        if less is None or less.tensors["rhs"] != moved or not _is_row(less, "lhs", norm.length):
            return None
        sum_ = self._reader(scaled, "add")
        if sum_ is None or sum_.tensors[_sides(sum_, scaled)[1]] != less.tensors["dst"]:
            return None
        self.between += [scale, scaled, moved, less.tensors["dst"]]
        self.target = sum_.tensors["dst"]
        norm = replace(norm, weights=weights, bias=less.tensors["lhs"])
        return norm if self._is_alone() and self.target.nbytes == norm.source.nbytes else None

    def _reader(self, tensor: TensorRef, kind: str) -> Dispatch | None:
        """The one dispatch that reads a tensor, if it is of this kind and can be done later."""
        readers = self.graph.readers(tensor)
        command = self.graph.commands[readers[0]] if len(readers) == 1 else None
        if not isinstance(command, Dispatch) or command.shader.name != f"binary.{kind}.f32" or not _is_plain(command):
            return None
        if self.graph.writer(command.tensors["dst"]) != readers[0]:
            return None
        self.positions.append(readers[0])
        return command

    def _next(self, kind: str, length: int) -> TensorRef | None:
        """The vector that the rows so far are combined with next, which then belongs to it."""
        target = self.target
        assert target is not None
        found = self._reader(target, kind) if self.graph.is_passed_on(target) else None
        if found is None:
            return None
        _, other = _sides(found, target)
        if not _is_row(found, other, length):
            self.positions.pop()
            return None
        self.between.append(target)
        self.target = found.tensors["dst"]
        return found.tensors[other]

    def _is_alone(self) -> bool:
        """Whether nobody else reads what would not be there any more, and all that is read stays as it is."""
        inside = set(self.positions)
        return all(
            self.graph.is_passed_on(tensor) and inside.issuperset(self.graph.readers(tensor)) for tensor in self.between
        ) and all(self.graph.may_wait(position) for position in inside)

    def _with_conversions(self, norm: RowNorm) -> RowNorm:
        """With what makes the source of 16-bit floats, and makes such of what it gives, as relaxed models have it."""
        if norm.length % 4:
            return norm
        graph, source, target = self.graph, norm.source, self.target
        found = graph.dispatch_that_writes(source, "convert")
        alone = graph.is_passed_on(source) and set(graph.readers(source)) <= set(self.positions)
        if found is not None and alone and converts(found[1], F16, F32) and graph.may_wait(found[0]):
            self.positions.append(found[0])
            norm = replace(norm, source=found[1].tensors["src"], given=F16)
        assert target is not None
        readers = graph.readers(target)
        reader = graph.commands[readers[0]] if len(readers) == 1 and graph.is_passed_on(target) else None
        if (
            isinstance(reader, Dispatch)
            and converts(reader, F32, F16)
            and graph.writer(reader.tensors["dst"]) is not None
        ):
            self.positions.append(readers[0])
            self.target = reader.tensors["dst"]
            norm = replace(norm, gives=F16)
        return norm

    def replace(self, g: Lowering, norm: RowNorm) -> None:
        """Do it all where the last of it is done."""
        norm = self._with_conversions(norm)
        assert self.target is not None
        last = max(self.positions)
        command = self.graph.commands[last]
        assert isinstance(command, Dispatch)
        with suppress(AvoidedShader):
            made = normalize_rows(g, norm, self.target, command.operation)
            if made is not None:
                self.graph.replace(last, made, [position for position in self.positions if position != last])


def _is_plain(dispatch: Dispatch) -> bool:
    """Whether no activation limits what it gives."""
    limits = dispatch.push.get("low", -math.inf), dispatch.push.get("high", math.inf)
    return dispatch.shader.family != "binary" or limits == (-math.inf, math.inf)


def _is_of_rows(dispatch: Dispatch, side: str, length: int) -> bool:
    """Whether an operand of binary.comp has one element for each row of this length."""
    rows = dispatch.tensors[side].nbytes // 4
    return rows * length == dispatch.push["elements"] and (rows == 1 or _repeated(dispatch, side) == (1, length))


def _is_row(dispatch: Dispatch, side: str, length: int) -> bool:
    """Whether an operand of binary.comp has one element for each of a row of this length."""
    rows, rest = divmod(int(dispatch.push["elements"]), length)
    return rest == 0 and dispatch.tensors[side].nbytes == 4 * length and _repeated(dispatch, side) == (rows, 1)


def _sides(dispatch: Dispatch, tensor: TensorRef) -> tuple[str, str]:
    """Which operand of binary.comp a tensor is, and the other one."""
    return ("lhs", "rhs") if dispatch.tensors["lhs"] == tensor else ("rhs", "lhs")


def _repeated(dispatch: Dispatch, side: str) -> tuple[int, int]:
    """How often the elements of an operand of binary.comp are repeated: all of them, and each; zeros if otherwise."""
    push = dispatch.push
    sizes = [int(push[f"size_{axis}"]) for axis in (1, 2, 3)]
    sizes.insert(0, int(push["elements"]) // math.prod(sizes))
    kept = [axis for axis, size in enumerate(sizes) if size > 1 and push[f"{side}_stride_{axis}"]] or [0]
    own = math.prod(sizes[kept[0] : kept[-1] + 1])
    if 4 * own != dispatch.tensors[side].nbytes:
        return 0, 0
    return math.prod(sizes[: kept[0]]), math.prod(sizes[kept[-1] + 1 :])
