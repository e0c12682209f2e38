"""`load`: from a file to a model that can be called."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from nnvk.api import Device
from nnvk.base.checks import flag, function, instance, whole
from nnvk.base.errors import Guard, WrongKind, bad_data
from nnvk.base.settings import settings
from nnvk.base.text import printable
from nnvk.importers import formats
from nnvk.importers.errors import NAME_SHOWN, ModelImportError, Problem
from nnvk.importers.mixed import MixedFile
from nnvk.importers.plan_folder import PlanFolder
from nnvk.importers.ports import ImportedModel, Port
from nnvk.importers.shapes import Shapes, wanted_shapes
from nnvk.importers.source import ModelSource, PathOrBytes, path_or_bytes
from nnvk.inputs.images import AS_IS, ImageOptions
from nnvk.inputs.reader import Say
from nnvk.loading.beside import Beside, warn_user
from nnvk.loading.devices import choose_devices, is_auto
from nnvk.loading.model import LoadedModel
from nnvk.loading.settings import PLAN_BYTES, Settings
from nnvk.runtime.verification import Verified, verified_option
from nnvk.types.operand import Shape


class ImageNormalizationWarning(UserWarning):
    """How pixels became an input is a guess, or cuts some of them off."""


def load(
    source: ModelSource,
    *,
    device: str | Device | None = None,
    fallback: bool = True,
    shapes: Shapes | None = None,
    relaxed: bool = False,
    cache: Literal[True] | str | os.PathLike[str] = True,
    constants: Mapping[str, Any] | None = None,
    round_hybrid: bool = True,
    images: ImageOptions = AS_IS,
    plan_bytes: int = PLAN_BYTES,
    verified: Verified | None = None,
    reproducible: bool | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> LoadedModel:
    """Load a ``.tflite`` or ``.onnx`` model from a path, a folder that has one, bytes, or an object in memory.

    Args:
        source: the path; the bytes of a file, as ``bytes``, ``bytearray`` or ``memoryview``; a file that is open in
            binary mode, or an `io.BytesIO`; or an ``onnx.ModelProto``.
        device: the name of a device (``vulkan-0``), a type (``gpu``, ``cpu``), or a `Device`; by default nnvk chooses.
            ``"auto"``, also as ``NNVK_DEVICE``: onnxruntime or LiteRT computes on the CPU where that is faster. The
            first calls with some sizes measure it, which is kept for other processes. The log says what computes.
        fallback: whether the CPU may run operations that the device does not support, in onnxruntime and LiteRT too:
            `nnvk.loading.CpuLibraryWarning` says which part of a model NNAPI has nothing for.
        shapes: shapes of inputs by name, and sizes that have a name in the file: ``{"batch": 4, "seq": 128}``. Sizes
            that the file leaves open may differ from call to call where they are not given here.
        relaxed: whether devices may compute FLOAT32 with the range and precision of FLOAT16.
        cache: a folder in which compiled plans are kept for other processes. True: plans of larger models are kept in
            the user's cache folder. Only the variable ``NNVK_KEEP_PLANS=0`` has none kept.
        constants: inputs of an ``.onnx`` file that have a value for good, by name, also in place of the file's own.
        round_hybrid: round activations as TFLite does where weights have 8 bits and activations are real.
        images: how images become inputs: normalisation, layout, resizing. A normalisation that is a guess is a warning
            of the class `ImageNormalizationWarning`.
        plan_bytes: the bytes on devices that plans for different sizes may take beside what they share, as weights.
        verified: True has devices check each result, and a call with a wrong one raise OP_FAILED. ``"repair"`` has it
            computed again, ``"all"`` everything computed twice (`Compilation.set_verified`). The default is the
            variable ``NNVK_VERIFIED``.
        reproducible: have floats the same bits on every device. Operations for which these are not defined are refused,
            and libraries compute nothing (docs/reproducible.md). The default is the variable ``NNVK_REPRODUCIBLE``.
        progress: called with the finished and all steps of each part of the model that is compiled, here or by a later
            call, on the thread that compiles it. Its first exception ends the compilation's calls and is raised by what
            compiles (`Compilation.set_progress`).

    A model without open sizes is compiled at once, another one with its first call. Raises OSError, ValueError, the
    importer's errors, BAD_DATA for a device or an input that is not there, and what compiling raises.
    """
    options = LoadOptions(
        device=device,
        fallback=fallback,
        shapes=shapes,
        relaxed=relaxed,
        cache=cache,
        constants=constants,
        round_hybrid=round_hybrid,
        images=images,
        plan_bytes=plan_bytes,
        verified=verified,
        reproducible=reproducible,
        progress=progress,
    )
    model = open_model(source, options)
    if not model.is_open:
        model.prepare()
    return model


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """The options of `load`, under the names of its arguments."""

    device: str | Device | None = None
    fallback: bool = True
    shapes: Shapes | None = None
    relaxed: bool = False
    cache: Literal[True] | str | os.PathLike[str] = True
    constants: Mapping[str, Any] | None = None
    round_hybrid: bool = True
    images: ImageOptions = AS_IS
    plan_bytes: int = PLAN_BYTES
    verified: Verified | None = None
    reproducible: bool | None = None
    progress: Callable[[int, int], None] | None = None


def open_model(source: ModelSource, given: LoadOptions, say: Say | None = None, tell: Say | None = None) -> LoadedModel:
    """A model that is not compiled before it is needed. Raises what `load` does, but for the errors of compiling.

    ``say`` takes remarks on images, ``tell`` those on what a library beside nnvk computes; without they are warnings.
    """
    devices = choose_devices(given.device, flag("fallback", given.fallback))  # before any file is read
    options: dict[str, Any] = {
        "constants": _by_name("the constants", given.constants),
        "round_hybrid": flag("round_hybrid", given.round_hybrid),
        "relaxed": flag("relaxed", given.relaxed),
    }
    shapes = _by_name("the shapes", given.shapes)
    instance("the options for images", given.images, ImageOptions)
    plan_bytes = whole("plan_bytes", given.plan_bytes, 0)
    verified = None if given.verified is None else verified_option(given.verified)
    reproducible = settings().reproducible if given.reproducible is None else flag("reproducible", given.reproducible)
    if (cache := given.cache) is not True and not isinstance(cache, (str, os.PathLike)):
        raise WrongKind(f"cache must be True or a path, got {cache!r}; NNVK_KEEP_PLANS=0 keeps no plans")
    source = formats.file_of(path_or_bytes(source))
    folder = None if cache is True else _plan_folder(cache, source, options)
    progress = None if given.progress is None else function("the function for progress", given.progress)
    choices = Settings(
        devices, folder, given.images, plan_bytes, verified, reproducible, progress, _warn if say is None else say
    )
    name = "the model" if isinstance(source, bytes) else Path(source).name
    has_library = given.fallback and not reproducible
    beside = Beside(name, source, {**options, "shapes": shapes}, choices, tell) if has_library else None
    again = None
    with Guard(name):
        try:
            file = formats.read(source)
            file.reader.keeps_doubles = beside is not None and beside.is_there
            imported: ImportedModel | MixedFile = file.load(shapes=shapes, in_parts=True, **options)
            _require_elements(file, shapes, options["constants"], beside is not None and beside.is_there)
            free = free_shapes(imported.inputs, shapes)
            if any(-1 in shape for shape in free):
                again = partial(_import_again, file, options)
        except ModelImportError as error:
            if beside is None:
                raise
            imported = beside.mixed(error)
            free = [port.shape for port in imported.inputs]
        return LoadedModel(name, imported, free, choices, again, beside, auto=is_auto(given.device))


def _require_elements(file: formats.ModelFile, shapes: Shapes, constants: Mapping[str, Any], has_library: bool) -> None:
    """`ModelImportError` where inputs have no elements: an importer leaves them out, other than a library.

    Without a library only those are refused that a caller wants so.
    """
    edges = [one for one in file.reader.inputs() if one.name not in constants]
    problems = [
        Problem("input", place, f"'{printable(one.name, NAME_SHOWN)}' of shape {list(shape)} has no elements")
        for place, (one, shape) in enumerate(zip(edges, wanted_shapes(edges, shapes), strict=True))
        if 0 in shape and (has_library or 0 not in one.signature)
    ]
    if problems:
        raise ModelImportError("NNAPI can't express this model", file.name, problems, is_valid=True)


def _by_name(what: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """A dictionary of what a user gives by name. TypeError: it is none."""
    if not isinstance(given, Mapping | None):
        raise WrongKind(f"{what} must be by name, in a dictionary, got {type(given).__name__}")
    return dict(given or {})


def free_shapes(ports: Sequence[Port], given: Shapes) -> list[Shape]:
    """The shapes of inputs, with -1 for each size that the file leaves open and that nobody has given."""
    wanted = [_sizes(port, given.get(port.name)) for port in ports]  # several may have one name
    named = {*given}
    for port, sizes in zip(ports, wanted, strict=True):
        pairs = zip(port.symbols, sizes, strict=False)
        named.update(symbol for symbol, size in pairs if symbol and size not in (None, -1))
    free = []
    for port, sizes in zip(ports, wanted, strict=True):
        symbols = port.symbols or ("",) * len(port.shape)
        rows = zip(port.shape, port.signature or port.shape, sizes, symbols, strict=True)
        free.append(
            tuple(
                -1 if in_file == -1 and size in (None, -1) and symbol not in named else known
                for known, in_file, size, symbol in rows
            )
        )
    return free


def _sizes(port: Port, given: Sequence[int | None] | int | None) -> Sequence[int | None]:
    """The sizes that a user gives an input, None for those of the file."""
    return [None] * len(port.shape) if given is None else [given] if isinstance(given, int) else given


def _import_again(file: formats.ModelFile, options: dict[str, Any], shapes: Shapes) -> Any:
    return file.load(shapes=shapes, in_parts=True, **options)


def _warn(text: str) -> None:
    hint = "nnvk.load(..., images=nnvk.ImageOptions(normalization=...)) changes it"
    warn_user(f"{text}; {hint}", ImageNormalizationWarning)


def _plan_folder(cache: str | os.PathLike[str], source: PathOrBytes, options: Mapping[str, Any]) -> PlanFolder:
    """The folder of plans that a user gives, and the token of a model."""
    folder = Path(cache)
    if not folder.is_dir():
        raise bad_data(f"the folder for plans does not exist: {folder}")
    # The token only finds files: drivers check that what is in one was made of the same model.
    digest = hashlib.sha256(repr(sorted(options.items(), key=lambda item: item[0])).encode())
    digest.update(source if isinstance(source, bytes) else os.fsencode(Path(source).resolve()))
    return PlanFolder(folder, digest.digest())
