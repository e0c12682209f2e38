"""``.tflite`` models of which a part waits for sizes and parameters that the part before it computes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tflite_net import Net, Signature, T, write

import nnvk
from nnvk.importers.tflite import TfliteImportError, load

interpreters = pytest.importorskip("ai_edge_litert.interpreter")

RNG = np.random.default_rng(5)
FILTERS = RNG.random((3, 1, 3, 2), np.float32)
TABLE = RNG.random((40, 5), np.float32)


def given(total: float) -> np.ndarray:
    """Numbers from 0 to 1 with a sum that is well inside a whole number's range."""
    array = np.random.default_rng(3).random((2, 5))
    return (array * total / array.sum()).astype(np.float32)


def counted() -> tuple[Net, T, T]:
    """A model of x, and the sum of x as a whole number."""
    x, total, count = T(shape=(2, 5), name="x"), T(shape=()), T("INT32", ())
    net = Net([x], [])
    net.op("SUM", [x, T("INT32", data=[0, 1])], total, "ReducerOptions")
    net.op("CAST", [total], count, "CastOptions")
    return net, x, count


def ranged(*, twice: bool = False) -> Net:
    """A convolution over a range up to the sum, and the sum; with ``twice`` a further range up to the sum of it."""
    net, _, count = counted()
    zero, one = T("INT32", data=0), T("INT32", data=1)
    numbers, real, image = T("INT32"), T(), T()
    net.op("RANGE", [zero, count, one], numbers)
    net.op("CAST", [numbers], real, "CastOptions")
    net.op("RESHAPE", [real, T("INT32", data=[1, 1, -1, 1])], image)
    filters, bias, result = T(data=FILTERS.transpose(1, 0, 2, 3)[:, :1].repeat(2, 3)[..., :1]), T(data=[0.5]), T()
    net.op("CONV_2D", [image, filters, bias], result, "Conv2DOptions", StrideW=1, StrideH=1)
    net.outputs += [result, count]
    if twice:
        total, more, second = T(shape=()), T("INT32", ()), T("INT32")
        net.op("SUM", [real, T("INT32", data=[0])], total, "ReducerOptions")
        net.op("CAST", [total], more, "CastOptions")
        net.op("RANGE", [zero, more, one], second)
        net.outputs.append(second)
    return net


def moved(kind: str) -> Net:
    """An operator with a parameter that is computed from the sum."""
    net, x, count = counted()
    counts, result = T("INT32", (1,)), T()
    net.op("RESHAPE", [count, T("INT32", data=[1])], counts)
    one, two = T("INT32", data=[1]), T("INT32", (2,))
    net.op("CONCATENATION", [counts, one], two, "ConcatenationOptions", Axis=0)
    if kind == "TILE":
        net.op("TILE", [x, two], result)
    elif kind == "FILL":
        net.op("FILL", [two, T(data=np.float32(1.5))], result)
    else:
        net.op("TOPK_V2", [T(data=TABLE.T.copy()), count], [result, T("INT32")])
    squared = T()
    net.op("MUL", [result, result], squared, "MulOptions")
    net.outputs += [squared]
    return net


def found() -> Net:
    """A pool over the elements that are above 0.5."""
    x, above, rows = T(shape=(2, 5), name="x"), T("BOOL", (2, 5)), T("INT64", shape=(1, 2), signature=(-1, 2))
    picked, image, y = T(), T(), T()
    net = Net([x], [y])
    net.op("GREATER", [x, T(data=np.float32(0.5))], above)
    net.op("WHERE", [above], rows)
    net.op("GATHER_ND", [x, rows], picked)
    net.op("RESHAPE", [picked, T("INT32", data=[1, -1, 1, 1])], image)
    options = {"StrideW": 1, "StrideH": 1, "FilterWidth": 1, "FilterHeight": 2, "Padding": 1}
    net.op("AVERAGE_POOL_2D", [image], y, "Pool2DOptions", **options)
    return net


NETS = {
    "RANGE": ranged(),
    "two RANGEs": ranged(twice=True),
    **{kind: moved(kind) for kind in ("TILE", "FILL", "TOPK_V2")},
    "WHERE": found(),
}


def expected(data: bytes, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the outputs of LiteRT."""
    interpreter = interpreters.Interpreter(model_content=data)
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("name", NETS)
def test_sizes_differ_from_call_to_call(name: str, device: str | None) -> None:
    data = write(NETS[name])
    with nnvk.load(data, device=device) as loaded:
        for total in (6.4, 5.3, 6.4):
            results = loaded.compute([given(total)])
            for result, wanted in zip(results, expected(data, [given(total)]), strict=True):
                assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
                np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


def test_another_batch() -> None:
    """Tensors that both parts have, and the ones behind them, get other sizes than the file declares."""
    net = ranged()
    numbers, total, product = net.ops[2].outputs[0], T("INT32", ()), T(shape=(2, 5))
    scale = T(shape=())
    net.op("SUM", [numbers, T("INT32", data=[0])], total, "ReducerOptions")
    net.op("CAST", [total], scale, "CastOptions")
    net.op("MUL", [net.inputs[0], scale], product, "MulOptions")
    net.outputs.append(product)
    data, x = write(net), np.tile(given(3.2), (2, 1))
    result, count, scaled = nnvk.load(data, shapes={"x": (4, 5)})(x)
    assert count == 6
    np.testing.assert_array_equal(result, nnvk.load(data)(given(6.4))[0])
    np.testing.assert_allclose(scaled, x * 15, rtol=1e-6)


def test_one_model_is_asked_for() -> None:
    with pytest.raises(TfliteImportError, match="start, limit and delta") as caught:
        load(write(NETS["RANGE"]))
    assert caught.value.waiting == (2,)


def test_variables_stay_in_one_model() -> None:
    """A state belongs to one model, so a model with states is not computed in parts."""
    net = ranged()
    state = T(shape=(2, 5), variable=True)
    net.outputs.append(state)
    with pytest.raises(TfliteImportError, match="start, limit and delta"):
        nnvk.load(write(net))


def test_signatures_and_quantised_tensors() -> None:
    """The parts exchange levels, and the file's functions compute both."""
    net, _, count = counted()
    x = T("INT8", (2, 5), scale=0.1, zero_point=-3, name="levels")
    net.inputs.append(x)
    zero, one = T("INT32", data=0), T("INT32", data=1)
    numbers, places, y = T("INT32"), T("INT32"), T("INT8", scale=0.1, zero_point=-3)
    net.op("RANGE", [zero, count, one], numbers)
    net.op("FLOOR_MOD", [numbers, T("INT32", data=2)], places)
    net.op("GATHER", [x, places], y, "GatherOptions", Axis=0)
    net.outputs += [y, count]
    signature = Signature("serving_default", 0, {"a": net.inputs[0], "b": x}, {"rows": y, "count": count})
    levels = np.arange(10, dtype=np.int8).reshape(2, 5)
    with nnvk.load(write(net, signatures=[signature])) as loaded:
        for total in (6.4, 3.2):
            wanted = levels[np.arange(int(total)) % 2]
            np.testing.assert_array_equal(loaded(given(total), levels)[0], wanted)
            results = loaded["serving_default"](a=given(total), b=levels)
            np.testing.assert_array_equal(results["rows"], wanted)
            assert results["count"] == int(total)


def test_parameters_that_are_inputs() -> None:
    x, count, y, places = T(shape=(2, 5), name="x"), T("INT32", (), name="k"), T(), T("INT32")
    net = Net([x, count], [y, places])
    net.op("TOPK_V2", [x, count], [y, places])
    loaded = nnvk.load(write(net))
    for k in (1, 3, 1):
        results = loaded(given(6.4), np.int32(k))
        for result, wanted in zip(results, expected(write(net), [given(6.4), np.int32(k)]), strict=True):
            np.testing.assert_array_equal(result, wanted)
