"""AMD's assembly as RADV prints it: instructions, loops, and the way of one wave through them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpus import Gpu

_LINE = re.compile(r"^\s+([a-z]\w+)\s*([^;]*?)\s*(?:;.*)?$")
_LABEL = re.compile(r"^(BB\d+):")
_WIDTH = {
    **{"dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16, "ubyte": 1, "sbyte": 1, "byte": 1},
    **{"ushort": 2, "sshort": 2, "short": 2, "b8": 1, "u8": 1, "i8": 1, "b16": 2, "u16": 2, "i16": 2},
    **{"b32": 4, "b64": 8, "b96": 12, "b128": 16},
}
"""Bytes, by the end of an instruction's name."""

PRODUCTS: Mapping[str, int] = {
    **dict.fromkeys(("v_fma_f32", "v_fmac_f32", "v_mac_f32", "v_mad_f32", "v_fmaak_f32", "v_fmamk_f32"), 1),
    **dict.fromkeys(("v_madak_f32", "v_madmk_f32", "v_fma_f16", "v_fmac_f16", "v_mac_f16", "v_mad_f16"), 1),
    **dict.fromkeys(("v_fma_mix_f32", "v_mad_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16"), 1),
    **dict.fromkeys(("v_pk_fma_f16", "v_pk_fmac_f16", "v_dot2_f32_f16", "v_dot2c_f32_f16"), 2),
    **dict.fromkeys(("v_dot4_i32_i8", "v_dot4c_i32_i8", "v_dot4_u32_u8", "v_dot4_i32_iu8"), 4),
}
"""Multiply-adds of a lane."""
INTEGER_PRODUCTS = frozenset(
    ["v_mul_lo_u32", "v_mul_i32_i24", "v_mul_u32_u24"]
    + [f"v_mad_{kinds}" for kinds in ("i32_i24", "u32_u24", "u64_u32", "i64_i32", "i32_i16", "u32_u16")]
)
_QUARTER = re.compile(
    r"v_(rcp|rsq|sqrt|exp|log|sin|cos)_|v_mul_lo_u32|v_mul_hi_[ui]32|v_mad_[ui]64_[ui]32|v_(cvt_f64|add_f64|fma_f64|mul_f64)"
)
"""Instructions that take four times as long as others."""


@dataclass(frozen=True)
class Instruction:
    """One line."""

    name: str
    operands: str
    kind: str
    """valu, salu, smem, lds, vmem, wait, barrier, branch or other."""
    bytes: int = 0
    store: bool = False
    target: str = ""


@dataclass
class Loop:
    """From a label to the last branch back to it."""

    first: int
    last: int
    parent: int | None = None
    """The number of the smallest loop around it."""
    counts: Counter[str] = field(default_factory=Counter)
    """Of its instructions, and those of loops in it, once each."""
    trips: float = 1.0
    """How often it goes round: no compiler knows."""


def base(name: str) -> str:
    """An instruction without its encoding."""
    return re.sub(r"_(e32|e64|dpp|dpp8|sdwa|gfx\d+)$", "", name)


def _kind(name: str) -> str:
    if name.startswith("s_waitcnt"):
        return "wait"
    if name == "s_barrier":
        return "barrier"
    if name.startswith(("s_branch", "s_cbranch", "s_setpc")):
        return "branch"
    if name.startswith(("s_load", "s_buffer_load", "s_store", "s_scratch")):
        return "smem"
    if name in ("s_endpgm", "s_nop", "s_inst_prefetch", "s_clause", "s_code_end", "s_sendmsg", "s_delay_alu"):
        return "other"
    if name.startswith("s_"):
        return "salu"
    if name.startswith("ds_"):
        return "lds"
    if name.startswith(("buffer_", "global_", "flat_", "scratch_", "image_", "tbuffer_")):
        return "other" if name.startswith(("buffer_gl", "buffer_wb", "buffer_inv")) else "vmem"
    return "valu" if name.startswith("v_") else "other"


def _bytes(name: str, kind: str) -> int:
    if kind == "lds":
        pair = 2 if re.match(r"ds_(read|write|load|store)_?2", name) or "2addr" in name or "2st64" in name else 1
        match = re.search(r"_(b\d+|u8|i8|u16|i16)", name)
        return pair * _WIDTH.get(match.group(1), 4) if match else 4
    match = re.search(r"_(dwordx?\d*|ubyte|sbyte|ushort|sshort|byte|short|b\d+|u8|i8|u16|i16)(_d16\w*)?$", name)
    return _WIDTH.get(match.group(1), 4) if match else 4


def parse(text: str) -> tuple[list[Instruction], dict[str, int]]:
    """Instructions, and the positions of labels."""
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        label = _LABEL.match(line)
        if label:
            labels[label.group(1)] = len(code)
            continue
        match = _LINE.match(line)
        if not match:
            continue
        name, operands = match.groups()
        kind = _kind(name)
        if kind in ("lds", "vmem", "smem"):
            store = bool(re.search(r"write|store|atomic", name))
            code.append(Instruction(name, operands, kind, _bytes(name, kind), store))
        elif kind == "branch":
            code.append(Instruction(name, operands, kind, target=operands.split()[-1] if operands else ""))
        else:
            code.append(Instruction(name, operands, kind))
    return code, labels


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
        name = base(instruction.name)
        counts["instructions"] += 1
        counts[instruction.kind] += 1
        if instruction.kind == "valu":
            counts["products"] += PRODUCTS.get(name, 0)
            counts["product_instructions"] += name in PRODUCTS
            counts["integer_products"] += name in INTEGER_PRODUCTS
        elif instruction.kind in ("lds", "vmem"):
            way = "written" if instruction.store else "read"
            counts[f"{instruction.kind}_{way}"] += instruction.bytes
    return counts


@dataclass
class Run:
    """One wave's way: what it uses in all, and how long it takes alone."""

    valu: float = 0
    """Cycles."""
    products: float = 0
    """Multiply-adds of a lane."""
    product_cycles: float = 0
    integer_cycles: float = 0
    """Cycles of integer products."""
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
        for name in ("valu", "products", "product_cycles", "integer_cycles", "lds", "read", "written", "alone"):
            setattr(self, name, getattr(self, name) + times * getattr(other, name))
        for name, cycles in other.stalled.items():
            self.stalled[name] += times * cycles  # type: ignore[assignment]


def follow(code: Sequence[Instruction], found: Sequence[Loop], wave: int, gpu: Gpu, first: int = 0) -> Run:
    """A wave alone, in order: loads come back after their latency, waits wait, loops go round `Loop.trips` times.

    Every branch that is no loop's is passed, and both ways of it are taken. Instructions of the vector unit that follow
    one another are taken to be independent. ``first``: where it begins, outside of all loops.
    """
    outer = [loop for loop in found if loop.parent is None and loop.first >= first]
    return _straight(code, found, first, len(code) - 1, outer, wave, gpu)


def follow_pieces(code: Sequence[Instruction], found: Sequence[Loop], wave: int, gpu: Gpu, pieces: int) -> Run:
    """The same of a wave whose tile as many share: the last to count goes on behind the counter.

    What it uses is the average of them all, and the time alone is that of the last.
    """
    run = follow(code, found, wave, gpu)
    if pieces == 1:
        return run
    alone, behind = run.alone, max(at + 1 for at, one in enumerate(code) if "_atomic_" in one.name)
    run.add(follow(code, found, wave, gpu, behind), 1 / pieces - 1)
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
    loads: list[float] = []
    others: list[tuple[float, str]] = []
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
            name = base(one.name)
            cycles = max(1, wave // gpu.lanes) * (4 if _QUARTER.match(name) else 1)
            run.valu += cycles
            run.products += PRODUCTS.get(name, 0)
            run.product_cycles += cycles if name in PRODUCTS else 0
            run.integer_cycles += cycles if name in INTEGER_PRODUCTS else 0
            now += cycles
        elif one.kind == "lds":
            run.lds += one.bytes
            begin = max(now, others[-1][0] - gpu.lds_latency if others and others[-1][1] == "lds" else 0)
            others.append((begin + one.bytes * wave / gpu.lds_bytes + gpu.lds_latency, "lds"))
            now += 1
        elif one.kind == "smem":
            others.append((now + gpu.scalar_latency, "scalar loads"))
            now += 1
        elif one.kind == "vmem":
            if one.store:
                run.written += one.bytes
            else:
                run.read += one.bytes
                begin = max(now, loads[-1] - gpu.memory_latency if loads else 0)
                loads.append(begin + one.bytes * wave / gpu.l0_bytes + gpu.memory_latency)
            now += max(1, wave // 32)
        elif one.kind == "wait":
            now = _wait(one, run, now, loads, others)
        elif one.kind == "barrier":
            now += gpu.barrier
            run.stalled["barrier"] += gpu.barrier
        else:
            now += 1
        at += 1
    run.alone = now
    return run


def _wait(one: Instruction, run: Run, now: float, loads: list[float], others: list[tuple[float, str]]) -> float:
    """When so few loads are left under way as an instruction asks for."""
    match = re.search(r"vmcnt\((\d+)\)", one.operands)
    if match and len(loads) > int(match.group(1)):
        done = len(loads) - int(match.group(1))
        ready = max(loads[:done])
        del loads[:done]
        run.stalled["memory"] += max(0, round(ready - now))
        now = max(now, ready)
    match = re.search(r"lgkmcnt\((\d+)\)", one.operands)
    if match and len(others) > int(match.group(1)):
        done = len(others) - int(match.group(1))
        ready, what = max(others[:done])
        del others[:done]
        run.stalled[what] += max(0, round(ready - now))
        now = max(now, ready)
    return now
