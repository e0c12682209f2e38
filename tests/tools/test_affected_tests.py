"""A change selects the tests that it can affect. The source tree is used as it is."""

from __future__ import annotations

import gc
import subprocess
from pathlib import Path

import pytest
from affected_tests import ROOT, Affected, SourceMap, contains_word
from quick import Selection, changed_files

PARTITION = "tests/runtime/test_partition.py"
GEMM = "nnvk/driver/vulkan/lowering/gemm/tiles/__init__.py"


@pytest.fixture(scope="module")
def source() -> SourceMap:
    """The map with its trees, which the garbage collector would look at for two thirds of the time."""
    made = SourceMap()
    gc.disable()
    try:
        assert made._trees
    finally:
        gc.enable()
    return made


def selects(affected: Affected, test_id: str) -> bool:
    file = test_id.partition("::")[0]
    words = affected.related.get(file)
    return file in affected.near or (words is not None and (not words or contains_word(test_id, words)))


def test_a_kernel_selects_the_cases_of_its_operations(source: SourceMap) -> None:
    affected = source.affected(["nnvk/driver/vulkan/kernels/softmax.py"])
    assert selects(affected, "tests/driver/vulkan/test_operations.py::test_like_the_reference[own-SOFTMAX f32[7] 0.5f]")
    assert selects(affected, "tests/conformance/test_suite.py::test_vectors[V1_2/softmax_v1_2-vulkan-0]")
    assert not selects(
        affected, "tests/driver/vulkan/test_operations.py::test_like_the_reference[own-ADD f32[1] f32[1]]"
    )
    assert not selects(affected, "tests/importers/test_onnx_ranks.py::test_moves[Reshape-float-5]")
    assert affected.unknown == ()


def test_a_table_of_operations_counts(source: SourceMap) -> None:
    assert {"TANH", "RSQRT", "ABS"} <= source.words("nnvk/driver/vulkan/kernels/unary.py")


def test_what_kernels_share_selects_the_operations_of_them_all(source: SourceMap) -> None:
    words = source.words("nnvk/driver/vulkan/lowering/reductions/slices.py")
    assert {"SOFTMAX", "L2_NORMALIZATION"} <= words
    assert "ADD" not in words


def test_a_shader_selects_what_its_kernel_selects(source: SourceMap) -> None:
    assert source.shader_users("shaders/softmax.comp") == {"nnvk/driver/vulkan/kernels/softmax.py"}
    kernel = source.affected(["nnvk/driver/vulkan/kernels/softmax.py"])
    assert source.affected(["shaders/softmax.comp"]) == kernel


def test_an_include_selects_the_kernels_of_its_shaders(source: SourceMap) -> None:
    users = source.shader_users("shaders/include/tensors.glsl")
    assert "nnvk/driver/vulkan/kernels/softmax.py" in users
    for tile in ("shared", "register"):  # named by the axis TILE; one includes the other
        assert source.shader_users(f"shaders/include/gemm/{tile}.glsl") == {GEMM}


def test_a_mapper_selects_the_tests_of_its_operators(source: SourceMap) -> None:
    affected = source.affected(["nnvk/importers/onnx/mappers/shape.py"])
    assert selects(affected, "tests/importers/test_onnx_ranks.py::test_moves[Reshape-float-5]")
    assert not selects(affected, "tests/importers/test_onnx_ranks.py::test_moves[Gather-float-5]")
    assert not selects(affected, "tests/importers/test_tflite_shape.py::test_reshape")
    tflite = source.affected(["nnvk/importers/tflite/mappers/shape.py"])
    assert "tests/importers/test_tflite_shape.py" in tflite.near
    assert not any("onnx" in file for file in (*tflite.near, *tflite.related))


def test_the_partitioner_selects_the_tests_of_the_runtime(source: SourceMap) -> None:
    affected = source.affected(["nnvk/runtime/partitioner.py"])
    assert PARTITION in affected.near
    assert selects(affected, "tests/runtime/test_nesting.py::test_any")
    assert not any(file.startswith("tests/importers/") for file in (*affected.near, *affected.related))


@pytest.mark.parametrize("file", ["docs/api.md", "README.md", "Makefile"])
def test_a_document_selects_the_tests_of_documents(source: SourceMap, file: str) -> None:
    affected = source.affected([file])
    assert "tests/docs/test_pages.py" in affected.near
    assert all(test.startswith("tests/docs/") for test in affected.near)
    assert not affected.related


def test_tests_and_their_helpers(source: SourceMap) -> None:
    assert source.affected([PARTITION]).near == (PARTITION,)
    assert "tests/driver/vulkan/test_horizontal_fusion.py" in source.affected(["tests/support/fused.py"]).near
    assert PARTITION in source.affected(["tests/runtime/conftest.py"]).related


def test_several_files_select_what_each_selects(source: SourceMap) -> None:
    both = source.affected(["nnvk/driver/vulkan/kernels/softmax.py", "nnvk/driver/vulkan/kernels/pad.py"])
    assert {"SOFTMAX", "PAD"} <= both.related["tests/driver/vulkan/test_operations.py"]


def test_a_file_without_tests_is_named(source: SourceMap) -> None:
    assert source.affected(["LICENSE"]).unknown == ("LICENSE",)


def test_every_module_selects_tests(source: SourceMap) -> None:
    modules = [path.relative_to(ROOT).as_posix() for path in (ROOT / "nnvk").rglob("*.py")]
    assert source.affected(modules).unknown == ()


def test_kernels_name_their_operations(source: SourceMap) -> None:
    kernels = [path for path in (ROOT / "nnvk/driver/vulkan/kernels").glob("*.py") if path.name != "__init__.py"]
    assert [path.name for path in kernels if not source.words(path.relative_to(ROOT).as_posix())] == []


@pytest.mark.parametrize(
    ("test_id", "found"),
    [("t[ADD f32[1]]", True), ("t[V1_0/add_2-x]", True), ("test_add", True), ("t[padded]", False), ("t[ADDS]", False)],
)
def test_words_are_whole(test_id: str, found: bool) -> None:
    assert contains_word(test_id, ["ADD"]) == found
    assert not contains_word(test_id, [])


def test_changed_files_are_those_of_git(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=b", *arguments], cwd=tmp_path, check=True)

    git("init", "-q")
    for name in ("same", "edited", "deleted", ".gitignore"):
        (tmp_path / name).write_text("ignored\n")
    git("add", "-A")
    git("commit", "-qm", "first")
    (tmp_path / "edited").write_text("2")
    (tmp_path / "deleted").unlink()
    (tmp_path / "new").write_text("3")
    (tmp_path / "ignored").write_text("4")
    assert changed_files("HEAD", tmp_path) == ["deleted", "edited", "new"]
    git("add", "-A")
    git("commit", "-qm", "second")
    assert changed_files("HEAD", tmp_path) == []
    assert changed_files("HEAD~1", tmp_path) == ["deleted", "edited", "new"]


def test_nothing_starts_when_the_time_is_over(request: pytest.FixtureRequest) -> None:
    item = request.node
    late = Selection(Affected((), {}, ()), deadline=0)
    assert late.pytest_runtest_protocol(item) is True
    assert late.left_out == 1
    early = Selection(Affected((), {}, ()), deadline=float("inf"))
    assert early.pytest_runtest_protocol(item) is None
    assert early.left_out == 0
