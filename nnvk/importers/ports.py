"""The edge of an imported model: what a caller of the file's sees, how NNAPI has it, and functions by name."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Protocol

import numpy as np

from nnvk.api import Compilation, Device, Model, OperandCode, OperandType, run
from nnvk.base.checks import sequence
from nnvk.base.errors import bad_data
from nnvk.base.text import did_you_mean, dimensions, printable
from nnvk.importers.errors import NAME_SHOWN
from nnvk.importers.graph_builder import Source
from nnvk.importers.metadata import Metadata, TensorMetadata
from nnvk.runtime.inputs import Inputs, as_array, in_order
from nnvk.types.operand import QUANTISED_CODES, Shape

COMPLEX = "COMPLEX64"
"""The file type of complex numbers, which are two FLOAT32 each in the model, along a last dimension more."""
DTYPES: dict[str, np.dtype] = {
    name: np.dtype(dtype)
    for name, dtype in {
        "FLOAT64": np.float64,
        "FLOAT32": np.float32,
        "FLOAT16": np.float16,
        "INT64": np.int64,
        "INT32": np.int32,
        "INT16": np.int16,
        "INT8": np.int8,
        "INT4": np.int8,
        "UINT64": np.uint64,
        "UINT32": np.uint32,
        "UINT16": np.uint16,
        "UINT8": np.uint8,
        "BOOL": np.bool_,
        COMPLEX: np.complex64,
    }.items()
}
"""NumPy types of the elements of a file's tensors, as a caller sees them."""


_NO_METADATA = TensorMetadata()


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of the model.

    ``encode`` and ``decode`` go between an array as the file has it and the operand's: whole numbers of other sizes
    are INT32 in NNAPI, FLOAT64 is FLOAT32, and a single element of rank 0 is [1].
    """

    name: str
    """Name of the file's tensor."""
    type: OperandType
    """The operand in the NNAPI model."""
    file_type: str
    """Name of the type of the file's tensor: "FLOAT32", "INT8", "UINT8", "INT64", ..."""
    shape: Shape
    """Shape of the file's tensor; of an output, -1 for a size that data decide."""
    signature: Shape = ()
    """The shape in the file, with -1 for a size that it leaves open: `load` takes ``shapes``."""
    in_words: bool = False
    """Whether a number is two elements in the operand, along a last dimension more: the low word and the high one."""
    symbols: tuple[str, ...] = ()
    """The file's names of the sizes, empty for a size without one; no names at all where the format has none."""
    metadata: TensorMetadata = field(default=_NO_METADATA, repr=False)
    """The statements of the file's metadata about the tensor; empty where it has none."""
    array_type: np.dtype | None = None
    """The NumPy type of the elements, if it is not the one that ``file_type`` has here."""
    has_bits: bool = False
    """Whether the operand's elements are the bits of unsigned numbers, and not the numbers."""
    has_rank: bool = True
    """Whether the file says how many dimensions there are; ``shape`` is empty without it."""

    def __str__(self) -> str:
        return f"'{printable(self.name, NAME_SHOWN)}'"

    @property
    def dtype(self) -> np.dtype:
        """The NumPy type of the elements of the file's tensor."""
        return DTYPES[self.file_type] if self.array_type is None else self.array_type

    @property
    def has_texts(self) -> bool:
        """Whether it is an array of texts."""
        return self.file_type == "STRING"

    @property
    def elements(self) -> str:
        """The name of the elements' type: NumPy's, or what there is in the place of numbers, as ``string``."""
        return str(self.dtype) if self.has_numbers else self.file_type.lower()

    @property
    def has_numbers(self) -> bool:
        """Whether it is an array of numbers: other than in NNAPI there are texts, sequences, and inputs left out."""
        return self.array_type is None or not self.array_type.hasobject

    @property
    def is_plain(self) -> bool:
        """Whether the operand's elements are those of the file's tensor, and their number is known."""
        return self.dtype == self.type.dtype and not self.in_words and -1 not in self.shape

    @property
    def is_open(self) -> bool:
        """Whether the file leaves a size open."""
        return -1 in self.signature

    @property
    def pattern(self) -> str:
        """The shape in the file, with the names of open sizes: ``batchx3x224x224``, and ``?`` without a name."""
        if not self.is_open:
            return dimensions(self.shape)
        symbols = self.symbols or ("",) * len(self.signature)
        rows = zip(self.signature, symbols, strict=True)
        return "x".join(str(size) if size != -1 else printable(symbol, NAME_SHOWN) or "?" for size, symbol in rows)

    @property
    def open_sizes(self) -> str:
        """The sizes that the file leaves open and the sizes taken: ``batchxseq, taken as 1x128``; empty without any."""
        if not self.is_open or -1 in self.shape:
            return self.pattern if self.is_open else ""
        return f"{self.pattern}, taken as {dimensions(self.shape)}"

    @property
    def is_quantised(self) -> bool:
        """Whether elements are levels of ``scale`` from ``zero_point``."""
        return self.type.code in QUANTISED_CODES

    @property
    def scale(self) -> float:
        """Real units per level; 0.0 where the tensor is not quantised."""
        return self.type.scale if self.is_quantised else 0.0

    @property
    def real_number(self) -> str:
        """The real number that ``q`` represents, such as ``0.0039 * (q + 128)``; empty if it is not quantised."""
        if not self.is_quantised:
            return ""
        sign = "-" if self.zero_point > 0 else "+"
        level = f"(q {sign} {abs(self.zero_point)})" if self.zero_point else "q"
        return f"{self.scale:.6g} * {level}"

    @property
    def zero_point(self) -> int:
        """The level that stands for 0.0."""
        return self.type.zero_point

    def encode(self, array: Any) -> np.ndarray:
        """An array of the file's dtype and shape as the operand has it. BAD_DATA names the tensor.

        It may be one of another package, which `numpy.asarray` or DLPack takes.
        """
        array = as_array(array, str(self))
        if array.dtype != self.dtype:
            raise bad_data(f"{self} must be an array of {self.dtype}, got {array.dtype}")
        if self.file_type == COMPLEX:
            array = np.ascontiguousarray(array)[..., np.newaxis].view(np.float32)
        elif self.has_bits:
            array = np.ascontiguousarray(array[..., np.newaxis] if self.in_words else array).view(np.int32)
        if array.shape not in (self.shape, self.type.dimensions):
            other = "; --shape or load(..., shapes=...) gives others" if -1 in self.signature else ""
            raise bad_data(f"{self} must have shape {list(self.shape)}, got {list(array.shape)}{other}")
        is_whole = self.array_type is None and self.type.code is OperandCode.TENSOR_INT32
        if is_whole and np.any(array != array.astype(np.int32)):
            raise bad_data(f"{self} must have values of 32 bits, got {array.min()} to {array.max()}")
        return np.ascontiguousarray(array.reshape(self.type.dimensions), self.type.dtype)

    def decode(self, array: np.ndarray) -> np.ndarray:
        """The operand's elements, in the file's dtype and shape. BAD_DATA where the array is another."""
        array = as_array(array, str(self))
        if array.dtype != self.type.dtype or not _fits(array.shape, self.type.dimensions):
            raise bad_data(f"{self} must hold {self.type}, got {array.dtype}{list(array.shape)}")
        if self.file_type == COMPLEX:
            array = np.ascontiguousarray(array).view(self.dtype)[..., 0]
        elif self.in_words:
            array = np.ascontiguousarray(array).view(np.int64)[..., 0]
        shape = array.shape if -1 in self.shape else self.shape
        return np.asarray(array.reshape(shape), self.dtype)

    def quantize(self, real: np.ndarray) -> np.ndarray:
        """Real numbers in the file's dtype: levels, rounded and saturated, where it is quantised."""
        real = np.asarray(real)
        if not self.is_quantised:
            return real.astype(self.dtype)
        limits = np.iinfo(self.dtype)
        levels = np.rint(real / self.scale) + self.zero_point
        return np.clip(levels, limits.min, limits.max).astype(self.dtype)

    def dequantize(self, array: np.ndarray) -> np.ndarray:
        """Elements as real numbers, float32; unchanged where the tensor is not quantised."""
        array = np.asarray(array)
        if not self.is_quantised:
            return array
        return (array.astype(np.float32) - np.float32(self.zero_point)) * np.float32(self.scale)


def _fits(shape: Shape, dimensions: Shape) -> bool:
    """Whether a shape is one of these dimensions, of which those of 0 are open."""
    return len(shape) == len(dimensions) and all(
        known in (0, size) for size, known in zip(shape, dimensions, strict=True)
    )


@dataclass(frozen=True, slots=True)
class State:
    """A variable tensor or a resource variable: an input and an output of the NNAPI model."""

    input: Port
    output: Port
    initial: np.ndarray = field(compare=False, repr=False)
    """The input before the first execution: zeros, for a variable tensor; what the file initialises a variable with."""


class Rest(Protocol):
    """The part of a file that is imported when the model of the part before it has computed its sizes and parameters.

    Each set of these is another import.
    """

    inputs: tuple[Port, ...]
    """The tensors that it takes, and outputs of the file: the results of the model before it."""

    def key(self, arrays: Sequence[np.ndarray]) -> Hashable:
        """Stands for all that an import depends on, of the arrays of ``inputs``."""

    def load(self, arrays: Sequence[np.ndarray]) -> ImportedModel | list[np.ndarray]:
        """The part for these arrays of ``inputs``, or its outputs, if no execution is needed for them.

        Raises the importer's error.
        """

    def taken(self, arrays: Sequence[np.ndarray], imported: ImportedModel) -> list[np.ndarray]:
        """Those of the arrays of ``inputs`` that an import takes."""

    def outputs_of(self, arrays: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The file's outputs, of the arrays of ``inputs`` and of what the import has computed of them."""


@dataclass(frozen=True, slots=True, eq=False)
class ImportedModel:
    """A finished NNAPI model and what its inputs and outputs are in the file it came from.

    The model's inputs are ``inputs`` and then the states' inputs, its outputs ``outputs`` and then the states'
    outputs. If there is a ``rest``, the model is the first part of the file, and its outputs are the rest's inputs.
    """

    model: Model
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    states: tuple[State, ...] = ()
    description: str = ""
    """The file's description of itself."""
    metadata: Metadata = field(default_factory=Metadata)
    """The file's metadata of inputs and outputs; empty where it has none."""
    sources: tuple[Source | None, ...] = field(default=(), repr=False)
    """The operator that each operation comes from, in the order of execution; None for copies to the outputs."""
    tensors: Mapping[int | str, int] = field(default_factory=dict, repr=False)
    """Operands of the model by the tensor of the file whose elements they have: its index, or its name."""
    signatures: Mapping[str, Signature] = field(default_factory=lambda: Signatures())
    """Functions by name: ``imported.signatures["serving_default"](x=array)``."""
    rest: Rest | None = field(default=None, repr=False)
    """The part of the file that waits for results of ``model``; only importers that are asked for parts give one."""

    @property
    def results(self) -> tuple[Port, ...]:
        """The outputs of ``model``, without the states'."""
        return self.outputs if self.rest is None else self.rest.inputs

    def require_whole(self, what: str) -> None:
        """BAD_DATA, where ``what`` says who can't take it: the model is the first part of a file."""
        if self.rest is not None:
            raise bad_data(f"{what} takes one model; data decide sizes of this one, so that it is computed in parts")

    def initial_state(self) -> list[np.ndarray]:
        """The states before the first execution: zeros, or what the file initialises variables with."""
        return [state.initial.reshape(state.input.type.dimensions).copy() for state in self.states]

    def encode(self, arrays: Inputs, state: Sequence[np.ndarray] | None = None) -> list[np.ndarray]:
        """All inputs of ``model``, from the file's by position or by name and the states, initial if None.

        BAD_DATA says what does not fit. TypeError: an object is of a wrong kind.
        """
        states = self.initial_state() if state is None else list(sequence("the state", state))
        if len(states) != len(self.states):
            raise bad_data(f"expected {len(self.states)} states, got {len(states)}")
        arrays = in_order(arrays, [port.name for port in self.inputs], "encode")
        if len(arrays) != len(self.inputs):
            raise bad_data(f"expected {len(self.inputs)} inputs, got {len(arrays)}")
        encoded = [port.encode(array) for port, array in zip(self.inputs, arrays, strict=True)]
        return [*encoded, *states]

    def decode(self, arrays: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """``results`` as the file has them, and the states for the next execution, from all outputs of ``model``."""
        own = len(self.results)
        if len(arrays) != own + len(self.states):
            raise bad_data(f"expected {own + len(self.states)} outputs, got {len(arrays)}")
        decoded = [port.decode(array) for port, array in zip(self.results, arrays, strict=False)]
        return decoded, list(arrays[own:])


class Signature:
    """A function of the model: ``signature(x=array)`` gives its outputs by name, as TFLite's signature runners do.

    It is compiled with the first call. States go from one call to the next; several threads may call,
    one after the other.
    """

    def __init__(
        self, key: str, imported: ImportedModel, inputs: Mapping[str, int], outputs: Mapping[str, int]
    ) -> None:
        self.key = key
        self.imported = imported
        """The subgraph that it is."""
        self.inputs: dict[str, Port] = {name: imported.inputs[place] for name, place in inputs.items()}
        """Its inputs by their names in the signature."""
        self.outputs: dict[str, Port] = {name: imported.outputs[place] for name, place in outputs.items()}
        """Its outputs by their names in the signature."""
        self.input_order = sorted(inputs, key=inputs.__getitem__)
        """The names of the inputs, in the order of the subgraph's."""
        self.output_places = dict(outputs)
        """The positions of the outputs among the subgraph's."""
        self._compilation: Compilation | None = None
        self._state: Sequence[np.ndarray] | None = None
        self._lock = Lock()

    def __repr__(self) -> str:
        """``Signature 'serving_default'(x) -> (y)``."""
        return f"Signature {self.key!r}({', '.join(self.inputs)}) -> ({', '.join(self.outputs)})"

    def compile(self, devices: Sequence[Device] | None = None) -> None:
        """Compile for these devices, in the order of preference; None leaves the choice to nnvk."""
        compilation = Compilation(self.imported.model, devices)
        compilation.finish()
        with self._lock:
            self._compilation = compilation

    def __call__(self, **arrays: Any) -> dict[str, np.ndarray]:
        """Compute once. Arrays are as the file has them; BAD_DATA names what is unknown, missing or does not fit."""
        self.imported.require_whole(f"signature '{printable(self.key, NAME_SHOWN)}' of one import")
        if arrays.keys() != self.inputs.keys():
            wanted, given = (
                ", ".join(repr(printable(name, NAME_SHOWN)) for name in names) for names in (self.inputs, arrays)
            )
            raise bad_data(f"signature '{printable(self.key, NAME_SHOWN)}' takes the inputs [{wanted}], got [{given}]")
        if self._compilation is None:
            self.compile()
        with self._lock:
            assert self._compilation is not None
            encoded = self.imported.encode([arrays[name] for name in self.input_order], self._state)
            outputs, self._state = self.imported.decode(run(self._compilation, encoded))
        return {name: outputs[place] for name, place in self.output_places.items()}

    def reset(self) -> None:
        """Begin anew, with the first states."""
        with self._lock:
            self._state = None


class Signatures(Mapping[str, Signature]):
    """The signatures of a file by name. One of another subgraph than the first is imported when it is asked for.

    Then `TfliteImportError` says what of it can't be imported.
    """

    def __init__(self, keys: Sequence[str] = (), make: Callable[[str], Signature] | None = None) -> None:
        self._keys = tuple(keys)
        self._make = make
        self._made: dict[str, Signature] = {}

    def __getitem__(self, key: str) -> Signature:
        """A signature; KeyError that names those there are where there is none of this name."""
        if key not in self._keys:
            known = ", ".join(repr(printable(each, NAME_SHOWN)) for each in self._keys)
            there_are = f"there are [{known}]" if known else "the file has none: call the model itself"
            hint = did_you_mean(str(key), self._keys)
            raise KeyError(f"no signature {printable(str(key), NAME_SHOWN)!r}, {there_are}{hint}")
        if key not in self._made:
            assert self._make is not None
            self._made[key] = self._make(key)
        return self._made[key]

    def __iter__(self) -> Iterator[str]:
        """Their names, in the file's order."""
        return iter(self._keys)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._keys)
