"""Elementwise operations against LiteRT: broadcasting, all activations, extreme scales and zero points."""

from __future__ import annotations

import pytest
import tflite
from generators.elementwise import broadcasting
from hypothesis import given
from hypothesis import strategies as st
from litert_check import FUSED, Tensors
from tflite_net import T

REAL, INT = "FLOAT32", "INT32"

pytestmark = pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid", "ignore:divide")


def pair(t: Tensors, kind: str, **options: float) -> list[T]:
    """Two inputs that broadcast, in either order."""
    shape = t.sizes(t.integer(1, 4))
    shapes = [shape, broadcasting(t, shape)]
    if t.chance():
        shapes.reverse()
    if kind == REAL:
        return [t.real(*each) for each in shapes]
    if kind == INT:
        return [t.integers(*each) for each in shapes]
    return [t.quantised(kind, *each, **options) for each in shapes]


def output(t: Tensors, kind: str, natural: float) -> T:
    return T(kind) if kind in (REAL, INT) else t.result(kind, natural)


# --- arithmetic ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [REAL, INT, "INT8", "UINT8"])
@pytest.mark.parametrize("name, table", [("ADD", "AddOptions"), ("SUB", "SubOptions")])
@given(data=st.data())
def test_sums(name: str, table: str, kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    inputs = pair(t, kind)
    natural = 1.0 if kind in (REAL, INT) else 2 * max(source.scale for source in inputs)
    fused = t.pick(FUSED) if kind != INT else FUSED[0]
    t.check(name, inputs, output(t, kind, natural), table, FusedActivationFunction=fused)


@pytest.mark.parametrize("kind", [REAL, INT, "INT8", "UINT8"])
@given(data=st.data())
def test_mul(kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    inputs = pair(t, kind)
    natural = 1.0 if kind in (REAL, INT) else 250 * inputs[0].scale * inputs[1].scale
    fused = t.pick(FUSED) if kind != INT else FUSED[0]
    t.check("MUL", inputs, output(t, kind, natural), "MulOptions", FusedActivationFunction=fused)


@given(data=st.data())
def test_div(data: st.DataObject) -> None:
    t = Tensors(data)
    shape = t.sizes(t.integer(1, 4))
    inputs = [t.real(*shape), t.real(*broadcasting(t, shape), low=0.1)]
    t.check("DIV", inputs, (), "DivOptions", FusedActivationFunction=t.pick(FUSED))


@pytest.mark.parametrize("kind", [REAL, INT, "INT8", "UINT8"])
@pytest.mark.parametrize("name", ["MAXIMUM", "MINIMUM"])
@given(data=st.data())
def test_extremes(name: str, kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    scale, zero = t.scale(), t.zero(kind) if kind in ("INT8", "UINT8") else 0
    inputs = pair(t, kind, **({"scale": scale, "zero_point": zero} if kind in ("INT8", "UINT8") else {}))
    result = T(kind) if kind in (REAL, INT) else T(kind, scale=scale, zero_point=zero)
    t.check(name, inputs, result, "MaximumMinimumOptions")


@given(data=st.data())
def test_pow(data: st.DataObject) -> None:
    t = Tensors(data)
    shape = t.sizes(t.integer(1, 4))
    t.check("POW", [t.real(*shape, low=0.1), t.real(*broadcasting(t, shape))], (), "PowOptions")


@pytest.mark.parametrize("kind", [REAL, "INT8", "UINT8"])
@given(data=st.data())
def test_prelu(kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    shape = t.sizes(t.integer(2, 4))
    slopes = tuple(1 if t.chance(0.3) else size for size in shape[1:])
    if kind == REAL:
        t.check("PRELU", [t.real(*shape), t.real_constant(*slopes)])
        return
    source = t.quantised(kind, *shape)
    weights = T(kind, data=t.levels(kind, slopes), scale=t.pick((0.02, 0.3)), zero_point=t.zero(kind))
    t.check("PRELU", [source, weights], t.result(kind, source.scale))


# --- comparisons ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [REAL, INT, "INT8", "UINT8"])
@pytest.mark.parametrize("name", ["EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"])
@given(data=st.data())
def test_comparisons(name: str, kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    # TFLite compares steps of different scales in fixed point, nnvk and Android as the real numbers that they are. It
    # aborts on scales from 1 on, and takes steps for equal where they are small.
    same = {"scale": t.pick((0.5, 0.25, 0.02)), "zero_point": t.zero(kind)} if kind in ("INT8", "UINT8") else {}
    t.check(name, pair(t, kind, **same), T("BOOL"))


@given(data=st.data())
def test_select(data: st.DataObject) -> None:
    t = Tensors(data)
    shape = (t.integer(2, 5), *t.sizes(t.integer(1, 3)))  # a single element is a scalar to TFLite
    t.check("SELECT", [t.flags(*shape), t.real(*shape), t.real(*shape)], (), "SelectOptions")


@pytest.mark.parametrize("name", ["LOGICAL_AND", "LOGICAL_OR"])
@given(data=st.data())
def test_logical(name: str, data: st.DataObject) -> None:
    t = Tensors(data)
    shape = t.sizes(t.integer(1, 4))
    t.check(name, [t.flags(*shape), t.flags(*broadcasting(t, shape))], T("BOOL"))


# --- maps ----------------------------------------------------------------------------------------------------

_POSITIVE = ("LOG", "SQRT", "RSQRT")
_MAPS = ("ABS", "EXP", "FLOOR", "NEG", "SIN", "TANH", "LOGISTIC", "ELU", "HARD_SWISH", "RELU", "RELU_N1_TO_1", "RELU6")


@pytest.mark.parametrize("name", [*_MAPS, *_POSITIVE])
@given(data=st.data())
def test_real_maps(name: str, data: st.DataObject) -> None:
    t = Tensors(data)
    low = 1e-3 if name in _POSITIVE else -8.0
    t.check(name, [t.real(*t.sizes(t.integer(1, 4)), low=low, high=8.0)])


_UNITS = {"LOGISTIC": (1 / 256, 0), "TANH": (1 / 128, 128)}


@pytest.mark.parametrize("kind", ["INT8", "UINT8"])
@pytest.mark.parametrize("name", ["TANH", "LOGISTIC"])
@given(data=st.data())
def test_sigmoids(name: str, kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    source = t.quantised(kind, *t.sizes(t.integer(1, 4)))
    scale, offset = _UNITS[name]
    result = T(kind, scale=scale, zero_point=offset - (128 if kind == "INT8" else 0))
    # TFLite's are in fixed point.
    t.check(name, [source], result, steps=1)


@pytest.mark.parametrize("kind", ["INT8", "UINT8"])
@given(data=st.data())
def test_quantised_hard_swish(kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    source = t.quantised(kind, *t.sizes(t.integer(1, 4)), scale=t.pick((0.02, 0.05, 0.1)))
    result = T(kind, scale=source.scale * t.pick((0.5, 1.0, 1.7)), zero_point=t.zero(kind))
    t.check("HARD_SWISH", [source], result)


@pytest.mark.parametrize("kind", ["INT8", "UINT8"])
@pytest.mark.parametrize("name", ["RELU", "RELU6", "RELU_N1_TO_1"])
@given(data=st.data())
def test_quantised_clips(name: str, kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    source = t.quantised(kind, *t.sizes(t.integer(1, 4)))
    t.check(name, [source], T(kind, scale=source.scale, zero_point=source.zero_point))


# --- types ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["INT8", "UINT8"])
@given(data=st.data())
def test_quantize(kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    result = T(kind, scale=t.scale(), zero_point=t.zero(kind))
    t.check("QUANTIZE", [t.real(*t.sizes(t.integer(1, 4)), low=-100, high=100)], result, "QuantizeOptions")


@pytest.mark.parametrize("kind", ["INT8", "UINT8"])
@given(data=st.data())
def test_dequantize(kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    t.check("DEQUANTIZE", [t.quantised(kind, *t.sizes(t.integer(1, 4)))], (), "DequantizeOptions", atol=0)


@pytest.mark.parametrize("source", [REAL, INT, "BOOL"])
@pytest.mark.parametrize("result", [REAL, INT])
@given(data=st.data())
def test_cast(source: str, result: str, data: st.DataObject) -> None:
    t = Tensors(data)
    shape = t.sizes(t.integer(1, 4))
    draw = {REAL: t.real, INT: t.integers, "BOOL": t.flags}[source]
    types = {name: getattr(tflite.TensorType, name) for name in (source, result)}
    t.check("CAST", [draw(*shape)], T(result), "CastOptions", InDataType=types[source], OutDataType=types[result])


# --- normalisation -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [REAL, "INT8", "UINT8"])
@given(data=st.data())
def test_softmax(kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    shape = t.sizes(t.integer(1, 4), 9)
    beta = t.pick((1.0, 0.5, 3.0))
    if kind == REAL:
        t.check("SOFTMAX", [t.real(*shape)], (), "SoftmaxOptions", Beta=beta)
        return
    result = T(kind, scale=1 / 256, zero_point=-128 if kind == "INT8" else 0)
    source = t.quantised(kind, *shape, scale=t.pick((0.01, 0.1, 1.0, 7.5)))
    t.check("SOFTMAX", [source], result, "SoftmaxOptions", Beta=beta, steps=1)


@given(data=st.data())
def test_log_softmax(data: st.DataObject) -> None:
    t = Tensors(data)
    t.check("LOG_SOFTMAX", [t.real(*t.sizes(t.integer(1, 4), 9), low=-20, high=20)], (), "LogSoftmaxOptions")


@pytest.mark.parametrize("kind", [REAL, "INT8", "UINT8"])
@given(data=st.data())
def test_l2_normalization(kind: str, data: st.DataObject) -> None:
    t = Tensors(data)
    shape = t.sizes(t.integer(1, 4), 9)
    if kind == REAL:
        t.check("L2_NORMALIZATION", [t.real(*shape)], (), "L2NormOptions")
        return
    result = T(kind, scale=1 / 128, zero_point=0 if kind == "INT8" else 128)
    t.check("L2_NORMALIZATION", [t.quantised(kind, *shape, zero_point=3)], result, "L2NormOptions", steps=1)
