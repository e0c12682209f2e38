"""AMD's assembly as RADV prints it: instructions, loops, and the way of one wave through them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import instructions
from gpus import Gpu
from instructions import Sort

_LINE = re.compile(r"^\s+([a-z]\w+)\s*([^;]*?)\s*(?:;.*)?$")
_LABEL = re.compile(r"^(BB\d+):")
_REPEATED = re.compile(r"^\s+\(then repeated (\d+) times\)")
_INVALID = "(invalid instruction)"
"""Mesa prints this where LLVM cannot disassemble an instruction."""
COUNTERS: Mapping[str, tuple[str, ...]] = {
    **{"vmcnt": ("load",), "vscnt": ("store",), "lgkmcnt": ("lds", "scalar"), "expcnt": ()},
    **{"loadcnt": ("load",), "storecnt": ("store",), "dscnt": ("lds",), "kmcnt": ("scalar",)},
    **{"samplecnt": (), "bvhcnt": (), "depctr": (), "alu": ()},
}
"""The queues that each hardware counter counts: up to GFX11 in the first line, from GFX12 on in the others.

expcnt, samplecnt and bvhcnt count nothing here: nnvk's shaders neither export nor sample nor trace rays. depctr and alu
stand for the counters of dependences between arithmetic instructions, which the model does not have.
"""
_STALLS = {"load": "memory", "store": "stores", "lds": "lds", "scalar": "scalar loads"}


@dataclass(frozen=True)
class Instruction:
    """One instruction. A line with a dual instruction (VOPD, GFX11) gives two."""

    name: str
    operands: str
    sort: Sort
    bytes: int = 0
    store: bool = False
    queue: str = ""
    """The queue in which it completes: load, store, lds or scalar. Others have none."""
    target: str = ""
    waits: tuple[tuple[str, int], ...] = ()
    """For a wait: its counters, and the number of instructions of each that may still be under way."""
    paired: bool = False
    """The second half of a dual instruction: it is issued together with the one before it."""

    @property
    def kind(self) -> str:
        """valu, salu, smem, lds, vmem, wait, barrier, branch or other."""
        return self.sort.kind


@dataclass
class Loop:
    """From a label to the last branch back to it."""

    first: int
    last: int
    parent: int | None = None
    """The number of the smallest loop around it."""
    counts: Counter[str] = field(default_factory=Counter)
    """The number of its instructions by kind, including those of inner loops, each counted once."""
    trips: float = 1.0
    """The number of iterations, which the compiler does not know."""


def parse(text: str) -> tuple[list[Instruction], dict[str, int]]:
    """Instructions, and the positions of labels."""
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        label, repeated, match = _LABEL.match(line), _REPEATED.match(line), _LINE.match(line)
        if label:
            labels[label.group(1)] = len(code)
        elif repeated:
            last = code[-2:] if code and code[-1].paired else code[-1:]
            code.extend(last * int(repeated.group(1)))
        elif line.startswith(_INVALID):
            code.append(Instruction(_INVALID, "", instructions.sort(_INVALID)))
        elif match:
            first, *others = " ".join(match.groups()).split(" :: ")
            code.append(_instruction(*_words(first)))
            code.extend(replace(_instruction(*_words(other)), paired=True) for other in others)
    return code, labels


def _words(line: str) -> tuple[str, str]:
    name, _, operands = line.partition(" ")
    return name, operands.strip()


def _instruction(name: str, operands: str) -> Instruction:
    sort = instructions.sort(name)
    one = Instruction(name, operands, sort)
    if sort.kind in ("lds", "vmem", "smem"):
        width = instructions.width(name)
        if width is None:
            one, width = replace(one, sort=replace(sort, known=False)), 4
        store = bool(re.search(r"write|store|atomic", name))
        return replace(one, bytes=width, store=store, queue=_queue(sort.kind, store, operands))
    if sort.kind == "branch":
        return replace(one, target=operands.split()[-1] if operands else "")
    if sort.kind == "wait":
        waits = _waits(name, operands)
        return replace(one, waits=waits) if waits else replace(one, sort=replace(sort, known=False))
    return one


def _queue(kind: str, store: bool, operands: str) -> str:
    if kind == "vmem":  # the hardware counts an atomic operation that returns the old value as a load
        returns = re.search(r"\bglc\b|TH_ATOMIC_\w*RETURN", operands)
        return "store" if store and not returns else "load"
    return "lds" if kind == "lds" else "scalar"


def _waits(name: str, operands: str) -> tuple[tuple[str, int], ...]:
    """Counters, and how many of their instructions may still be under way; empty if the operands are not understood."""
    if name == "s_waitcnt":
        return tuple((what, int(left)) for what, left in re.findall(r"(\w+cnt)\((\d+)\)", operands) if what in COUNTERS)
    if name == "s_wait_idle":
        return tuple((what, 0) for what in COUNTERS)
    whats = [part for part in name.split("_") if part in COUNTERS]
    if not any(COUNTERS[what] for what in whats):
        return tuple((what, 0) for what in whats)
    match = re.search(r"(0x[0-9a-f]+|\d+)$", operands)
    if not match:
        return ()
    left = int(match.group(1), 0)
    # A wait for two counters has the first in bits 8 to 13 and the second in bits 0 to 5.
    return ((whats[0], left),) if len(whats) == 1 else ((whats[0], left >> 8), (whats[1], left & 0x3F))


def loops(code: Sequence[Instruction], labels: Mapping[str, int]) -> list[Loop]:
    """Loops by their branches back, outer ones first."""
    spans: dict[int, int] = {}
    for at, instruction in enumerate(code):
        if instruction.kind == "branch" and labels.get(instruction.target, at + 1) <= at:
            first = labels[instruction.target]
            spans[first] = max(spans.get(first, 0), at)
    found = [Loop(first, last) for first, last in sorted(spans.items(), key=lambda span: (span[0], -span[1]))]
    for loop in found:
        around = [
            (other.last - other.first, number)
            for number, other in enumerate(found)
            if other is not loop and other.first <= loop.first and other.last >= loop.last
        ]
        loop.parent = min(around)[1] if around else None
        loop.counts = count(code[loop.first : loop.last + 1])
    return found


def count(code: Sequence[Instruction]) -> Counter[str]:
    """How many instructions there are of each kind, and what they move and multiply."""
    counts: Counter[str] = Counter()
    for instruction in code:
        sort = instruction.sort
        counts["instructions"] += 1
        counts[sort.kind] += 1
        if sort.kind == "valu":
            counts["products"] += sort.products
            counts["product_instructions"] += sort.products > 0
            counts["integer_products"] += sort.integer
        elif sort.kind in ("lds", "vmem"):
            way = "written" if instruction.store else "read"
            counts[f"{sort.kind}_{way}"] += instruction.bytes
    return counts


def unknown(code: Sequence[Instruction]) -> Counter[str]:
    """Names of the instructions that the table does not have, and how many there are of each."""
    return Counter(instructions.base(one.name) for one in code if not one.sort.known)


@dataclass
class Run:
    """One wave's way: what it uses in all, and how long it takes alone."""

    valu: float = 0
    """Cycles."""
    products: float = 0
    """Multiply-adds of a lane."""
    lds: float = 0
    """Bytes of a lane."""
    read: float = 0
    """Bytes of a lane from memory."""
    written: float = 0
    alone: float = 0
    """Cycles, in which nothing else runs."""
    stalled: Counter[str] = field(default_factory=Counter)
    """Cycles of them, by what is waited for."""

    def add(self, other: Run, times: float) -> None:
        """So often what another did; less of that where it is negative."""
        for name in ("valu", "products", "lds", "read", "written", "alone"):
            setattr(self, name, getattr(self, name) + times * getattr(other, name))
        for name, cycles in other.stalled.items():
            self.stalled[name] += times * cycles  # type: ignore[assignment]


def follow(code: Sequence[Instruction], found: Sequence[Loop], wave: int, gpu: Gpu, first: int = 0) -> Run:
    """Follow a single wave in order: loads return after their latency, and a loop runs `Loop.trips` times.

    Both arms of every branch that does not belong to a loop are executed. Consecutive instructions of the vector unit
    count as independent. ``first``: the position where the wave begins, outside of all loops.
    """
    outer = [loop for loop in found if loop.parent is None and loop.first >= first]
    return _straight(code, found, first, len(code) - 1, outer, wave, gpu)


def follow_split_k(code: Sequence[Instruction], found: Sequence[Loop], wave: int, gpu: Gpu, split_k: int) -> Run:
    """Follow a wave of a split-K GEMM: of the workgroups that share a tile, only the last continues after the counter.

    The use of units is the average over all of these workgroups; the time of a single wave is that of the last one.
    """
    run = follow(code, found, wave, gpu)
    if split_k == 1:
        return run
    alone, behind = run.alone, max(at + 1 for at, one in enumerate(code) if "_atomic_" in one.name)
    run.add(follow(code, found, wave, gpu, behind), 1 / split_k - 1)
    run.alone = alone
    return run


def _straight(
    code: Sequence[Instruction],
    found: Sequence[Loop],
    first: int,
    last: int,
    inner: Sequence[Loop],
    wave: int,
    gpu: Gpu,
) -> Run:
    run = Run()
    now = 0.0
    pending: list[tuple[str, float]] = []
    at = first
    while at <= last:
        child = next((loop for loop in inner if loop.first == at), None)
        if child is not None:
            within = [loop for loop in found if loop.parent is not None and found[loop.parent] is child]
            once = _straight(code, found, child.first, child.last, within, wave, gpu)
            run.add(once, child.trips)
            now += once.alone * child.trips
            at = child.last + 1
            continue
        one = code[at]
        if one.kind == "valu":
            cycles = 0 if one.paired else _cycles(one.sort, wave, gpu)
            run.valu += cycles
            run.products += one.sort.products
            now += cycles
        elif one.kind == "lds":
            run.lds += one.bytes
            _send(pending, one, now, one.bytes * wave / gpu.lds_bytes, gpu.lds_latency)
            now += 1
        elif one.kind == "smem":
            pending.append((one.queue, now + gpu.scalar_latency))
            now += 1
        elif one.kind == "vmem":
            if one.store:
                run.written += one.bytes
            else:
                run.read += one.bytes
            _send(pending, one, now, one.bytes * wave / gpu.l0_bytes, gpu.memory_latency)
            now += max(1, wave // 32)
        elif one.kind == "wait":
            now = _wait(one, run, now, pending, gpu)
        elif one.kind == "barrier":
            now += gpu.barrier
            run.stalled["barrier"] += gpu.barrier
        else:
            now += 1
        at += 1
    run.alone = now
    return run


def _cycles(sort: Sort, wave: int, gpu: Gpu) -> int:
    """The cycles in which an instruction of the vector unit keeps a SIMD busy."""
    if sort.matrix:
        return {"iu8": gpu.wmma_iu8, "f16": gpu.wmma_f16}[sort.matrix]
    return _passes(sort, wave, gpu) * sort.slots


def _passes(sort: Sort, wave: int, gpu: Gpu) -> int:
    """How many cycles a SIMD takes to go through the lanes of a wave."""
    lanes = gpu.lanes * (2 if gpu.dual and sort.dual else 1)
    return max(1, wave // lanes)


def _send(pending: list[tuple[str, float]], one: Instruction, now: float, cycles: float, latency: int) -> None:
    """Queue an instruction: it moves its bytes after those before it in its queue, and completes a latency later."""
    before = max((ready - latency for queue, ready in pending if queue == one.queue), default=0.0)
    pending.append((one.queue, max(now, before) + cycles + latency))


def _wait(one: Instruction, run: Run, now: float, pending: list[tuple[str, float]], gpu: Gpu) -> float:
    """The time when no more instructions are under way than a wait allows."""
    for counter, left in one.waits:
        queues = COUNTERS[counter]
        if counter == "vmcnt" and not gpu.stores_apart:
            queues = (*queues, *COUNTERS["vscnt"])
        counted = [each for each in pending if each[0] in queues]
        done = counted[: max(0, len(counted) - left)]
        if done:
            queue, ready = max(done, key=lambda each: each[1])
            for each in done:
                pending.remove(each)
            run.stalled[_STALLS[queue]] += max(0, round(ready - now))
            now = max(now, ready)
    return now
