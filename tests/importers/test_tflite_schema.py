"""The tables of a file, as the reader gives them: fields, defaults, limits, what is charged, and what is malformed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flatbuffers
import numpy as np
import pytest
import tflite
from tflite_net import Layout, Net, Signature, T, _ints, _offsets, _table, write

from nnvk.importers.errors import Unmapped
from nnvk.importers.tflite.errors import Malformed, NoModel
from nnvk.importers.tflite.schema import MAX_RANK, File, Operator, Tensor, is_model

Builder = flatbuffers.Builder
Fields = Callable[[Builder], "dict[str, Any]"]


def nothing(b: Builder) -> dict[str, Any]:
    return {}


def model(fields: Fields = nothing, subgraph: Fields = nothing, *, subgraphs: int = 1, version: int = 3) -> bytes:
    """A model of equal subgraphs, with other fields of these tables."""
    b = Builder(256)
    tables = _offsets(b, [_table(b, "SubGraph", **subgraph(b)) for _ in range(subgraphs)])
    b.Finish(_table(b, "Model", Version=version, Subgraphs=tables, **fields(b)), b"TFL3")
    return bytes(b.Output())


def with_tensor(fields: Fields, buffers: tuple[bytes | None, ...] = (None,)) -> bytes:
    """A model with one tensor, and buffers."""

    def subgraph(b: Builder) -> dict[str, Any]:
        return {"Tensors": _offsets(b, [_table(b, "Tensor", **fields(b))])}

    return model(lambda b: {"Buffers": _offsets(b, [_buffer(b, one) for one in buffers])}, subgraph)


def _buffer(b: Builder, data: bytes | None) -> int:
    return _table(b, "Buffer") if data is None else _table(b, "Buffer", Data=b.CreateByteVector(data))


def tensor(fields: Fields, buffers: tuple[bytes | None, ...] = (None,)) -> Tensor:
    return File(with_tensor(fields, buffers)).subgraph(0).tensors[0]


def vector(dtype: type, *numbers: float) -> Callable[[Builder], int]:
    return lambda b: b.CreateNumpyVector(np.array(numbers, dtype))


def shaped(shape: Sequence[int], type_: str = "FLOAT32", **more: Any) -> Fields:
    """A tensor of a shape and type."""
    return lambda b: {"Shape": _ints(b, shape), "Type": getattr(tflite.TensorType, type_), **more}


# --- the model -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "is_one"),
    [(b"????TFL3", True), (b"????TFL", False), (b"????TFL2", False), (b"TFL3TFL2", False), (b"????TFL3more", True)],
)
def test_the_head_of_a_model(data: bytes, is_one: bool) -> None:
    assert is_model(data) is is_one
    if not is_one:
        with pytest.raises(NoModel):
            File(data)


@pytest.mark.parametrize("version", [0, 2, 4])
def test_other_versions(version: int) -> None:
    with pytest.raises(Malformed, match=f"schema version must be 3, got {version}$"):
        File(model(version=version))


def test_no_subgraph() -> None:
    with pytest.raises(Malformed, match="the model has no subgraph"):
        File(model(subgraphs=0))


@pytest.mark.parametrize("index", [-1, 0, 1, 2])
def test_subgraphs(index: int) -> None:
    file = File(model(subgraph=lambda b: {"Name": b.CreateString("name")}, subgraphs=2))
    assert file.subgraph_count == 2
    if 0 <= index < 2:
        found = file.subgraph(index)
        assert (found.index, found.name, found.tensors, found.operators) == (index, "name", (), ())
        assert (found.inputs, found.outputs) == ((), ())
        assert file.subgraph(index) is found, "it is read once"
    else:
        with pytest.raises(Malformed, match=f"subgraph {index} does not exist, there are 2"):
            file.subgraph(index)


def test_defaults_of_a_model() -> None:
    file = File(model())
    assert (file.description, file.metadata, file.signatures) == ("", None, [])


def test_a_description_that_is_no_utf_8() -> None:
    assert File(model(lambda b: {"Description": b.CreateByteVector(b"a\xff")})).description == "a\ufffd"


def entries(*given: tuple[str, int]) -> Fields:
    """Entries of the metadata by names and buffers."""

    def make(b: Builder) -> dict[str, Any]:
        tables = [_table(b, "Metadata", Name=b.CreateString(name), Buffer=buffer) for name, buffer in given]
        buffers = [_buffer(b, data) for data in (None, b"one", b"two")]
        return {"Metadata": _offsets(b, tables), "Buffers": _offsets(b, buffers)}

    return make


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ([("TFLITE_METADATA", 1)], b"one"),
        ([("min_runtime_version", 1), ("TFLITE_METADATA", 2)], b"two"),
        ([("TFLITE_METADATA", 2), ("TFLITE_METADATA", 1)], b"two"),
        ([("tflite_metadata", 1)], None),
        ([("TFLITE_METADATA", 0)], None),
        ([], None),
    ],
)
def test_metadata(given: list[tuple[str, int]], found: bytes | None) -> None:
    assert File(model(entries(*given))).metadata == found


def test_metadata_in_no_buffer() -> None:
    with pytest.raises(Malformed, match="the metadata refers to buffer 3, there are 3"):
        File(model(entries(("TFLITE_METADATA", 3))))


def test_signatures() -> None:
    x, y, z = T(shape=(1,)), T(shape=(1,)), T(shape=(1,))
    net = Net([x, y], [z])
    net.op("ADD", [x, y], z)
    keys = [Signature("first", 0, {"b": y, "a": x}, {"sum": z}), Signature("second", 0, {}, {})]
    first, second = File(write(net, signatures=keys)).signatures
    assert (first.key, first.subgraph, first.inputs, first.outputs) == ("first", 0, {"b": 1, "a": 0}, {"sum": 2})
    assert (second.key, second.subgraph, second.inputs, second.outputs) == ("second", 0, {}, {})


# --- tensors -------------------------------------------------------------------------------------------------


def test_defaults_of_a_tensor() -> None:
    found = tensor(nothing)
    assert (found.index, found.name, found.type, found.shape, found.signature) == (0, "", "FLOAT32", (), ())
    assert (found.is_static, found.is_variable, found.sparsity, found.data) == (False, False, None, None)
    assert (found.scales.tolist(), found.zero_points.tolist(), found.channel_dim) == ([], [], 0)
    assert (found.scales.dtype, found.zero_points.dtype) == (np.float32, np.int64)
    assert (found.symbols, found.elements) == ((), 1)


def test_fields_of_a_tensor() -> None:
    def fields(b: Builder) -> dict[str, Any]:
        quantisation = {"Scale": vector(np.float32, 0.5, 0.25)(b), "ZeroPoint": vector(np.int64, 3, -(2**40))(b)}
        return {
            "Shape": _ints(b, [2, 3]),
            "ShapeSignature": _ints(b, [-1, 3]),
            "Name": b.CreateString("x"),
            "Type": tflite.TensorType.INT8,
            "IsVariable": True,
            "Quantization": _table(b, "QuantizationParameters", QuantizedDimension=1, **quantisation),
        }

    found = tensor(fields)
    assert (found.name, found.type, found.shape, found.signature) == ("x", "INT8", (2, 3), (-1, 3))
    assert (found.is_static, found.is_variable, found.channel_dim, found.elements) == (False, True, 1, 6)
    assert (found.scales.tolist(), found.zero_points.tolist()) == ([0.5, 0.25], [3, -(2**40)])
    assert str(found) == "tensor 0 'x'"


@pytest.mark.parametrize(
    ("shape", "signature", "has_rank", "data", "is_static"),
    [
        ((2,), None, False, None, True),
        ((2,), (2,), False, None, True),
        ((2,), (-1,), True, None, False),
        ((), None, False, None, False),
        ((), None, True, None, True),
        ((), None, False, bytes(4), True),
        ((2,), (-1,), False, bytes(8), False),
    ],
)
def test_whether_a_shape_is_meant(
    shape: tuple[int, ...], signature: tuple[int, ...] | None, has_rank: bool, data: bytes | None, is_static: bool
) -> None:
    def fields(b: Builder) -> dict[str, Any]:
        more = {} if signature is None else {"ShapeSignature": _ints(b, signature)}
        return {"Shape": _ints(b, shape), "HasRank": has_rank, "Buffer": 0 if data is None else 1, **more}

    assert tensor(fields, (None, data)).is_static is is_static


@pytest.mark.parametrize(("signature", "found"), [((-1, 3), (-1, 3)), ((-1,), (2, 3)), ((-1, 3, 4), (2, 3))])
def test_a_signature_of_another_rank_is_none(signature: tuple[int, ...], found: tuple[int, ...]) -> None:
    given = tensor(lambda b: {"Shape": _ints(b, [2, 3]), "ShapeSignature": _ints(b, signature)})
    assert given.signature == found


@pytest.mark.parametrize("shape", [(1,) * (MAX_RANK + 1), (2, -1), (-1,)], ids=lambda shape: "x".join(map(str, shape)))
def test_shapes_that_are_none(shape: tuple[int, ...]) -> None:
    with pytest.raises(Malformed) as caught:
        tensor(shaped(shape))
    assert str(caught.value) == f"tensor 0 '' must have at most 8 dimensions from 0 up, got {list(shape)}"


def test_the_largest_rank() -> None:
    assert tensor(shaped((0,) + (1,) * (MAX_RANK - 1))).elements == 0


BITS = {
    **{"FLOAT32": 32, "FLOAT16": 16, "INT32": 32, "UINT8": 8, "INT64": 64, "BOOL": 8, "INT16": 16, "COMPLEX64": 64},
    **{"INT8": 8, "FLOAT64": 64, "COMPLEX128": 128, "UINT64": 64, "UINT32": 32, "UINT16": 16, "INT4": 4},
    "BFLOAT16": 16,
}


@pytest.mark.parametrize("type_", BITS)
def test_the_bytes_of_constants(type_: str) -> None:
    """Five elements: those of 4 bits take three bytes."""
    nbytes = -(-5 * BITS[type_] // 8)
    fields = shaped([5], type_, Buffer=1)
    found = tensor(fields, (None, bytes(nbytes)))
    assert found.type == type_ and found.data is not None and found.data.size == nbytes
    for other in (nbytes - 1, nbytes + 1):
        with pytest.raises(Malformed, match=rf"of {type_} \[5\] needs {nbytes} bytes, its buffer has {other}$"):
            tensor(fields, (None, bytes(other)))


@pytest.mark.parametrize("type_", ["STRING", "RESOURCE", "VARIANT"])
def test_elements_of_no_fixed_size(type_: str) -> None:
    found = tensor(shaped([5], type_, Buffer=1), (None, bytes(7)))
    assert found.type == type_ and found.data is not None and found.data.size == 7


def test_a_type_that_is_not_known() -> None:
    assert tensor(lambda b: {"Type": 99}).type == "type 99"


@pytest.mark.parametrize(
    ("type_", "shape", "fits"),
    [
        ("UINT8", (65535, 65537), True),
        ("UINT8", (65536, 65536), False),
        ("FLOAT32", (32768, 32767), True),
        ("FLOAT32", (32768, 32768), False),
        ("INT4", (65536, 131071), True),
        ("INT4", (65536, 131072), False),
        ("COMPLEX128", (16384, 16383), True),
        ("COMPLEX128", (16384, 16384), False),
    ],
)
def test_the_largest_tensors(type_: str, shape: tuple[int, int], fits: bool) -> None:
    fields = shaped(shape, type_)
    if fits:
        assert tensor(fields).shape == shape
    else:
        with pytest.raises(Malformed, match=rf"of {type_} \[{shape[0]}, {shape[1]}\] is 4 GiB or more$"):
            tensor(fields)


# --- buffers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("buffer", [0, 1, 2])
def test_buffers(buffer: int) -> None:
    fields = shaped([2], "INT8", Buffer=buffer)
    if buffer == 2:
        with pytest.raises(Malformed, match=r"tensor 0 '' refers to buffer 2, there are 2$"):
            tensor(fields, (b"", b"ab"))
    else:
        data = tensor(fields, (b"", b"ab")).data
        assert (None if data is None else data.tobytes()) == (None, b"ab")[buffer]


def test_no_buffers() -> None:
    assert tensor(nothing, ()).data is None
    with pytest.raises(Malformed, match="tensor 0 '' refers to buffer 1, there are 0"):
        tensor(lambda b: {"Buffer": 1}, ())


@pytest.mark.parametrize(
    ("offset", "more", "is_there"),
    [(-4, 0, True), (-5, 0, True), (-3, 0, False), (0, 0, None), (1, 0, None), (2, 0, True), (-4, -4, None)],
)
def test_buffers_behind_the_tables(offset: int, more: int, is_there: bool | None) -> None:
    """``offset`` is from the end where it is below 0; without the last byte, or without any, is no constant."""
    length = 200
    place = length + offset if offset < 0 else offset

    def fields(b: Builder) -> dict[str, Any]:
        return {"Buffers": _offsets(b, [_table(b, "Buffer"), _table(b, "Buffer", Offset=place, Size=4 + more)])}

    def subgraph(b: Builder) -> dict[str, Any]:
        made = _table(b, "Tensor", Shape=_ints(b, [4]), Type=tflite.TensorType.INT8, Buffer=1)
        return {"Tensors": _offsets(b, [made])}

    data = model(fields, subgraph)
    assert len(data) <= length - 5
    data = data.ljust(length, b"\0")[: length - 5] + b"abcde"
    if is_there is False:
        with pytest.raises(Malformed, match="tensor 0 '': buffer 1 ends at byte 201 of 200"):
            File(data).subgraph(0)
        return
    found = File(data).subgraph(0).tensors[0].data
    assert (None if found is None else found.tobytes()) == (data[place : place + 4] if is_there else None)


# --- operators -----------------------------------------------------------------------------------------------


def with_operator(fields: Fields, code: Fields = nothing, tensors: int = 2) -> bytes:
    """A model of one operator, with one operator code."""

    def subgraph(b: Builder) -> dict[str, Any]:
        made = [_table(b, "Tensor") for _ in range(tensors)]
        return {"Tensors": _offsets(b, made), "Operators": _offsets(b, [_table(b, "Operator", **fields(b))])}

    return model(lambda b: {"OperatorCodes": _offsets(b, [_table(b, "OperatorCode", **code(b))])}, subgraph)


def operator(fields: Fields, code: Fields = nothing) -> Operator:
    return File(with_operator(fields, code)).subgraph(0).operators[0]


@pytest.mark.parametrize(
    ("older", "own", "name"),
    [
        (None, None, "ADD"),
        (9, None, "FULLY_CONNECTED"),
        (None, 9, "FULLY_CONNECTED"),
        (9, 9, "FULLY_CONNECTED"),
        (127, 128, "CUMSUM"),
        (127, 150, "GELU"),
        (None, 150, "GELU"),
        (0, 9999, "builtin 9999"),
    ],
)
def test_operator_codes(older: int | None, own: int | None, name: str) -> None:
    given = {"DeprecatedBuiltinCode": older, "BuiltinCode": own}
    found = operator(nothing, lambda b: {key: value for key, value in given.items() if value is not None})
    assert (found.index, found.name, found.is_custom, found.version) == (0, name, False, 1)


@pytest.mark.parametrize("older", [True, False])
def test_custom_codes(older: bool) -> None:
    number = "DeprecatedBuiltinCode" if older else "BuiltinCode"
    found = operator(nothing, lambda b: {number: 32, "CustomCode": b.CreateString("Mine"), "Version": 4})
    assert (found.name, found.is_custom, found.version) == ("Mine", True, 4)


def test_operator_codes_that_are_none() -> None:
    with pytest.raises(Malformed, match="operator 0 refers to operator code 1, there are 1"):
        operator(lambda b: {"OpcodeIndex": 1})


EDGES = {"Inputs": ("input", -1), "Outputs": ("output", 0), "Intermediates": ("intermediate", 0)}


@pytest.mark.parametrize("field", EDGES)
def test_tensors_of_an_operator(field: str) -> None:
    what, least = EDGES[field]
    found = operator(lambda b: {field: _ints(b, [1, 0, least])})
    wanted = {name: () for name in EDGES} | {field: (1, 0, least)}
    assert (found.inputs, found.outputs, found.intermediates) == tuple(wanted.values())
    for wrong in (least - 1, 2):
        with pytest.raises(Malformed) as caught:
            operator(lambda b, wrong=wrong: {field: _ints(b, [1, wrong])})
        assert str(caught.value) == f"operator 0 (ADD): {what} 1 is tensor {wrong}, there are 2"


@pytest.mark.parametrize("field", ["Inputs", "Outputs"])
def test_tensors_of_a_subgraph(field: str) -> None:
    def data(number: int) -> bytes:
        return model(
            subgraph=lambda b: {
                "Tensors": _offsets(b, [_table(b, "Tensor") for _ in range(2)]),
                field: _ints(b, [1, number]),
            }
        )

    found = File(data(0)).subgraph(0)
    assert (found.inputs, found.outputs) == (((1, 0), ()) if field == "Inputs" else ((), (1, 0)))
    for wrong in (-1, 2):
        with pytest.raises(Malformed) as caught:
            File(data(wrong)).subgraph(0)
        assert str(caught.value) == f"subgraph 0: {field.lower()[:-1]} 1 is tensor {wrong}, there are 2"


def options(table: str, union: str = "BuiltinOptions", kind: int | None = None, **values: Any) -> Fields:
    """Options of an operator; ``kind`` is what the file calls them."""

    def make(b: Builder) -> dict[str, Any]:
        number = getattr(getattr(tflite, union), table) if kind is None else kind
        return {f"{union}Type": number, union: _table(b, table, **values)}

    return make


def test_options() -> None:
    found = operator(options("SoftmaxOptions", Beta=0.5)).options("SoftmaxOptions")
    assert isinstance(found, tflite.SoftmaxOptions) and found.Beta() == 0.5
    found = operator(options("StablehloGatherOptions", "BuiltinOptions2", IndexVectorDim=7))
    assert found.options("StablehloGatherOptions").IndexVectorDim() == 7


@pytest.mark.parametrize(
    ("given", "table"),
    [
        (nothing, "Conv2DOptions"),
        (options("Conv2DOptions", kind=0, DilationHFactor=5), "Conv2DOptions"),
        (options("PackOptions"), "StablehloGatherOptions"),
        (options("StablehloGatherOptions", "BuiltinOptions2"), "Conv2DOptions"),
    ],
)
def test_options_that_are_left_out(given: Fields, table: str) -> None:
    """They have the schema's defaults; those of the other union do not count."""
    found = operator(given).options(table)
    assert found.DilationHFactor() == 1 if table == "Conv2DOptions" else found.IndexVectorDim() == 0


def test_options_of_another_operator() -> None:
    with pytest.raises(Unmapped, match=r"^expected options of type SoftmaxOptions, got type 59$"):
        operator(options("PackOptions")).options("SoftmaxOptions")


def test_custom_options() -> None:
    assert operator(nothing).custom_options() == b""
    assert operator(lambda b: {"CustomOptions": b.CreateByteVector(b"abc")}).custom_options() == b"abc"


# --- what is charged -----------------------------------------------------------------------------------------


class Charging(File):
    """A file that keeps what its tables are charged."""

    def __init__(self, data: bytes) -> None:
        self.charged = 0
        super().__init__(data)

    def _charge(self, amount: int) -> None:
        self.charged += amount
        super()._charge(amount)


def charged(data: bytes) -> int:
    file = Charging(data)
    file.subgraph(0)
    return file.charged


def sparse(b: Builder) -> dict[str, Any]:
    numbers = [_table(b, "Int32Vector", Values=_ints(b, values)) for values in ([0, 1, 2], [0, 1])]
    kinds = {"ArraySegmentsType": 1, "ArrayIndicesType": 1}
    levels = [
        _table(b, "DimensionMetadata", Format=0, DenseSize=2),
        _table(b, "DimensionMetadata", Format=1, ArraySegments=numbers[0], ArrayIndices=numbers[1], **kinds),
    ]
    edges = {"TraversalOrder": _ints(b, [0, 1]), "BlockMap": _ints(b, [1])}
    return {"Sparsity": _table(b, "SparsityParameters", DimMetadata=_offsets(b, levels), **edges)}


def quantisation(b: Builder) -> dict[str, Any]:
    numbers = {"Scale": vector(np.float32, 1, 2, 3)(b), "ZeroPoint": vector(np.int64, 0, 0)(b)}
    return {"Quantization": _table(b, "QuantizationParameters", **numbers)}


TENSOR, NUMBER = 16, 4
CHARGED: dict[str, tuple[bytes, int]] = {
    "nothing": (model(), 0),
    "a description": (model(lambda b: {"Description": b.CreateString("abcde")}), 5),
    "a subgraph's name": (model(subgraph=lambda b: {"Name": b.CreateString("abc")}), 3),
    "a tensor": (with_tensor(nothing), TENSOR),
    "a tensor's name": (with_tensor(lambda b: {"Name": b.CreateString("abc")}), TENSOR + 3),
    "a shape": (with_tensor(lambda b: {"Shape": _ints(b, [2, 3, 4])}), TENSOR + 3 * NUMBER),
    "a signature of a shape": (with_tensor(lambda b: {"ShapeSignature": _ints(b, [-1, 3])}), TENSOR + 2 * NUMBER),
    "a quantisation": (with_tensor(quantisation), TENSOR + 5 * NUMBER),
    "a sparse constant": (with_tensor(sparse), TENSOR + 2 * TENSOR + (3 + 3 + 2) * NUMBER),
    "a code": (with_operator(nothing, tensors=0), NUMBER + TENSOR),
    "a custom code": (
        with_operator(nothing, lambda b: {"BuiltinCode": 32, "CustomCode": b.CreateString("Mine")}, 0),
        NUMBER + 4 + TENSOR,
    ),
    "an operator's tensors": (
        with_operator(lambda b: {name: _ints(b, [0] * count) for count, name in enumerate(EDGES, 1)}, tensors=1),
        NUMBER + 2 * TENSOR + (1 + 2 + 3) * NUMBER,
    ),
    "edges": (
        model(
            subgraph=lambda b: {
                "Tensors": _offsets(b, [_table(b, "Tensor")]),
                "Inputs": _ints(b, [0]),
                "Outputs": _ints(b, [0, 0]),
            }
        ),
        TENSOR + 3 * NUMBER,
    ),
    "metadata": (model(entries(("x", 0), ("TFLITE_METADATA", 1), ("y", 0))), 3 * TENSOR),
}


@pytest.mark.parametrize("what", CHARGED)
def test_charged(what: str) -> None:
    data, amount = CHARGED[what]
    assert charged(data) == amount


def test_signatures_are_charged() -> None:
    x, z = T(shape=()), T(shape=())
    net = Net([x], [z])
    net.op("NEG", [x], z)
    key = Signature("key", 0, {"abc": x}, {"de": z})
    difference = charged(write(net, signatures=[key])) - charged(write(net))
    assert difference == NUMBER + 2 * TENSOR + len("key" + "abc" + "de")


@pytest.mark.parametrize("more", [0, 1])
def test_the_budget_of_a_file(more: int) -> None:
    """Twice the bytes of the file, and 4096."""
    file = File(model(subgraphs=1))
    assert file._budget == 2 * len(file.data) + 4096
    if more:
        with pytest.raises(Malformed, match=f"^its tables describe more than its {len(file.data)} bytes can hold$"):
            file._charge(2 * len(file.data) + 4096 + more)
    else:
        file._charge(2 * len(file.data) + 4096)


# --- sparse constants ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Int32Vector", "Uint16Vector", "Uint8Vector"])
def test_levels(kind: str) -> None:
    layout = Layout([1, 0, 2], [1], [3, ([0, 1, 2], [0, 2], kind), 1])
    source, result = T("FLOAT32", (2, 3), raw=bytes(8), layout=layout), T()
    net = Net([T(shape=(1,))], [result])
    net.op("DENSIFY", [source], result)
    found = next(one.sparsity for one in File(write(net)).subgraph(0).tensors if one.sparsity is not None)
    assert (found.order, found.blocks) == ((1, 0, 2), (1,))
    assert [level.size for level in found.levels] == [3, 0, 1]
    dense, compressed, _ = found.levels
    assert dense.compressed is None and compressed.compressed is not None
    assert [one.tolist() for one in compressed.compressed] == [[0, 1, 2], [0, 2]]


def test_levels_without_vectors() -> None:
    def fields(b: Builder) -> dict[str, Any]:
        values = _table(b, "Int32Vector", Values=_ints(b, [7]))
        level = _table(b, "DimensionMetadata", Format=1, ArraySegments=values, ArraySegmentsType=9)
        return {"Sparsity": _table(b, "SparsityParameters", DimMetadata=_offsets(b, [level]))}

    sparsity = tensor(fields).sparsity
    assert sparsity is not None
    (level,) = sparsity.levels
    assert level.compressed is not None
    assert [one.tolist() for one in level.compressed] == [[], []], "of a kind that is none, and left out"
