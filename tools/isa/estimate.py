"""Compile a model's shaders with AMD's compiler, and estimate the time of each dispatch. No GPU is needed.

    python tools/isa/estimate.py MODEL.tflite --gpu navi21 [--rows] [--json FILE]

See README.md beside this file.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import assembly
import driver
import trips
from driver import Driver
from gpus import GPUS, Gpu

FIRST_TEXELS = 16
"""Binding of the first buffer as texels: every buffer is bound in both ways (shaders/include/texels.glsl)."""


def planned(model: Path, gpu: Gpu, radv: Driver, *options: str) -> dict[str, Any]:
    """The output of `nnvk plan` for a model on this GPU.

    RADV gives the properties of the GPU, except the number of units and whether memory is unified.
    """
    command = [sys.executable, "-m", "nnvk.cli", "plan", str(model), *options]
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder) / "first.json"
        driver.call([*command, "--json", str(first)], radv.environment)
        plan = json.loads(first.read_bytes())
        changed = Path(folder) / "profile.json"
        known = {"unified_memory": not gpu.discrete, "units": gpu.units}
        changed.write_text(json.dumps({**plan["profile"], **known}))
        driver.call([*command, "--profile", str(changed), "--json", str(first)], radv.environment)
        return json.loads(first.read_bytes())


# --- facts ---------------------------------------------------------------------------------------------------


def compiled(dispatches: Sequence[Mapping[str, Any]], gpu: Gpu, radv: Driver, folder: Path) -> list[dict[str, Any]]:
    """Statistics and assembly of the pipeline of each dispatch; kept in the folder."""
    keys = [_key(each, gpu, radv) for each in dispatches]
    jobs = {key: _job(key, each) for key, each in zip(keys, dispatches, strict=True)}
    missing = [job for key, job in jobs.items() if not (folder / f"{key}.json").exists()]
    if missing:
        said = driver.call([str(driver.compiler(folder)), str(folder)], radv.environment, "".join(missing))
        for line in said.splitlines()[1:]:
            entry = json.loads(line)
            texts = [path.read_text() for path in sorted(folder.glob(f"{entry['id']}.*.txt"))]
            entry["assembly"] = next((text for text in texts if text.startswith("# Assembly")), "")
            (folder / f"{entry['id']}.json").write_text(json.dumps(entry))
    return [json.loads((folder / f"{key}.json").read_bytes()) for key in keys]


def _key(dispatch: Mapping[str, Any], gpu: Gpu, radv: Driver) -> str:
    digest = hashlib.sha256(Path(dispatch["spirv"]).read_bytes()).hexdigest()
    what = (digest, dispatch["specialization"], dispatch["subgroup_size"], gpu.name, radv.version)
    return hashlib.sha256(repr(what).encode()).hexdigest()[:16]


def _job(key: str, dispatch: Mapping[str, Any]) -> str:
    numbers = [tensor["binding"] for tensor in dispatch["tensors"]]
    bindings = ",".join(f"0:{number}:7:1,0:{FIRST_TEXELS + number}:4:1" for number in numbers)
    words = ",".join(f"{number}:{word:x}:4" for number, word in enumerate(dispatch["specialization"])) or "-"
    size, subgroup = str(dispatch["push_constant_size"]), str(dispatch["subgroup_size"])
    fields = (key, dispatch["spirv"], "main", size, subgroup, bindings, words)
    return "\t".join(fields) + "\n"


# --- the model -----------------------------------------------------------------------------------------------


def estimate(dispatch: Mapping[str, Any], facts: Mapping[str, Any], gpu: Gpu) -> dict[str, Any]:
    """The compiler's facts of a dispatch, and what the model says of it."""
    code, labels = assembly.parse(facts["assembly"])
    found = assembly.loops(code, labels)
    wave, statistics = facts["subgroup"], facts["statistics"]
    run, known = assembly.Run(), True
    for share, part in trips.shares(dispatch):
        known = trips.guess(part, found) and known
        own = assembly.follow_split_k(code, found, wave, gpu, trips.split_k(dispatch))
        alone = max(run.alone, own.alone)
        run.add(own, share)
        run.alone = alone
    hot = max(found, key=lambda loop: (loop.counts["products"], loop.first - loop.last), default=None)
    inner = hot.counts if hot else assembly.count(code)
    gemm = trips.multiply_adds(dispatch)
    seconds, bound = _seconds(dispatch, statistics, run, wave, gpu)
    return {
        "operation": f"{dispatch['operation']} {dispatch['code']}",
        "shader": dispatch["shader"],
        "strategy": dispatch["strategy"],
        "constants": dispatch["constants"],
        "groups": math.prod(dispatch["groups"]),
        "invocations": math.prod(dispatch["local"]),
        "facts": {
            "subgroup": wave,
            "registers": statistics["VGPRs"],
            "spilled": statistics["Spilled VGPRs"] + statistics["Spilled SGPRs"],
            "shared_memory": statistics["LDS size"],
            "subgroups_of_a_simd": min(statistics["Subgroups per SIMD"], gpu.waves),
            "instructions": statistics["Instructions"],
            "inner_loop": dict(inner),
        },
        "multiply_adds": gemm,
        "loops_known": known,
        "instructions_unknown": dict(assembly.unknown(code)),
        "inner_share": inner["product_instructions"] / inner["valu"] if inner["valu"] else 0.0,
        "microseconds": seconds * 1e6,
        "bound": bound,
        "launch_microseconds": gpu.launch_us if dispatch["barrier"] else 1.0,
        "ideal_microseconds": gemm * 2 / gpu.flops * 1e6,
    }


def _seconds(
    dispatch: Mapping[str, Any], statistics: Mapping[str, int], run: assembly.Run, wave: int, gpu: Gpu
) -> tuple[float, str]:
    """The largest of what each part of the GPU takes, and which part that is."""
    groups, waves = math.prod(dispatch["groups"]), -(-math.prod(dispatch["local"]) // wave)
    hz = gpu.ghz * 1e9
    most = -(-groups // gpu.units)  # workgroups of the busiest compute unit
    resident = max(1, min(statistics["Subgroups per SIMD"], gpu.waves) * gpu.simds // waves)
    if statistics["LDS size"]:
        resident = max(1, min(resident, gpu.lds // statistics["LDS size"]))
    moved = run.read + run.written
    everything = groups * waves * wave * moved
    left_out = trips.unread(dispatch)
    tensors = {tensor["number"]: tensor["bytes"] for tensor in dispatch["tensors"] if tensor["name"] not in left_out}
    nbytes = sum(tensors.values())  # a tensor may have several names
    is_once = statistics["LDS size"] and not trips.has_windows(dispatch)
    through_l2 = everything if is_once else min(everything, max(nbytes, everything / 4))
    alone = -(-most // resident) * run.alone / hz
    bounds = {
        "products and arithmetic": -(-most * waves // gpu.simds) * run.valu / hz,
        "shared memory": most * waves * run.lds * wave / gpu.lds_bytes / hz,
        "first cache": most * waves * moved * wave / gpu.l0_bytes / hz,
        "second cache": through_l2 / (gpu.l2_bytes * hz),
        "memory": nbytes / (gpu.cache_rate if nbytes < gpu.cache / 2 else gpu.memory_rate),
        "waiting": alone,
    }
    bound = max(bounds, key=bounds.__getitem__)
    worst = max(run.stalled, key=run.stalled.__getitem__, default="")
    return bounds[bound], f"waiting for {worst}" if bound == "waiting" and worst else bound


def analyse(model: Path, gpu: Gpu, radv: Driver, folder: Path, *options: str) -> list[dict[str, Any]]:
    """An estimate for each dispatch of a model."""
    commands = planned(model, gpu, radv, *options)["commands"]
    dispatches = [command for command in commands if command["kind"] == "dispatch"]
    rows = []
    for dispatch, facts in zip(dispatches, compiled(dispatches, gpu, radv, folder), strict=True):
        if "statistics" not in facts:
            sys.exit(f"{dispatch['shader']} does not compile for {gpu.name}: {facts}")
        rows.append(estimate(dispatch, facts, gpu))
    return rows


def _print(name: str, gpu: Gpu, radv: Driver, rows: Sequence[Mapping[str, Any]], each: bool) -> None:
    if each:
        print("| dispatch | groups x invocations | registers | spilled | subgroups | inner products | us | bound |")
        print("| --- | --- | --: | --: | --: | --: | --: | --- |")
        for row in rows:
            facts = row["facts"]
            print(
                f"| {row['operation']} {row['strategy'] or row['shader']} | {row['groups']} x {row['invocations']} | "
                f"{facts['registers']} | {facts['spilled']} | {facts['subgroups_of_a_simd']} | "
                f"{row['inner_share']:.0%} | {row['microseconds']:.1f} | {row['bound']} |"
            )
    bounds: Counter[str] = Counter()
    for row in rows:
        bounds[row["bound"].split(" for ")[0]] += round(row["microseconds"])
    total, ideal = (sum(row[key] for row in rows) for key in ("microseconds", "ideal_microseconds"))
    launches = sum(row["launch_microseconds"] for row in rows)
    unknown = sorted({row["shader"] for row in rows if not row["loops_known"]})
    strange: Counter[str] = Counter()
    for row in rows:
        strange.update(row["instructions_unknown"])
    print(
        f"{name} on {gpu.name}, facts of the compiler of {radv.version}: {len(rows)} dispatches, {_spills(rows)} spill"
    )
    print(
        f"  by the model: kernels {total:.0f} us (ideal {ideal:.0f}), launches {launches:.0f} us; "
        f"{', '.join(f'{what} {us}' for what, us in bounds.most_common())}"
        + (f"; loops of unknown length: {', '.join(unknown)}" if unknown else "")
    )
    if strange:
        listed = ", ".join(f"{what} ({count})" for what, count in strange.most_common())
        print(f"  instructions that are not in the table, their cost is a guess: {listed}")


def _spills(rows: Sequence[Mapping[str, Any]]) -> str:
    count = sum(row["facts"]["spilled"] > 0 for row in rows)
    return str(count) if count else "none"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    parser.add_argument("--gpu", action="append", choices=sorted(GPUS), help="default: navi21; may be repeated")
    parser.add_argument("--icd", type=Path, help="RADV's manifest; default: where mesa-vulkan-drivers has it")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=NUMBER", help="another constant of the GPU")
    parser.add_argument("--relaxed", action="store_true", help="with 16-bit floats, as `nnvk run --relaxed`")
    parser.add_argument("--verified", action="store_true", help="with what verifies results, as `nnvk run --verified`")
    parser.add_argument("--rows", action="store_true", help="a line for every dispatch")
    parser.add_argument("--json", type=Path, metavar="FILE", help="everything")
    work = Path(tempfile.gettempdir()) / "nnvk-isa"
    parser.add_argument("--work", type=Path, default=work, help=f"where to keep things; default: {work}")
    options = parser.parse_args()
    names = options.gpu or ["navi21"]
    of_plan = [f"--{name}" for name in ("relaxed", "verified") if getattr(options, name)]
    try:
        program, file = driver.compiler(options.work), driver.manifest(options.icd)
        found = {name: driver.find(GPUS[name], program, file) for name in names}
    except driver.Missing as missing:
        sys.exit(str(missing))
    everything = []
    for model in options.models:
        for name, radv in found.items():
            gpu = GPUS[name]
            for item in options.set:
                field, _, number = item.partition("=")
                gpu = dataclasses.replace(gpu, **{field: type(getattr(gpu, field))(float(number))})
            rows = analyse(model, gpu, radv, options.work, *of_plan)
            title = model.parent.name if model.stem == "model" else model.stem
            _print(title, gpu, radv, rows, options.rows)
            everything.append(
                {"model": title, "gpu": dataclasses.asdict(gpu), "driver": radv.version, "dispatches": rows}
            )
    if options.json:
        options.json.write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
