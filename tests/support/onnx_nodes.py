"""The node tests of the onnx package (`onnx.backend.test`), run on a device, and the list of those that are refused.

python tests/support/onnx_nodes.py      # writes the list anew, after a look at what has changed
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner
from onnx.reference import ReferenceEvaluator
from onnx_net import model, op

from nnvk import NnapiError, get_device
from nnvk.importers.onnx.backend import NnvkBackend

LIST = Path(__file__).parent / "onnx_nodes.txt"
_LONGEST = 150
_OLDEST = 13


@cache
def node_tests() -> tuple[Any, ...]:
    """All node tests, but those that are others again with the operators' bodies in their place."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(test for test in load_model_tests(kind="node") if "_expanded" not in test.name)


@cache
def exported_tests() -> tuple[Any, ...]:
    """The models that PyTorch has exported, of operators of version 6."""
    tests = (*load_model_tests(kind="pytorch-operator"), *load_model_tests(kind="pytorch-converted"))
    folders = [Path(test.model_dir) for test in tests]
    return tuple(
        replace(test, model=onnx.load(folder / "model.onnx"), data_sets=_sets(folder))
        for test, folder in zip(tests, folders, strict=True)
    )


def _sets(folder: Path) -> list[tuple[list[TensorProto], list[TensorProto]]]:
    """The inputs and outputs of a test that are in files, in the order of their numbers."""
    folders = sorted(folder.glob("test_data_set_*"))
    return [(_tensors(one, "input"), _tensors(one, "output")) for one in folders]


def _tensors(folder: Path, kind: str) -> list[TensorProto]:
    count = len(list(folder.glob(f"{kind}_*.pb")))
    return [TensorProto.FromString((folder / f"{kind}_{number}.pb").read_bytes()) for number in range(count)]


def backend(device: str) -> type[NnvkBackend]:
    """The backend of ONNX that runs on a device."""

    class Backend(NnvkBackend):
        devices = [get_device(device)]  # noqa: RUF012

    return Backend


def outcome(test: Any, device: str) -> tuple[str, str]:
    """ "passed", "refused" or "wrong", and why."""
    try:
        prepared = backend(device).prepare(test.model)
        for inputs, expected in test.data_sets:
            given = [_array(one) for one in inputs]
            wanted = EXACT[test.name](given) if test.name in EXACT else [_array(one) for one in expected]
            Runner.assert_similar_outputs(wanted, prepared.run(given), test.rtol, test.atol)
    except NnapiError as error:
        return "refused", " ".join(error.reason.split())
    except AssertionError as error:
        return "wrong", str(error)
    return "passed", ""


def with_constants(test: Any) -> tuple[onnx.ModelProto, list[np.ndarray]] | None:
    """The model of a test with its inputs as initialisers, and the outputs that are expected of it.

    A further output is the negative of a further input, since a model has inputs. None: the test has inputs or outputs
    that are no tensors, results that are random or without elements, or operators of a version without this Neg.
    """
    inputs, outputs = test.data_sets[0]
    expected = [_array(one) for one in outputs]
    if not all(isinstance(one, TensorProto | np.ndarray) for one in [*inputs, *outputs]):
        return None
    if test.name in _RANDOM or not all(one.size for one in expected):
        return None
    if any(one.domain in ("", "ai.onnx") and one.version < _OLDEST for one in test.model.opset_import):
        return None
    model = onnx.ModelProto()
    model.CopyFrom(test.model)
    if not any(one.domain in ("", "ai.onnx") for one in model.opset_import):
        model.opset_import.append(helper.make_opsetid("", _OLDEST))
    for value, declared in zip(inputs, test.model.graph.input, strict=True):
        stored = model.graph.initializer.add()
        stored.CopyFrom(value if isinstance(value, TensorProto) else numpy_helper.from_array(value))
        stored.name = declared.name
    del model.graph.input[:]
    model.graph.input.append(helper.make_tensor_value_info("further", TensorProto.FLOAT, [1]))
    model.graph.node.append(helper.make_node("Neg", ["further"], ["negative"]))
    model.graph.output.append(helper.make_tensor_value_info("negative", TensorProto.FLOAT, [1]))
    if test.name in EXACT:
        expected = EXACT[test.name]([_array(one) for one in inputs])
    return model, expected


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def _inverse(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The inverse Fourier transform of real numbers along axis 1."""
    exact = np.fft.ifft(inputs[0][..., 0].astype(np.float64), axis=1)
    return [np.stack([exact.real, exact.imag], axis=-1).astype(np.float32)]


def _of_whole_sizes(mode: str) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """A Resize with aligned corners to the whole sizes that scales make."""

    def resized(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        sizes = np.floor(inputs[0].shape * inputs[1]).astype(np.int64)
        aligned = {"mode": mode, "coordinate_transformation_mode": "align_corners"}
        net = model(
            [op("Resize", "x - - n", "y", **aligned)], {"x": (np.float32, inputs[0].shape)}, ["y"], {"n": sizes}
        )
        return list(ReferenceEvaluator(net).run(None, {"x": inputs[0]}))

    return resized


EXACT = {
    **dict.fromkeys(("test_dft_inverse", "test_dft_inverse_opset19"), _inverse),
    **{f"test_resize_downsample_scales_{mode}_align_corners": _of_whole_sizes(mode) for mode in ("linear", "cubic")},
}
"""The expectations of these tests are computed again by these functions.

NumPy computed those of DFT with 32-bit floats: where 0 is right, they are off by more than the tests' own tolerance.
Those of Resize align corners of sizes that are not whole, as neither onnxruntime nor PyTorch does.
"""


_RANDOM = ("test_bernoulli", "test_bernoulli_double", "test_bernoulli_seed")
"""Tests that expect draws of another generator."""


def listed() -> tuple[str, dict[str, str]]:
    """The version of the onnx package that the list is of, and why each test in it is refused."""
    first, *lines = LIST.read_text(encoding="utf-8").splitlines()
    return first.split()[-1], dict(line.split(": ", 1) for line in lines)


def outcomes(tests: Sequence[Any], device: str) -> Iterator[tuple[str, str, str]]:
    """The name of each test, how it ended, and why."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for test in tests:
            yield test.name, *outcome(test, device)


def main() -> None:
    """Write the list."""
    lines = [f"Node tests that are refused, of onnx {onnx.__version__}"]
    for name, how, why in outcomes(node_tests(), "nnapi-reference"):
        if how == "wrong":
            raise SystemExit(f"{name}: {why}")
        if how == "refused":
            said = why.removeprefix("NNAPI can't express this model: the model").partition(" nnvk.importers.operator")[
                0
            ]
            lines.append(f"{name}: {said[:_LONGEST].strip(' :')}")
    LIST.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(node_tests()) - len(lines) + 1} pass, {len(lines) - 1} are refused")


if __name__ == "__main__":
    main()
