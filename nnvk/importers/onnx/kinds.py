"""Operators of ONNX by what they do with elements, for the tables of several modules."""

from __future__ import annotations

PAIRS = frozenset(
    [
        *("Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min"),
        *("Mod", "Mul", "Or", "PRelu", "Pow", "Sub", "Sum", "Where", "Xor"),
    ]
)
"""Operators that compute each element from those of inputs that broadcast."""
ELEMENTWISE = PAIRS | frozenset(
    [
        *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cast", "CastLike", "Ceil", "Celu", "Clip"),
        *("Cos", "Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "IsInf", "IsNaN"),
        *("LeakyRelu", "Log", "Mish", "Neg", "Not", "QuantizeLinear", "Reciprocal", "Relu", "Round", "Selu"),
        *("Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh"),
    ]
)
"""Operators that compute each element by itself."""
