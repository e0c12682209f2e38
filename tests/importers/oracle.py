"""Runs a file with TFLite's reference kernels and, imported, with the reference device, and compares."""

from __future__ import annotations

from collections.abc import Sequence

import net
import numpy as np
import pytest

from nnvk.driver.cpu.executor import Clock, run
from nnvk.importers.tflite import ImportedModel, load

litert = pytest.importorskip("ai_edge_litert.interpreter")


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


def expected(data: bytes, inputs: Sequence[np.ndarray], repeats: int = 1) -> list[list[np.ndarray]]:
    """Outputs of TFLite's reference kernels, for each of ``repeats`` invocations."""
    interpreter = litert.Interpreter(
        model_content=data, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
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


def compare(data: bytes, inputs: Sequence[np.ndarray], *, atol: float = 1e-5, steps: int = 1, repeats: int = 1) -> ImportedModel:
    """Import, run both and assert that outputs agree: real numbers within ``atol``, quantised within ``steps``."""
    imported = load(data)
    wants, gots = expected(data, inputs, repeats), actual(imported, inputs, repeats)
    for want_all, got_all in zip(wants, gots, strict=True):
        for port, want, got in zip(imported.outputs, want_all, got_all, strict=True):
            assert got.dtype == want.dtype, port
            assert got.shape == want.shape, port
            if want.dtype.kind == "f":
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=atol)
            elif port.is_quantised:
                assert np.abs(got.astype(int) - want.astype(int)).max(initial=0) <= steps, port
            else:
                np.testing.assert_array_equal(got, want)
    return imported
