"""The instructions of AMD's GPUs: one table of what each costs in the model, for all generations."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Sort:
    """Instructions that cost the same."""

    kind: str
    """valu, salu, smem, lds, vmem, wait, barrier, branch or other."""
    slots: int = 1
    """How long it occupies the vector unit; an addition takes 1."""
    products: int = 0
    """Multiply-adds of a lane."""
    integer: bool = False
    """It is a product of integers."""
    dual: bool = False
    """From GFX11 on, a SIMD does it for 64 lanes in a cycle."""
    matrix: str = ""
    """The type of the factors of a product of 16 x 16 x 16 by the lanes of a wave together: iu8 or f16."""
    known: bool = True
    """False: it is not in the table, and its kind is guessed from its name."""


_WMMA = 16 * 16 * 16 // 32
"""Multiply-adds of each lane of a wave of 32."""

# Names are those of LLVM's assembler, without the encoding (base()). `slots` and `dual` follow Mesa's own estimate
# (aco_statistics.cpp). Transcendental functions differ: Mesa gives them one slot of the vector unit and four of a unit
# of their own; this model has no such unit and gives them four slots of the vector unit.
_TABLE: Sequence[tuple[str, Sort]] = (
    # Waits and barriers. assembly.py has the counters that each wait is for.
    (r"s_waitcnt(_((vm|vs|lgkm|exp)cnt|depctr))?", Sort("wait")),
    (r"s_wait_((load|store|sample|bvh|ds|km|exp)cnt|(load|store)cnt_dscnt|idle|alu)", Sort("wait")),
    (r"s_barrier(_wait)?", Sort("barrier")),
    (r"s_c?branch\w*|s_setpc_b64", Sort("branch")),
    (r"s_wait_event|s_delay_alu|s_barrier_signal|s_endpgm|s_code_end", Sort("other")),
    (r"s_sendmsg|s_nop|s_clause|s_sleep|s_setprio|s_(set_)?inst_prefetch(_distance)?", Sort("other")),
    (
        r"s_prefetch_(inst|data)\w*|buffer_(gl[01]_inv|wbl2|wbinvl1(_vol)?)|global_(inv|wb|wbinv)|s_(icache|dcache)_\w+",
        Sort("other"),
    ),
    # Memory
    (r"s_(buffer_)?(load|store)_\w+|s_scratch_(load|store)_\w+", Sort("smem")),
    (r"ds_(read|write|load|store|swizzle|b?permute)\w*", Sort("lds")),
    (r"ds_(add|sub|rsub|inc|dec|min|max|and|or|xor|wrxchg|storexchg|cmpst|cmpstore)_\w+", Sort("lds")),
    (r"(buffer|global|flat|scratch)_(load|store|atomic)_\w+", Sort("vmem")),
    # Scalar arithmetic: every name with a type in it. v_s_* are transcendental functions of scalars (GFX12).
    (r"s_\w+_([fiub]|bf)(8|16|32|64)", Sort("salu")),
    (r"v_s_(exp|log|rcp|rsq|sqrt)_f(16|32)", Sort("salu")),
    # GEMMs
    (r"v_(fmac?|fmaak|fmamk|mac|mad|madak|madmk)(_legacy|_dx9_zero)?_f(16|32)", Sort("valu", products=1, dual=True)),
    (r"v_(fma|mad)_mix(_f32|lo_f16|hi_f16)", Sort("valu", products=1)),
    (r"v_pk_fmac?_f16", Sort("valu", products=2)),
    (r"v_dot2(c|acc)?_f32_(f16|bf16)", Sort("valu", products=2, dual=True)),
    (r"v_dot4c?_(i32_i8|u32_u8|i32_iu8)", Sort("valu", products=4)),
    (r"v_wmma_i32_16x16x16_iu8", Sort("valu", products=_WMMA, matrix="iu8")),
    (r"v_wmma_f32_16x16x16_f16", Sort("valu", products=_WMMA, matrix="f16")),
    (r"v_(mul|mad)_(i32_i24|u32_u24)|v_mad_(i32_i16|u32_u16)", Sort("valu", integer=True)),
    (r"v_mul_lo_u32|v_mad_(co_)?(u64_u32|i64_i32)", Sort("valu", slots=4, integer=True)),
    (r"v_mul_hi_[iu]32", Sort("valu", slots=4)),
    # Other vector arithmetic that takes more than one slot
    (r"v_(rcp|rcp_iflag|rsq|sqrt|exp|log|sin|cos)_f(16|32)", Sort("valu", slots=4)),
    (r"v_\w+_f64(_\w+)?", Sort("valu", slots=16)),
    (r"v_(lshlrev|lshrrev|ashrrev)_[bi]64|v_cmpx?_\w+_[iu]64", Sort("valu", slots=2)),
    # Other vector arithmetic
    (r"v_(add|sub|subrev|mul|(max|min)(_num)?)_f(16|32)|v_mul_(legacy|dx9_zero)_f32", Sort("valu", dual=True)),
    (r"v_(mov|cndmask)_b(16|32)|v_movrel\w+_b32|v_writelane_b32", Sort("valu", dual=True)),
    (r"v_(add|sub)(_nc)?_[iu]16|v_(max|min|mad)_[iu]16|v_mul_lo_u16", Sort("valu", dual=True)),
    (r"v_(not|and|or|xor|lshlrev|lshrrev)_b16|v_ashrrev_i16", Sort("valu", dual=True)),
    (r"v_(add|sub|subrev|addc|subb|subbrev)(_nc|_co|_co_ci)?_[iu]32|v_(max|min)_[iu]32", Sort("valu")),
    (r"v_(add3|add_lshl|lshl_add|lshl_or|and_or|or3|xor3|xad|xor|and|or|not|xnor)_[ub]32", Sort("valu")),
    (r"v_(lshlrev|lshrrev|ashrrev)_[bi]32|v_mul_hi_(u32_u24|i32_i24)|v_pack_b32_f16", Sort("valu")),
    (r"v_(max3|min3|med3|maxmin|minmax)(_num)?_[fiu](16|32)", Sort("valu")),
    (r"v_(ceil|floor|trunc|rndne|fract|ldexp|frexp_mant|frexp_exp_i(16|32))_f(16|32)", Sort("valu")),
    (r"v_(div_scale|div_fmas|div_fixup)_f(16|32)", Sort("valu")),
    (r"v_(bfe|bfi|bfm|bfrev|ffbh|ffbl|clz|cls|ctz|alignbit|alignbyte|perm|swap)(_[iub]32)+", Sort("valu")),
    (r"v_(bcnt|mbcnt_lo|mbcnt_hi)_u32_b32|v_(readlane|readfirstlane|permlane\w+)_b32", Sort("valu")),
    (r"v_cmpx?_\w+_[fiu](16|32)|v_cvt_\w+|v_nop", Sort("valu")),
    (r"v_pk_(add|sub|mul|mul_lo|max|min|mad|lshlrev|lshrrev|ashrrev)_[fiub]16", Sort("valu")),
)
_GUESSES: Sequence[tuple[str, str]] = (
    ("s_", "salu"),
    ("ds_", "lds"),
    ("buffer_", "vmem"),
    ("tbuffer_", "vmem"),
    ("global_", "vmem"),
    ("flat_", "vmem"),
    ("scratch_", "vmem"),
    ("image_", "vmem"),
)


def base(name: str) -> str:
    """An instruction's name without its encoding, and without the prefix of dual instructions."""
    return re.sub(r"(_e32|_e64|_dpp|_dpp8|_sdwa|_gfx\d+)+$", "", name).replace("v_dual_", "v_", 1)


@functools.cache
def sort(name: str) -> Sort:
    """The table's row for an instruction.

    An instruction that the table does not have gets its kind from the beginning of its name, else it is vector
    arithmetic; `known` is false then.
    """
    plain = base(name)
    for pattern, found in _TABLE:
        if re.fullmatch(pattern, plain):
            return replace(found, dual=False) if "_dpp" in name else found
    kind = next((kind for begin, kind in _GUESSES if plain.startswith(begin)), "valu")
    return Sort(kind, known=False)


_WIDTH = {
    **{"dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16, "dwordx8": 32, "dwordx16": 64},
    **{"ubyte": 1, "sbyte": 1, "byte": 1, "ushort": 2, "sshort": 2, "short": 2},
    **{"b8": 1, "u8": 1, "i8": 1, "b16": 2, "u16": 2, "i16": 2, "b32": 4, "u32": 4, "i32": 4, "f32": 4},
    **{"b64": 8, "u64": 8, "i64": 8, "b96": 12, "b128": 16, "b256": 32, "b512": 64},
}
"""Bytes, by a part of an instruction's name."""


def width(name: str) -> int | None:
    """How many bytes an instruction moves for each lane; None if its name does not say."""
    plain = base(name)
    parts = plain.split("_")
    if plain.startswith("ds_"):
        pair = 2 if re.match(r"ds_(read|write)2|ds_(load|store)_2addr", plain) else 1
        found = next((_WIDTH[part] for part in parts if part in _WIDTH), None)
        return None if found is None else pair * found
    if "atomic" in parts:  # up to GFX10 the name has x2 for 8 bytes, and no width for 4
        return 8 if parts[-1] in ("x2", "b64", "u64", "i64") else 4
    if "format" in parts:  # nnvk's texel buffers have 4 bytes in each component
        return 4 * len(parts[-1])
    return next((_WIDTH[part] for part in reversed(parts) if part in _WIDTH), None)
