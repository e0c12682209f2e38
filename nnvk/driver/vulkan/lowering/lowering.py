"""The interface that kernels lower operations with: it names tensors, packs constants and dispatches shaders.

A kernel (`nnvk.driver.vulkan.kernels`) sees one operation as a `Call` and a `Lowering`, which collects the commands of
a whole model. Where tensors lie is decided afterwards (`nnvk.driver.vulkan.planning`).
"""

from __future__ import annotations

import itertools
from collections import ChainMap, Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from nnvk.base.errors import NnapiError, ResultCode, bad_data
from nnvk.base.extents import Computed, computed, hint, identity
from nnvk.driver.vulkan.lowering.compared import DIFFERENCE_WORDS, Checked, Subject
from nnvk.driver.vulkan.lowering.device_assertion import placeholders
from nnvk.driver.vulkan.shaders.commands import (
    Choice,
    Clear,
    Command,
    Copy,
    Dispatch,
    Storage,
    Table,
    TensorRef,
    another_candidate,
    binding_of,
    padded,
)
from nnvk.driver.vulkan.shaders.declaration import Variant
from nnvk.driver.vulkan.shaders.library import CompiledShader, ShaderLibrary
from nnvk.driver.vulkan.shaders.passes import Pass
from nnvk.driver.vulkan.shaders.profile import AvoidedShader, DeviceProfile
from nnvk.ops.call import Tensor
from nnvk.ops.strided import Box
from nnvk.types.constant import ComputedConstant, Constant, DeferredConstant
from nnvk.types.operand import OperandType, Shape
from nnvk.types.request import Redundancy

T = TypeVar("T")

TEXELS = "TEXELS"
"""The specialisation constant of shaders that can read through texel buffers (shaders/include/texels.glsl)."""
HALF_PRODUCTS = "HALF_PRODUCTS"
"""The specialisation constant of shaders that can do without high words of products (include/requantise.glsl)."""
REPRODUCIBLE = "REPRODUCIBLE"
"""The specialisation constant of shaders that round as `nnvk.ops.reproducible` (include/reproducible.glsl)."""
MOST_COUNTERS = 1 << 15
"""Words that shaders may count in."""
_TURNS = 4
"""Commands one after the other that count in words of their own."""
MOST_ROUNDS = 60_000
"""The most rounds of all loops of an invocation together: Mesa's llvmpipe ends them after 65,535."""
LEAST_INVOCATIONS = 128
"""Every device has so many invocations per workgroup, or more."""
MOST_DYNAMIC_ROUNDS = 40_000
"""The same where short loops are not counted."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Elements of a tensor, one after the other, of which another tensor is a copy."""

    whole: TensorRef
    first: int


Pairs = dict[int, tuple[TensorRef, TensorRef]]
"""The results of two computations of tensors, by their indices."""


@dataclass(eq=False)
class Lowering:
    """The commands of a model, one operation after the other."""

    device: DeviceProfile
    """Limits and kind of the device that the commands are for."""
    library: ShaderLibrary
    autotune_results: Mapping[str, str] = field(default_factory=dict)
    """The candidates that were measured to be the fastest, by tuning key."""
    _: KW_ONLY
    relaxed: bool = False
    """32-bit floats may be computed as if they had 16 bits."""
    quick: bool = False
    """Candidates that drivers compile quickly are preferred to those with the lowest estimated times."""
    other_strategies: bool = False
    """Other candidates are chosen than would be otherwise."""
    redundancy: Redundancy = Redundancy.NONE
    """Every node is computed a second time (`lowering/verification.py`), or verified by checksums in place of that
    (`lowering/gemm/verification/checksum.py`)."""
    reproducible: bool = False
    """Floats have the bits that `nnvk.ops.reproducible` defines."""

    operation: int = field(default=0, init=False)
    """Position in the model of the operation that is being lowered."""
    fused: tuple[int, ...] = field(default=(), init=False)
    """Positions of other operations that are lowered with it."""
    users: dict[int, int] = field(default_factory=dict, init=False)
    """How many operations take each operand, by index."""
    is_traced: bool = field(default=False, init=False)
    """Whether sizes are extents (`nnvk.base.extents`)."""
    flags: list[tuple[TensorRef, int, str | Computed]] = field(default_factory=list, init=False)
    """The assertions that shaders may raise: where, the operation, and the text."""
    counts: dict[int, TensorRef] = field(default_factory=dict, init=False)
    """Where the number of rows is, of operands that have as many as the data says."""
    entropy: list[TensorRef] = field(default_factory=list, init=False)
    """The tensors that the host fills with random bytes for each execution."""
    applied: Counter[Pass] = field(default_factory=Counter, init=False)
    """How often each pass has found something to rewrite."""
    writers: dict[int, int] = field(default_factory=dict, init=False)
    """The position in the model of the operation that computes an operand, by the operand's index."""
    comparisons: list[Subject] = field(default_factory=list, init=False)
    """The tensors that were computed twice, in the order of the comparisons."""
    checksums: int = field(default=0, init=False)
    """The sum of a number for each checksum that is compared, modulo 2^32 (`checksum_dispatch.py`)."""
    deferred: list[Any] | None = field(default=None, init=False)
    """Verifications by checksums that are to be dispatched together (`checksum_dispatch.py`)."""
    tables: list[Table] = field(default_factory=list, init=False)
    """Constants that lack distances between tensors."""
    difference: TensorRef | None = field(default=None, init=False)
    """Where comparisons report the first difference."""
    checked: dict[int, Checked] = field(default_factory=dict, init=False)
    """Products with checksums, by the index of their output tensor."""

    _numbers: Iterator[int] = field(default_factory=itertools.count, init=False)
    _commands: list[Command] = field(default_factory=list, init=False)
    _written: set[TensorRef] = field(default_factory=set, init=False)
    _tensors: MutableMapping[int, TensorRef] = field(default_factory=dict, init=False)
    _second: dict[int, TensorRef] = field(default_factory=dict, init=False)  # the results of second computations
    _given: dict[int, TensorRef] = field(default_factory=dict, init=False)  # where the host puts inputs that are copied
    _constants: dict[int, tuple[TensorRef, Constant]] = field(default_factory=dict, init=False)
    _forms: dict[Hashable, Any] = field(default_factory=dict, init=False)
    _renamed: dict[TensorRef, TensorRef] = field(default_factory=dict, init=False)
    _taken: dict[TensorRef, Taken] = field(default_factory=dict, init=False)
    _arranged: dict[TensorRef, tuple[TensorRef, Box]] = field(default_factory=dict, init=False)
    _cleared: int = field(default=0, init=False)
    _counters: list[TensorRef] = field(default_factory=list, init=False)
    _is_second: bool = field(default=False, init=False)
    _drawn: dict[tuple[int, int], TensorRef] = field(default_factory=dict, init=False)
    _choices: list[Choice] = field(default_factory=list, init=False)
    _of_all: set[int] = field(default_factory=set, init=False)
    _chosen_for: list[int | None] = field(default_factory=list, init=False)  # the number of each command's choice

    # --- choices ---------------------------------------------------------------------------------------------

    def choose(
        self,
        tuning_key: str,
        ranked: Sequence[T],
        *,
        of_all: bool = False,
        is_quick: Callable[[T], bool] = lambda _: True,
        is_exact: bool = False,
    ) -> T:
        """The candidate that was measured to be the fastest for a tuning key, or else the first one.

        ``tuning_key`` has all that the times depend on, and the candidates; these are told apart by what ``str`` gives.
        ``of_all``: all commands of the model come of it, not those that follow for the same operation. ``is_quick``
        says whether drivers compile a candidate quickly, for plans that need that. ``is_exact``: all candidates give
        the same bits, so that a second computation can take another one.
        Where there is one candidate alone, nothing is chosen.
        """
        if len(ranked) == 1:
            return ranked[0]
        names = self.once(("names", tuning_key), lambda: tuple(str(hint(each)) for each in ranked))
        measured = self.autotune_results.get(tuning_key)
        chosen = names.index(measured) if measured in names else 0
        if self.quick and not is_quick(ranked[chosen]):
            chosen = next((place for place, candidate in enumerate(ranked) if is_quick(candidate)), chosen)
        known = [chosen]
        # Compilers for few registers take very long for large tiles.
        quick = [place for place, each in enumerate(ranked) if self.device.has_small_subgroups and is_quick(each)]
        if self.other_strategies:
            known.append(another_candidate(names, known, quick))
        if self._is_second:
            return ranked[another_candidate(names, known, quick) if is_exact else known[-1]]
        chosen = known[-1]
        self._choices.append(Choice(self.operation, tuning_key, names, names[chosen]))
        if of_all:
            self._of_all.add(len(self._choices) - 1)
        return ranked[chosen]

    def tuning_key(self, *parts: object) -> str:
        """The text of what the times of candidates depend on; a plan for several sizes has that of its present ones."""
        return " ".join(str(hint(part) if self.is_traced else part) for part in parts)

    @property
    def may_store_checks(self) -> bool:
        """Whether what is lowered will be lowered a second time, and may be verified by checksums then."""
        return self.verifies_products and not self._is_second

    @property
    def verifies_products(self) -> bool:
        """Whether products are verified by checksums, or by other shaders."""
        return self.redundancy is Redundancy.CHECKSUMS

    @property
    def adds_in_order(self) -> bool:
        """Whether sums of products of floats are rounded in the order of `nnvk.ops.reproducible`."""
        return self.reproducible or self.verifies_products

    @property
    def is_independent(self) -> bool:
        """Whether what is lowered verifies what was lowered before, by other shaders where there are any."""
        return self.verifies_products and self._is_second

    @property
    def choices(self) -> list[Choice]:
        """The choices among several candidates, each with the commands that came of it."""
        commands: list[list[int]] = [[] for _ in self._choices]
        for position, number in enumerate(self._chosen_for):
            if number is not None:
                commands[number].append(position)
        for number in self._of_all:
            commands[number] = list(range(len(self._chosen_for)))
        return [replace(choice, commands=tuple(of)) for choice, of in zip(self._choices, commands, strict=True)]

    # --- tensors ---------------------------------------------------------------------------------------------

    def tensor(self, tensor: Tensor) -> TensorRef:
        """The operand as shaders see it: dense, in the layout that NNAPI gives it."""
        assert tensor.view is None, "a view is not dense"
        known = self._tensors.get(tensor.index)
        if known is None:
            if tensor.stored is not None:
                known = self.constant(tensor.stored)
            else:
                known = self._new(tensor.size * tensor.dtype.itemsize, Storage.ARENA)
            self._tensors[tensor.index] = known
        return known

    def constant(self, data: Constant) -> TensorRef:
        """Data that the plan carries: uploaded once, when the model is prepared."""
        if isinstance(data, np.ndarray) and data.dtype.hasobject:  # sizes that are extents
            return self.computed_constant(data.shape, np.int32, _int32s, data.shape, *data.reshape(-1).tolist())
        known = self._constants.get(id(data))
        if known is None:
            kept = data if isinstance(data, DeferredConstant) else np.ascontiguousarray(data)
            known = self._new(kept.nbytes, Storage.CONSTANTS), kept
            self._constants[id(kept)] = known
        return known[0]

    def computed_constant(
        self, shape: Shape, dtype: DTypeLike, function: Callable[..., np.ndarray], *numbers: int | Shape
    ) -> TensorRef:
        """Data of this shape and type that a function computes of numbers, of which some may be extents."""
        value = computed(function, *numbers)
        return self.constant(
            value if isinstance(value, np.ndarray) else ComputedConstant(shape, np.dtype(dtype), value)
        )

    def constant_form(self, tensor: Tensor, form: Hashable, make: Callable[[], Constant]) -> TensorRef:
        """A constant operand in another form: made and carried once, however many operations ask for that form.

        ``form`` tells apart all that may be made of an operand of a type on a device.
        """

        def made() -> TensorRef:
            data = make()
            if isinstance(data, DeferredConstant) and data.origin is None:
                data = data.formed(tensor.constant, (form, tensor.type, self.device))
            return self.constant(data)

        return self.once((tensor.index, form), made)

    def once(self, form: Hashable, make: Callable[[], T]) -> T:
        """The result of ``make`` for the first caller that asks for this form; all others get the same."""
        if self.is_traced:
            form = identity(form)
        if self._is_second:
            return self._once_more(form, make)
        if form not in self._forms:
            self._forms[form] = make()
        known: T = self._forms[form]
        return known

    def _once_more(self, form: Hashable, make: Callable[[], T]) -> T:
        """`once` in a second computation: it has its own results of commands, but shares constants with the first."""
        own = "second", form
        known: T | None = self._forms.get(own)
        if known is None:
            known = self._forms.get(form)
        if known is None or (own not in self._forms and _is_computed(known)):
            known = make()
            self._forms[own if _is_computed(known) else form] = known
        return known

    def give(self, output: Tensor, data: np.ndarray) -> None:
        """Let an output be data that follows from shapes and parameters."""
        self._tensors[output.index] = self.constant(data)

    def scratch(self, nbytes: int) -> TensorRef:
        """Memory for intermediate results of one operation."""
        return self._new(nbytes, Storage.ARENA)

    def flag(self, assertion: str | Computed) -> TensorRef:
        """Where a shader says that the data breaks a rule; the execution then ends with OP_FAILED and this assertion.

        Words, zero at first: the shader makes the first one 1 and leaves what is wrong in the others
        (``shaders/include/flag.glsl``). They are put in the places of ``{}``, an integer, and of ``{:r}``, a float.
        """
        ref = self.report(1 + placeholders(str(hint(assertion))))
        self.flags.append((ref, self.operation, assertion))
        return ref

    def report(self, words: int) -> TensorRef:
        """Words that shaders report to the host, zero at first."""
        ref = self._new(4 * words, Storage.STAGING)
        self._clear(ref)
        return ref

    def to_verify(self, tensor: Tensor) -> Checked | None:
        """The product with a checksum that a second lowering verifies instead of computing; None if there is none."""
        return self.checked.get(tensor.index) if self._is_second else None

    def is_checked(self, tensor: Tensor) -> bool:
        """Whether a checksum dispatch can read the tensor in place."""
        checked = self.checked.get(tensor.index)
        return checked is not None and checked.results is self._tensors[tensor.index]

    def is_copied(self, index: int, first: TensorRef) -> bool:
        """Whether a tensor is verified where it was computed, so that its second result is a copy of the first."""
        checked = self.checked.get(index)
        return checked is not None and checked.results is first

    def compared(self, subject: Subject) -> tuple[TensorRef, int]:
        """Where the next comparison reports a difference, and its number."""
        if self.difference is None:
            self.difference = self.report(DIFFERENCE_WORDS)
        self.comparisons.append(subject)
        return self.difference, len(self.comparisons) - 1

    def count(self, outputs: Sequence[Tensor]) -> TensorRef:
        """Where a shader says how many rows of ``outputs`` there are, which have their largest shape; zero at first."""
        ref = self.report(1)
        self.counts.update((output.index, ref) for output in outputs)
        return ref

    def random_bytes(self, nbytes: int) -> TensorRef:
        """Random bytes, others for each execution, but the same for both computations of an operation."""
        form = self.operation, nbytes
        if self._is_second:
            return self._drawn[form]
        ref = self._drawn[form] = self._new(nbytes, Storage.STAGING)
        self.entropy.append(ref)
        return ref

    def counters(self, count: int) -> TensorRef:
        """Counters: words that are zero before and after the dispatch. At most `MOST_COUNTERS`.

        All that ask get the same few in turns: commands that follow each other need not wait for their counters.
        """
        if count > MOST_COUNTERS:
            raise ValueError(f"at most {MOST_COUNTERS} counters, not {count}")
        if len(self._counters) < _TURNS:
            self._counters.append(self._new(4 * MOST_COUNTERS, Storage.ARENA))
            self._clear(self._counters[-1])
        else:
            self._counters.append(self._counters.pop(0))
        return self._counters[-1]

    def _clear(self, ref: TensorRef) -> None:
        self._commands.insert(self._cleared, Clear(ref))  # before all else, where no barrier is lost on it
        self._chosen_for.insert(self._cleared, None)
        self._cleared += 1

    def intermediate(self, name: str, type: OperandType, data: Constant | None = None) -> Tensor:
        """A tensor that is no operand of the model, for what takes operands: an intermediate result, or a constant."""
        return Tensor(name, -1 - next(self._numbers), type, type.dimensions, data)

    def alias(self, source: Tensor | TensorRef, target: Tensor) -> None:
        """Let ``target`` be the same memory as ``source``: for operations that only change the shape."""
        self._tensors[target.index] = self.tensor(source) if isinstance(source, Tensor) else source

    def note_taken(self, target: TensorRef, source: TensorRef, first: int) -> None:
        """Remember that a tensor is a copy of another one's elements, one after the other, from the ``first`` on."""
        known = self._taken.get(source, Taken(source, 0))
        self._taken[target] = Taken(known.whole, known.first + first)

    def note_arranged(self, target: TensorRef, source: TensorRef, box: Box) -> None:
        """Remember that a tensor is a box of another tensor; later copies read the other tensor."""
        self._arranged[target] = source, box

    def arranged_from(self, tensor: TensorRef) -> tuple[TensorRef, Box] | None:
        """The source and the box of a tensor that was noted so."""
        return self._arranged.get(tensor)

    def taken_from(self, tensor: Tensor) -> Taken | None:
        """The elements that a tensor is a copy of, one after the other."""
        return self._taken.get(self.tensor(tensor))

    def users_of(self, tensor: Tensor) -> int:
        """How many operations of the model take a tensor."""
        return self.users.get(tensor.index, 1)

    def _new(self, nbytes: int, storage: Storage) -> TensorRef:
        if padded(nbytes) > self.device.max_buffer:
            raise NnapiError(
                ResultCode.OUT_OF_MEMORY,
                f"a tensor of {nbytes} bytes is larger than the device can bind ({self.device.max_buffer})",
            )
        return TensorRef(next(self._numbers), nbytes, storage)

    # --- commands --------------------------------------------------------------------------------------------

    def dispatch(
        self,
        variant: Variant,
        *,
        groups: Sequence[int],
        tensors: Mapping[str, TensorRef],
        spec: Mapping[str, int | float | bool] | None = None,
        **push: int | float,
    ) -> None:
        """Dispatch a shader variant.

        ``tensors`` are by the names of the shader's blocks, ``push`` are its push constants but for the offsets,
        ``spec`` its specialisation constants (``local_x``, ... for the workgroup's size) where they aren't the
        default. A name too many or too few is an error, so that host and shader can't drift apart. The variant's native
        variant runs where the device has elements of 16 bits of its own.
        """
        made = self.made(variant, groups=groups, tensors=tensors, spec=spec, push=push, operation=self.operation)
        if made is not None:
            self.add(made)

    def made(
        self,
        variant: Variant,
        *,
        groups: Sequence[int],
        tensors: Mapping[str, TensorRef],
        spec: Mapping[str, int | float | bool] | None,
        push: Mapping[str, int | float],
        operation: int,
    ) -> Dispatch | None:
        """The dispatch that `dispatch` adds, for ``operation``; None where there is no workgroup."""
        variant = self.device.native_variant(variant)
        shader = self.variant(variant.name)
        lacking = shader.features - self.device.features
        if lacking:
            raise bad_data(f"shader {variant.name} needs {sorted(lacking)}, which the device lacks")
        if set(map(binding_of, tensors)) != set(shader.bindings):
            raise KeyError(f"shader {variant.name} binds {sorted(shader.bindings)}, got {sorted(tensors)}")
        shader.check_push_constants(push)
        x, y, z = (*groups, 1, 1)[:3]
        size = x, y, z
        if any(count > self.device.max_groups for count in size):
            raise NnapiError(ResultCode.OP_FAILED, f"{variant.name}: {size} workgroups exceed {self.device.max_groups}")
        if 0 in size:
            return None
        of_device = {TEXELS: self.device.texel_loads, HALF_PRODUCTS: self.device.lacks_high_products}
        of_device[REPRODUCIBLE] = self.reproducible
        needed = {name: True for name, value in of_device.items() if value and shader.has_constant(name)}
        specialization = shader.specialization({**(spec or {}), **needed})
        return Dispatch(shader, size, dict(tensors), specialization, push, operation)

    def variant(self, name: str) -> CompiledShader:
        """The compiled shader of this name. Raises AvoidedShader where plans have to do without it."""
        if name in self.device.avoided:
            raise AvoidedShader(name)
        if name in self.device.left_out:
            raise AvoidedShader(name, "was left out of the build")
        return self.library.named(name)

    def flat(self, count: int, local: int) -> tuple[int, int, int]:
        """Workgroups of ``local`` invocations for ``count`` of them: what ``flat_invocation()`` numbers."""
        groups = -(-count // local)
        rows = max(1, -(-groups // self.device.max_groups))
        return -(-groups // rows), rows, 1

    def copy(self, source: TensorRef, target: TensorRef, nbytes: int) -> None:
        """Copy the first ``nbytes`` (rounded up to words) of a tensor."""
        if nbytes:
            self.add(Copy(source, target, -(-nbytes // 4) * 4))

    def add(self, command: Command) -> None:
        """Add a command of the operation that is being lowered."""
        if self.fused and isinstance(command, Dispatch):
            command = replace(command, fused=self.fused)
        self._commands.append(command)
        is_first = bool(self._choices) and not self._is_second
        of_choice = is_first and self._choices[-1].operation == self.operation
        self._chosen_for.append(len(self._choices) - 1 if of_choice else None)
        self._written.update(command.writes)

    def add_second(
        self, written: Mapping[int, bool], lower: Callable[[], None], *, copies: bool = True
    ) -> tuple[Pairs, Pairs]:
        """Compute tensors a second time, of the second results of earlier operations. Returns both results of each.

        ``lower`` is what has added the first computation. ``written`` has the indices of the tensors that it writes,
        and whether it may leave elements as they are. The second value has both numbers of rows of the tensors whose
        number of rows depends on data. Without ``copies``, what is verified in place of that is its own second result.
        """
        tensors, counts = self._tensors, self.counts
        first = {index: tensors.pop(index) for index in written if index in tensors}
        self._tensors, self.counts = ChainMap(self._second, tensors), {}
        self._is_second = True
        if not copies:
            self._second.update(first)
        for index, before in first.items():
            if written[index] and index not in self._second:
                self._second[index] = self.scratch(before.nbytes)
                self.copy(before, self._second[index], before.nbytes)
        lower()
        self._is_second = False
        both = {index: (before, self._tensors[index]) for index, before in first.items()}
        both_counts = {index: (counts[index], count) for index, count in self.counts.items()}
        tensors.update(first)
        self._tensors, self.counts = tensors, counts
        return both, both_counts

    @contextmanager
    def apart_from_choices(self) -> Iterator[None]:
        """Commands that are added meanwhile are no part of what was chosen."""
        before, self._is_second = self._is_second, True
        yield
        self._is_second = before

    def copy_input_again(self, index: int) -> tuple[TensorRef, TensorRef] | None:
        """Copy an input for second computations, if it was copied. Returns both copies."""
        given = self._given.get(index)
        if given is None:
            return None
        self._second[index] = self._new(given.nbytes, Storage.ARENA)
        self.copy(given, self._second[index], given.nbytes)
        return self._tensors[index], self._second[index]

    def second_result(self, index: int) -> TensorRef:
        """The second result for an operand; the only one if the operand is not computed."""
        return self._second.get(index, self._tensors[index])

    # --- what the model takes and gives ----------------------------------------------------------------------

    def input(self, index: int, nbytes: int) -> TensorRef:
        """Where the host puts the input that is operand ``index``."""
        is_direct = self.device.host_writes_device_memory
        given = self._new(nbytes, Storage.UPLOAD if is_direct else Storage.STAGING)
        if is_direct or self.device.unified_memory:
            self._tensors[index] = given
        else:
            self._tensors[index] = self._new(nbytes, Storage.ARENA)
            self._given[index] = given
            self.copy(given, self._tensors[index], nbytes)
        return given

    def output(self, index: int, nbytes: int) -> TensorRef | None:
        """Where the host finds the output that is operand ``index``; None if that has no elements.

        A copy, unless the host can read it where it was written.
        """
        if not nbytes:
            return None
        source = self._tensors[index]
        source = self._renamed.get(source, source)
        target = self._new(nbytes, Storage.STAGING)
        if self.device.unified_memory and source.storage is Storage.ARENA and source in self._written:
            self._renamed[source] = target
        else:
            self.copy(source, target, nbytes)
            self._chosen_for[-1] = None  # it takes the same time whatever was chosen for the last operation
        return target

    @property
    def commands(self) -> list[Command]:
        """All commands in order."""
        return [self._with_names(command) for command in self._commands]

    @property
    def constants(self) -> list[tuple[TensorRef, Constant]]:
        """The data that is to be uploaded."""
        return list(self._constants.values())

    def _with_names(self, command: Command) -> Command:
        """The command on the tensors that outputs took the place of."""
        renamed = self._renamed
        if isinstance(command, Clear) or renamed.keys().isdisjoint((*command.reads, *command.writes)):
            return command  # a Clear is of what the host reads where it is
        if isinstance(command, Copy):
            source, target = command.source, command.target
            return replace(command, source=renamed.get(source, source), target=renamed.get(target, target))
        tensors = {name: renamed.get(tensor, tensor) for name, tensor in command.tensors.items()}
        return replace(command, tensors=tensors)


def _int32s(shape: Shape, *numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32).reshape(shape)


def _is_computed(form: object) -> bool:
    """Whether commands compute what `Lowering.once` keeps."""
    if isinstance(form, tuple):
        return any(map(_is_computed, form))
    return isinstance(form, TensorRef) and form.storage is not Storage.CONSTANTS
