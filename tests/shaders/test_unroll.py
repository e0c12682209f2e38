"""Unrolled SPIR-V computes the same bits, and loops are left alone where they must be."""

from __future__ import annotations

import shutil
import subprocess
from array import array
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from profiles import GPU
from spirv_contraction import forbid_contraction
from valid_spirv import check_valid

from nnvk.base.settings import override
from nnvk.check.cases import cases
from nnvk.check.model_rows import empty_like, execute, parse, reference
from nnvk.driver.vulkan import find_devices
from nnvk.driver.vulkan import kernels as _kernels  # noqa: F401  (declares the shaders)
from nnvk.driver.vulkan.shaders import library
from nnvk.driver.vulkan.shaders.freeze import freeze
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.unroll import MOST_WORDS, unroll

GLSL = """#version 450
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x = 4) in;
layout(constant_id = 1) const uint N = 3;
layout(set = 0, binding = 0) buffer Src {{ uint src[]; }};
layout(set = 0, binding = 1) buffer Dst {{ float dst[]; }};
#define EACH(i, end) [[unroll]] for (uint i = 0u; i < end; i++)
#define COMPUTE(i) x = x * 1.7 + float(src[id + i]) / 3.0; sums[i] += x;
shared uint staged[4];
void grow(inout uint number) {{ number += 2u; }}
void store(uint id) {{
    float x = 0.125;
    float sums[8] = float[](0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8);
    {body}
    for (uint n = 0u; n < 8u; n++) dst[id * 16u + n] = sums[n];
    dst[id * 16u + 8u] = x;
}}
void main() {{ store(gl_LocalInvocationID.x); dst[64] = 1.0; }}
"""
PARTS = 24
"""Parts of the variants that are unrolled."""
OWN_LOOPS = 1
"""The loop of `GLSL` that is not marked."""

CASES = {
    # A body, and how many of its loops are left.
    "one": ("EACH(i, N) { COMPUTE(i) }", 0),
    "index": ("EACH(i, N) { uint k = i * 2u + 1u; sums[k] += x; x += sums[k]; }", 0),
    "downwards": ("[[unroll]] for (int n = 6; n >= 0; n -= 2) { uint i = uint(n); COMPUTE(i) }", 0),
    "divided": ("[[unroll]] for (uint n = 700u; n > 0u; n /= 7u) { uint i = n % 8u; COMPUTE(i) }", 0),
    "while": ("uint i = 3u; [[unroll]] while (i-- > 0u) { COMPUTE(i) } x += float(i);", 0),
    "two variables": ("uint k = 5u; [[unroll]] for (uint i = 0u; i < k; i++, k--) { COMPUTE(i) } x += float(k);", 0),
    "nested": (
        "EACH(j, N) { [[unroll]] for (uint i = 0u; i <= j; i++) { COMPUTE(i) } COMPUTE(j) }", 0),
    "nested twice": (
        "EACH(a, 5u) EACH(b, N) EACH(c, 4u) if (b + c == a) { COMPUTE(b) sums[c] -= x; }", 0),
    "truth value": ("bool on = true; [[unroll]] for (uint i = 1u; on; i += 3u) { COMPUTE(i) on = false; }", 1),
    "truth value at the end": (
        "bool on = true; [[unroll]] for (uint i = 1u; on; on = i < 4u, i += 3u) { COMPUTE(i) }", 0),
    "declared in the loop": (
        "EACH(i, N) { float own[2]; own[i & 1u] = x; own[1u - (i & 1u)] = sums[i];"
        " x += own[0] * 0.3 + own[1]; }", 0),
    "branches": (
        "EACH(i, N) { if (src[id] > i) { COMPUTE(i) } else x -= 0.3;"
        " if (src[i] > 5u) x += 0.7; }", 0),
    "short circuit": (
        "EACH(i, N) { if (src[i] > 2u && src[id + 1u] > i || x > 9.0) { COMPUTE(i) } }", 0),
    "switch": (
        "EACH(i, N) { switch (src[i] % 3u) { case 0u: x += 0.3; case 1u: x *= 1.3; break;"
        " default: sums[i] = x; } }", 0),
    "early return": ("EACH(i, N) { COMPUTE(i) dst[id * 16u + 9u] = x; if (src[i + id] > 6u) return; }", 0),
    "barrier": (
        "EACH(i, N) { staged[id] = src[id] * 3u + i; barrier();"
        " x = x * 0.7 + float(staged[(id + i) & 3u]); barrier(); }", 0),
    "other loop inside": ("EACH(j, N) { for (uint i = 0u; i < src[j]; i++) { COMPUTE(i) } }", 3),
    "one round": ("for (uint i = 2u; i < N; i++) { COMPUTE(i) }", 0),
    "no round": ("for (uint i = N; i < N; i++) { COMPUTE(i) } x += 0.3;", 0),
    "not marked": ("for (uint i = 0u; i < N; i++) { COMPUTE(i) }", 1),
    "forbidden": ("[[dont_unroll]] for (uint i = 2u; i < N; i++) { COMPUTE(i) }", 1),
    "break": ("EACH(i, N) { COMPUTE(i) if (src[i] > 3u) break; }", 1),
    "continue": ("EACH(i, N) { if (src[i] > 3u) continue; COMPUTE(i) }", 1),
    "only continues": ("EACH(i, N) { COMPUTE(i) if (src[i] > 3u) continue; else return; }", 1),
    "do": ("uint i = 0u; [[unroll]] do { COMPUTE(i) i++; } while (i < N);", 1),
    "bound from data": ("[[unroll]] for (uint i = 0u; i < src[1]; i++) { COMPUTE(i) }", 1),
    "start from data": ("[[unroll]] for (uint i = src[1]; i < 7u; i++) { COMPUTE(i) }", 1),
    "step from data": ("[[unroll]] for (uint i = 0u; i < 7u; i += src[1]) { COMPUTE(i) }", 1),
    "written in a branch": ("EACH(i, 7u) { COMPUTE(i) if (src[i] > 3u) i++; }", 1),
    "written by a function": ("EACH(i, 7u) { COMPUTE(i) grow(i); }", 1),
    "bound by a branch": ("uint n = 2u; if (src[id] > 3u) n = 5u; EACH(i, n) { COMPUTE(i) }", 1),
    "bound of both branches": (
        "uint n = 2u; if (src[id] > 3u) n = 5u; else n = 5u; EACH(i, n) { COMPUTE(i) }", 0),
    "bound by a function": ("uint n = 2u; grow(n); EACH(i, n) { COMPUTE(i) }", 1),
    "bound by a loop": (
        "uint n = 1u; for (uint k = 0u; k < src[1]; k++) { EACH(i, n) { COMPUTE(i) } n++; }", 2),
    "bound after a loop": (
        "uint n = 1u; for (uint k = 0u; k < src[1]; k++) n++; EACH(i, n) { COMPUTE(i) }", 2),
    "bound by rounds": (
        "uint n = 1u; EACH(k, N) n++; EACH(i, n) { COMPUTE(i) }", 0),
    "endless": ("[[unroll]] for (uint i = 0u; i < 7u; i += 0u) { COMPUTE(i) if (x > 1.0) return; }", 1),
    "wraps": ("[[unroll]] for (uint n = 4294967294u; n != 2u; n++) { uint i = n & 3u; COMPUTE(i) }", 0),
    "signed": ("[[unroll]] for (int n = -2; n < 2; n++) { uint i = uint(n + 2); COMPUTE(i) }", 0),
}  # fmt: skip

Compile = Callable[..., bytes]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """``compiled(body)``: the frozen module of `GLSL` with this body, decorated as the shaders are."""
    glslang = shutil.which("glslangValidator")
    if glslang is None:
        pytest.skip("there is no shader compiler")
    folder = tmp_path_factory.mktemp("unroll")

    def compile_(body: str) -> bytes:
        (folder / "test.comp").write_text(GLSL.format(body=body))
        command = [glslang, "-V", "--target-env", "vulkan1.1", "-o", "test.spv", "test.comp"]
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout
        return freeze(forbid_contraction((folder / "test.spv").read_bytes()), [0, 3])

    return compile_


def instructions(spirv: bytes) -> list[array[int]]:
    words, at, found = array("I", spirv), 5, []
    while at < len(words):
        found.append(words[at : at + (words[at] >> 16)])
        at += words[at] >> 16
    return found


def loops(spirv: bytes) -> int:
    return sum(each[0] & 0xFFFF == 246 for each in instructions(spirv))


def results(spirv: bytes) -> np.ndarray:
    devices, reason = find_devices()
    if not devices:
        pytest.skip(reason)
    device = devices[0].gpu.native()
    src = np.array([4, 2, 7, 1, 9, 3, 3, 8, 5, 1, 6, 2], np.uint32)
    dst = np.zeros(65, np.float32)
    buffers = [device.create_buffer(array_.nbytes, host_visible=True) for array_ in (src, dst)]
    program = device.create_program()
    program.dispatch(device.create_algorithm(spirv, buffers, [], 0), (1, 1, 1), b"")
    program.finish([(buffers[0], 0, src.nbytes)], [(buffers[1], 0, dst.nbytes)])
    program.run([src], [dst])
    assert dst[64] == 1.0, "the shader has not run to its end"
    return dst.view(np.uint32)


@pytest.mark.parametrize("name", CASES)
def test_loops(compiled: Compile, name: str) -> None:
    body, left = CASES[name]
    module = compiled(body)
    unrolled = unroll(module)
    assert loops(unrolled) == left + OWN_LOOPS
    check_valid(unrolled)
    assert forbid_contraction(unrolled) == unrolled, "copies lack NoContraction"
    if name != "endless":
        np.testing.assert_array_equal(results(unrolled), results(module))


def test_indexes_are_constants(compiled: Compile) -> None:
    """Also those that the shader keeps in a variable, as drivers look at indexes early."""
    module = compiled(CASES["index"][0])

    def variable_indexes(spirv: bytes) -> int:
        found = instructions(spirv)
        local = {each[2] for each in found if each[0] & 0xFFFF == 59 and each[3] == 7}
        constants = {each[2] for each in found if each[0] & 0xFFFF == 43}
        return sum(each[0] & 0xFFFF == 65 and each[3] in local and each[4] not in constants for each in found)

    own = variable_indexes(unroll(compiled("")))
    assert variable_indexes(module) > own
    assert variable_indexes(unroll(module)) == own


def test_other_decorations_are_copied(compiled: Compile) -> None:
    """RelaxedPrecision of `mediump` holds for every round."""
    module = compiled("mediump float y = x; [[unroll]] for (uint i = 0u; i < N; i++) y = y + 0.3; x = y;")
    found = instructions(unroll(module))
    sums = {each[2] for each in found if each[0] & 0xFFFF == 129}
    relaxed = {each[1] for each in found if each[0] & 0xFFFF == 71 and each[2] == 0}
    assert len(sums) == 3
    assert sums <= relaxed


def test_nothing_reads_the_counter(compiled: Compile) -> None:
    """The stores of a counter go with its loads."""
    module = compiled(CASES["one"][0])
    own = instructions(unroll(compiled("")))
    stores = [each for each in instructions(unroll(module)) if each[0] & 0xFFFF == 62]
    of_sums = 3 * 2
    assert len(stores) == sum(each[0] & 0xFFFF == 62 for each in own) + of_sums


def test_limits(compiled: Compile) -> None:
    module = compiled(CASES["nested"][0])
    assert loops(unroll(module, most_rounds=3)) == OWN_LOOPS
    assert loops(unroll(module, most_rounds=2)) == 2 + OWN_LOOPS
    sizes = [len(unroll(module, most_words=words)) for words in range(0, 4000, 50)]
    assert sizes == sorted(sizes)
    assert loops(unroll(module, most_words=0)) == 2 + OWN_LOOPS
    assert len({*sizes}) > 2, "some limits allow a part of the rounds"
    for words, size in zip(range(0, 4000, 50), sizes, strict=True):
        assert size <= max(4 * words, len(module)) + 4 * 2000, "what is no part of a function, and decorations"


@pytest.mark.parametrize("words", range(500, 4000, 500))
@pytest.mark.parametrize("name", ["nested", "nested twice"])
def test_loops_that_only_some_rounds_unroll(compiled: Compile, name: str, words: int) -> None:
    """An inner loop stays in those rounds of an outer one in which it would grow the module too much."""
    module = compiled(CASES[name][0])
    unrolled = unroll(module, most_words=words)
    check_valid(unrolled)
    np.testing.assert_array_equal(results(unrolled), results(module))
    again = unroll(unrolled)
    check_valid(again)
    np.testing.assert_array_equal(results(again), results(module))


def test_unknown_instructions_leave_everything(compiled: Compile) -> None:
    module = array("I", compiled(CASES["one"][0]))
    integer = next(each[1] for each in instructions(module.tobytes()) if each[0] == 4 << 16 | 21)
    changed = module[:5]
    for each in instructions(module.tobytes()):
        if each[0] & 0xFFFF == 253:  # before each OpReturn an OpUndef
            changed.extend((3 << 16 | 1, integer, changed[3]))
            changed[3] += 1
        changed.extend(each)
    assert unroll(module.tobytes()) != module.tobytes()
    assert unroll(changed.tobytes()) == changed.tobytes()


def test_decoration_groups_leave_everything(compiled: Compile) -> None:
    module = array("I", compiled(CASES["one"][0]))
    at = 5
    while module[at] & 0xFFFF != 71:
        at += module[at] >> 16
    changed = module[:at] + array("I", (2 << 16 | 73, module[3])) + module[at:]
    changed[3] += 1
    assert unroll(changed.tobytes()) == changed.tobytes()


@pytest.mark.numbers
@pytest.mark.parametrize("part", range(PARTS))
def test_all_marked_loops_of_the_shaders(part: int) -> None:
    """No shader has an instruction or a shape that keeps a marked loop, and no module reaches the limit."""
    shaders = ShaderLibrary()
    left = []
    for shader in map(shaders.named, sorted(shaders.variants)[part::PARTS]):
        size = {axis: 8 for axis in ("local_x", "local_y") if shader.has_constant(axis)}
        unrolled = unroll(freeze(shader.spirv, shader.specialization(size)))
        found = instructions(unrolled)
        is_left = any(each[0] & 0xFFFF == 246 and each[3] & 1 for each in found)
        if is_left and "cooperative_matrix" not in shader.name:  # drivers with such matrices unroll loops themselves
            left.append(shader.name)
        assert forbid_contraction(unrolled) == unrolled, shader.name
        assert len(unrolled) < 2 * MOST_WORDS, shader.name
    assert not left


@pytest.mark.numbers
@pytest.mark.parametrize("number", range(0, len(cases()), 29))
def test_models_have_the_same_bits(number: int) -> None:
    devices, reason = find_devices()
    if not devices:
        pytest.skip(reason)
    row = parse(cases()[number].text)
    if not all(support.supported for support in devices[0].get_supported_operations(row.model)):
        pytest.skip("the device does not run the operations")
    outputs = []
    for unroll_loops in ("0", "1"):
        with override(unroll_loops=unroll_loops):
            made = empty_like(reference(row))
            execute(find_devices()[0][0], row, made)
        outputs.append(made)
    for got, want in zip(*outputs, strict=True):
        np.testing.assert_array_equal(got.reshape(-1).view(np.uint8), want.reshape(-1).view(np.uint8))


def test_which_devices_get_unrolled_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUs with small subgroups, unless the setting says something else; the setting reaches the driver."""
    devices, reason = find_devices()
    if not devices:
        pytest.skip(reason)
    given: list[bytes] = []

    def record(spirv: bytes) -> bytes:
        given.append(spirv)
        return unroll(spirv)

    monkeypatch.setattr(library, "unroll", record)
    gpu = devices[0].gpu
    for is_cpu, subgroup_size, setting, expected in [
        (False, 16, "", True),
        (False, 32, "", False),
        (True, 8, "", False),
        (True, 8, "1", True),
        (False, 16, "0", False),
    ]:
        with override(unroll_loops=setting):
            gpu.profile = replace(gpu.profile, is_cpu=is_cpu, subgroup_size=subgroup_size)
            assert gpu.unrolls("softmax") is expected
            given.clear()
            row = parse(next(case.text for case in cases() if case.text.startswith("SOFTMAX ")))
            execute(devices[0], row, empty_like(reference(row)))
            assert bool(given) is expected
            for name in devices[0].planner.library.variants:
                devices[0].planner.library.named(name)._modules.clear()


@pytest.mark.parametrize(
    ("sizes", "variant", "expected"),
    [
        ((64, 64, 128), "gemm.q8.register.float.split.fused", True),  # Adreno
        ((64, 64, 128), "gemm.f32.register.none.whole.plain", False),
        ((64, 64, 128), "depthwise_conv2d.q8.none.whole.plain", False),
        ((8, 32, 32), "gemm.q8.register.float.split.fused", False),  # Intel
        ((32, 64, 64), "gemm.q8.register.float.split.fused", False),  # AMD
        ((16, 16, 16), "depthwise_conv2d.q8.none.whole.plain", True),  # Mali
    ],
)
def test_which_shaders_get_unrolled_loops(sizes: tuple[int, int, int], variant: str, expected: bool) -> None:
    least, own, most = sizes
    profile = replace(GPU, smallest_subgroup=least, subgroup_size=own, largest_subgroup=most)
    assert profile.unrolls(variant) is expected
    assert not replace(profile, is_cpu=True).unrolls(variant)
