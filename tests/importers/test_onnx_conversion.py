"""Models before an import: operators before version 7, which the onnx package converts, and sparse tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx_nodes as nodes
from in_turn import devices
from onnx import ModelProto, SparseTensorProto, helper
from onnx_net import model, op
from onnx_oracle import actual

from nnvk.importers.onnx import OnnxImportError, load

F = np.float32
PARTS = 13
DENSE = np.array([[0, 5, 0], [0, 0, 0], [7, 0, 9]], F)
BEYOND_FLOATS = {
    "test_operator_add_broadcast",
    "test_operator_add_size1_broadcast",
    "test_operator_add_size1_right_broadcast",
    "test_operator_add_size1_singleton_broadcast",
    "test_operator_addconstant",
}
"""Their inputs are memory that nobody has written, as DOUBLE."""
REFUSED = {"test_MaxPool1d_stride_padding_dilation", "test_MaxPool2d_stride_padding_dilation"}


@pytest.mark.parametrize("part", range(PARTS))
def test_exported_models(part: int) -> None:
    tests = [test for test in nodes.exported_tests()[part::PARTS] if test.name not in BEYOND_FLOATS]
    assert len(tests) >= 7
    for device in devices():
        found = list(nodes.outcomes(tests, device))
        assert {name: why for name, how, why in found if how != "passed" and name not in REFUSED} == {}
        assert {name for name, how, _ in found if how == "refused"} == REFUSED & {test.name for test in tests}


def old(nodes: list[Any], inputs: dict[str, Any], constants: dict[str, np.ndarray], version: int) -> bytes:
    """A model whose constants are inputs as well, as they had to be."""
    made = model(nodes, inputs, ["y"], constants)
    made.opset_import[0].version, made.ir_version = version, 3
    declared = model([], {name: (array.dtype.type, array.shape) for name, array in constants.items()}, [])
    made.graph.input.extend(declared.graph.input)
    made.graph.output[0].type.CopyFrom(made.graph.input[0].type)
    return made.SerializeToString()


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 3), (2, 3, 4, 5), (2, 3), (4, 3, 2, 2, 3)])
def test_slopes_of_channels(shape: tuple[int, ...]) -> None:
    """PRelu had one for each channel without dimensions behind, also where the last dimension is as large."""
    x, slopes = np.random.default_rng(0).standard_normal(shape).astype(F), np.array([0.5, -1, 3], F)
    data = old([op("PRelu", "x s", "y")], {"x": (F, shape)}, {"s": slopes}, 6)
    wanted = np.where(x > 0, x, x * slopes.reshape(3, *[1] * (len(shape) - 2)))
    for device in devices():
        np.testing.assert_array_equal(actual(load(data), {"x": x}, device)[0], wanted)


@pytest.mark.parametrize("version", [1, 6])
@pytest.mark.parametrize(
    ("shape", "axis", "broad"),
    [
        ((3, 4), None, (3, 4)),
        ((3, 4), 1, (3, 4)),
        ((3,), 1, (3, 1)),
        ((2, 3), 0, (2, 3, 1)),
        ((2,), 0, (2, 1, 1)),
        ((4,), -1, (4,)),
        ((3,), -2, (3, 1)),
        ((1,), None, (1,)),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_terms_that_broadcast(
    version: int, shape: tuple[int, ...], axis: int | None, broad: tuple[int, ...], known: bool
) -> None:
    """With the last axes of the first term, or those from an axis on."""
    x, b = (np.random.default_rng(1).standard_normal(one).astype(F) for one in ((2, 3, 4), shape))
    node = op("Sub", "x b", "y", broadcast=1, **({} if axis is None else {"axis": axis}))
    inputs = {"x": (F, (2, 3, 4))} if known else {"x": (F, (2, 3, 4)), "b": (F, shape)}
    data = old([node], inputs, {"b": b} if known else {}, version)
    feeds = {"x": x} if known else {"x": x, "b": b}
    np.testing.assert_array_equal(actual(load(data), feeds, "vulkan-0")[0], x - b.reshape(broad))


@pytest.mark.parametrize(("shape", "axis"), [((2, 3), 2), ((2, 3), -3), ((), 0)])
def test_axes_that_are_none_are_refused(shape: tuple[int, ...], axis: int) -> None:
    data = old([op("Add", "x b", "y", broadcast=1, axis=axis)], {"x": (F, shape)}, {"b": np.ones(1, F)}, 6)
    with pytest.raises(OnnxImportError, match=f"axis {axis} of Add '' is none of {len(shape)}"):
        load(data)


@pytest.mark.parametrize("shape", [(), (1,), (5,)])
def test_slopes_of_what_has_no_channels(shape: tuple[int, ...]) -> None:
    x = np.full(shape, -2, F)
    data = old([op("PRelu", "x s", "y")], {"x": (F, shape)}, {"s": np.array([0.5], F)}, 6)
    np.testing.assert_array_equal(actual(load(data), {"x": x}, "vulkan-0")[0].reshape(shape), x * F(0.5))


def test_slopes_of_an_input() -> None:
    x, slopes = np.random.default_rng(2).standard_normal((2, 3, 4)).astype(F), np.array([0.5, -1, 3], F)
    data = old([op("PRelu", "x s", "y")], {"x": (F, (2, 3, 4)), "s": (F, (3,))}, {}, 6)
    wanted = np.where(x > 0, x, x * slopes[:, None])
    np.testing.assert_array_equal(actual(load(data), {"x": x, "s": slopes}, "vulkan-0")[0], wanted)


def test_shapes_that_are_not_known_are_refused() -> None:
    made = model([op("NoSuch", "x", "z", domain="d"), op("PRelu", "z s", "y")], {"x": (F, (2, 3))}, ["y"])
    made.opset_import[0].version, made.ir_version = 6, 3
    made.graph.input.extend(model([], {"s": (F, (3,))}, []).graph.input)
    made.graph.output[0].type.CopyFrom(made.graph.input[0].type)
    made.opset_import.add(domain="d", version=1)
    with pytest.raises(
        OnnxImportError, match="can't be converted to opset 7: the shapes of inputs of PRelu '' are not"
    ):
        load(made.SerializeToString())


# --- sparse tensors --------------------------------------------------------------------------------------------------


def sparse(places: Any, shape: tuple[int, ...] = DENSE.shape) -> SparseTensorProto:
    values = helper.make_tensor("w", helper.np_dtype_to_tensor_dtype(np.dtype(F)), [3], [5.0, 7.0, 9.0])
    indices = np.array(places)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(np.int64))
    return helper.make_sparse_tensor(values, helper.make_tensor("i", kind, indices.shape, indices.reshape(-1)), shape)


def with_weights(weights: SparseTensorProto, as_node: bool) -> ModelProto:
    made = model([op("Constant", "", "w"), op("MatMul", "x w", "y")], {"x": (F, [2, 3])}, ["y"], opset=17)
    if as_node:
        made.graph.node[0].attribute.append(helper.make_attribute("sparse_value", weights))
    else:
        del made.graph.node[0]
        made.graph.sparse_initializer.append(weights)
    return made


@pytest.mark.parametrize("as_node", [True, False])
@pytest.mark.parametrize("places", [[1, 6, 8], [[0, 1], [2, 0], [2, 2]]], ids=["flat", "coordinates"])
def test_sparse_tensors(places: Any, as_node: bool) -> None:
    x = np.arange(6, dtype=F).reshape(2, 3)
    data = with_weights(sparse(places), as_node).SerializeToString()
    np.testing.assert_array_equal(actual(load(data), {"x": x}, "nnapi-reference")[0], x @ DENSE)


@pytest.mark.parametrize(
    ("places", "shape", "reason"),
    [
        ([1, 6, 9], (3, 3), "index 9 is out of bounds"),
        ([1, 6, -1], (3, 3), "elements at"),
        ([1, 6], (3, 3), "elements at"),
        ([[0, 1], [2, 0], [2, 3]], (3, 3), "invalid entry"),
        ([1, 6, 8], (1 << 40, 3), "NNVK_IMPORT_MEMORY"),
        ([1, 6, 8], (-3, 3), "negative"),
    ],
)
def test_sparse_tensors_that_are_wrong(places: Any, shape: tuple[int, ...], reason: str) -> None:
    with pytest.raises(OnnxImportError, match=rf"(?s)sparse tensor 'w' of shape .* has no such elements .*{reason}"):
        load(with_weights(sparse(places, shape), as_node=False).SerializeToString())
