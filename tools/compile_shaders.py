"""Compiles every declared shader variant to SPIR-V and writes the manifest that the Vulkan driver reads.

    python tools/compile_shaders.py [--out DIR] [--jobs N]

The variants are those that the modules of `nnvk.driver.vulkan.kernels` declare, with the `Shader` of
`nnvk/driver/vulkan/shaders/declaration.py`. For each, `<variant>.spv` is written and a line of `manifest.jsonl`:
bindings, push constants, specialisation constants, workgroup size and needed device features. The first line names
the variants. One whose source, includes, macros and tools have not changed is not compiled again; a `.spv` that nothing
declares any more is removed. ``{AXIS}`` in the path of an include stands for the variant's value of that axis.

A variant with requirements is optional. Where the tools lack what it needs, it is left out: the output has a line for
each reason, and the manifest's first line the variant's name with the reason under `left_out`.

`tools/glslang.py` compiles and validates. The packages that it needs are only needed if something is to be compiled.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import pkgutil
import re
import shutil
import sys
import tempfile
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, TextIO

import glslang
import spirv_contraction
import spirv_reflect

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = "manifest.jsonl"
KERNELS = "nnvk.driver.vulkan.kernels"
OTHERS = ("nnvk.driver.vulkan.shaders.assumptions", "nnvk.driver.vulkan.lowering.verification")

_TOOLS = (__file__, glslang.__file__, spirv_contraction.__file__, spirv_reflect.__file__)
"""Files that make a module and its entry of the manifest."""

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+["<]([^">]+)[">]', re.MULTILINE)


class ShaderError(RuntimeError):
    """A shader variant that can't be compiled; the message names the shader, the variant and the tool's complaint."""


class RequirementsLike(Protocol):
    """Requirements of an optional variant on the tools: `nnvk.driver.vulkan.shaders.declaration.Requirements`."""

    @property
    def extensions(self) -> tuple[str, ...]: ...
    @property
    def spirv(self) -> str: ...
    @property
    def probe(self) -> str: ...


class VariantLike(Protocol):
    """A variant to compile: `nnvk.driver.vulkan.shaders.declaration.Variant`."""

    @property
    def name(self) -> str: ...
    @property
    def shader(self) -> str: ...
    @property
    def axes(self) -> tuple[tuple[str, str], ...]: ...
    @property
    def defines(self) -> tuple[str, ...]: ...
    @property
    def needs(self) -> RequirementsLike | None: ...


def tools_version() -> str:
    """The hash of all that makes modules from sources: it enters the hash of every variant."""
    versions = (f"{package} {version}" for package, version in sorted(glslang.VERSIONS.items()))
    return _digest([*versions, *(Path(file).read_text(encoding="utf-8") for file in _TOOLS)])


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcome of a run: variants compiled, unchanged, removed as stale, and left out with reasons."""

    compiled: tuple[str, ...]
    unchanged: tuple[str, ...]
    removed: tuple[str, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)


def compile_all(
    variants: Iterable[VariantLike],
    sources: Path,
    out: Path,
    *,
    jobs: int | None = None,
    version: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Summary:
    """Brings `out` up to date with the variants.

    Args:
        variants: what to compile.
        sources: folder of the `.comp` files, with their includes under `include/`.
        out: folder of the `.spv` files and the manifest, created if need be.
        jobs: compilations at once; the number of processors by default.
        version: the hash of the tools; by default that of those here.
        progress: called in this thread with the number of variants that are done and of all that need compiling, first
            with 0 and then after each. It is not called if nothing needs compiling.

    Raises:
        glslang.GlslangError: something is to be compiled, and the compiler is not installed.
        ShaderError: one or more variants don't compile. The rest is written all the same, the manifest too, so that
            the next run compiles only what is left.
    """
    version = version or tools_version()
    out.mkdir(parents=True, exist_ok=True)
    earlier, known = read_manifest(out / MANIFEST)
    probed = earlier.get("probes", {})
    todo: list[tuple[VariantLike, str]] = []
    entries: dict[str, dict[str, Any]] = {}
    errors: list[str] = []
    seen: set[str] = set()
    left_out: dict[str, str] = {}
    probes: dict[str, str] = {}
    for variant in sorted(variants, key=lambda v: v.name):
        if variant.name in seen:
            raise ShaderError(f"variant {variant.name} is declared twice")
        seen.add(variant.name)
        if variant.needs is not None:
            key = _digest([version, *variant.needs.extensions, variant.needs.spirv, variant.needs.probe])
            if key not in probes:
                if key not in probed:
                    glslang.check_installed()
                probes[key] = probed[key] if key in probed else _lack(variant.needs)
            if probes[key]:
                left_out[variant.name] = probes[key]
                continue
        try:
            spirv = variant.needs.spirv if variant.needs else ""
            digest = _digest([version, glslang.TARGET, spirv, *variant.defines, *_closure(sources, variant).values()])
        except ShaderError as error:
            errors.append(f"{variant.name}: {error}")
            continue
        entry = known.get(variant.name)
        if entry is not None and entry["hash"] == digest and (out / f"{variant.name}.spv").is_file():
            entries[variant.name] = entry
        else:
            todo.append((variant, digest))

    def attempt(job: tuple[VariantLike, str]) -> tuple[str, dict[str, Any] | ShaderError]:
        variant, digest = job
        try:
            return variant.name, {"hash": digest, **_compile(variant, sources, out)}
        except ShaderError as error:
            return variant.name, error

    if todo:
        glslang.check_installed()
    with ThreadPoolExecutor(max_workers=jobs or os.cpu_count() or 1) as pool:
        if progress and todo:
            progress(0, len(todo))
        for done, (name, result) in enumerate(pool.map(attempt, todo), 1):
            if progress:
                progress(done, len(todo))
            if isinstance(result, ShaderError):
                errors.append(str(result))
            else:
                entries[name] = result

    stale = sorted(path for path in out.glob("*.spv") if path.stem not in entries)
    for path in stale:
        path.unlink()
    document = {
        "variants": sorted(entries),
        "features": sorted({name for entry in entries.values() for name in entry["features"]}),
        "left_out": left_out,
        "probes": probes,
    }
    lines = map(json.dumps, (document, *(entries[name] for name in sorted(entries))))
    _write(out / MANIFEST, "\n".join(lines).encode())
    if errors:
        raise ShaderError("\n\n".join(errors))
    compiled = tuple(variant.name for variant, _ in todo)
    unchanged = tuple(name for name in entries if name not in compiled)
    return Summary(compiled, unchanged, tuple(path.stem for path in stale), left_out)


def _lack(needs: RequirementsLike) -> str:
    """The reason why the compiler can't compile a probe with these requirements; empty where it can."""
    lines = ["#version 450", *(f"#extension {name} : require" for name in needs.extensions)]
    lines += ["layout(local_size_x = 1) in;", needs.probe, "void main() {}"]
    try:
        _build("probe.comp", "\n".join(lines) + "\n", (), lambda name, includer: None, needs)
    except glslang.GlslangError as error:
        return next((line for line in str(error).splitlines() if "error:" in line.lower()), str(error)).strip()
    return ""


def _build(
    name: str, text: str, defines: Sequence[str], include: glslang.Include, needs: RequirementsLike | None
) -> bytes:
    """A valid module without contraction."""
    spirv = needs.spirv if needs else ""
    module = spirv_contraction.forbid_contraction(glslang.compile_shader(name, text, defines, include, spirv))
    glslang.validate(module, f"spv{spirv}" if spirv else glslang.TARGET)
    return module


def _compile(variant: VariantLike, sources: Path, out: Path) -> dict[str, Any]:
    """Compiles one variant and returns its entry of the manifest, without the hash."""
    source = sources / f"{variant.shader}.comp"
    texts = _closure(sources, variant)
    where = f"shader {variant.shader}, variant {variant.name}"

    def include(name: str, includer: str) -> tuple[str, str] | None:
        path = _included(sources, Path(includer) if includer else source, name, variant)
        return (str(path), texts[path]) if path in texts else None

    try:
        spirv = _build(source.name, texts[source], variant.defines, include, variant.needs)
    except glslang.GlslangError as error:
        raise ShaderError(f"{where}: {error}".strip()) from None
    try:
        module = spirv_reflect.reflect(spirv)
        bindings = _bindings(module.blocks)
    except spirv_reflect.SpirvError as error:
        raise ShaderError(f"{where}: {error}") from None
    _write(out / f"{variant.name}.spv", spirv)
    return {
        "shader": variant.shader,
        "axes": dict(variant.axes),
        "entry": module.entry,
        "bindings": bindings,
        "push_constants": [asdict(member) for member in module.push_constants],
        "push_constant_size": module.push_constant_size,
        "specialization": [asdict(constant) for constant in module.spec_constants],
        "capabilities": module.capabilities,
        "features": module.features,
        "local_size": module.local_size,
        "local_size_ids": module.local_size_ids,
        "shared_memory_bytes": module.shared_memory_bytes,
    }


def _bindings(blocks: Sequence[spirv_reflect.Block]) -> list[dict[str, Any]]:
    """The bindings by number, each named after its blocks: `Src`, or `Src_Fours` for another view, is `src`."""
    views: dict[int, list[spirv_reflect.Block]] = {}
    for block in blocks:
        if block.set != 0:
            raise spirv_reflect.SpirvError(f"block {block.name} is in descriptor set {block.set}, expected 0")
        views.setdefault(block.binding, []).append(block)
    if sorted(views) != list(range(len(views))):
        raise spirv_reflect.SpirvError(f"bindings {sorted(views)} are not dense from 0")
    result = []
    for binding, group in sorted(views.items()):
        names = sorted({block.name.partition("_")[0].lower() for block in group})
        if len(names) > 1:
            raise spirv_reflect.SpirvError(f"the views of binding {binding} have several names: {names}")
        result.append(
            {
                "name": names[0],
                "binding": binding,
                "readonly": all(block.readonly for block in group),
                "writeonly": all(block.writeonly for block in group),
            }
        )
    names = [entry["name"] for entry in result]
    if len(set(names)) != len(names):
        raise spirv_reflect.SpirvError(f"two bindings have the same name: {names}")
    return result


def _closure(sources: Path, variant: VariantLike) -> dict[Path, str]:
    """The text of a variant's shader and of all files it includes, each once, in the order of their first mention."""
    texts: dict[Path, str] = {}
    pending = [sources / f"{variant.shader}.comp"]
    while pending:
        path = pending.pop(0)
        if path in texts:
            continue
        try:
            texts[path] = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise ShaderError(f"shader {variant.shader}: {path} does not exist") from None
        for name in _INCLUDE.findall(texts[path]):
            found = _included(sources, path, name, variant)
            if found is None:
                raise ShaderError(f'shader {variant.shader}: {path.name} includes "{name}", which does not exist')
            pending.append(found)
    return texts


def _included(sources: Path, includer: Path, name: str, variant: VariantLike) -> Path | None:
    """The file that another one includes by this name for a variant."""
    name = re.sub(r"\{(\w+)\}", lambda axis: dict(variant.axes).get(axis[1], axis[0]), name)
    candidates = (includer.parent / name, sources / "include" / name)
    return next((path.resolve() for path in candidates if path.is_file()), None)


def _digest(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def read_manifest(path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The first line of a manifest, and the entries by variant; empty where there is none, or a broken one."""
    try:
        document, *entries = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        return document, dict(zip(document["variants"], entries, strict=True))
    except (FileNotFoundError, ValueError):
        return {}, {}


def _write(path: Path, data: bytes) -> None:
    """Replaces a file atomically: a driver that reads at the same time sees the old one or the new one."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        file.write(data)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def declared_variants(root: Path = ROOT) -> list[VariantLike]:
    """Imports the modules of the source tree that declare shaders, and returns their variants.

    The kernels' parent packages are entered without running their `__init__`: those may need the extension module,
    which the build makes at the same time as the shaders.
    """
    sys.path.insert(0, str(root))
    parents = KERNELS.split(".")[:-1]
    for depth in range(1, len(parents) + 1):
        name = ".".join(parents[:depth])
        if name not in sys.modules:
            package = types.ModuleType(name)
            package.__path__ = [str(root.joinpath(*parents[:depth]))]
            sys.modules[name] = package
    for name in OTHERS:
        importlib.import_module(name)
    kernels = importlib.import_module(KERNELS)
    for info in pkgutil.walk_packages(kernels.__path__, f"{KERNELS}."):
        importlib.import_module(info.name)
    shader = importlib.import_module("nnvk.driver.vulkan.shaders.declaration")
    return [variant for declared in shader.declared_shaders() for variant in declared.variants]


class Bar:
    """A progress bar of one line in a terminal. It is erased when the block ends, so that messages get clean lines."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drawn = ""

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self._draw("")

    def __call__(self, done: int, total: int) -> None:
        width = max(10, min(40, shutil.get_terminal_size().columns - 30))
        filled = width * done // total
        self._draw(f"[{'#' * filled}{'-' * (width - filled)}] {done} of {total} shaders")

    def _draw(self, text: str) -> None:
        if text != self._drawn:
            self._stream.write(f"\r{text.ljust(len(self._drawn))}" if text else f"\r{' ' * len(self._drawn)}\r")
            self._stream.flush()
            self._drawn = text


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    default_out = ROOT / "nnvk" / "driver" / "vulkan" / "spirv"
    parser.add_argument("--out", type=Path, default=default_out, help="folder of the results (%(default)s)")
    parser.add_argument("--jobs", type=int, default=None, help="compilations at once (default: one a processor)")
    options = parser.parse_args(arguments)
    try:
        with Bar(sys.stderr) as bar:
            summary = compile_all(
                declared_variants(),
                ROOT / "shaders",
                options.out,
                jobs=options.jobs,
                progress=bar if sys.stderr.isatty() else None,
            )
    except (ShaderError, glslang.GlslangError) as error:
        print(f"compile_shaders: {error}", file=sys.stderr)
        return 1
    print(
        f"{len(summary.compiled)} shader variants compiled, {len(summary.unchanged)} unchanged,"
        f" {len(summary.removed)} removed: {options.out}"
    )
    for reason in dict.fromkeys(summary.left_out.values()):
        first, *more = (name for name, its_reason in summary.left_out.items() if its_reason == reason)
        print(f"left out: {first}{f' and {len(more)} more' if more else ''}: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
