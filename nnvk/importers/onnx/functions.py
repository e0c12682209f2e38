"""Operators that consist of others: functions of the model, and operators with a body in their definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, TypeProto, helper
from onnx.defs import SchemaError, get_schema

from nnvk.importers.onnx.node import Node, domain_of
from nnvk.importers.onnx.tensors import Tensor


class Functions:
    """The bodies of operators."""

    def __init__(self, model: ModelProto) -> None:
        self._own = {(domain_of(one.domain), one.name): one for one in model.functions}

    def of_model(self, node: Node) -> FunctionProto | None:
        """The function of the model that a node calls, None where it calls none."""
        return self._own.get((domain_of(node.proto.domain), node.op_type))

    def body(
        self, node: Node, inputs: Sequence[Tensor | None]
    ) -> tuple[FunctionProto, Mapping[str, AttributeProto]] | None:
        """The body of a node's operator and the attributes that it may refer to, None where it has none."""
        arguments = node.attributes()
        own = self.of_model(node)
        if own is not None:
            defaults = {one.name: one for one in own.attribute_proto}
            return own, {**defaults, **arguments}
        try:
            schema: Any = get_schema(node.op_type, node.version, domain_of(node.proto.domain))
        except SchemaError:
            return None
        defaults = {name: one.default_value for name, one in schema.attributes.items() if one.default_value.name}
        known = [one for one in schema.function_opset_versions if one <= node.version]
        body = FunctionProto()
        if known:
            body.ParseFromString(schema.get_function_with_opset_version(max(known)))
            return body, {**defaults, **arguments}
        known = [one for one in schema.context_dependent_function_opset_versions if one <= node.version]
        if not known:
            return None
        plain = NodeProto()
        plain.CopyFrom(node.proto)
        del plain.attribute[:]
        for name, attribute in arguments.items():
            plain.attribute.add().CopyFrom(attribute)
            plain.attribute[-1].name = name
        types = [_type(tensor).SerializeToString() for tensor in inputs]
        try:
            made = schema.get_context_dependent_function_with_opset_version(
                max(known), plain.SerializeToString(), types
            )
        except (RuntimeError, ValueError, TypeError):
            return None
        body.ParseFromString(made)
        return (body, {**defaults, **arguments}) if body.node else None


def versions_in(body: FunctionProto, around: Mapping[str, int]) -> Mapping[str, int]:
    """The versions of operators in a body: its own, and those around it for domains that it leaves out.

    The bodies that onnx makes for FlexAttention name their own domain alone.
    """
    return {**around, **{domain_of(one.domain): int(one.version) for one in body.opset_import}}


def _type(tensor: Tensor | None) -> TypeProto:
    if tensor is None:
        return TypeProto()
    dtype = tensor.dtype if tensor.narrow is None else tensor.narrow.dtype
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(dtype), tensor.shape)
