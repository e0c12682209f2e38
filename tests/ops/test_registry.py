"""Binding: which operands an operation takes, what it says of others, and what inference can't know yet."""

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.ops import registry
from nnvk.ops.call import UnknownValue
from nnvk.ops.signature import FLOATS, I32, REQUIRED, Signature, activation, i32, one_of, optional_tensor, tensor
from nnvk.ops.traits import Fp16, Traits
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.model import Lifetime, Model, Operand, Operation
from nnvk.types.operand import OperandType

X = np.zeros((2, 3), np.float32)
F32 = OperandType(OperandCode.TENSOR_FLOAT32, (2, 3))


@pytest.mark.parametrize(
    ("code", "inputs", "message"),
    [
        pytest.param(
            OperationCode.RESHAPE,
            (X, X),
            r"RESHAPE: shape \(input 1\) must be TENSOR_INT32, got TENSOR_FLOAT32\[2, 3\]",
            id="type",
        ),
        pytest.param(
            OperationCode.EXPAND_DIMS,
            (X, np.zeros(1, np.int32)),
            r"EXPAND_DIMS: axis \(input 1\) must be INT32, got TENSOR_INT32\[1\]",
            id="tensor_for_scalar",
        ),
        pytest.param(
            OperationCode.CONCATENATION,
            (X, X.astype(np.float16), 0),
            r"CONCATENATION: inputs \(input 1\) must be TENSOR_FLOAT32, got TENSOR_FLOAT16\[2, 3\]",
            id="variadic_of_another_type",
        ),
        pytest.param(
            OperationCode.SPACE_TO_DEPTH,
            (X.astype(np.int32), 2),
            "SPACE_TO_DEPTH: input must be TENSOR_FLOAT16 or TENSOR_FLOAT32 or TENSOR_QUANT8_ASYMM or "
            "TENSOR_QUANT8_ASYMM_SIGNED, got TENSOR_INT32",
            id="leading_type",
        ),
        pytest.param(OperationCode.RESHAPE, (X,), "RESHAPE: expected 2 inputs, got 1", id="too_few"),
        pytest.param(OperationCode.SQUEEZE, (X, None, 1), "SQUEEZE: expected 1 to 2 inputs, got 3", id="too_many"),
        pytest.param(
            OperationCode.GROUPED_CONV_2D, (X,) * 4, "GROUPED_CONV_2D: expected 9 or 12 inputs, got 4", id="two_counts"
        ),
        pytest.param(
            OperationCode.CONV_2D,
            (X, X, X, *[0] * 9),
            "CONV_2D: expected 7, 8, 10, 11 or 13 inputs, got 12",
            id="many_counts",
        ),
        pytest.param(
            OperationCode.RESIZE_BILINEAR, (X,), "RESIZE_BILINEAR: expected 3 to 6 inputs, got 1", id="run_of_counts"
        ),
        pytest.param(OperationCode.CONCATENATION, (0,), "CONCATENATION: expected at least 2 inputs, got 1", id="none"),
        pytest.param(
            OperationCode.TILE, (X, None), r"TILE: multiples \(input 1\) can't be omitted", id="omitted_but_required"
        ),
        pytest.param(
            OperationCode.RESIZE_BILINEAR,
            (X, 1.5, 2),
            r"RESIZE_BILINEAR: height_scale \(input 2\) must be FLOAT32, got INT32",
            id="overload_that_fits_furthest",
        ),
    ],
)
def test_signature_errors(ops, code, inputs, message):
    with pytest.raises(NnapiError, match=message) as error:
        ops.call(code, *inputs, outputs=[F32])
    assert error.value.code is ResultCode.BAD_DATA


def test_output_of_another_type(ops):
    with pytest.raises(NnapiError, match=r"ARGMAX: output output must be TENSOR_INT32, got TENSOR_FLOAT32\[2, 3\]"):
        ops.call(OperationCode.ARGMAX, X, 0, outputs=[F32])


def test_count_of_outputs(ops):
    with pytest.raises(NnapiError, match="TOPK_V2: expected 2 outputs, got 1"):
        ops.call(OperationCode.TOPK_V2, X, 1, outputs=[F32])


def test_declared_output_that_does_not_fit(ops):
    with pytest.raises(NnapiError, match=r"TRANSPOSE: output output is declared as \[2, 3\], .* give \[3, 2\]"):
        ops.infer(OperationCode.TRANSPOSE, X, None, outputs=[F32])


@pytest.mark.parametrize("declared", [(), (0, 0), (3, 0), (3, 2)])
def test_declared_output_that_fits(ops, declared):
    assert ops.infer(OperationCode.TRANSPOSE, X, None, outputs=[F32.with_dimensions(declared)]) == [(3, 2)]


class TestOverloads:
    """The operands' types choose the signature."""

    def test_by_size(self, ops):
        call = ops.call(OperationCode.RESIZE_BILINEAR, X, 7, 5)
        assert (call.has("output_width"), call.has("width_scale")) == (True, False)
        assert (call.output_width, call.output_height) == (7, 5)

    def test_by_scale(self, ops):
        call = ops.call(OperationCode.RESIZE_BILINEAR, X, 1.5, 2.0)
        assert (call.has("output_width"), call.has("width_scale")) == (False, True)
        assert (call.width_scale, call.height_scale) == (1.5, 2.0)

    def test_unknown_name(self, ops):
        call = ops.call(OperationCode.RESIZE_BILINEAR, X, 1.5, 2.0)
        with pytest.raises(AttributeError, match="RESIZE_BILINEAR has no operand 'output_width'"):
            _ = call.output_width


class TestOptionalOperands:
    """Absent trailing operands and operands without a value are the parameter's default."""

    @pytest.mark.parametrize("given", [(), (None,), (None, None, None), (False,)])
    def test_scalars(self, ops, given):
        call = ops.call(OperationCode.RESIZE_BILINEAR, X, 7, 5, *given)
        assert (call.nchw, call.align_corners, call.half_pixel_centers) == (False, False, False)

    @pytest.mark.parametrize("given", [(), (None,)])
    def test_tensors(self, ops, given):
        assert ops.call(OperationCode.SQUEEZE, X, *given).axes is None

    def test_one_omitted_before_one_given(self, ops):
        call = ops.call(OperationCode.RESIZE_BILINEAR, X, 7, 5, None, True)
        assert (call.nchw, call.align_corners) == (False, True)

    def test_variadic_may_stand_anywhere(self, ops):
        assert len(ops.call(OperationCode.CONCATENATION, X, X, X, 1).inputs) == 3
        assert len(ops.call(OperationCode.PACK, 1, X, X).inputs) == 2


class TestUnknown:
    """Inference gives None for a value that is known only when the model runs, and reading the value raises."""

    @pytest.mark.parametrize(
        "inputs",
        [
            pytest.param((OperandType(OperandCode.TENSOR_FLOAT32), 0), id="rank"),
            pytest.param((OperandType(OperandCode.TENSOR_FLOAT32, (2, 0)), 0), id="size"),
            pytest.param((X, OperandType(OperandCode.INT32)), id="scalar"),
        ],
    )
    def test_inference(self, ops, inputs):
        call = ops.call(OperationCode.EXPAND_DIMS, *inputs, outputs=[OperandType(OperandCode.TENSOR_FLOAT32)])
        assert registry.infer(call) is None
        assert isinstance(call.unknown, UnknownValue)

    def test_rules_on_types_hold_before_shapes_are_known(self, ops):
        source = OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (), 0.5, 3)
        result = OperandType(OperandCode.TENSOR_QUANT8_ASYMM, (), 0.5, 4)
        with pytest.raises(NnapiError, match="EXPAND_DIMS: output must have the scale and zero point of input"):
            ops.infer(OperationCode.EXPAND_DIMS, source, 0, outputs=[result])

    def test_messages(self, ops):
        call = ops.call(
            OperationCode.EXPAND_DIMS, OperandType(OperandCode.TENSOR_FLOAT32), OperandType(OperandCode.INT32)
        )
        with pytest.raises(UnknownValue, match="the value of axis is not known yet"):
            _ = call.axis
        with pytest.raises(UnknownValue, match="the shape of input is not known yet"):
            _ = call.input.shape
        with pytest.raises(UnknownValue, match="the value of input is not known yet"):
            _ = call.input.data

    def test_known_shape_of_an_unknown_value(self, ops):
        call = ops.call(OperationCode.EXPAND_DIMS, F32, 0)
        assert (call.input.shape, call.input.is_constant) == ((2, 3), False)
        assert registry.infer(call) == [(1, 2, 3)]
        assert call.output.shape == (1, 2, 3)


class TestSignature:
    """The arithmetic on parameters."""

    @pytest.mark.parametrize(
        ("params", "arity"),
        [
            ((tensor("a"), i32("b")), (2, 2)),
            ((tensor("a"), optional_tensor("b"), i32("c", 7)), (1, 3)),
            ((tensor("a", variadic=True), i32("b")), (2, None)),
            ((i32("a"), tensor("b", default=None, variadic=True)), (1, None)),
        ],
    )
    def test_arity(self, params, arity):
        assert Signature(*params).arity == arity

    @pytest.mark.parametrize(("count", "names"), [(2, "ab"), (4, "aaab")])
    def test_spread(self, count, names):
        signature = Signature(tensor("a", variadic=True), i32("b"))
        assert "".join(param.name for param in signature.spread(count)) == names

    def test_required_and_optional(self):
        assert activation().default is REQUIRED
        assert not activation().optional
        assert activation(0).optional


class TestDefinitions:
    """The table of operations."""

    def test_twice(self):
        with pytest.raises(ValueError, match="RESHAPE is defined twice"):
            registry.define(
                OperationCode.RESHAPE,
                traits=Traits(foldable=True, fp16=Fp16.FOLLOWS),
                types=FLOATS,
                signatures=Signature(tensor("input")),
                infer=lambda call: [],
                reference=None,
            )

    def test_unknown(self, monkeypatch):
        monkeypatch.delitem(registry._registry, OperationCode.RESHAPE)
        with pytest.raises(NnapiError, match="RESHAPE: this operation is not defined"):
            registry.lookup(OperationCode.RESHAPE)

    @pytest.mark.parametrize("code", OperationCode, ids=lambda code: code.name)
    def test_every_operation(self, code):
        definition = registry.lookup(code)
        control_flow = (OperationCode.IF, OperationCode.WHILE)
        assert (definition.reference is None) == (code in control_flow)
        assert all(1 <= level <= 8 for level in definition.types.values())
        for signature in definition.signatures:
            names = [param.name for param in (*signature.params, *definition.outputs)]
            assert len(set(names)) == len(names)
            for name in names:
                # Attributes of Call itself would hide an operand of the same name.
                assert name in ("output", "outputs") or not hasattr(registry.Call, name), name
            assert all(1 <= param.since <= 8 for param in signature.params)


class TestCalls:
    """All operations of a model, shapes carried from one to the next."""

    @staticmethod
    def model(perm, shape):
        """A TRANSPOSE, then a RESHAPE of its result."""
        operands = (
            Operand(F32.with_dimensions((0, 3)), Lifetime.SUBGRAPH_INPUT),
            Operand(OperandType(I32, (2,)), Lifetime.CONSTANT, np.array(perm, np.int32)),
            Operand(F32.with_dimensions(()), Lifetime.TEMPORARY_VARIABLE),
            Operand(OperandType(I32, (len(shape),)), Lifetime.CONSTANT, np.array(shape, np.int32)),
            Operand(F32.with_dimensions(()), Lifetime.SUBGRAPH_OUTPUT),
        )
        operations = (
            Operation(OperationCode.TRANSPOSE, (0, 1), (2,)),
            Operation(OperationCode.RESHAPE, (2, 3), (4,)),
        )
        return Model(operands, operations, (0,), (4,))

    def test_shapes_go_on(self):
        calls = [call for _, call in registry.calls(self.model((1, 0), (-1, 2)), [(4, 3)])]
        assert [call.output.shape for call in calls] == [(3, 4), (6, 2)]

    def test_what_is_unknown_goes_on(self):
        calls = [call for _, call in registry.calls(self.model((1, 0), (-1, 2)), [(0, 3)])]
        assert [isinstance(call.unknown, UnknownValue) for call in calls] == [True, True]

    def test_errors_say_where(self):
        with pytest.raises(NnapiError, match=r"RESHAPE: shape must keep the 12 .* \(operands \[2, 3\] -> \[4\]\)"):
            list(registry.calls(self.model((1, 0), (-1, 5)), [(4, 3)]))


def test_accepts_only_what_is_listed():
    assert one_of(I32)(OperandCode.TENSOR_FLOAT32) == frozenset({I32})
