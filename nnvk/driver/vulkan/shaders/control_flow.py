"""A function of a SPIR-V module: instructions, local variables, and loops.

Only loops of the shape that glslang gives ``for`` and ``while`` can be unrolled: a header without instructions, a block
with the condition, a body, and one last block that the body goes on to. SPIR-V specification, section 2.11.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nnvk.driver.vulkan.shaders.spirv import (
    BRANCH,
    BRANCH_CONDITIONAL,
    FUNCTION,
    FUNCTION_CALL,
    FUNCTION_END,
    FUNCTION_PARAMETER,
    LABEL,
    LOAD,
    LOOP_MERGE,
    PHI,
    SELECTION_MERGE,
    STORE,
    SWITCH,
    VARIABLE,
    has_result_type,
    id_operands,
)

_UNROLL, _DONT_UNROLL = 1, 2
"""Bits of OpLoopMerge."""
_MERGES = (LOOP_MERGE, SELECTION_MERGE)


class SpirvInstruction(NamedTuple):
    """An instruction of a function."""

    opcode: int
    words: array[int]
    result: int
    """The id of the result or the label; 0 if there is none."""
    ids: tuple[int, ...]
    """The words that are ids of other results and labels of the function. Variables and parameters do not count."""

    @property
    def targets(self) -> Sequence[int]:
        """The labels that the instruction branches to."""
        if self.opcode == BRANCH:
            return self.words[1:]
        if self.opcode == BRANCH_CONDITIONAL:
            return self.words[2:4]
        return self.words[2::2] if self.opcode == SWITCH else ()


@dataclass(frozen=True, slots=True)
class Rounds:
    """The parts of a loop that can be unrolled."""

    marked: bool
    """Whether the shader asks for it."""
    decides: int
    """The label of the block behind the header, which decides whether there is another round."""
    condition: Sequence[SpirvInstruction]
    """The instructions of this block, but for its label and its branch."""
    operand: int
    """The id of the condition."""
    goes_on: int
    """The truth value of the condition, 0 or 1, that starts another round."""
    start: int
    """The label of the first block of the body."""
    body: range
    """The indexes of the instructions of the body, without the branch to the header at the end."""
    last: int
    """The label of the last block of the body."""
    last_block: Sequence[SpirvInstruction]
    """The last block, without its label and branch."""
    results: tuple[int, ...]
    """All results and labels of the loop."""
    words: int
    """The size of the loop."""
    written_before: frozenset[int]
    """The variables that the body may write before its last block."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop, from the label of its header to the label of its merge block, which is no part of it."""

    end: int
    """The index of the merge block's label."""
    written: frozenset[int] | None
    """The variables that the loop may write; None if these are not known."""
    rounds: Rounds | None
    """None if the loop can't be unrolled."""


class Function:
    """A function. ``variables`` are the types of its integers and truth values, by the id of the variable."""

    def __init__(self, code: Sequence[SpirvInstruction], variables: Mapping[int, int]) -> None:
        self.code = code
        self.variables = variables
        self.results = frozenset(each.result for each in code)
        """All ids that the function defines."""
        self.edges: Counter[int] = Counter()
        """The number of branches to a label."""
        self.merges: Counter[int] = Counter()
        """The number of merge instructions that name a label."""
        self._places: dict[int, int] = {}
        self._last_uses: dict[int, int] = {}
        headers: list[tuple[int, int]] = []
        for at, each in enumerate(code):
            if each.opcode == LABEL:
                self._places[each.result] = block = at
            elif each.opcode in _MERGES:
                self.merges.update(each.words[place] for place in each.ids)
                if each.opcode == LOOP_MERGE:
                    headers.append((block, at))
            for target in each.targets:
                self.edges[target] += 1
            for place in each.ids:
                self._last_uses[each.words[place]] = at
        self.loops = {first: self._loop(first, at) for first, at in headers}
        """Loops, by the index of the label of the header."""

    @classmethod
    def parse(cls, code: Sequence[array[int]], pointees: Mapping[int, int]) -> Function | None:
        """The function of these instructions; ``pointees`` are the integers and truth values behind pointer types.

        The function is None if it has an instruction that `id_operands` does not know, or an OpPhi with an operand that
        is defined behind it.
        """
        parsed: list[tuple[int, array[int], int, Sequence[int]]] = []
        variables: dict[int, int] = {}
        local: set[int] = set()
        for words in code:
            opcode = words[0] & 0xFFFF
            operands = id_operands(opcode, len(words))
            if operands is None:
                return None
            result = words[1] if opcode == LABEL else words[2] if has_result_type(opcode) else 0
            parsed.append((opcode, words, result, operands))
            if opcode == VARIABLE and words[1] in pointees:
                variables[result] = pointees[words[1]]
            elif opcode not in (FUNCTION, FUNCTION_PARAMETER, VARIABLE):
                local.add(result)
        defined: set[int] = set()
        instructions = []
        for opcode, words, result, operands in parsed:
            if opcode not in (LOAD, FUNCTION_CALL):
                for place in operands[1:] if opcode == STORE else operands:
                    variables.pop(words[place], None)
            ids = tuple([place for place in operands if words[place] in local])
            if opcode == PHI and any(words[place] not in defined for place in ids):
                return None
            defined.add(result)
            instructions.append(SpirvInstruction(opcode, words, result, ids))
        return cls(instructions, variables)

    def written(self, each: SpirvInstruction) -> Sequence[int]:
        """The variables that an instruction may write."""
        if each.opcode == STORE:
            return each.words[1:2]
        return each.words[4:] if each.opcode == FUNCTION_CALL else ()

    def _loop(self, first: int, at: int) -> Loop:
        """The loop whose header's label is at ``first``, and its OpLoopMerge ``at``."""
        header, merge = self.code[first].result, self.code[at]
        end = self._places[merge.words[1]]
        part = self.code[first:end]
        inside = Counter(target for each in part for target in each.targets)
        labels = {each.result for each in part if each.opcode == LABEL}
        entries = {label for label in labels if inside[label] != self.edges[label]}
        if entries != {header} or inside[header] != 1 or self.edges[header] != 2:
            return Loop(end, None, None)
        written = frozenset(variable for each in part for variable in self.written(each))
        rounds = self._rounds(first, end, merge, inside) if inside.keys() - labels == {merge.words[1]} else None
        return Loop(end, written, rounds)

    def _rounds(self, first: int, end: int, merge: SpirvInstruction, inside: Counter[int]) -> Rounds | None:
        """The parts of a loop that nothing enters but through its header and nothing leaves but to its merge block."""
        code = self.code
        _, exit_, onward, control = merge.words[:4]
        last = self._places[onward]
        if control & _DONT_UNROLL or code[first + 1] is not merge or not first + 3 < last < end:
            return None
        # The header has nothing but a branch to the next block, whose only branch is the one that leaves the loop.
        decides, decision = code[first + 3], self._end_of_block(first + 3)
        branch = code[decision]
        if list(code[first + 2].targets) != [decides.result] or inside[decides.result] != 1:
            return None
        if self.merges[decides.result] or code[first + 4].opcode == PHI or code[decision - 1].opcode in _MERGES:
            return None
        if branch.opcode != BRANCH_CONDITIONAL or list(branch.targets).count(exit_) != 1 or inside[exit_] != 1:
            return None
        # One branch leads to the last block, from outside of all selections and loops of the body, and one from there.
        goes_on = int(branch.words[3] == exit_)
        start = branch.words[2] if goes_on else branch.words[3]
        if list(code[end - 1].targets) != [code[first].result] or self._end_of_block(last) != end - 1:
            return None
        if code[end - 2].opcode in _MERGES or inside[onward] != 1 or not self._leads(start, onward):
            return None
        part = code[first:end]
        results = tuple(each.result for each in part if each.result)
        if any(self._last_uses.get(result, 0) >= end for result in results):
            return None
        return Rounds(
            marked=bool(control & _UNROLL),
            decides=decides.result,
            condition=code[first + 4 : decision],
            operand=branch.words[1],
            goes_on=goes_on,
            start=start,
            body=range(decision + 1, end - 1),
            last=onward,
            last_block=code[last + 1 : end - 1],
            results=results,
            words=sum(len(each.words) for each in part),
            written_before=frozenset(variable for each in code[decision + 1 : last] for variable in self.written(each)),
        )

    def _end_of_block(self, label: int) -> int:
        """The index of the last instruction of the block with the label at this index."""
        end = label + 1
        while self.code[end + 1].opcode not in (LABEL, FUNCTION_END):
            end += 1
        return end

    def _leads(self, label: int, onward: int) -> bool:
        """Whether a block leads to another one past whole selections and loops, and none of these is in between."""
        seen = {onward}
        while label not in seen:
            seen.add(label)
            end = self._end_of_block(self._places[label])
            if self.code[end - 1].opcode in _MERGES:
                label = self.code[end - 1].words[1]
            elif self.code[end].opcode != BRANCH:
                return False
            else:
                label = self.code[end].words[1]
                if label == onward:
                    return True
        return False
