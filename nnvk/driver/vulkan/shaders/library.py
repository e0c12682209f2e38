"""The compiled shaders: SPIR-V, and the manifest's entry of each variant."""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from nnvk.base.extents import is_extent
from nnvk.driver.vulkan.shaders.declaration import Shader, Variant
from nnvk.driver.vulkan.shaders.float_controls import FLOAT_CONTROLS, declare_float_controls
from nnvk.driver.vulkan.shaders.freeze import freeze
from nnvk.driver.vulkan.shaders.profile import SUBGROUP_SIZE_FEATURES
from nnvk.driver.vulkan.shaders.prune import prune
from nnvk.driver.vulkan.shaders.unroll import unroll

# An editable installation has two folders for a package: one for what was built, and the source tree.
_PLACES = [Path(place) / "spirv" for place in sys.modules[__name__.rsplit(".", 2)[0]].__path__]
FOLDER = next(filter(Path.is_dir, _PLACES), _PLACES[0])
_LARGEST = (2 - 2**-23) * 2.0**127
"""The largest float32."""
_LARGEST_CONSTANT = 1024
"""The largest size of tiles, windows and workgroups in a valid plan, because compilers unroll loops over them."""
OFFSET = "_offset"
"""The end of the names of push constants that are offsets of tensors."""
_SUBGROUP_SIZE = "SUBGROUP_SIZE"
"""The specialisation constant of shaders that require a size of subgroups."""
_AXES = ("local_x", "local_y", "local_z")
_PACK = {"uint": "I", "int": "i", "float": "f", "bool": "I"}


class CompiledShader:
    """One variant: its SPIR-V, bindings, push constants, specialisation constants, and required device features."""

    def __init__(self, name: str, entry: Mapping[str, Any], folder: Path) -> None:
        self.name = name
        self.path = folder / f"{name}.spv"
        """The file of the module."""
        self._spirv: bytes | None = None
        self._modules: dict[tuple[tuple[int, ...], frozenset[str], bool], bytes] = {}
        self.bindings: tuple[str, ...] = tuple(binding["name"] for binding in entry["bindings"])
        """Names of the tensors, by binding."""
        self.writes: frozenset[str] = frozenset(b["name"] for b in entry["bindings"] if not b["readonly"])
        """Tensors that the shader may write."""
        self.reads: frozenset[str] = frozenset(b["name"] for b in entry["bindings"] if not b["writeonly"])
        """Tensors that the shader may read."""
        self.push_constant_size: int = entry["push_constant_size"]
        members = sorted(entry["push_constants"], key=lambda member: member["offset"])
        self.members = {member["name"]: _PACK[member["type"]] for member in members}
        """The push constants, one behind the other, with their formats of the module `struct`."""
        self._block = struct.Struct(f"<{''.join(self.members.values())}")
        if self._block.size != self.push_constant_size:
            raise ValueError(f"shader {name}: there are gaps between push constants")
        self.offsets = frozenset(f"{name}{OFFSET}" for name in self.bindings) & self.members.keys()
        """Push constants that are offsets of tensors."""
        has_full_subgroups = any(constant["name"] == _SUBGROUP_SIZE for constant in entry["specialization"])
        self.features = frozenset(entry["features"]) | (SUBGROUP_SIZE_FEATURES if has_full_subgroups else frozenset())
        """Device features without which the variant can't run, by their Vulkan names."""
        self.shared_memory_bytes: int = entry["shared_memory_bytes"] or 0
        axes = dict(zip(entry["local_size_ids"], _AXES, strict=True))
        self._constants: dict[str, tuple[int, str, Any]] = {
            axes.get(constant["id"], constant["name"]): (constant["id"], _PACK[constant["type"]], constant["default"])
            for constant in entry["specialization"]
        }

    @property
    def family(self) -> str:
        """The shader that it is a variant of."""
        return self.name.partition(".")[0]

    @property
    def spirv(self) -> bytes:
        """The module."""
        if self._spirv is None:  # not a cached_property: until Python 3.12 that has a lock, which no fork renews
            self._spirv = self.path.read_bytes()
        return self._spirv

    def frozen(
        self, specialization: tuple[int, ...], features: Collection[str] = (), *, unroll_loops: bool = True
    ) -> bytes:
        """The module for these values of the specialisation constants, with the float controls among ``features``.

        ``unroll_loops``: with its loops unrolled. `DeviceProfile.unroll_loops` says whether a device's driver gets the
        module so. A caller that only compiles modules, to count instructions, say, gets them so by default.
        """
        key = specialization, FLOAT_CONTROLS.intersection(features), unroll_loops
        known = self._modules.get(key)
        if known is None:
            frozen = prune(freeze(self.spirv, specialization))
            if unroll_loops:
                frozen = unroll(frozen)
            known = self._modules[key] = declare_float_controls(frozen, key[1])
        return known

    def specialization(self, values: Mapping[str, int | float | bool]) -> tuple[int, ...]:
        """The words of the specialisation constants, by id, with defaults where ``values`` has none."""
        unknown = values.keys() - self._constants.keys()
        if unknown:
            known = sorted(self._constants)
            raise KeyError(f"shader {self.name} has no specialisation constants {sorted(unknown)}, only {known}")
        count = max((index for index, _, _ in self._constants.values()), default=-1) + 1
        words = [0] * count
        for name, (index, format_, default) in self._constants.items():
            given = struct.pack(f"<{format_}", _fitting(format_, values.get(name, default)))
            words[index] = struct.unpack("<I", given)[0]
        return tuple(words)

    def has_constant(self, name: str) -> bool:
        """Whether there is a specialisation constant of this name."""
        return name in self._constants

    def constant(self, words: Sequence[int], name: str) -> int:
        """The word of a specialisation constant among the words that `specialization` gave."""
        return words[self._constants[name][0]]

    @property
    def has_full_subgroups(self) -> bool:
        """Whether it requires subgroups of a size, each with as many invocations."""
        return self.has_constant(_SUBGROUP_SIZE)

    def subgroup_size(self, words: Sequence[int], preferred: int = 0) -> int:
        """The size that all subgroups must have; 0 if it does not matter.

        ``preferred``: the size that the device prefers, for shaders without subgroup operations.
        """
        if self.has_full_subgroups:
            return self.constant(words, _SUBGROUP_SIZE)
        return 0 if any(name.startswith("subgroup") for name in self.features) else preferred

    def with_constants(self, words: Sequence[int], **values: int) -> tuple[int, ...]:
        """The words of `specialization` with new values for the named constants."""
        changed = list(words)
        for name, value in values.items():
            changed[self._constants[name][0]] = int(value)
        return tuple(changed)

    def named_constants(self, words: Sequence[int]) -> dict[str, int]:
        """The words of `specialization`, by name; a float is given by its bits."""
        return {name: words[index] for name, (index, _, _) in self._constants.items()}

    def local_size(self, words: Sequence[int]) -> tuple[int, ...]:
        """Invocations along each axis, by the words of `specialization`. ValueError: these are implausible."""
        size, gaps = [1, 1, 1], list(words)
        if len(words) != max((index for index, _, _ in self._constants.values()), default=-1) + 1:
            raise ValueError(f"shader {self.name} has not {len(words)} specialisation constants")
        for name, (index, _, default) in self._constants.items():
            gaps[index] = 0
            # Numbers that default to 0 tell cases apart; shaders divide by others, or count up to them.
            least, most = (0, 1) if isinstance(default, bool) else (min(default, 1), _LARGEST_CONSTANT)
            if name in _AXES:
                size[_AXES.index(name)] = words[index]
            elif not least <= words[index] <= most:
                raise ValueError(f"shader {self.name}: {name} = {words[index]}")
        if any(gaps):
            raise ValueError(f"shader {self.name} has no specialisation constants for some of {list(words)}")
        return tuple(size)

    def check_push_constants(self, values: Mapping[str, int | float]) -> None:
        """Raise the errors of `push_constants` for all members except the offsets, which are known later."""
        if self.offsets & values.keys():
            raise KeyError(f"shader {self.name}: {sorted(self.offsets & values.keys())} are filled in by the lowering")
        known = {name: 0 if is_extent(value) else value for name, value in values.items()}
        self.push_constants({**known, **dict.fromkeys(self.offsets, 0)})

    def push_constants(self, values: Mapping[str, int | float]) -> bytes:
        """The push-constant block. Every member must be given, and nothing else.

        Finite numbers beyond the range of float32, such as products of extreme scales, become its largest number.
        """
        if values.keys() != self.members.keys():
            missing = sorted(self.members.keys() - values.keys())
            unknown = sorted(values.keys() - self.members.keys())
            raise KeyError(f"shader {self.name}: push constants missing {missing}, unknown {unknown}")
        numbers = [values[name] if of != "f" else _fitting(of, values[name]) for name, of in self.members.items()]
        with suppress(struct.error):
            return self._block.pack(*numbers)
        for name, format_ in self.members.items():
            try:
                struct.pack(f"<{format_}", _fitting(format_, values[name]))
            except struct.error as error:
                raise ValueError(f"shader {self.name}: {name} = {values[name]!r}: {error}") from None
        raise AssertionError("each of them can be packed")


def _fitting(format_: str, value: float) -> float:
    return max(-_LARGEST, min(value, _LARGEST)) if format_ == "f" and math.isfinite(value) else value


class ShaderLibrary:
    """All compiled variants.

    Raises:
        FileNotFoundError: there is no manifest.
        ValueError: the manifest can't be read.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        manifest = (folder / "manifest.jsonl").read_bytes()
        self.digest = hashlib.sha256(manifest).hexdigest()
        """The digest of the manifest, which includes the digests of all sources and of the compiler."""
        try:
            first, *lines = manifest.splitlines()
            document = json.loads(first)
            self._entries = dict(zip(document["variants"], lines, strict=True))  # each is parsed at its first use
            self.variants: Collection[str] = self._entries.keys()
            """The names of all compiled variants."""
            self.left_out: Mapping[str, str] = document["left_out"]
            """Optional variants that the build's compiler could not compile, and why."""
            self.features = FLOAT_CONTROLS | SUBGROUP_SIZE_FEATURES | frozenset(document["features"])
            """Device features that at least one shader needs or uses."""
        except (KeyError, TypeError) as error:
            raise ValueError(f"manifest.jsonl is not one of tools/compile_shaders.py: {error!r}") from error
        self._folder = folder
        self._compiled: dict[str, CompiledShader] = {}
        self._refused: dict[tuple[str, frozenset[str]], str | None] = {}
        self._files = frozenset(os.listdir(folder))

    def __getitem__(self, variant: Variant) -> CompiledShader:
        return self.named(variant.name)

    def named(self, name: str) -> CompiledShader:
        """The variant of this name. Raises KeyError."""
        known = self._compiled.get(name)
        if known is None:
            if name not in self.variants:
                raise KeyError(f"shader variant {name} is not compiled; run tools/compile_shaders.py")
            made = CompiledShader(name, json.loads(self._entries[name]), self._folder)
            known = self._compiled.setdefault(name, made)
        return known

    def names(self, text: str) -> frozenset[str]:
        """The variants that a text names, separated by commas or spaces. ValueError: there is no variant of a name."""
        found = frozenset(text.replace(",", " ").split())
        unknown = sorted(found.difference(self.variants))
        if unknown:
            raise ValueError(f"must name shader variants, as nnvk plan and nnvk check show them, got {unknown[0]!r}")
        return found

    def refuse(self, shader: Shader, available: frozenset[str]) -> str | None:
        """The reason why no variant of ``shader`` runs on a device with these features; None if one does."""
        key = shader.name, available
        if key not in self._refused:
            self._refused[key] = self._refuse(shader, available)
        return self._refused[key]

    def _refuse(self, shader: Shader, available: frozenset[str]) -> str | None:
        variants = [variant for variant in shader.variants if variant.name not in self.left_out]
        if not variants:
            return f"shader {shader.name} was left out of the build: {self.left_out[shader.variants[0].name]}"
        for variant in variants:
            if variant.name not in self.variants or f"{variant.name}.spv" not in self._files:
                return f"shader {variant.name} is not compiled; run tools/compile_shaders.py"
        lacking = min((self[variant].features - available for variant in variants), key=len)
        return f"shader {shader.name} needs {', '.join(sorted(lacking))}, which the device lacks" if lacking else None
