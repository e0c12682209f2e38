"""tools/isa: what AMD's compiler makes of the shaders, and a model of what that costs."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import assembly
import driver
import pytest
import trips
from gpus import GPUS

from nnvk.demo.assets import DATA

ISA = Path(__file__).parents[2] / "tools" / "isa"

LOOP = """# Assembly
BB0:
    s_load_dwordx4 s[0:3], s[4:5], null ; 11111111
    s_waitcnt lgkmcnt(0) ; 22222222
BB1:
    buffer_load_dwordx4 v[0:3], v4, s[0:3], 0 offen ; 33333333
    s_waitcnt vmcnt(0) ; 44444444
    v_fma_f32 v5, v0, v1, v5 ; 55555555
    v_pk_fma_f16 v6, v2, v3, v6 ; 66666666
    s_cbranch_scc1 BB1 ; 77777777
    s_endpgm ; 88888888
"""


def test_a_wave_goes_round_its_loops() -> None:
    code, labels = assembly.parse(LOOP)
    (loop,) = assembly.loops(code, labels)
    assert (loop.counts["products"], loop.counts["vmem_read"], loop.counts["valu"]) == (3, 16, 2)
    loop.trips = 10
    gpu = GPUS["navi21"]
    run = assembly.follow(code, [loop], 64, gpu)
    assert (run.products, run.read, run.valu) == (30, 160, 10 * 2 * 2)
    assert run.alone > 10 * gpu.memory_latency
    assert run.stalled.most_common(1)[0][0] == "memory"


PIECES = """# Assembly
BB0:
    v_fma_f32 v5, v0, v1, v5 ; 11111111
    buffer_store_dwordx4 v[0:3], v4, s[0:3], 0 offen ; 22222222
    buffer_atomic_add v7, v4, s[0:3], 0 offen ; 33333333
    buffer_load_dwordx4 v[0:3], v4, s[0:3], 0 offen ; 44444444
    s_waitcnt vmcnt(0) ; 55555555
    buffer_store_dwordx2 v[0:1], v4, s[4:7], 0 offen ; 66666666
    s_endpgm ; 77777777
"""


def test_one_of_so_many_pieces_adds_up() -> None:
    code, labels = assembly.parse(PIECES)
    gpu = GPUS["navi21"]
    whole = assembly.follow_split_k(code, assembly.loops(code, labels), 64, gpu, 1)
    assert (whole.products, whole.read, whole.written) == (1, 16, 16 + 4 + 8)
    shared = assembly.follow_split_k(code, assembly.loops(code, labels), 64, gpu, 4)
    assert (shared.products, shared.read, shared.written) == (1, 16 / 4, 16 + 4 + 8 / 4)
    assert shared.alone == whole.alone > gpu.memory_latency


def test_how_often_the_loops_of_winograds_transforms_go_round() -> None:
    """The first goes through the channels, and clears shared memory in a loop; the last has loops for rare tiles."""

    def loop(**counts: int) -> assembly.Loop:
        return assembly.Loop(0, 1, counts=Counter(counts))

    first = {"shader": "winograd_input.f32", "push_constants": {"channels": 258}, "constants": {"ACROSS": 16}}
    found = [loop(vmem_read=64), loop(lds_written=4)]
    assert trips.guess(first, found)
    assert [each.trips for each in found] == [5, 1]
    last = {"shader": "winograd_output.f32.plain", "push_constants": {}, "constants": {}}
    assert trips.guess(last, found)
    assert [each.trips for each in found] == [0, 0]
    assert trips.unread(last) == ("weights", "src")
    assert trips.unread(first) == ()


GFX12 = """# Assembly
BB0:
    s_load_b128 s[0:3], s[4:5], 0x0 ; 11111111
    buffer_load_b128 v[0:3], v4, s[0:3], null offen ; 22222222
    ds_load_b128 v[8:11], v7 ; 33333333
    buffer_store_b32 v6, v4, s[0:3], null offen ; 44444444
    {wait} ; 55555555
    s_endpgm ; 66666666
"""


@pytest.mark.parametrize(
    ("wait", "stalls"),
    [
        ("s_wait_kmcnt 0x0", ["scalar loads"]),
        ("s_wait_loadcnt 0x0", ["memory"]),
        ("s_wait_loadcnt 0x1", []),
        ("s_wait_dscnt 0x0", ["lds"]),
        ("s_wait_storecnt 0x0", ["stores"]),
        ("s_wait_loadcnt_dscnt 0x100", ["lds"]),  # of loads one may be left
        ("s_wait_loadcnt_dscnt 0x1", ["memory"]),
        ("s_wait_storecnt_dscnt 0x100", ["lds"]),
        ("s_wait_samplecnt 0x0", []),
        ("s_wait_alu depctr_va_vdst(0)", []),
    ],
)
def test_gfx12_waits_for_each_counter_apart(wait: str, stalls: list[str]) -> None:
    code, labels = assembly.parse(GFX12.format(wait=wait))
    assert not assembly.unknown(code)
    run = assembly.follow(code, assembly.loops(code, labels), 32, GPUS["gfx1201"])
    assert [what for what, cycles in run.stalled.items() if cycles] == stalls
    assert (run.read, run.written, run.lds) == (16, 4, 16)


STORES = """# Assembly
BB0:
    buffer_store_dword v6, v4, s[0:3], 0 offen ; 11111111
    {wait} ; 22222222
    s_endpgm ; 33333333
"""


@pytest.mark.parametrize(
    ("gpu", "wait", "stalled"),
    [
        ("vega10", "s_waitcnt vmcnt(0)", True),
        ("navi21", "s_waitcnt vmcnt(0)", False),
        ("navi21", "s_waitcnt_vscnt null, 0x0", True),
    ],
)
def test_stores_have_a_counter_of_their_own_from_gfx10_on(gpu: str, wait: str, stalled: bool) -> None:
    code, labels = assembly.parse(STORES.format(wait=wait))
    run = assembly.follow(code, assembly.loops(code, labels), 64, GPUS[gpu])
    assert (run.stalled["stores"] > 0) == stalled


DUAL = """# Assembly
BB0:
    v_dual_fmac_f32 v0, v1, v2 :: v_dual_mul_f32 v3, v4, v5 ; 11111111 22222222
    v_fma_f32 v5, v0, v1, v5 ; 33333333 44444444
    v_mul_lo_u32 v6, v0, v1 ; 55555555 66666666
    v_nop ; 77777777
    (then repeated 3 times)
    s_endpgm ; 88888888
"""


@pytest.mark.parametrize(("wave", "passes"), [(32, 1), (64, 2)])
def test_gfx11_does_two_float_operations_at_once(wave: int, passes: int) -> None:
    code, labels = assembly.parse(DUAL)
    assert len(code) == 9
    run = assembly.follow(code, assembly.loops(code, labels), wave, GPUS["navi31"])
    assert run.products == 2
    assert run.valu == 1 + 1 + passes * (4 + 1 + 3)  # the first two take one cycle at either width


@pytest.mark.parametrize(("gpu", "bytes_", "floats"), [("navi31", 32, 32), ("gfx1201", 8, 16)])
def test_products_of_matrices_take_the_cycles_of_the_peak_rate(gpu: str, bytes_: int, floats: int) -> None:
    for name, cycles in (("v_wmma_i32_16x16x16_iu8", bytes_), ("v_wmma_f32_16x16x16_f16", floats)):
        text = f"# Assembly\nBB0:\n    {name} v[0:7], v[8:11], v[12:15], v[0:7] ; 11111111\n    s_endpgm ; 22222222\n"
        code, labels = assembly.parse(text)
        assert not assembly.unknown(code)
        run = assembly.follow(code, assembly.loops(code, labels), 32, GPUS[gpu])
        assert (run.valu, run.products) == (cycles, 16 * 16 * 16 // 32)


@pytest.mark.parametrize(("split_k", "stages", "slices"), [(1, 8, 1), (4, 2, 4)])
def test_how_often_the_loops_of_cooperative_matrices_go_round(split_k: int, stages: int, slices: int) -> None:
    """The stages of K but the last, the rows of matrices, the pixels in them, and the K slices that are added up."""

    def loop(parent: int | None = None, **counts: int) -> assembly.Loop:
        return assembly.Loop(0, 1, parent, Counter(counts))

    found = [loop(products=1, vmem_read=1), loop(vmem_written=1), loop(1, vmem_written=1), loop(vmem_read=1)]
    constants = {"M": 16, "N": 16, "DOWN": 4, "ACROSS": 2, "SUBGROUP_SIZE": 32, "STAGE": 4, "SPLIT_K": split_k}
    push = {"kernel_height": 3, "kernel_width": 3, "depth": 60}
    shader = "gemm.q8.cooperative_matrix.dot.split.plain"
    assert trips.guess({"shader": shader, "constants": constants, "push_constants": push}, found)
    assert [each.trips for each in found[:3]] == [stages, 4, 4]
    assert found[3].trips == slices


@pytest.mark.parametrize(("span", "rounds"), [(1, 54), (4, 54), (8, 27), (16, 14)])
def test_rounds_of_products_in_registers_take_a_span_of_channels(span: int, rounds: int) -> None:
    found = [assembly.Loop(0, 1, None, Counter(products=1))]
    push = {"kernel_height": 3, "kernel_width": 3, "depth": 24}
    given = {"shader": "gemm.f32.register.none.whole.plain", "constants": {"SPAN": span}, "push_constants": push}
    assert trips.guess(given, found)
    assert found[0].trips == rounds


def test_instructions_that_are_not_in_the_table_are_named() -> None:
    text = "# Assembly\nBB0:\n    v_fancy_f32_e32 v0, v1 ; 11111111\n    s_waitcnt 0x3f70 ; 22222222\n"
    code, _ = assembly.parse(text + "(invalid instruction) ; 33333333\n    buffer_load_b128 v[0:3], v4 ; 44444444\n")
    assert assembly.unknown(code) == {"v_fancy_f32": 1, "s_waitcnt": 1, "(invalid instruction)": 1}
    assert [one.kind for one in code] == ["valu", "wait", "valu", "vmem"]


# --- the driver ----------------------------------------------------------------------------------------------


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes a program in the place of radv_isa, which knows devices by the value of a variable."""
    for name in ("RADV_FORCE_FAMILY", "AMDGPU_GPU_ID"):
        monkeypatch.delenv(name, raising=False)

    def make(version: str, variable: str, devices: Mapping[str, str], data_error: str) -> Path:
        answers = {name: json.dumps({"device": device, "driver": version}) for name, device in devices.items()}
        cases = "".join(f"{name}) echo '{answer}';;\n" for name, answer in answers.items())
        program = tmp_path / "radv_isa"
        program.write_text(f'#!/bin/sh\ncase "${variable}" in\n{cases}*) echo "{data_error}" >&2; exit 1;;\nesac\n')
        program.chmod(0o755)
        return program

    return make


def test_the_null_device_is_taken_where_mesa_has_one(stand_in: Callable[..., Path], tmp_path: Path) -> None:
    devices = {
        "vega10": "Null hardware (RADV VEGA10)",
        "navi21": "Null hardware (RADV NAVI21)",
        "gfx1100": "Null hardware (RADV GFX1100)",
    }
    program = stand_in("Mesa 22.3.6", "RADV_FORCE_FAMILY", devices, "radv: Unknown family: it")
    found = driver.find(GPUS["navi21"], program, tmp_path)
    assert (found.variables, found.version) == ({"RADV_FORCE_FAMILY": "navi21"}, "Mesa 22.3.6")
    assert found.environment["VK_ICD_FILENAMES"] == found.environment["VK_DRIVER_FILES"] == str(tmp_path)
    assert driver.find(GPUS["navi31"], program, tmp_path).variables == {"RADV_FORCE_FAMILY": "gfx1100"}
    with pytest.raises(driver.Missing, match=r"Mesa 22\.3\.6 does not compile for gfx1201: Mesa 25\.0 or later does"):
        driver.find(GPUS["gfx1201"], program, tmp_path)


def test_the_drm_shim_is_taken_where_mesa_has_no_null_device(
    stand_in: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = {"navi31": "AMD Radeon RX 7900 XTX (RADV NAVI31)", "vega10": "another"}
    data_error = "MESA: error: Failed to find amdgpu GPU named it"
    program = stand_in("Mesa 26.2.6", "AMDGPU_GPU_ID", devices, data_error)
    monkeypatch.setattr(driver, "SHIM", "libc.so.6")  # any library that can be preloaded
    found = driver.find(GPUS["gfx1100"], program, tmp_path)
    assert found.variables["AMDGPU_GPU_ID"] == "navi31" and found.variables["LD_PRELOAD"].startswith("libc.so.6")
    assert found.version == "Mesa 26.2.6"
    with pytest.raises(driver.Missing, match="does not have navi14"):
        driver.find(GPUS["navi14"], program, tmp_path)
    with pytest.raises(driver.Missing, match="does not offer vega10 but another"):
        driver.find(GPUS["vega10"], program, tmp_path)
    monkeypatch.setattr(driver, "SHIM", "libnnvk_is_not_installed.so")
    with pytest.raises(driver.Missing, match="package mesa-drm-shim"):
        driver.find(GPUS["gfx1036"], program, tmp_path)


@pytest.mark.parametrize("name", [f"radeon_icd.{platform.machine()}.json", "radeon_icd.json"])
def test_the_manifest_has_an_old_name_and_a_new_one(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_FOLDERS", (str(tmp_path),))
    with pytest.raises(driver.Missing, match="mesa-vulkan-drivers"):
        driver.manifest()
    (tmp_path / name).touch()
    assert driver.manifest() == tmp_path / name
    with pytest.raises(driver.Missing, match=r"is not there: .*elsewhere"):
        driver.manifest(tmp_path / "elsewhere")


@pytest.mark.parametrize("gpu", ["vangogh", "navi31", "gfx1201"])
def test_a_model_is_compiled_and_estimated(gpu: str, tmp_path: Path) -> None:
    try:
        radv = driver.find(GPUS[gpu], driver.compiler(tmp_path), driver.manifest())
    except driver.Missing as missing:
        pytest.skip(str(missing))
    out = tmp_path / "out.json"
    command = [sys.executable, str(ISA / "estimate.py"), str(DATA / "digits_float.tflite"), "--gpu", gpu]
    done = subprocess.run(
        [*command, "--work", str(tmp_path), "--json", str(out)], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(out.read_bytes())
    assert result["driver"] == radv.version
    # Debian 12's compiler spills the windows of the tile `depthwise`; the model counts that, and it pays all the same.
    spilling = [row for row in result["dispatches"] if row["facts"]["spilled"]]
    assert all(".depthwise." in row["shader"] for row in spilling)
    assert not any(row["instructions_unknown"] for row in result["dispatches"])
    products = [row for row in result["dispatches"] if row["multiply_adds"]]
    assert products and all(row["loops_known"] and row["facts"]["registers"] > 0 for row in products)
    assert all(row["microseconds"] >= row["ideal_microseconds"] for row in products)
