"""Functions of ONNX models, bodies of operators, and graphs in nodes: their inputs, attributes, versions and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_net import model, op, subgraph
from onnx_oracle import actual, check, operations

from nnvk.importers.onnx import OnnxImportError, load
from nnvk.importers.user_functions import forget, operator

F, I64 = np.float32, np.int64
DEVICES = ("nnapi-reference",)
X = np.random.default_rng(0).standard_normal((2, 3)).astype(F)


def function(
    nodes: list[NodeProto],
    inputs: str = "a",
    outputs: str = "b",
    *,
    attributes: list[str] | None = None,
    defaults: dict[str, Any] | None = None,
    opset: int = 17,
    name: str = "F",
) -> FunctionProto:
    made = helper.make_function(
        "f", name, inputs.split(), outputs.split(), nodes, [helper.make_opsetid("", opset), helper.make_opsetid("f", 1)]
    )
    made.attribute.extend(attributes or [])
    made.attribute_proto.extend(helper.make_attribute(key, value) for key, value in (defaults or {}).items())
    return made


def referring(kind: str, inputs: str, outputs: str, **names: tuple[str, int]) -> NodeProto:
    """A node whose attributes are those of the function."""
    node = op(kind, inputs, outputs)
    for key, (name, type_) in names.items():
        node.attribute.append(AttributeProto(name=key, ref_attr_name=name, type=type_))
    return node


def net(nodes: list[NodeProto], *functions: FunctionProto, outputs: str = "y", **constants: Any) -> ModelProto:
    arrays = {name: np.asarray(one) for name, one in constants.items()}
    return model(nodes, {"x": (F, X.shape)}, outputs.split(), arrays, functions=list(functions))


# --- inputs and outputs ----------------------------------------------------------------------------------------------

CLIPPED = function([op("Clip", "a l h", "c"), op("Neg", "c", "b")], "a l h")


@pytest.mark.parametrize(
    ("names", "low", "high"), [("x", None, None), ("x l", 0, None), ("x - h", None, 0.5), ("x l h", 0, 0.5)]
)
def test_inputs_that_are_left_out(names: str, low: float | None, high: float | None) -> None:
    """They are left out by the nodes in the body, too."""
    made = net([op("F", names, "y", domain="f")], CLIPPED, l=F(0), h=F(0.5))
    (got,) = actual(load(made.SerializeToString()), {"x": X}, "nnapi-reference")
    np.testing.assert_allclose(got, -np.clip(X, low, high) if names != "x" else -X)


@pytest.mark.parametrize("outputs", ["y", "- y", "y z", "z y"])
def test_outputs_that_nobody_wants(outputs: str) -> None:
    body = function([op("Neg", "a", "b"), op("Exp", "a", "c")], outputs="b c")
    made = net([op("F", "x", outputs, domain="f")], body)
    (got,) = actual(load(made.SerializeToString()), {"x": X}, "nnapi-reference")
    np.testing.assert_allclose(got, np.exp(X) if outputs in ("- y", "z y") else -X, rtol=1e-6)


def test_inputs_that_have_to_be_known() -> None:
    """The error names the model's inputs, not those of the function."""
    inner = function([op("Reshape", "p q", "r")], "p q", "r", name="G")
    outer = function([op("Neg", "a", "n"), op("G", "n s", "b", domain="f")], "a s", "b")
    inputs = {"x": (F, [2, 3]), "wanted": (I64, [2])}
    made = model([op("F", "x wanted", "y", domain="f")], inputs, ["y"], functions=[inner, outer])
    with pytest.raises(OnnxImportError) as raised:
        load(made.SerializeToString())
    assert raised.value.unknown == ("wanted",)
    assert "in it, f.G: in it, Reshape: shape (input 1) must be a constant" in raised.value.reason
    known = load(made.SerializeToString(), constants={"wanted": np.array([3, 2])})
    assert known.outputs[0].shape == (3, 2)


def test_values_that_inputs_make_have_to_be_known() -> None:
    made = model(
        [op("Add", "n one", "m"), op("Reshape", "x m", "y")],
        {"x": (F, [2, 3]), "n": (I64, [1])},
        ["y"],
        {"one": np.array([1])},
    )
    with pytest.raises(OnnxImportError) as raised:
        load(made.SerializeToString())
    assert raised.value.unknown == ("n",)


# --- attributes and versions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("default", [None, 0.5])
@pytest.mark.parametrize("given", [None, 0.25])
def test_attributes(default: float | None, given: float | None) -> None:
    """The node's own one counts, or else the function's, or else that of the operator in it."""
    nodes = [referring("LeakyRelu", "a", "b", alpha=("slope", AttributeProto.FLOAT))]
    body = function(nodes, attributes=["slope"]) if default is None else function(nodes, defaults={"slope": default})
    made = net([op("F", "x", "y", domain="f", **({} if given is None else {"slope": given}))], body)
    (got,) = actual(load(made.SerializeToString()), {"x": X}, "nnapi-reference")
    alpha = given or default or 0.01
    np.testing.assert_allclose(got, np.where(X < 0, alpha * X, X), rtol=1e-6)


def test_attributes_of_functions_in_functions() -> None:
    inner = function(
        [referring("LeakyRelu", "a", "b", alpha=("slope", AttributeProto.FLOAT))], attributes=["slope"], name="G"
    )
    call = op("G", "a", "b", domain="f")
    call.attribute.append(AttributeProto(name="slope", ref_attr_name="factor", type=AttributeProto.FLOAT))
    outer = function([call], attributes=["factor"])
    made = net([op("F", "x", "y", domain="f", factor=0.5)], inner, outer)
    check(made, {"x": X}, devices=DEVICES)


def test_attributes_of_nodes_of_constants() -> None:
    """A node that is computed at import takes them, too."""
    nodes = [
        referring("Concat", "k k", "t", axis=("along", AttributeProto.INT)),
        op("ReduceSum", "t", "s", keepdims=0),
        op("Mul", "a s", "b"),
    ]
    body = function([op("Constant", "", "k", value_floats=[1.0, 2.0]), *nodes], attributes=["along"])
    check(net([op("F", "x", "y", domain="f", along=0)], body), {"x": X}, devices=DEVICES)


@pytest.mark.parametrize(("opset", "operation"), [(11, "RESHAPE SOFTMAX RESHAPE"), (13, "SOFTMAX")])
def test_versions_of_a_function(opset: int, operation: str) -> None:
    """Its operators are of its own version: the default of the axis was 1, and all behind it."""
    body = function([op("Softmax", "a", "b", axis=0)], opset=opset)
    imported = load(net([op("F", "x", "y", domain="f")], body).SerializeToString())
    assert operations(imported) == operation.split()


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize("has_weights", [False, True])
def test_bodies_that_types_decide(has_weights: bool, version: int) -> None:
    """ONNX makes the body of NegativeLogLikelihoodLoss for the inputs that are there."""
    labels, weights = np.array([2, 0]), np.array([0.5, 1.0, 2.0], F)
    names = "x t w" if has_weights else "x t"
    constants = {"t": labels} | ({"w": weights} if has_weights else {})
    node = op("NegativeLogLikelihoodLoss", names, "y", reduction="sum")
    made = model([node], {"x": (F, X.shape)}, ["y"], constants, opset=version)
    (got,) = actual(load(made.SerializeToString()), {"x": X}, "nnapi-reference")
    picked = -X[[0, 1], labels] * (weights[labels] if has_weights else 1)
    np.testing.assert_allclose(got, picked.sum(), rtol=1e-5)


def test_operators_with_a_body() -> None:
    """Those that nnvk itself does not know are made of others."""
    node = op("CenterCropPad", "x s", "y", axes=[1])
    made = model([node], {"x": (F, X.shape)}, ["y"], {"s": np.array([2])}, opset=18)
    (wanted,) = ReferenceEvaluator(made).run(None, {"x": X})
    (got,) = actual(load(made.SerializeToString()), {"x": X}, "nnapi-reference")
    np.testing.assert_array_equal(got, wanted)


# --- nodes that are looked at ahead ----------------------------------------------------------------------------------


def normalised(where: str) -> ModelProto:
    """A convolution and a BatchNormalization behind it."""
    rng = np.random.default_rng(0)
    constants = {"w": rng.standard_normal((3, 2, 2, 2)).astype(F)}
    constants |= {name: rng.uniform(0.5, 2, 3).astype(F) for name in "gbmv"}
    source = {"x": (F, [1, 2, 4, 3])}
    if where == "branch":
        nodes = [op("Conv", "x w", "c"), op("BatchNormalization", "c g b m v", "o")]
        branch = subgraph(nodes, ["o"])
        return model(
            [op("If", "yes", "y", then_branch=branch, else_branch=branch)],
            source,
            ["y"],
            constants | {"yes": np.array(True)},
        )
    if where == "function":
        nodes = [op("Conv", "a w", "c"), op("BatchNormalization", "c g b m v", "o")]
        body = function(nodes, "a w g b m v", "o")
        return model([op("F", "x w g b m v", "y", domain="f")], source, ["y"], constants, functions=[body])
    return model([op("Conv", "x w", "c"), op("BatchNormalization", "c g b m v", "y")], source, ["y"], constants)


@pytest.mark.parametrize("where", ["graph", "branch", "function"])
def test_a_normalisation_goes_into_the_convolution(where: str) -> None:
    x = np.random.default_rng(1).standard_normal((1, 2, 4, 3)).astype(F)
    assert operations(check(normalised(where), {"x": x}, devices=DEVICES)) == ["CONV_2D"]


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ({}, 1),
        ({"inputs": "c g b m w1"}, 99),
        ({"inputs": "c g b m free"}, 99),
        ({"others": True}, 3),
        ({"kind": "FusedConv"}, 3),
    ],
    ids=str,
)
def test_normalisations_that_stay(change: dict[str, Any], count: int) -> None:
    """Those of a batch, of statistics that are not known or not of the channels, and of what others read."""
    constants = {"w": np.ones((3, 2, 2, 2), F), "w1": np.ones(1, F)} | {name: np.full(3, 2, F) for name in "gbmv"}
    kind = change.get("kind", "Conv")
    attributes = {"domain": "com.microsoft"} if kind == "FusedConv" else {}
    nodes = [
        op(kind, "x w", "c", **attributes),
        op("BatchNormalization", change.get("inputs", "c g b m v"), "y"),
        *([op("Neg", "c", "z")] if "others" in change else []),
    ]
    inputs = {"x": (F, [1, 2, 4, 3])} | ({"free": (F, [3])} if "free" in change.get("inputs", "") else {})
    made = model(nodes, inputs, ["y", *(["z"] if "others" in change else [])], constants, opset=15)
    names = operations(load(made.SerializeToString()))
    if count == 1:
        assert names == ["CONV_2D"]
    else:
        assert "CONV_2D" in names and "MUL" in names


@pytest.mark.parametrize("where", ["before", "behind", "computed"])
def test_scales_that_are_told_behind(where: str) -> None:
    """A Constant further behind is known to the product; what another node computes is not."""
    numbers = {"xs": F(0.05), "xz": np.uint8(9), "ws": F(0.01), "wz": np.int8(0)}
    arrays: dict[str, np.ndarray] = {name: np.asarray(one) for name, one in numbers.items()}
    arrays["w"] = np.arange(12, dtype=np.int8).reshape(4, 3)
    told = [
        op("Constant", "", "ys", value=numpy_helper.from_array(np.array(0.5, F))),
        op("Constant", "", "yz", value=numpy_helper.from_array(np.array(3, np.uint8))),
    ]
    if where == "computed":
        told[0] = op("Identity", "s", "ys")
    nodes = [
        op("DequantizeLinear", "x xs xz", "a"),
        op("DequantizeLinear", "w ws wz", "b"),
        *(told if where == "before" else []),
        op("Gemm", "a b", "c", transB=1),
        *(told if where != "before" else []),
        op("QuantizeLinear", "c ys yz", "y"),
    ]
    inputs = {"x": (np.uint8, [2, 3])} | ({"s": (F, [])} if where == "computed" else {})
    names = operations(load(model(nodes, inputs, ["y"], arrays).SerializeToString()))
    assert (names == ["FULLY_CONNECTED"]) == (where != "computed")


# --- branches --------------------------------------------------------------------------------------------------------


def choice(then: list[NodeProto], other: list[NodeProto], *before: NodeProto) -> ModelProto:
    branches = [subgraph(nodes, ["o"]) for nodes in (then, other)]
    node = op("If", "c", "y", then_branch=branches[0], else_branch=branches[1])
    constants = {"k": np.ones(3, F), "zero": np.array(0, I64)}
    return model([*before, node], {"x": (F, X.shape), "c": (np.bool_, [])}, ["y"], constants)


@pytest.mark.parametrize(
    ("then", "other", "reason"),
    [
        (
            [op("Transpose", "x", "o")],
            [op("Neg", "x", "o")],
            "its branches give float32 [3, 2] and float32 [2, 3]: NNAPI's have one shape",
        ),
        (
            [op("Cast", "x", "o", to=6)],
            [op("Neg", "x", "o")],
            "its branches give int32 [2, 3] and float32 [2, 3]: NNAPI's have one shape",
        ),
        ([op("NonZero", "x", "o")], [op("NonZero", "x", "o")], "data decide the size of what a branch gives"),
    ],
)
def test_branches_that_do_not_fit(then: list[NodeProto], other: list[NodeProto], reason: str) -> None:
    """Who knows the condition needs one of them."""
    made = choice(then, other)
    with pytest.raises(OnnxImportError) as raised:
        load(made.SerializeToString())
    assert [problem.reason for problem in raised.value.problems] == [reason]
    assert raised.value.unknown == ("c",)
    load(made.SerializeToString(), constants={"c": np.array(True)})


def test_branches_that_read_what_data_decide() -> None:
    made = choice([op("Neg", "n", "o")], [op("Abs", "n", "o")], op("NonZero", "x", "n"))
    with pytest.raises(OnnxImportError) as raised:
        load(made.SerializeToString())
    reason = "data decide the size of tensor 'n', which goes into a branch"
    assert [problem.reason for problem in raised.value.problems] == [reason]


@pytest.mark.parametrize("flag", [True, False])
def test_branches_read_tensors_and_constants(flag: bool) -> None:
    """Those of the graph around them, in the order in which they are read."""
    before = op("Exp", "x", "e")
    made = choice([op("Add", "e k", "t"), op("Mul", "t x", "o")], [op("Sub", "x k", "o")], before)
    imported = check(made, {"x": X, "c": np.array(flag)}, devices=DEVICES)
    assert operations(imported) == ["EXP", "IF"]


# --- attributes that are tensors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_text", [False, True])
def test_tensors_in_attributes(is_text: bool, request: pytest.FixtureRequest) -> None:
    """They must be of numbers, and in the file itself."""
    keys = numpy_helper.from_array(np.array([1, 2]))
    if is_text:
        keys = helper.make_tensor("keys", 8, [2], [b"a", b"b"])
    else:
        keys.data_location = 1
        keys.external_data.add(key="location", value="beside")
    operator("com.example.Keyed")(lambda x, keys: x)
    request.addfinalizer(lambda: forget("com.example.Keyed"))
    made = model([op("Keyed", "x", "y", domain="com.example", keys=keys)], {"x": (I64, [2])}, [])
    made.graph.output.add(name="y")
    with pytest.raises(OnnxImportError) as raised:
        load(made.SerializeToString())
    if is_text:
        assert [one.reason for one in raised.value.problems] == [
            "attribute 'keys' must be of numbers that NumPy has, got object"
        ]
    else:
        assert "tensor '' must have its elements in the file itself" in str(raised.value)
