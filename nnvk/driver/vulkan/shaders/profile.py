"""The properties of a device that lowering may use, and the profiles that can replace a device's own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace
from typing import Any

from nnvk.base.errors import NnapiError, ResultCode, bad_data
from nnvk.driver.vulkan.shaders.declaration import NATIVE, NATIVE_ALONE, Variant
from nnvk.driver.vulkan.shaders.passes import Pass, check_names

LARGEST_BUFFER = 2**32 - 256
"""Bytes of a buffer: the native module counts them in 32 bits, in steps of 256."""

NATIVE_16 = frozenset({"storageBuffer16BitAccess", "shaderFloat16", "shaderRoundingModeRTEFloat16"})
"""Features of devices that store elements of 16 bits one by one, and round floats to nearest when they do."""

ACCELERATED_DOTS = "integerDotProduct4x8BitPackedUnsignedAccelerated"
"""The property of devices that have an instruction for the dot product of the bytes of two words."""

AVOID_SHADERS = "NNVK_AVOID_SHADERS"
"""The variable that names the shader variants to avoid."""


class AvoidedShader(NnapiError):
    """An operation cannot be lowered, because its only shader variant is avoided or was not compiled."""

    def __init__(self, name: str, why: str = f"is avoided ({AVOID_SHADERS})") -> None:
        super().__init__(ResultCode.OP_FAILED, f"shader {name} {why}")


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """Limits and features of a device. A plan depends on no other property of the device."""

    name: str
    is_cpu: bool
    """The device computes on the CPU (llvmpipe): a subgroup is a SIMD vector, there is no fast shared memory."""
    unified_memory: bool
    """Host-visible memory is as fast as any other, so shaders may read inputs and write outputs in place."""
    subgroup_size: int
    max_buffer: int
    """Bytes that one binding can span (maxStorageBufferRange)."""
    max_groups: int
    """The most workgroups per dimension."""
    max_invocations: int
    """The most invocations per workgroup."""
    max_shared_memory: int
    """Bytes of shared memory per workgroup."""
    features: frozenset[str]
    units: int = 16
    """Cores of a CPU or compute units of a GPU; a guess if Vulkan does not give the number."""
    texel_loads: bool = False
    """Shaders read through texel buffers, not storage buffers, because these loads are much faster."""
    timestamps: bool = True
    """The device can measure the time of its work."""
    host_writes_device_memory: bool = False
    """The host can write to all of the device's memory (resizable BAR), so inputs are put where shaders read them."""
    smallest_subgroup: int = 32
    """The smallest size of subgroups that the driver may choose for a shader."""
    largest_subgroup: int = 64
    """And the largest."""
    barriers_by_buffer: bool = False
    """Barriers are placed by buffer, not by tensor, because the validation layer sees only bound buffers."""

    cooperative_matrices: frozenset[str] = frozenset()
    """The cooperative matrices that shaders may use, such as ``q8 16x16x16``: the data type of the factors as the axis
    DTYPE has it, and M, N and K."""
    matrix_subgroup: int = 32
    """The size of subgroups that shaders with cooperative matrices require: the smallest, whose invocations have most
    registers."""
    prefers_matrices: bool = False
    """GEMMs take cooperative matrices wherever they can (`NNVK_COOPERATIVE_MATRICES=1`)."""

    prefers_smallest_subgroup: bool = False
    """Pipelines without subgroup operations require the smallest size of subgroups."""

    disabled_passes: frozenset[str] = frozenset()
    """Names of the disabled passes (`NNVK_DISABLE_PASSES`)."""
    avoided: frozenset[str] = frozenset()
    """Names of the shader variants to avoid (`NNVK_AVOID_SHADERS`)."""
    left_out: frozenset[str] = frozenset()
    """Names of optional shader variants that the build's compiler could not compile."""

    def runs(self, pass_: Pass) -> bool:
        """Whether a pass is enabled."""
        return pass_.value not in self.disabled_passes

    def without(self, pass_: Pass) -> DeviceProfile:
        """The profile with a pass disabled."""
        return replace(self, disabled_passes=self.disabled_passes | {pass_.value})

    @property
    def has_native_16(self) -> bool:
        """Whether 16-bit elements are stored one by one; otherwise two of them are packed in a word.

        All constants are stored in the same way, so a device that avoids the native form of any variant has packed
        elements everywhere.
        """
        return self.features >= NATIVE_16 and not any(map(_has_packed_variant, self.avoided))

    @property
    def has_dots(self) -> bool:
        """Whether dot products of bytes are worth while: a GPU without an instruction for them takes several.

        On lavapipe and SwiftShader, which have none either, they take less time than products of floats.
        """
        return "shaderIntegerDotProduct" in self.features and (self.is_cpu or ACCELERATED_DOTS in self.features)

    @property
    def preserves_special(self) -> bool:
        """Whether shaders keep infinities and NaN of 32-bit floats, so that comparisons with NaN are false."""
        return "shaderSignedZeroInfNanPreserveFloat32" in self.features

    def native_variant(self, variant: Variant) -> Variant:
        """The form of a variant that runs on the device: the native form if 16-bit elements are native."""
        return variant.native if self.has_native_16 else variant

    def avoids(self, variant: Variant) -> bool:
        """Whether plans must not use a variant."""
        if not self.avoided and not self.left_out:
            return False
        name = self.native_variant(variant).name
        return name in self.avoided or name in self.left_out

    @property
    def may_use_matrices(self) -> bool:
        """Whether GEMMs may use cooperative matrices. Software devices compute everything else faster than these."""
        return self.prefers_matrices or not self.is_cpu

    def matrix_sizes(self, kind: str) -> list[tuple[int, int, int]]:
        """M, N and K of the cooperative matrices for a data type, as the axis DTYPE has it."""
        found = [_MATRIX.fullmatch(text) for text in sorted(self.cooperative_matrices)]
        return [(int(m[2]), int(m[3]), int(m[4])) for m in found if m and m[1] == kind]

    @property
    def required_subgroup(self) -> int:
        """The size of subgroups that pipelines without subgroup operations require; 0 lets the driver choose."""
        return self.smallest_subgroup if self.prefers_smallest_subgroup else 0

    def unrolls(self, variant: str) -> bool:
        """Whether the driver gets the module of a variant with unrolled loops (`unroll`).

        The drivers of GPUs with small subgroups, Mali and VideoCore, keep indexed local arrays in memory otherwise.
        Other drivers unroll loops themselves, and may take 1.7 times as long to compile unrolled modules (lavapipe).
        Where bytes are multiplied as floats, Adreno's compiler takes 0.8 of the instructions and fewer registers for
        unrolled modules, and Intel's spills.
        """
        is_adreno = self.has_few_registers and not self.has_subgroups_of_eight
        return self.has_small_subgroups or (is_adreno and variant.startswith(_CONVERTS_BYTES))

    @property
    def has_small_subgroups(self) -> bool:
        """Whether the device is a GPU with subgroups as small as those of Mali and VideoCore.

        Their invocations have 64 registers of 32 bits, and half as many run at once with more than 32.
        """
        return not self.is_cpu and self.subgroup_size <= _SMALL_SUBGROUP

    @property
    def has_small_integers(self) -> bool:
        """Whether shaders compute with integers of 16 bits, which distinguishes Mali from VideoCore."""
        return "shaderInt16" in self.features

    @property
    def has_few_registers(self) -> bool:
        """Whether the device is a GPU as Intel's or Adreno, whose subgroups are not small but vary in size.

        Subgroups of 8 to 32 invocations share 4 KiB of registers on Intel's GPUs, whose compiler spills the rest. Half
        as many invocations run at once on Adreno with more than 96 registers. AMD's and NVIDIA's have about 256.
        """
        is_usual = _USUAL_SUBGROUPS[0] <= self.smallest_subgroup <= self.largest_subgroup <= _USUAL_SUBGROUPS[1]
        return not self.is_cpu and not self.has_small_subgroups and not is_usual

    @property
    def has_subgroups_of_eight(self) -> bool:
        """Whether the device is a GPU whose compiler may choose subgroups of eight invocations, as Intel's.

        It chooses them for shaders whose registers do not fit larger ones. An invocation then has 128 of 32 bits.
        """
        return self.has_few_registers and self.smallest_subgroup <= _SMALLEST_SUBGROUP

    @property
    def lacks_high_products(self) -> bool:
        """Whether the device is a GPU without an instruction for the high word of a product of 32 bits.

        Vulkan does not tell. Mali, VideoCore and Adreno have none, and no other GPU has subgroups as small or as large.
        """
        is_large = not self.is_cpu and self.largest_subgroup > _USUAL_SUBGROUPS[1]
        return self.has_small_subgroups or is_large

    @property
    def saturates(self) -> bool:
        """Whether the device is a GPU whose instructions clamp a result to 0..1 at no cost: all but VideoCore."""
        return not self.is_cpu and (not self.has_small_subgroups or self.has_small_integers)

    @property
    def team(self) -> int:
        """Invocations of a workgroup that should compute one thing together.

        If a subgroup is a SIMD vector of the CPU, more invocations would only wait for each other.
        """
        return 8 if self.is_cpu else 64

    @property
    def large_team(self) -> int:
        """The same for one thing that is so long that more invocations of a GPU hide how long its loads take."""
        return self.team if self.is_cpu else min(4 * self.team, 1 << self.max_invocations.bit_length() - 1)


def _has_packed_variant(name: str) -> bool:
    """Whether a name is that of a native variant that also has a packed form."""
    parts = name.split(".")
    return parts[-1] == NATIVE and NATIVE_ALONE.isdisjoint(parts)


_SMALL_WINDOW = 256 << 20
"""Bytes of device memory that the host can write to on machines where that is not all of it."""
_UNITS = {"discrete_gpu": 32, "integrated_gpu": 8, "virtual_gpu": 16, "other": 4}
"""The assumed number of units of a GPU of each kind."""


_SMALL_SUBGROUP = 16
"""The subgroups of Mali and VideoCore. Those of AMD, Intel, NVIDIA and Adreno have at least 32 invocations."""
_GATHERING = 8
"""The lanes of a CPU's vectors from which on texels are gathered by vector instructions. A load is then 5 to 20 times
faster (llvmpipe). With fewer lanes it is not faster (SwiftShader)."""
_MATRIX = re.compile(r"([a-z]+[0-9]+) ([1-9][0-9]*)x([1-9][0-9]*)x([1-9][0-9]*)")
_MATRIX_TYPES: dict[tuple[str, ...], str] = {
    ("sint8", "sint8", "sint32", "sint32"): "q8",
    ("float16", "float16", "float32", "float32"): "f16",
}
"""The data type, as the axis DTYPE has it, by the components of A, B, C and the result of cooperative matrices."""
_SMALLEST_SUBGROUP = 8
_USUAL_SUBGROUPS = 32, 64
"""The sizes of subgroups of AMD's and NVIDIA's GPUs, and of what else has no others."""
SUBGROUP_SIZE_FEATURES = frozenset({"subgroupSizeControl", "computeFullSubgroups"})
"""The features by which pipelines require a size of subgroups."""
_CONVERTS_BYTES = "gemm.q8.register.float."
"""The variants of `gemm` that convert bytes for one element of K after the other."""
_TEXEL = 16
"""Bytes of a texel, which has four words (shaders/include/texels.glsl)."""


def profile_of(
    name: str,
    kind: str,
    limits: Mapping[str, int | float],
    features: frozenset[str],
    matrices: Iterable[tuple[int, int, int, str, str, str, str]] = (),
) -> DeviceProfile:
    """The profile of a physical device, from its Vulkan properties.

    ``matrices``: its cooperative matrices, as `_native.PhysicalDevice.cooperative_matrices` has them.
    """
    max_buffer = min(int(limits["maxStorageBufferRange"]), LARGEST_BUFFER) // 256 * 256
    usable = frozenset(
        f"{_MATRIX_TYPES[tuple(types)]} {m}x{n}x{k}" for m, n, k, *types in matrices if tuple(types) in _MATRIX_TYPES
    )
    if kind != "cpu" and ACCELERATED_DOTS not in features:
        usable = frozenset()  # without this instruction, a GPU has none for matrices: Intel's driver lists them anyway
    least, most = (int(limits.get(f"{end}SubgroupSize", limits["subgroupSize"])) for end in ("min", "max"))
    is_unified = kind in ("cpu", "integrated_gpu")
    gathers = kind == "cpu" and limits["subgroupSize"] >= _GATHERING
    return DeviceProfile(
        name,
        is_cpu=kind == "cpu",
        unified_memory=is_unified,
        subgroup_size=int(limits["subgroupSize"]),
        max_buffer=max_buffer,
        max_groups=min(int(limits[f"maxComputeWorkGroupCount{axis}"]) for axis in range(3)),
        max_invocations=int(limits["maxComputeWorkGroupInvocations"]),
        max_shared_memory=int(limits["maxComputeSharedMemorySize"]),
        features=features,
        units=(os.cpu_count() or 1) if kind == "cpu" else int(limits["shaderUnits"]) or _UNITS[kind],
        texel_loads=gathers and limits["maxTexelBufferElements"] * _TEXEL >= max_buffer,
        timestamps=bool(limits["timestampValidBits"]),
        host_writes_device_memory=not is_unified and limits.get("hostVisibleDeviceMemory", 0) > _SMALL_WINDOW,
        smallest_subgroup=least,
        largest_subgroup=most,
        cooperative_matrices=usable,
        matrix_subgroup=least,
        prefers_smallest_subgroup=not usable and _may_require_subgroups_of_32(kind, limits, features),
    )


def _may_require_subgroups_of_32(kind: str, limits: Mapping[str, int | float], features: frozenset[str]) -> bool:
    """Whether a GPU is one of AMD's, from RDNA 1 on, whose driver prefers subgroups of 64.

    RDNA 1 and 2 issue an instruction of 64 invocations in two cycles, and twice as many subgroups of 32 wait less for
    memory. RDNA 3 and later, which have cooperative matrices, issue most instructions of floats of 64 in one cycle.
    """
    sizes = tuple(int(limits.get(f"{end}SubgroupSize", 0)) for end in ("leastRequired", "max"))
    most = sizes[0] * int(limits.get("maxComputeWorkgroupSubgroups", 0))
    fits = most >= limits["maxComputeWorkGroupInvocations"]  # of all workgroups
    return kind != "cpu" and features >= SUBGROUP_SIZE_FEATURES and sizes == _USUAL_SUBGROUPS and fits


_SETS = ("features", "cooperative_matrices", "disabled_passes", "avoided", "left_out")
"""The fields that are sets; in JSON they are sorted lists."""


def described(profile: DeviceProfile) -> dict[str, Any]:
    """A profile in JSON's types."""
    return {**asdict(profile), **{name: sorted(getattr(profile, name)) for name in _SETS}}


def parse_profile(value: Any) -> DeviceProfile:
    """The profile from a description by `described`, or one written by hand. BAD_DATA says why it is wrong."""
    if not isinstance(value, Mapping):
        raise bad_data(f"a device profile is a JSON object, got {type(value).__name__}")
    known = {field.name: field for field in fields(DeviceProfile)}
    missing = [name for name, field in known.items() if field.default is MISSING and name not in value]
    unknown = sorted(set(value) - set(known))
    if missing or unknown:
        raise bad_data(f"a device profile has {', '.join(known)}; missing: {missing}, unknown: {unknown}")
    for name, given in value.items():
        _check_field(name, str(known[name].type), given)
    sets = {name: frozenset(value.get(name, ())) for name in _SETS}
    wrong = [text for text in sets["cooperative_matrices"] if not _MATRIX.fullmatch(text)]
    if wrong:
        raise bad_data(f"cooperative_matrices of a device profile are texts such as q8 16x16x16, got {min(wrong)!r}")
    try:
        check_names(sets["disabled_passes"])
    except ValueError as error:
        raise bad_data(f"disabled_passes of a device profile {error}") from None
    return DeviceProfile(**{**value, **sets})


def _check_field(name: str, type_: str, given: Any) -> None:
    """Raise BAD_DATA if a field of a profile has a wrong type."""
    is_right = {
        "str": isinstance(given, str),
        "bool": isinstance(given, bool),
        "int": isinstance(given, int) and not isinstance(given, bool) and given > 0,
    }.get(type_, isinstance(given, list) and all(isinstance(each, str) for each in given))
    if not is_right:
        expected = {"int": "a number above 0", "str": "a text", "bool": "true or false"}.get(type_, "a list of texts")
        raise bad_data(f"{name} of a device profile must be {expected}, got {given!r}")


def constrain(profile: DeviceProfile, constraint: str) -> DeviceProfile:
    """The profile under a value of ``NNVK_DEVICE_PROFILE``, one of `CONSTRAINTS`; an empty value leaves it unchanged.

    BAD_DATA: there is no such constraint.
    """
    if not constraint:
        return profile
    if constraint not in CONSTRAINTS:
        raise bad_data(f"NNVK_DEVICE_PROFILE must be {' or '.join(CONSTRAINTS)}, or empty, got {constraint!r}")
    return CONSTRAINTS[constraint](profile)


def _as_mobile_min(profile: DeviceProfile) -> DeviceProfile:
    """The smallest device that Vulkan 1.1 allows.

    It has no optional feature, 16 KiB of shared memory, 128 invocations per workgroup, 128 MiB per binding, no
    timestamps, and no memory that host and device share.
    """
    return replace(
        profile,
        is_cpu=False,
        unified_memory=False,
        subgroup_size=1,
        smallest_subgroup=1,
        largest_subgroup=1,
        max_buffer=min(profile.max_buffer, 128 << 20),
        max_groups=min(profile.max_groups, 65535),
        max_invocations=min(profile.max_invocations, 128),
        max_shared_memory=min(profile.max_shared_memory, 16 << 10),
        features=frozenset(),
        units=_UNITS["other"],
        texel_loads=False,
        timestamps=False,
        host_writes_device_memory=False,
        cooperative_matrices=frozenset(),
        prefers_smallest_subgroup=False,
    )


def _as_gpu(profile: DeviceProfile) -> DeviceProfile:
    """The device as a discrete GPU: a software device then runs the code that only GPUs run.

    The profile keeps the device's own limits and features, because the shaders run on it. Dot products of a software
    device count as accelerated, so that they are chosen. It does not test

    - subgroups of 32 invocations, which plans are made for. Shaders run in the device's own subgroups, which have 8
      invocations on llvmpipe. Plans for GPUs ask whether a subgroup has at least four (the tile ``quads``), and whether
      it is small (`DeviceProfile.has_small_subgroups`, which ``mobile-min`` tests), but not for the exact number.
    - cooperative matrices, which a software device takes seconds to compile, unless `NNVK_COOPERATIVE_MATRICES=1` asks
      for them.
    - code for GPUs without an optional feature, which ``mobile-min`` tests, and the costs of an integrated GPU.
    - memory that the host does not see or has to flush, and caches that differ from unit to unit. All memory of a
      software device is the host's, so a missing barrier may have no effect.
    - the rounding, subnormal numbers and special values of a GPU's arithmetic, and its driver's compiler.
    """
    return replace(
        profile,
        is_cpu=False,
        features=profile.features | ({ACCELERATED_DOTS} if profile.is_cpu else set()),
        unified_memory=False,
        subgroup_size=max(profile.subgroup_size, 32) if profile.subgroup_size >= 4 else profile.subgroup_size,
        smallest_subgroup=_USUAL_SUBGROUPS[0] if profile.is_cpu else profile.smallest_subgroup,
        largest_subgroup=_USUAL_SUBGROUPS[1] if profile.is_cpu else profile.largest_subgroup,
        units=_UNITS["discrete_gpu"],
        texel_loads=False,
        host_writes_device_memory=True,
        cooperative_matrices=profile.cooperative_matrices
        if profile.prefers_matrices or not profile.is_cpu
        else frozenset(),
    )


CONSTRAINTS = {"mobile-min": _as_mobile_min, "gpu": _as_gpu}
"""The names that ``NNVK_DEVICE_PROFILE`` may have."""
