from __future__ import annotations

import pytest

from nnvk.driver.vulkan.shaders import declaration
from nnvk.driver.vulkan.shaders.declaration import Shader, declared_shaders


@pytest.fixture(autouse=True)
def empty_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the shaders of the tests out of the real declarations."""
    monkeypatch.setattr(declaration, "_declared", {})


def test_variant_names_and_defines() -> None:
    pool = Shader("pool2d", KIND=("avg", "max"), DTYPE=("f32", "q8"))
    variant = pool.variant(DTYPE="q8", KIND="avg")
    assert variant.name == "pool2d.avg.q8"
    assert variant.defines == ("KIND_AVG", "DTYPE_Q8")
    assert variant.axes == (("KIND", "avg"), ("DTYPE", "q8"))


def test_every_combination_is_a_variant() -> None:
    pool = Shader("pool2d", KIND=("avg", "max"), DTYPE=("f32", "q8"))
    names = [variant.name for variant in pool.variants]
    assert names == ["pool2d.avg.f32", "pool2d.avg.q8", "pool2d.max.f32", "pool2d.max.q8"]


def test_elements_of_16_bits_bring_a_native_variant() -> None:
    pool = Shader(
        "pool2d", DTYPE=("f32", "f16"), BY=("none", "half"), where=lambda v: tuple(v.values()) != ("f32", "half")
    )
    names = ["pool2d.f32.none", "pool2d.f16.none", "pool2d.f16.none.native", "pool2d.f16.half.native"]
    assert [variant.name for variant in pool.variants] == names
    floats, halves = pool.variant(DTYPE="f32", BY="none"), pool.variant(DTYPE="f16", BY="none")
    assert floats.native == floats
    assert halves.native.defines == ("DTYPE_F16", "BY_NONE", "NATIVE_16")
    assert halves.native.native == halves.native


def test_shader_without_axes_has_one_variant() -> None:
    assert Shader("fill").variant().name == "fill"


def test_where_leaves_combinations_out() -> None:
    pool = Shader("pool2d", where=lambda v: v != {"KIND": "l2", "DTYPE": "q8"}, KIND=("l2",), DTYPE=("f32", "q8"))
    assert [variant.name for variant in pool.variants] == ["pool2d.l2.f32"]
    with pytest.raises(ValueError, match="no variant"):
        pool.variant(KIND="l2", DTYPE="q8")


def test_shaders_are_declared_once() -> None:
    first, second = Shader("b"), Shader("a")
    assert declared_shaders() == (second, first)
    with pytest.raises(ValueError, match="declared twice"):
        Shader("a")


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({}, "expected axes"),
        ({"KIND": "avg", "DTYPE": "f32"}, "expected axes"),
        ({"KIND": "min"}, "'min' is not one of"),
    ],
)
def test_wrong_choice_is_refused(choice: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Shader("pool2d", KIND=("avg", "max")).variant(**choice)


def test_malformed_declarations_are_refused() -> None:
    with pytest.raises(ValueError, match="shader name"):
        Shader("Pool-2D")
    with pytest.raises(ValueError, match="upper-case"):
        Shader("pool2d", kind=("avg",))
    with pytest.raises(ValueError, match="non-empty sequence"):
        Shader("pool2d", KIND=())
    with pytest.raises(ValueError, match="non-empty sequence"):
        Shader("pool2d", KIND="avg")
    with pytest.raises(ValueError, match="malformed values"):
        Shader("pool2d", KIND=("Avg",))
    with pytest.raises(ValueError, match="no combination"):
        Shader("pool2d", where=lambda v: False, KIND=("avg",))
