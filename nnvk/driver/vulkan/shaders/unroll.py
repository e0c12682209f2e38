"""Loops of a frozen SPIR-V module unrolled, so that indexes of local arrays are constants.

Some drivers (Mesa's for Mali and VideoCore) move an indexed local array to memory before they unroll loops, and then
take 25 to 50 times as many instructions for a GEMM. After this transformation they find constant indexes and keep the
elements in registers. It is for modules of `freeze` and `prune`, and changes no result.

A function is emitted instruction by instruction, with the known values of its local integers and truth values. A loop
whose condition follows from them is emitted once per round, where the shader marks it with ``[[unroll]]``, and where
it has at most one round. It stays as it is with ``[[dont_unroll]]``, with a ``break`` or a ``continue``, and with a
shape that glslang does not produce. A function with an instruction that `id_operands` does not know stays as it is.
SPIR-V specification, section 2.11 (structured control flow). A GEMM takes 38 ms. spirv-opt unrolls the loops only
after inlining and SSA rewriting, which takes 134 ms for twice as large a module.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence

from nnvk.driver.vulkan.shaders.control_flow import Function, Rounds, SpirvInstruction
from nnvk.driver.vulkan.shaders.spirv import (
    BOUND,
    BRANCH,
    BRANCH_CONDITIONAL,
    CONSTANT,
    DECORATE,
    FALSE,
    FOLDED,
    FUNCTION,
    FUNCTION_CALL,
    HEADER_WORDS,
    LABEL,
    LOAD,
    LOOP_MERGE,
    NAME,
    PHI,
    SELECTION_MERGE,
    STORE,
    SWITCH,
    TRUE,
    TYPE_BOOL,
    TYPE_FLOAT,
    TYPE_INT,
    TYPE_POINTER,
    fold,
    instructions,
)

MOST_ROUNDS = 256
"""The largest number of rounds of a loop that is unrolled."""
MOST_WORDS = 1 << 18
"""A module does not grow past this number of words of functions by unrolling."""

_UNKNOWN_ANNOTATIONS = frozenset({73, 74, 75, 332, 5632})
"""Decoration groups, and decorations with ids or strings, which are not copied to the results of unrolled rounds."""

_KNOWN = FOLDED | {LOAD}
_WRITES = (STORE, FUNCTION_CALL)
_BRANCHES = (BRANCH, BRANCH_CONDITIONAL, SWITCH)

Values = dict[int, int]
"""The known words of local variables."""


def unroll(spirv: bytes, *, most_rounds: int = MOST_ROUNDS, most_words: int = MOST_WORDS) -> bytes:
    """The module with its loops unrolled, up to ``most_rounds`` rounds and ``most_words`` words of functions."""
    module = array("I", spirv)
    head: list[array[int]] = []
    functions: list[list[array[int]]] = []
    for at, opcode, end in instructions(module):
        if opcode in _UNKNOWN_ANNOTATIONS:
            return spirv
        if opcode == FUNCTION:
            functions.append([])
        (functions[-1] if functions else head).append(module[at:end])
    globals_ = _Globals(head, module[BOUND])
    size = sum(len(each) for code in functions for each in code)
    body = array("I")
    for code in functions:
        has_loops = any(each[0] & 0xFFFF == LOOP_MERGE for each in code)
        function = Function.parse(code, globals_.pointees) if has_loops else None
        if function is None:
            emitted = code
        else:
            writer = _Writer(function, globals_, most_rounds, most_words - size)
            emitted = writer.write()
            size += writer.added_words
        for each in emitted:
            body.extend(each)
    result = module[:HEADER_WORDS]
    result[BOUND] = globals_.bound
    for each in globals_.declarations(head):
        result.extend(each)
    return (result + body).tobytes()


class _Globals:
    """The types and constants of a module, and the ids that the transformation adds and removes."""

    def __init__(self, head: Iterable[array[int]], bound: int) -> None:
        self.bound = bound
        """The next new id."""
        self.words: Values = {}
        """The words of constants, by id: 32-bit numbers by their bits, truth values as 0 and 1."""
        self.integers: set[int] = set()
        self.bools: set[int] = set()
        self.pointees: dict[int, int] = {}
        """The types behind pointers that a known word can have, by the pointer's type."""
        self.copies: dict[int, list[int]] = {}
        """The results of unrolled rounds, by the result that they are copies of; only of decorated ones."""
        self.removed: set[int] = set()
        """Results that the transformed module does not have."""
        self._constants: dict[tuple[int, int], int] = {}
        self._added: list[array[int]] = []
        floats: set[int] = set()
        for each in head:
            opcode = each[0] & 0xFFFF
            if opcode == TYPE_INT and each[2] == 32:
                self.integers.add(each[1])
            elif opcode == TYPE_FLOAT and each[2] == 32:
                floats.add(each[1])
            elif opcode == TYPE_BOOL:
                self.bools.add(each[1])
            elif opcode == TYPE_POINTER and each[3] in self.integers | self.bools:
                self.pointees[each[1]] = each[3]
            elif opcode in (TRUE, FALSE):
                self._know(each[1], each[2], int(opcode == TRUE))
            elif opcode == CONSTANT and each[1] in self.integers | floats:
                self._know(each[1], each[2], each[3])
            elif opcode == DECORATE:
                self.copies[each[1]] = []

    def _know(self, type_: int, result: int, word: int) -> None:
        self.words[result] = word
        self._constants.setdefault((type_, word), result)

    def constant(self, type_: int, value: int) -> int:
        """The id of a constant, which is added if the module lacks it. The value is cut to 32 bits."""
        word = int(bool(value)) if type_ in self.bools else value & 0xFFFFFFFF
        known = self._constants.get((type_, word))
        if known is not None:
            return known
        result = self.bound
        self.bound += 1
        self._know(type_, result, word)
        if type_ in self.bools:
            self._added.append(array("I", (3 << 16 | (TRUE if word else FALSE), type_, result)))
        else:
            self._added.append(array("I", (4 << 16 | CONSTANT, type_, result, word)))
        return result

    def declarations(self, head: Iterable[array[int]]) -> Iterable[array[int]]:
        """The module before its functions: copies get decorations, removed results lose their names and decorations."""
        for each in head:
            opcode = each[0] & 0xFFFF
            if opcode not in (NAME, DECORATE):
                yield each
                continue
            if each[1] not in self.removed:
                yield each
            if opcode == DECORATE:
                for copy in self.copies[each[1]]:
                    yield array("I", (each[0], copy, *each[2:]))
        yield from self._added


class _Writer:
    """Emits one function."""

    def __init__(self, function: Function, globals_: _Globals, most_rounds: int, most_words: int) -> None:
        self.added_words = 0
        """The number of words by which unrolled loops have grown."""
        self._function = function
        self._globals = globals_
        self._most_rounds = most_rounds
        self._most_words = most_words
        self._emitted: list[array[int]] = []
        self._defined: set[int] = set()
        self._names: Values = {}
        """The ids that stand for the function's own at the place that is emitted: of copies, and of constants."""
        self._block = 0
        """The label of the emitted block."""
        self._known: Values = {}
        """The known words of variables at the place that is emitted."""
        self._arrivals: dict[int, tuple[int, Values]] = {}
        """The number of emitted branches to a label that is not emitted yet, and the known words at all of them."""
        self._lasts: set[int] = set()
        """The last blocks of the loops that are being unrolled: no emitted OpLoopMerge names them."""
        self._read: set[int] = set()
        """The variables whose stores are needed."""

    def write(self) -> list[array[int]]:
        """The instructions of the function. Stores to integers and truth values that nothing reads are left out."""
        self._emit(range(len(self._function.code)))
        self._globals.removed |= self._function.results - self._defined
        unread = self._function.variables.keys() - self._read
        return [each for each in self._emitted if each[0] != 3 << 16 | STORE or each[1] not in unread]

    def _emit(self, part: range) -> None:
        at = part.start
        while at < part.stop:
            each = self._function.code[at]
            if at in self._function.loops:
                at = self._loop(at)
                continue
            if each.opcode == LABEL:
                self._label(each, at)
            else:
                self._instruction(each)
            at += 1

    def _instruction(self, each: SpirvInstruction) -> None:
        opcode = each.opcode
        if opcode in _KNOWN:
            word = self._result(each, self._known, self._word)
            if word is not None:
                self._names[each.result] = self._globals.constant(each.words[1], word)
                return
        if opcode == LOAD:
            self._read.add(each.words[3])
        elif opcode in _WRITES:
            self._write(each, self._known, self._word)
            if opcode == FUNCTION_CALL:
                self._read.update(each.words[4:])
        self._append(each)
        if opcode in _BRANCHES:
            for target in each.targets:
                self._arrive(target)

    def _append(self, each: SpirvInstruction) -> None:
        """Emit an instruction with the ids of the place."""
        opcode, words, result, ids = each
        names = self._names
        new = names.get(result, result)
        if new != result:
            words = words[:]
            words[1 if opcode == LABEL else 2] = new
            if result in self._globals.copies:
                self._globals.copies[result].append(new)
        for place in ids:
            if words[place] in names:
                if words is each.words:
                    words = words[:]
                words[place] = names[words[place]]
        self._defined.add(new)
        self._emitted.append(words)

    def _word(self, operand: int) -> int | None:
        return self._globals.words.get(self._names.get(operand, operand))

    def _result(self, each: SpirvInstruction, known: Values, word_of: Callable[[int], int | None]) -> int | None:
        """The known result of an instruction."""
        if each.opcode == LOAD:
            return known.get(each.words[3])
        type_ = each.words[1] if each.opcode in FOLDED else 0
        if type_ not in self._globals.integers and type_ not in self._globals.bools:
            return None
        words = [word_of(operand) for operand in each.words[3:]]
        operands = [word for word in words if word is not None]
        return fold(each.opcode, operands) if len(operands) == len(words) else None

    def _write(self, each: SpirvInstruction, known: Values, word_of: Callable[[int], int | None]) -> None:
        """Change the known words of variables as an instruction does."""
        for variable in self._function.written(each):
            known.pop(variable, None)
        if each.opcode == STORE and each.words[1] in self._function.variables:
            word = word_of(each.words[2])
            if word is not None:
                known[each.words[1]] = word

    def _arrive(self, label: int) -> None:
        """Keep the known words at a branch."""
        arrived = self._arrivals.get(label)
        if arrived is None:
            self._arrivals[label] = 1, self._known.copy()
        else:
            common = {variable: word for variable, word in arrived[1].items() if self._known.get(variable) == word}
            self._arrivals[label] = arrived[0] + 1, common

    def _arrived(self, label: int, missing: int) -> Values:
        """The known words at a label; none if more branches to it than ``missing`` are not emitted yet."""
        count, known = self._arrivals.pop(label, (0, {}))
        return known if count == self._function.edges[label] - missing else {}

    def _label(self, each: SpirvInstruction, at: int) -> None:
        """Begin a block, or go on with the last one if that leads here alone, which unrolled rounds do."""
        label, code = each.result, self._function.code
        self._known = self._arrived(label, 0)
        onward = array("I", (2 << 16 | BRANCH, self._names.get(label, label)))
        if (
            self._function.edges[label] == 1
            and self._function.merges[label] == (label in self._lasts)
            and code[at + 1].opcode != PHI
            and self._emitted[-1] == onward
            and self._emitted[-2][0] & 0xFFFF not in (LOOP_MERGE, SELECTION_MERGE)
        ):
            self._emitted.pop()
            self._names[label] = self._block
        else:
            self._append(each)
            self._block = self._emitted[-1][1]

    def _loop(self, first: int) -> int:
        """Emit the loop whose header's label is at ``first``. Returns the index of the next instruction behind it."""
        header, loop = self._function.code[first], self._function.loops[first]
        self._known = self._arrived(header.result, 1) if loop.written is not None else {}
        count = None if loop.rounds is None else self._count(loop.rounds)
        self._append(header)
        self._block = self._emitted[-1][1]
        if loop.written is None:
            return first + 1
        if loop.rounds is not None and count is not None:
            self._unrolled(header.result, loop.rounds, count)
            self._branch(self._function.code[loop.end].result)
        else:
            for variable in loop.written:
                self._known.pop(variable, None)
            self._emit(range(first + 1, loop.end))
            self._arrivals.pop(header.result, None)  # from the branch back
        return loop.end

    def _unrolled(self, header: int, rounds: Rounds, count: int) -> None:
        """Emit so many rounds, and the condition that is false behind them, beginning in the emitted block."""
        self.added_words += max(count - 1, 0) * rounds.words
        self._lasts.add(rounds.last)
        for number in range(count + 1):
            if number:
                fresh = range(self._globals.bound, self._globals.bound + len(rounds.results))
                self._names.update(zip(rounds.results, fresh, strict=True))
                self._globals.bound = fresh.stop
                self._names[header] = self._block
            self._names[rounds.decides] = self._block
            for each in rounds.condition:
                self._instruction(each)
            if number < count:
                self._branch(rounds.start)
                self._emit(rounds.body)
        self._lasts.discard(rounds.last)  # another round of a loop around may be too large for this one

    def _branch(self, label: int) -> None:
        self._emitted.append(array("I", (2 << 16 | BRANCH, self._names.get(label, label))))
        self._arrive(label)

    def _count(self, rounds: Rounds) -> int | None:
        """The number of rounds to unroll, from what is known before the loop; None if the loop stays."""
        known = {variable: word for variable, word in self._known.items() if variable not in rounds.written_before}
        values: Values = {}

        def word_of(operand: int) -> int | None:
            return values[operand] if operand in values else self._word(operand)

        def run(block: Sequence[SpirvInstruction]) -> None:
            for each in block:
                values.pop(each.result, None)
                word = self._result(each, known, word_of)
                if word is not None:
                    values[each.result] = word & 0xFFFFFFFF
                self._write(each, known, word_of)

        for count in range(self._most_rounds + 1):
            run(rounds.condition)
            condition = word_of(rounds.operand)
            if condition is None:
                return None
            if condition != rounds.goes_on:
                too_large = self.added_words + (count - 1) * rounds.words > self._most_words
                return None if too_large or (count > 1 and not rounds.marked) else count
            run(rounds.last_block)
        return None
