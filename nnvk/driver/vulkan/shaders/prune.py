"""SPIR-V without the code that its constants leave out: branches that are never taken, functions that nothing calls.

Most drivers inline all functions before they look which branches are taken, so they spend most of a compilation on code
that they leave out in the end. `prune` does the same as ``spirv-opt --eliminate-dead-branches
--eliminate-dead-functions``, for branches that constants decide without arithmetic, which is what glslang makes of
conditions on specialisation constants. It takes 5 ms for a module of 95 KB, and a process of spirv-opt 44 ms. SPIR-V
specification, section 2.11 (structured control flow).
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from nnvk.driver.vulkan.shaders.spirv import (
    BRANCH,
    BRANCH_CONDITIONAL,
    CONSTANT,
    DECORATE,
    ENTRY_POINT,
    FALSE,
    FUNCTION,
    FUNCTION_CALL,
    FUNCTION_END,
    HEADER_WORDS,
    LABEL,
    LOGICAL_AND,
    LOGICAL_NOT,
    LOGICAL_OR,
    LOOP_MERGE,
    NAME,
    PHI,
    SELECTION_MERGE,
    SWITCH,
    TRUE,
    UNREACHABLE,
    fold,
    has_result_type,
    instructions,
)


def prune(spirv: bytes) -> bytes:
    """The module without what is never executed, whatever its inputs are. It must have no specialisation constants."""
    module = array("I", spirv)
    known: dict[int, int] = {}
    functions: dict[int, _Function] = {}
    entry = body = 0
    for at, opcode, end in instructions(module):
        if opcode == FUNCTION:
            body = body or at
            functions[module[at + 2]] = function = _Function(module, at)
        elif body:
            function.add(at, opcode, end)
        elif opcode in (TRUE, FALSE):
            known[module[at + 2]] = int(opcode == TRUE)
        elif opcode == CONSTANT and end - at == 4:
            known[module[at + 2]] = module[at + 3]
        elif opcode == ENTRY_POINT:
            entry = module[at + 2]
    waiting, written = [entry], {}
    while waiting:
        name = waiting.pop()
        if name not in written:
            written[name], calls = functions[name].write(known)
            waiting += calls
    removed = {result for function in functions.values() for result in function.removed()}
    pruned = module[:HEADER_WORDS]
    for at, opcode, end in instructions(module):
        if at == body:
            break
        if opcode not in (NAME, DECORATE) or module[at + 1] not in removed:
            pruned.extend(module[at:end])
    for name in functions:
        pruned.extend(written.get(name, ()))
    return pruned.tobytes()


@dataclass(slots=True)
class _Block:
    """A block: where its words begin and end, with its label and its branch."""

    label: int
    start: int
    end: int = 0
    merge: int = 0
    """Where the merge instruction is; 0 if there is none."""
    branch: int = 0
    """Where the last instruction is."""
    phis: list[int] = field(default_factory=list)
    """Where the instructions OpPhi are."""
    logic: list[int] = field(default_factory=list)
    """Where OpLogicalAnd, OpLogicalOr and OpLogicalNot are."""
    calls: list[int] = field(default_factory=list)
    """The functions that it calls."""


class _Function:
    """A function among the words of a module, and what is left of it."""

    def __init__(self, module: array[int], start: int) -> None:
        self._module = module
        self._start = start
        self._blocks: dict[int, _Block] = {}
        self._last: _Block | None = None
        self._targets: dict[int, Sequence[int]] = {}
        """The labels that a block branches to, by its own; only of blocks that are reached."""
        self._sources: dict[int, set[int]] = defaultdict(set)
        """The blocks that branch to a label."""

    def add(self, at: int, opcode: int, end: int) -> None:
        """Read the next instruction."""
        module, block = self._module, self._last
        if opcode == LABEL:
            self._blocks[module[at + 1]] = self._last = _Block(module[at + 1], at)
        elif block is not None and opcode != FUNCTION_END:
            block.branch, block.end = at, end
            if opcode in (SELECTION_MERGE, LOOP_MERGE):
                block.merge = at
            elif opcode == FUNCTION_CALL:
                block.calls.append(module[at + 3])
            elif opcode == PHI:
                block.phis.append(at)
            elif opcode in (LOGICAL_AND, LOGICAL_OR, LOGICAL_NOT):
                block.logic.append(at)

    def write(self, known: Mapping[int, int]) -> tuple[array[int], list[int]]:
        """The words of the function, and the functions that it calls. ``known`` are the words of constants."""
        self._reach(dict(known))
        kept = self._named_by_merges()
        for label, header in kept.items():
            self._sources[header].add(label)
        out, calls = self._module[self._start : next(iter(self._blocks.values())).start], []
        for label, block in self._blocks.items():
            if label in self._targets:
                calls += block.calls
                self._write_block(out, block)
            elif label in kept:
                last = (2 << 16 | BRANCH, kept[label]) if kept[label] else (1 << 16 | UNREACHABLE,)
                out.extend((2 << 16 | LABEL, label, *last))
        out.append(1 << 16 | FUNCTION_END)
        return out, calls

    def removed(self) -> Iterator[int]:
        """The results of the function's instructions that are not written."""
        gone = [(block.start, block.end) for label, block in self._blocks.items() if label not in self._targets]
        if not self._targets:
            gone.append((self._start, next(iter(self._blocks.values())).start))
        for start, end in gone:
            for at, opcode, _ in instructions(self._module, start, end):
                if has_result_type(opcode):
                    yield self._module[at + 2]

    def _reach(self, known: dict[int, int]) -> None:
        """Find the blocks that are reached. A block comes behind those that branch to it, but for headers of loops."""
        first = next(iter(self._blocks))
        for label, block in self._blocks.items():
            if label != first and label not in self._sources:
                continue
            for at in () if self._opcode(block.merge) == LOOP_MERGE else block.phis:
                self._note_phi(at, self._sources[label], known)
            for at in block.logic:
                self._note_logic(at, known)
            self._targets[label] = self._chosen(block, known)
            for target in self._targets[label]:
                self._sources[target].add(label)

    def _note_phi(self, at: int, sources: set[int], known: dict[int, int]) -> None:
        """Note the value of an OpPhi that is the same wherever it comes from."""
        values = {known.get(value) for value, source in self._operands(at) if source in sources}
        if len(values) == 1 and None not in values:
            known[self._module[at + 2]] = values.pop()  # type: ignore[assignment]

    def _note_logic(self, at: int, known: dict[int, int]) -> None:
        """Note the result of an instruction on truth values that its known operands decide."""
        opcode, end = self._opcode(at), at + (self._module[at] >> 16)
        values = [known.get(operand) for operand in self._module[at + 3 : end]]
        result = None if None in values else fold(opcode, values)  # type: ignore[arg-type]
        if opcode != LOGICAL_NOT and int(opcode == LOGICAL_OR) in values:
            result = int(opcode == LOGICAL_OR)
        if result is not None:
            known[self._module[at + 2]] = result

    def _chosen(self, block: _Block, known: Mapping[int, int]) -> Sequence[int]:
        """The labels that the block branches to: one, where a constant decides a selection."""
        module, at, opcode = self._module, block.branch, self._opcode(block.branch)
        end = at + (module[at] >> 16)
        if opcode == BRANCH:
            return module[at + 1 : end]
        if opcode not in (BRANCH_CONDITIONAL, SWITCH):
            return ()
        value = known.get(module[at + 1]) if self._opcode(block.merge) == SELECTION_MERGE else None
        if opcode == BRANCH_CONDITIONAL:
            both = module[at + 2 : at + 4]
            return both if value is None else both[:1] if value else both[1:]
        cases = dict(zip(module[at + 3 : end : 2], module[at + 4 : end : 2], strict=True))
        return (module[at + 2], *cases.values()) if value is None else (cases.get(value, module[at + 2]),)

    def _named_by_merges(self) -> dict[int, int]:
        """The blocks that merge instructions name though nothing leads there.

        By label, with the header that the last block of a loop goes back to, or 0.
        """
        kept: dict[int, int] = {}
        for label in self._targets:
            block = self._blocks[label]
            if block.merge and not self._is_decided(block):
                kept.setdefault(self._module[block.merge + 1], 0)
                if self._opcode(block.merge) == LOOP_MERGE:
                    kept[self._module[block.merge + 2]] = label
        return {label: header for label, header in kept.items() if label not in self._targets}

    def _is_decided(self, block: _Block) -> bool:
        """Whether a constant decides where the block's selection goes on."""
        return self._opcode(block.merge) == SELECTION_MERGE and len(self._targets[block.label]) == 1

    def _write_block(self, out: array[int], block: _Block) -> None:
        """Write a block that is reached, without the operands of OpPhi that come from nowhere."""
        module, at = self._module, block.start
        for phi in block.phis:
            operands = [word for pair in self._operands(phi) if pair[1] in self._sources[block.label] for word in pair]
            out.extend(module[at:phi])
            out.extend((3 + len(operands) << 16 | PHI, *module[phi + 1 : phi + 3], *operands))
            at = phi + (module[phi] >> 16)
        if self._is_decided(block):
            out.extend(module[at : block.merge])
            out.extend((2 << 16 | BRANCH, self._targets[block.label][0]))
        else:
            out.extend(module[at : block.end])

    def _opcode(self, at: int) -> int:
        """The opcode at this word; 0 for an instruction that a block lacks."""
        return self._module[at] & 0xFFFF if at else 0

    def _operands(self, phi: int) -> Iterator[tuple[int, int]]:
        """The values of an OpPhi and the blocks that they come from."""
        words = self._module[phi + 3 : phi + (self._module[phi] >> 16)]
        return zip(words[::2], words[1::2], strict=True)
