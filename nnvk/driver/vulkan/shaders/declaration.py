"""Declarations of shader variants, which `tools/compile_shaders.py` compiles and lowerings dispatch.

A `Shader` names one `shaders/<name>.comp` and the axes along which it is specialised at compile time (data type,
kind, tile, ...). Every combination of the axes' values is a `Variant`, compiled to `<name>.<value>.<value>.spv`;
value `v` of axis `A` becomes the macro `A_V` (upper case), defined as 1. Both the compiler and the lowering read
the same declaration, so both use the same names.

A variant with 16-bit elements has a native variant for devices that can store and convert such elements. It is compiled
from the same source with the macro `NATIVE_16`, as `<name>...native.spv`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

_SHADER_NAME = re.compile(r"[a-z][a-z0-9_]*")
_AXIS_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_VALUE = re.compile(r"[a-z0-9_]+")

_SIXTEEN_BITS = frozenset({"f16", "b16"})
"""Values of any axis that stand for elements that may be native on the device."""

NATIVE_ALONE = frozenset({"half", "cooperative_matrix"})
"""Values of any axis that compute with 16-bit floats. A variant of 16-bit floats with one of them is native only."""

NATIVE = "native"
"""The end of the name of a native variant."""

_declared: dict[str, Shader] = {}


@dataclass(frozen=True, slots=True)
class Requirements:
    """Requirements of an optional variant on the tools that compile shaders; a variant without them is left out.

    Attributes:
        extensions: GLSL extensions, such as `GL_KHR_cooperative_matrix`.
        spirv: the version of SPIR-V, such as `1.6`; empty for that of the target.
        probe: declarations in GLSL that compile with these extensions only if the compiler has the feature.
    """

    extensions: tuple[str, ...] = ()
    spirv: str = ""
    probe: str = ""


@dataclass(frozen=True, slots=True)
class Variant:
    """One compiled form of a shader.

    Attributes:
        shader: name of the shader, `shaders/<shader>.comp`.
        axes: (axis, value) pairs in the order of the shader's declaration.
        is_native: 16-bit elements are stored one by one, not packed in words.
        needs: requirements on the compiler; None if every compiler suffices.
    """

    shader: str
    axes: tuple[tuple[str, str], ...] = ()
    is_native: bool = False
    needs: Requirements | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The file stem of the compiled variant, e.g. `pool2d.avg.f32`."""
        return ".".join((self.shader, *(value for _, value in self.axes), *([NATIVE] if self.is_native else [])))

    @property
    def defines(self) -> tuple[str, ...]:
        """The macros that select the variant, e.g. `("KIND_AVG", "DTYPE_F32")`; each is defined as 1."""
        return (*(f"{axis}_{value.upper()}" for axis, value in self.axes), *(["NATIVE_16"] if self.is_native else []))

    @property
    def needs_native(self) -> bool:
        """Whether only the native variant exists."""
        return self.native.is_native and any(value in NATIVE_ALONE for _, value in self.axes)

    @property
    def native(self) -> Variant:
        """The native variant for devices with native 16-bit elements; the variant itself if it has no such elements."""
        return replace(self, is_native=any(value in _SIXTEEN_BITS for _, value in self.axes))


class Shader:
    """A compute shader and its compile-time axes, declared once and registered for the compile tool.

    Args:
        name: stem of the source file in `shaders/`.
        where: returns whether a combination exists, given a mapping of axis to value; all exist by default.
        needs: returns the requirements of a combination on the compiler, which make it optional; none by default.
            Kernels must have another variant that computes the same as an optional one.
        axes: values of every axis (upper-case names, lower-case values), in the order of the variant's name.

    Raises:
        ValueError: a malformed name, an axis without values, or a shader that is already declared.
    """

    __slots__ = ("_variants", "axes", "name")

    def __init__(
        self,
        name: str,
        *,
        where: Callable[[Mapping[str, str]], bool] | None = None,
        needs: Callable[[Mapping[str, str]], Requirements | None] | None = None,
        **axes: Sequence[str],
    ) -> None:
        if not _SHADER_NAME.fullmatch(name):
            raise ValueError(f"shader name {name!r}: expected lower-case letters, digits and underscores")
        for axis, values in axes.items():
            if not _AXIS_NAME.fullmatch(axis):
                raise ValueError(f"shader {name}: axis {axis!r}: expected an upper-case name")
            if isinstance(values, str) or not values:
                raise ValueError(f"shader {name}: axis {axis}: expected a non-empty sequence of values, got {values!r}")
            if wrong := [value for value in values if not _VALUE.fullmatch(value)]:
                raise ValueError(f"shader {name}: axis {axis}: malformed values {wrong}")
        if name in _declared:
            raise ValueError(f"shader {name} is declared twice")
        self.name = name
        self.axes: dict[str, tuple[str, ...]] = {axis: tuple(values) for axis, values in axes.items()}
        choices = (dict(zip(self.axes, values, strict=True)) for values in itertools.product(*self.axes.values()))
        self._variants: dict[tuple[str, ...], Variant] = {
            tuple(choice.values()): Variant(name, tuple(choice.items()), needs=needs(choice) if needs else None)
            for choice in choices
            if where is None or where(choice)
        }
        if not self._variants:
            raise ValueError(f"shader {name}: no combination of its axes is left")
        _declared[name] = self

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Every declared variant, with its native variant where it has one."""
        both = (native_variant for variant in self._variants.values() for native_variant in (variant, variant.native))
        return tuple(dict.fromkeys(variant for variant in both if variant.is_native or not variant.needs_native))

    def variant(self, **choice: str) -> Variant:
        """The variant with one value chosen for each axis.

        Raises:
            ValueError: an unknown or missing axis, an unknown value, or a combination that is left out.
        """
        if choice.keys() != self.axes.keys():
            raise ValueError(f"shader {self.name}: expected axes {list(self.axes)}, got {list(choice)}")
        for axis, value in choice.items():
            if value not in self.axes[axis]:
                raise ValueError(f"shader {self.name}: {axis}={value!r} is not one of {self.axes[axis]}")
        found = self._variants.get(tuple(choice[axis] for axis in self.axes))
        if found is None:
            raise ValueError(f"shader {self.name} has no variant {choice}")
        return found

    def __repr__(self) -> str:
        axes = "".join(f", {axis}={values!r}" for axis, values in self.axes.items())
        return f"Shader({self.name!r}{axes})"


def declared_shaders() -> tuple[Shader, ...]:
    """Every shader declared by the modules imported so far, by name."""
    return tuple(_declared[name] for name in sorted(_declared))
