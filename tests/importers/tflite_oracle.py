"""Runs a file with TFLite's reference kernels and, imported, with the reference device, and compares.

Where `THROUGH_DELEGATE` is set, also with the delegate, which hands operators over in TFLite's own structures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tflite_net as net

from nnvk.driver.cpu.executor import run
from nnvk.importers.shapes import Shapes
from nnvk.importers.tflite import ImportedModel, load
from nnvk.ops.flow import Clock
from nnvk.serve.installed import DELEGATE

try:
    from ai_edge_litert import interpreter as litert
except ImportError:
    litert = None

THROUGH_DELEGATE = False


def random_input(tensor: net.T, rng: np.random.Generator) -> np.ndarray:
    """Numbers that suit the type: around zero, or all steps."""
    shape = tensor.shape or ()
    dtype = np.dtype(net.DTYPES[tensor.type])
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "f":
        return (rng.random(shape) * 4 - 2).astype(dtype)
    if tensor.scale is None:
        return rng.integers(-3, 4, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


def _interpreter(data: bytes, inputs: Sequence[np.ndarray], optimised: bool = False) -> Any:
    if litert is None:
        pytest.skip("needs ai-edge-litert")
    kinds = litert.OpResolverType
    # The set of reference kernels lacks some operators, and some custom ones only the default delegate has.
    for kind in (kinds.BUILTIN_REF, kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES, kinds.AUTO)[optimised:]:
        try:
            interpreter = litert.Interpreter(model_content=data, experimental_op_resolver_type=kind)
            for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
                if tuple(detail["shape"]) != array.shape:
                    interpreter.resize_tensor_input(detail["index"], array.shape)
            interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            if kind == kinds.AUTO or not ("Didn't find op" in str(error) or "unresolved custom op" in str(error)):
                raise
        else:
            return interpreter
    raise AssertionError


def expected(
    data: bytes, inputs: Sequence[np.ndarray], repeats: int = 1, optimised: bool = False
) -> list[list[np.ndarray]]:
    """Outputs of TFLite's reference kernels, for each of ``repeats`` invocations."""
    return _invoked(_interpreter(data, inputs, optimised), inputs, repeats)


def delegated(data: bytes, inputs: Sequence[np.ndarray], repeats: int = 1) -> list[list[np.ndarray]]:
    """Outputs of LiteRT with the delegate, on the reference device."""
    interpreter = litert.Interpreter(
        model_content=data,
        experimental_delegates=[litert.load_delegate(str(DELEGATE), {"device": "nnapi-reference", "verbosity": 0})],
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        if tuple(detail["shape"]) != array.shape:
            interpreter.resize_tensor_input(detail["index"], array.shape)
    interpreter.allocate_tensors()
    return _invoked(interpreter, inputs, repeats)


def invoked(data: bytes, inputs: Sequence[np.ndarray], kernels: Any) -> list[np.ndarray]:
    """Outputs of one set of LiteRT's kernels."""
    interpreter = litert.Interpreter(model_content=data, experimental_op_resolver_type=kernels)
    interpreter.allocate_tensors()
    return _invoked(interpreter, inputs, 1)[0]


def _invoked(interpreter: Any, inputs: Sequence[np.ndarray], repeats: int) -> list[list[np.ndarray]]:
    outputs = []
    for _ in range(repeats):
        for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        outputs.append([interpreter.get_tensor(detail["index"]).copy() for detail in interpreter.get_output_details()])
    return outputs


def actual(imported: ImportedModel, inputs: Sequence[np.ndarray], repeats: int = 1) -> list[list[np.ndarray]]:
    """Outputs of the imported model, its states carried from one execution to the next."""
    state = imported.initial_state()
    outputs = []
    for _ in range(repeats):
        results = run(imported.model.frozen, imported.encode(inputs, state), Clock(None, 2 * 10**9))
        decoded, state = imported.decode(results)
        outputs.append(decoded)
    return outputs


def compare(
    data: bytes,
    inputs: Sequence[np.ndarray],
    *,
    atol: float = 1e-5,
    steps: int = 1,
    repeats: int = 1,
    optimised: bool = False,
    shapes: Shapes | None = None,
) -> ImportedModel:
    """Import, run both and assert that outputs agree: real numbers within ``atol``, quantised within ``steps``.

    ``optimised`` takes TFLite's other kernels, where the reference ones are known to be wrong. ``shapes`` are those of
    the inputs where they are not the file's.
    """
    imported = load(data, shapes=shapes)
    frozen, states = imported.model.frozen, imported.states
    edge = [*imported.inputs, *(state.input for state in states)], [*imported.outputs, *(s.output for s in states)]
    assert [port.type for port in edge[0]] == list(frozen.input_types())
    assert [port.type for port in edge[1]] == list(frozen.output_types())
    wants, gots = expected(data, inputs, repeats, optimised), actual(imported, inputs, repeats)
    if THROUGH_DELEGATE:
        wants, gots = wants * 2, gots + delegated(data, inputs, repeats)
    for want_all, got_all in zip(wants, gots, strict=True):
        for port, want, got in zip(imported.outputs, want_all, got_all, strict=True):
            assert got.dtype == want.dtype, port
            assert got.shape == want.shape, port
            if want.dtype.kind in "fc":
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=atol)
            elif port.is_quantised:
                assert np.abs(got.astype(int) - want.astype(int)).max(initial=0) <= steps, port
            else:
                np.testing.assert_array_equal(got, want)
    return imported


def check(
    name: str,
    inputs: Sequence[net.T | None],
    outputs: Sequence[net.T] | net.T = (),
    table: str | None = None,
    *,
    feed: Sequence[np.ndarray] | None = None,
    atol: float = 1e-5,
    steps: int = 1,
    repeats: int = 1,
    optimised: bool = False,
    version: int = 1,
    intermediates: Sequence[net.T] = (),
    custom: bytes | None = None,
    **options: object,
) -> ImportedModel:
    """`compare` for a model of one operator. Inputs without data are the model's; ``feed`` is random if None."""
    results = [outputs] if isinstance(outputs, net.T) else list(outputs) or [net.T()]
    free = [tensor for tensor in inputs if tensor is not None and tensor.is_free]
    free = free or [f32(1)]  # NNAPI's models have at least one input
    graph = net.Net(free, results)
    graph.op(name, inputs, results, table, intermediates=intermediates, custom=custom, version=version, **options)
    rng = np.random.default_rng(7)
    arrays = [random_input(tensor, rng) for tensor in free] if feed is None else list(feed)
    return compare(net.write(graph), arrays, atol=atol, steps=steps, repeats=repeats, optimised=optimised)


_rng = np.random.default_rng(11)


def reseed() -> None:
    """Start the constants' random numbers anew."""
    global _rng
    _rng = np.random.default_rng(11)


def f32(*shape: int) -> net.T:
    """A real input."""
    return net.T("FLOAT32", shape)


def f32c(*shape: int, scale: float = 1.0) -> net.T:
    """A real constant."""
    return net.T("FLOAT32", data=(_rng.random(shape) * 2 - 1) * scale)


def i32(*shape: int) -> net.T:
    """An integer input."""
    return net.T("INT32", shape)


def i32c(*numbers: object) -> net.T:
    """An integer constant of rank 1, or of the shape of its one nested list."""
    first = numbers[0] if len(numbers) == 1 and isinstance(numbers[0], (list, np.ndarray)) else list(numbers)
    return net.T("INT32", data=first)


def scalar(number: int) -> net.T:
    """An integer constant of rank 0."""
    return net.T("INT32", data=number)


def q8(*shape: int, scale: float = 0.05, zero_point: int = 3, type: str = "INT8") -> net.T:
    """A quantised input, or without a shape an output."""
    return net.T(type, shape or None, scale=scale, zero_point=zero_point)


def q8c(*shape: int, scale: object = 0.02, zero_point: int = 0, type: str = "INT8", dim: int = 0) -> net.T:
    """A quantised constant."""
    limits = np.iinfo(net.DTYPES[type])
    data = _rng.integers(max(limits.min, -127), limits.max + 1, shape)
    return net.T(type, data=data, scale=scale, zero_point=zero_point, dim=dim)


def int4c(*shape: int, scale: object = 0.02) -> net.T:
    """A constant of an even number of levels of 4 bits, two to a byte."""
    halves = (_rng.integers(-8, 8, shape).reshape(-1, 2) & 15).astype(np.uint8)
    return net.T("INT4", shape=shape, raw=(halves[:, 0] | halves[:, 1] << 4).tobytes(), scale=scale)


def boolean(*shape: int) -> net.T:
    """A boolean input."""
    return net.T("BOOL", shape)


def out(type: str = "FLOAT32", shape: tuple[int, ...] | None = None) -> net.T:
    """An output that is not quantised; None leaves its shape open in the file."""
    return net.T(type, shape)
