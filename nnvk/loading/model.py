"""The object that `nnvk.load` returns: a model that is called with inputs and returns outputs."""

from __future__ import annotations

import asyncio
import html
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from nnvk.api import Compilation, get_devices
from nnvk.base import forks
from nnvk.base.checks import whole
from nnvk.base.errors import Guard, NnapiError, bad_data, bad_state
from nnvk.base.pinned import Pinned
from nnvk.base.progress import compiling
from nnvk.base.text import did_you_mean, dimensions, printable
from nnvk.importers.errors import NAME_SHOWN, ModelImportError
from nnvk.importers.measured import MOST_CALLS
from nnvk.importers.metadata import Metadata
from nnvk.importers.mixed import Described, MixedFile, may_compute
from nnvk.importers.ports import ImportedModel, Port
from nnvk.importers.shapes import Shapes
from nnvk.importers.sized import SizedImports
from nnvk.inputs.randoms import random_edges, random_ports
from nnvk.inputs.reader import InputReader, are_images
from nnvk.insight.limits import Limits
from nnvk.insight.placement import Placed, placement, where
from nnvk.insight.profiling import PROFILED_RUNS, Profile, joined, take_profile
from nnvk.loading.beside import Beside
from nnvk.loading.events import ModelEvent
from nnvk.loading.faster import MeasuredPlan, faster
from nnvk.loading.late_model import shaped_model
from nnvk.loading.mixed_plan import MixedPlan
from nnvk.loading.plans import Plans
from nnvk.loading.port_texts import brief, expected_shape, html_row
from nnvk.loading.settings import Settings
from nnvk.loading.shaped_model import ShapedModel
from nnvk.loading.signature import LoadedSignature
from nnvk.types.operand import Shape

_LIMITS = Limits(PROFILED_RUNS, 10.0)
Importer = Callable[[Shapes], ImportedModel]
"""Imports the model again, for inputs of other shapes."""


class LoadedModel(Pinned):
    """A model that is ready to be called; `nnvk.load` makes it.

    Call it with its inputs: ``model(x)``, ``model(x, y)`` or ``model({"x": x, "y": y})``. An input is an array, numbers
    in lists, an image of Pillow, or the name of a file with an image or an array. If the model has one input, a list of
    images or files gives a list of results. Threads may share the object. Use it
    in a ``with`` block, or call `close`, to free the device's memory before the object is gone.

    Sizes that the file leaves open may differ from call to call. Each set of sizes has its plan, which is made by the
    first call with these sizes; the plans that were used last are kept.
    """

    _alternative = "threads may share it, and another process calls nnvk.load"

    def __init__(
        self,
        name: str,
        imported: ImportedModel | MixedFile,
        free_shapes: Sequence[Shape],
        settings: Settings,
        importer: Importer | None = None,
        beside: Beside | None = None,
        *,
        auto: bool = False,
    ) -> None:
        """``free_shapes`` are the inputs' shapes, with -1 for each size that may differ from call to call.

        ``beside`` is the library that computes what can't be imported, and what nnvk can't compute; with ``auto`` also
        what it computes faster.
        """
        self.name = name
        """The name of the file."""
        self._file = imported
        self._beside = beside
        self._mixed: MixedPlan | None = None
        self._whole: MixedPlan | None = None
        self._settings = settings
        self._importer = importer
        self._sized = None if importer is None else SizedImports(importer)
        self._reader = InputReader(imported, settings.images, free_shapes, settings.say)
        self._plans = Plans(settings.plan_bytes)
        self._faster = None
        if auto:
            self._faster = faster(name, imported, beside, settings, self._plans, self._device_plan)
        self._current: ShapedModel | None = None
        self._inner: dict[Any, LoadedModel] = {}
        self._is_closed = False
        self._lock = forks.rlock()
        self._guard = Guard(printable(name))
        """Around all that depends on the file, and not on what the caller gives."""

    # --- calls ---------------------------------------------------------------------------------------------------

    def __call__(self, *inputs: Any, outputs: str | Sequence[str] | type[dict] | None = None) -> Any:
        """Compute once: returns the array of the only output, or a tuple of several.

        If the model has one input, ``model(["a.jpg", "b.jpg"])`` computes once for each image of Pillow or file in the
        list, and returns a list of results.

        ``outputs`` asks for one output by name, for a tuple of some by a list of names, or with ``dict`` for a
        dictionary of all. Inputs are as the file has them: quantised inputs take levels, see `Port.quantize`. Real
        numbers are rounded to the input's type; whole numbers must be numbers of that type. A model with states gets
        those that the call before has left, until `reset`.

        BAD_DATA says which input does not fit, and ValueError and OSError which file. Raises what compiling and
        computing raise.
        """
        shaped = self._current
        if shaped is None or not _are_expected(inputs, shaped.expected):
            if len(inputs) == 1 == len(self._reader.ports) and are_images(inputs[0]):
                return [self(each, outputs=outputs) for each in inputs[0]]
            shaped, arrays = self._prepare(inputs)
            return self._returned(self._run(shaped, arrays), outputs)
        return self._returned(self._run(shaped, inputs), outputs)

    def prepare(self, *inputs: Any) -> None:
        """Make the plan for the sizes of these inputs, or for those of `imported`, before the first call needs it."""
        if inputs:
            self._prepare(inputs)
        else:
            self._plan(self._default_shapes())

    def settle(self, *inputs: Any) -> None:
        """With ``device="auto"``, compute these inputs, or random ones, until it is known what computes such inputs.

        Other calls at the same time keep it from being known. Errors are those of a call.
        """
        shaped, arrays = self._prepare(inputs or self.random())
        for _ in range(MOST_CALLS):
            if not isinstance(shaped, MeasuredPlan):
                break
            self._run(shaped, arrays)
            shaped = self._plan(_shapes(arrays))

    def compute(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        """Compute once on a list of all inputs, and return a list of all outputs. Errors are those of a call."""
        return self._run(*self._prepare(inputs))

    def start(self, *inputs: Any, outputs: str | Sequence[str] | type[dict] | None = None) -> ModelEvent:
        """Begin a call and return an `nnvk.Event` at once, whose ``result()`` waits and returns what the call returns.

        Inputs may be changed as soon as this method returns. Errors are those of a call; errors of the computation
        come with the event.
        """
        shaped, arrays = self._prepare(inputs)
        try:
            with self._guard:
                event, results = shaped.start(arrays)
        except NnapiError as error:
            event, results = self._fallback(shaped, error).start(arrays)
        kept = [np.array(array) for array in arrays] if self._can_fall_back else []

        def guarded() -> list[np.ndarray]:
            with self._guard:
                return results()

        def instead(error: NnapiError) -> Any:
            return self._returned(self._again(shaped, error, kept), outputs)

        return ModelEvent(event, lambda: self._returned(guarded(), outputs), instead)

    async def run_async(self, *inputs: Any, outputs: str | Sequence[str] | type[dict] | None = None) -> Any:
        """A call that an event loop can await; a thread of the loop's executor makes it."""
        return await asyncio.get_running_loop().run_in_executor(None, partial(self, *inputs, outputs=outputs))

    def stream(
        self, inputs: Iterable[Any], *, in_flight: int = 2, outputs: str | Sequence[str] | type[dict] | None = None
    ) -> Iterator[Any]:
        """The results for each item of ``inputs``, in their order.

        An item is the only input, or a tuple or dictionary of all inputs. ``in_flight`` calls are under way at once:
        while the device computes one, the next item is taken and read.
        """
        return self._streamed(iter(inputs), whole("in_flight", in_flight, 1), outputs)

    def _streamed(self, inputs: Iterator[Any], in_flight: int, outputs: Any) -> Iterator[Any]:
        pending: deque[ModelEvent] = deque()
        for item in inputs:
            pending.append(self.start(*(item if isinstance(item, tuple) else (item,)), outputs=outputs))
            if len(pending) >= in_flight:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()

    def reset(self) -> None:
        """Begin anew, with the first states of a model that has some."""
        with self._lock:
            for shaped in [*self._plans, *(one for one in (self._mixed, self._whole) if one is not None)]:
                shaped.reset()

    def read(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        """The inputs as arrays of the file's types, without computing. Errors are those of a call."""
        arrays = self._checked(self._reader.arrays(inputs))
        return [
            np.asarray(array) if port.has_numbers else array for port, array in zip(self.inputs, arrays, strict=True)
        ]

    def random(self, seed: int = 0) -> list[np.ndarray]:
        """Random inputs, the same for the same seed. Raises ValueError if there is nothing to guess of an input."""
        seed = whole("seed", seed, 0)
        latest = self._current and self._current.now
        if isinstance(self._file, MixedFile):
            return random_edges(self._file.inputs, seed)
        imported = self._file if latest is None or isinstance(latest, MixedPlan) else latest.imported
        return random_ports(imported, seed)

    @property
    def reader(self) -> InputReader:
        """Reads inputs from arrays, images and files."""
        return self._reader

    # --- descriptions --------------------------------------------------------------------------------------------

    @property
    def imported(self) -> ImportedModel:
        """The model as its importer returns it, for the sizes that were given when it was loaded.

        BAD_STATE: a library computes some of it, so that it is no model of NNAPI.
        """
        if isinstance(self._file, MixedFile):
            raise bad_state(f"{self.name}: a library computes a part of the model, which is no model of NNAPI")
        return self._file

    @property
    def described(self) -> Described:
        """The inputs, outputs and metadata of the file: `imported`, or a file that a library computes a part of."""
        return self._file

    @property
    def is_mixed(self) -> bool:
        """Whether onnxruntime or LiteRT computes what NNAPI has nothing for, on the CPU."""
        return isinstance(self._file, MixedFile)

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs: names, shapes, types, quantisation, and the statements of the file's metadata."""
        return _described(self._file.inputs, self.metadata, "inputs")

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs, for the sizes of `imported`."""
        return _described(self._file.outputs, self.metadata, "outputs")

    @property
    def metadata(self) -> Metadata:
        """The metadata of the file; empty if it has none."""
        return self._file.metadata

    @property
    def whole_library(self) -> str:
        """The library that computes the whole model for the latest sizes; empty: nnvk computes some of it."""
        latest = self._latest()
        return latest.library if isinstance(latest, MixedPlan) and latest.step_count == 1 else ""

    @property
    def is_open(self) -> bool:
        """Whether sizes of inputs may differ from call to call."""
        return any(-1 in port.shape for port in self._reader.ports)

    @property
    def signatures(self) -> Mapping[str, LoadedSignature]:
        """The functions of the file by name; ``model["serving_default"]`` is one of them."""
        return {key: self[key] for key in self._file.signatures}

    def __getitem__(self, key: str) -> LoadedSignature:
        """A function of the file. Raises KeyError that names those there are, and what importing it raises."""
        signatures = self._file.signatures
        with self._guard if key in signatures else nullcontext():
            signature = signatures[key]
        found = signature.imported.model
        if found is self.imported.model:
            return LoadedSignature(self, signature)
        with self._lock:
            if found not in self._inner:
                again = None if self._importer is None else partial(_import_signature, self._importer, key)
                shapes = [_free_or_known(port, self._importer) for port in signature.imported.inputs]
                self._inner[found] = LoadedModel(
                    f"{self.name}:{key}", signature.imported, shapes, self._settings, again
                )
            return LoadedSignature(self._inner[found], signature)

    @property
    def compilation(self) -> Compilation:
        """The compilation of the last call's sizes, or of those that the model was loaded with."""
        parts = self._latest().parts()
        if not parts:
            raise bad_state(f"{self.name}: nnvk has compiled no part of the model, a library computes it")
        return parts[0].compilation

    @property
    def compilations(self) -> list[Compilation]:
        """`compilation`, and those that the last call has had behind it, if data decided sizes."""
        return [part.compilation for part in self._latest().parts()]

    def shaped(self, arrays: Sequence[np.ndarray]) -> ImportedModel:
        """The imported model for the shapes of these inputs, as `read` returns them."""
        shapes = tuple(array.shape for array in arrays)
        return self.imported if self.is_mixed or shapes == self._default_shapes() else self._imported(shapes)

    def parts(self, arrays: Sequence[np.ndarray]) -> list[tuple[ImportedModel, list[np.ndarray]]]:
        """The models that compute these inputs, as `read` returns them, one behind the other, and the inputs of each.

        There are several if data decide sizes or parameters that a later one is imported for, or a library computes
        what is between them. They are computed then.
        """
        if not self.is_mixed:
            imported = self.shaped(arrays)
            if imported.rest is None:
                return [(imported, imported.encode(list(arrays)))]
        with self._lock:
            latest = self._plan(_shapes(arrays)).now
            is_whole = self._faster is not None and latest is self._faster.library
            shaped = self._device_plan(_shapes(arrays)) if is_whole else latest
        with self._guard:
            return [(part.imported, encoded) for part, encoded in shaped.encoded(arrays)]

    def own_parts(self, arrays: Sequence[np.ndarray]) -> list[tuple[ImportedModel, list[np.ndarray]]]:
        """The models that nnvk imports and computes for these inputs, and the inputs of each as files have them.

        BAD_STATE: a library computes the whole model.
        """
        if not self.is_mixed:
            return [(self.shaped(arrays), list(arrays))]
        found = [
            (imported, [port.decode(array) for port, array in zip(imported.inputs, encoded, strict=False)])
            for imported, encoded in self.parts(arrays)
        ]
        if not found:
            raise bad_state(f"{self.name}: nnvk computes no part of the model, a library computes all of it")
        return found

    @property
    def nbytes(self) -> int:
        """The bytes that the model holds on its devices: constants, activations and staging memory of all its plans.

        Constants that several plans share count once.
        """
        with self._lock:
            latest = self._current and self._current.now
            return self._plans.nbytes([] if latest is None else latest.parts())

    def where(self) -> list[Placed]:
        """Each operation in the order of execution, with the device that runs it, and why no preferred device does."""
        latest = self._latest()
        if isinstance(latest, MixedPlan):
            return latest.where()
        return [
            placed
            for part in latest.parts()
            for placed in where(part.imported.model, part.compilation, part.imported.sources)
        ]

    def profile(self, *inputs: Any) -> Profile:
        """Where the time goes, by operation, by layer and by partition, on these inputs or on random ones."""
        if inputs:
            prepared, arrays = self._prepare(inputs)
            shaped = prepared.now
        else:
            shaped = self._latest()
            arrays = self.random()
        device = (self._settings.devices or get_devices())[0]
        with self._guard:
            if isinstance(shaped, MixedPlan):
                return joined(shaped.profiles(self.name, device, arrays, _LIMITS))
            return joined(
                take_profile(self.name, device, part.compilation, encoded, _LIMITS, part.imported.sources)
                for part, encoded in shaped.encoded(arrays)
            )

    def __repr__(self) -> str:
        """``<nnvk.LoadedModel digits.tflite: image float32 1x16x16x1 -> scores float32 1x10; 6 operations on ...>``."""
        inputs, outputs = (", ".join(map(brief, ports)) for ports in (self.inputs, self.outputs))
        return f"<nnvk.LoadedModel {printable(self.name)}: {inputs} -> {outputs}; {self._state}>"

    def _repr_html_(self) -> str:
        """A table of inputs and outputs, for notebooks."""
        rows = [("input", port) for port in self.inputs] + [("output", port) for port in self.outputs]
        lines = "".join(html_row(kind, port) for kind, port in rows)
        head = "".join(f"<th>{name}</th>" for name in ("", "name", "type", "shape", "real number", "description"))
        title = f"<b>{html.escape(printable(self.name))}</b>: {html.escape(self._state)}"
        return f"<div>{title}<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"

    @property
    def _state(self) -> str:
        if self._is_closed:
            return "closed"
        return "not compiled yet" if self._current is None else self.placement

    @property
    def placement(self) -> str:
        """Where the operations of the latest plan run, in a few words."""
        latest = self._latest()
        return latest.summary() if isinstance(latest, MixedPlan) else placement(self.compilations)

    # --- the end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Free the plans and the memory on devices as soon as no call is under way; later calls raise BAD_STATE."""
        with self._lock:
            self._is_closed = True
            self._current = None
            self._plans.clear()
            for inner in self._inner.values():
                inner.close()

    def __enter__(self) -> LoadedModel:
        """The model itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """`close`."""
        self.close()

    # --- plans ---------------------------------------------------------------------------------------------------

    def _prepare(self, inputs: Sequence[Any]) -> tuple[ShapedModel, list[np.ndarray]]:
        """The plan for some inputs, and these as arrays of the file's types."""
        arrays = self._checked(self._reader.arrays(inputs))
        return self._plan(_shapes(arrays)), arrays

    def _checked(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """Arrays in the inputs' shapes. BAD_DATA: one does not fit, or a size with a name is two sizes."""
        sizes: dict[str, int] = {}
        for place, (port, array) in enumerate(zip(self._reader.ports, arrays, strict=True)):
            if not port.has_rank or not isinstance(array, np.ndarray) or port.shape == array.shape:
                continue
            if array.shape == port.type.dimensions and -1 not in port.shape:
                arrays[place] = array.reshape(port.shape)  # a single element of rank 0
                continue
            fits = len(array.shape) == len(port.shape) and all(
                size == wanted or (wanted == -1 and (size > 0 or self._can_fall_back))
                for size, wanted in zip(array.shape, port.shape, strict=True)
            )
            if not fits:
                hint = ""
                if port.is_open and -1 not in port.shape:
                    hint = "; --shape or nnvk.load(..., shapes=...) gives others"
                elif 0 in array.shape:
                    hint = "; NNAPI has no tensors without elements"
                raise bad_data(f"{port} must have shape {expected_shape(port)}, got {dimensions(array.shape)}{hint}")
            for symbol, size in zip(port.symbols, array.shape, strict=False):
                if symbol and sizes.setdefault(symbol, size) != size:
                    named = printable(symbol, NAME_SHOWN)
                    raise bad_data(f"size {named!r} is {size} in {port}, and {sizes[symbol]} in an input before it")
        return arrays

    @property
    def _can_fall_back(self) -> bool:
        """Whether a library computes what nnvk can't, such as inputs without elements."""
        return self._beside is not None and self._beside.is_there

    def _default_shapes(self) -> tuple[Shape, ...]:
        return tuple(port.shape for port in self._file.inputs)

    def _latest(self) -> ShapedModel:
        """The plan that the latest call has had, or what computes such calls from now on."""
        return (self._current or self._plan(self._default_shapes())).now

    def _plan(self, shapes: tuple[Shape, ...]) -> ShapedModel:
        """The plan for shapes of all inputs, which becomes the latest one."""
        with self._lock:
            if self._is_closed:
                raise bad_state(f"{self.name}: the model is closed")
            shaped = self._device_plan(shapes) if self._faster is None else self._faster.plan(shapes)
            self._current = shaped
        return shaped

    def _device_plan(self, shapes: tuple[Shape, ...]) -> ShapedModel:
        """The plan for these shapes, in which a library computes only what nnvk can't."""
        shaped = self._mixed if isinstance(self._file, MixedFile) else self._plans.get(shapes)
        if shaped is None:
            with compiling(self.name):
                shaped = self._new_plan(shapes)
        return shaped

    def _new_plan(self, shapes: tuple[Shape, ...]) -> ShapedModel:
        if isinstance(self._file, MixedFile):
            self._mixed = self._planned(self._file)
            return self._mixed
        try:
            with self._guard:
                imported = self._file if shapes == self._default_shapes() else self._imported(shapes)
                shaped = shaped_model(imported, self._settings, self._plans)
        except NnapiError as error:
            return self._fallback(None, error)
        self._plans.put(shapes, shaped)
        return shaped

    def _planned(self, file: MixedFile) -> MixedPlan:
        assert self._beside is not None
        plan = self._beside.plan(file, self._plans)
        try:
            plan.prepare()
        except NnapiError as error:  # the library may refuse a step of a file that it takes as a whole
            plan = self._beside.whole(error, file, self._plans)
            plan.prepare()
            self._beside.tell_data(error.reason)
        return plan

    def _run(self, shaped: ShapedModel, arrays: Sequence[Any]) -> list[Any]:
        try:
            with self._guard:
                return shaped.run(arrays)
        except NnapiError as error:
            return self._again(shaped, error, arrays)

    def _again(self, failed: ShapedModel, error: NnapiError, arrays: Sequence[Any]) -> list[Any]:
        """Compute what has failed by another plan. Raises its error if there is none."""
        if self._faster is None or failed is not self._faster.library:
            return self._fallback(failed.now, error).run(arrays)
        with self._lock:
            shaped = self._device_plan(_shapes(arrays))
        return self._run(shaped, arrays)  # as without the library, so that errors are the same, too

    def _fallback(self, failed: ShapedModel | None, error: NnapiError) -> ShapedModel:
        """The plan in the place of one that has failed. Raises its error if there is none."""
        steps = failed.step_count if isinstance(failed, MixedPlan) else 0
        if self._beside is None or steps == 1 or not may_compute(error):
            raise error
        with self._lock:
            if isinstance(error, ModelImportError) and not steps:
                if self._mixed is None:
                    self._mixed = self._planned(self._beside.mixed(error))
                return self._mixed
            if self._whole is None:
                self._whole = self._beside.whole(error, self._file, self._plans)
                self._beside.tell_data(error.reason)
            return self._whole

    def _imported(self, shapes: tuple[Shape, ...]) -> ImportedModel:
        assert self._sized is not None
        for port, shape in zip(self._file.inputs, shapes, strict=True):
            if 0 in shape:
                raise bad_data(f"{port} of shape {dimensions(shape)} has no elements")
        return self._sized({port.name: shape for port, shape in zip(self._file.inputs, shapes, strict=True)})

    def _returned(self, results: list[np.ndarray], wanted: str | Sequence[str] | type[dict] | None) -> Any:
        if wanted is None:
            return results[0] if len(results) == 1 else tuple(results)
        named = {port.name: result for port, result in zip(self._file.outputs, results, strict=True)}
        if isinstance(wanted, type):
            if wanted is not dict:
                raise TypeError(f"outputs must be a name, several names or dict, got {wanted.__name__}")
            return named
        names = [wanted] if isinstance(wanted, str) else list(wanted)
        for name in names:
            if name not in named:
                known = ", ".join(repr(printable(each, NAME_SHOWN)) for each in named)
                hint = did_you_mean(str(name), named)
                raise bad_data(f"no output is called {printable(str(name), NAME_SHOWN)!r}, there are [{known}]{hint}")
        return named[names[0]] if isinstance(wanted, str) else tuple(named[name] for name in names)


def _shapes(arrays: Sequence[Any]) -> tuple[Shape, ...]:
    return tuple(getattr(array, "shape", ()) for array in arrays)


def _free_or_known(port: Port, importer: Importer | None) -> Shape:
    """The shape of an input, with -1 for open sizes of a model that can be imported again."""
    return port.signature if importer is not None and port.is_open else port.shape


def _import_signature(importer: Importer, key: str, shapes: Shapes) -> ImportedModel:
    """The subgraph of a signature, for inputs of other shapes."""
    return importer(shapes).signatures[key].imported


def _are_expected(inputs: Sequence[Any], expected: Sequence[tuple[np.dtype, Shape]]) -> bool:
    """Whether inputs are arrays of NumPy in the types and shapes of a plan."""
    if len(inputs) != len(expected):
        return False
    for array, (dtype, shape) in zip(inputs, expected, strict=True):
        if type(array) is not np.ndarray or array.dtype != dtype or array.shape != shape:
            return False
    return True


def _described(ports: Sequence[Port], metadata: Metadata, which: str) -> tuple[Port, ...]:
    """Ports with what the metadata say of each."""
    known = metadata.inputs if which == "inputs" else metadata.outputs
    if len(known) != len(ports):
        return tuple(ports)
    return tuple(replace(port, metadata=said) for port, said in zip(ports, known, strict=True))
