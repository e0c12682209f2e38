"""The callback of `nnvk.load` gets the progress of every compilation, and its exceptions are the caller's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx_net import model, op

import nnvk
from nnvk import LoadedModel, NnapiError, ResultCode
from nnvk.driver.vulkan.running.compiler import Compiler

F = np.float32
Callback = Callable[[int, int], None]


@pytest.fixture(autouse=True)
def numbers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each compilation on the device is one of two steps, whatever was compiled before."""
    compile = Compiler.compile

    def told(compiler: Compiler, *arguments: Any, **options: Any) -> None:
        compile(compiler, *arguments, **options)
        compiler._watch.progressed(2, 2)

    monkeypatch.setattr(Compiler, "compile", told)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nnvk.loading.CpuLibraryWarning)
        yield


def loaded(rows: int | str, progress: Callback, *, mixed: bool = False) -> LoadedModel:
    """A model of one input; ``mixed`` ones have a step that onnxruntime computes, between two of nnvk's."""
    middle = [op("SequenceConstruct", "a a", "s"), op("ConcatFromSequence", "s", "b", axis=1)]
    nodes = [op("Conv", "x w", "a"), *(middle if mixed else [op("Relu", "a", "b")]), op("GlobalAveragePool", "b", "y")]
    weights = {"w": np.ones((8, 3, 3, 3), F)}
    made = model(nodes, {"x": (F, [rows, 3, 6, 6])}, ["y"], weights)
    return nnvk.load(made.SerializeToString(), device="vulkan-0", progress=progress)


class Calls:
    """A callback that remembers its calls, and fails if it is told to."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []
        self.error: Exception | None = None

    def __call__(self, done: int, total: int) -> None:
        self.seen.append((done, total))
        if self.error is not None:
            raise self.error

    def taken(self) -> list[tuple[int, int]]:
        taken, self.seen = self.seen, []
        return taken


def test_load_compiles_a_model_of_known_sizes() -> None:
    calls = Calls()
    made = loaded(2, calls)
    assert calls.taken()[-1] == (2, 2)
    made(np.ones((2, 3, 6, 6), F))
    assert not calls.seen


def test_each_new_size_is_compiled_by_its_first_call() -> None:
    calls = Calls()
    made = loaded("rows", calls)
    assert not calls.seen
    for rows, compiles in ((2, True), (5, True), (2, False), (5, False)):
        made(np.ones((rows, 3, 6, 6), F))
        assert (2, 2) in calls.taken() if compiles else not calls.seen


@pytest.mark.usefixtures("libraries")
def test_parts_of_a_mixed_model() -> None:
    pytest.importorskip("onnxruntime")
    calls = Calls()
    made = loaded(2, calls, mixed=True)
    assert made.is_mixed
    made(np.ones((2, 3, 6, 6), F))
    assert calls.taken().count((2, 2)) >= 2
    made(np.ones((2, 3, 6, 6), F))
    assert not calls.seen


@pytest.mark.parametrize("error", [ValueError("the window is closed"), NnapiError(ResultCode.BAD_DATA, "closed")])
def test_an_exception_of_the_callback_is_the_callers(error: Exception) -> None:
    calls = Calls()
    calls.error = error
    with pytest.raises(type(error)) as caught:
        loaded(2, calls)
    assert caught.value is error
    assert len(calls.seen) == 1
    made = loaded("rows", calls)
    with pytest.raises(type(error)) as caught:
        made(np.ones((2, 3, 6, 6), F))
    assert caught.value is error
    calls.error = None
    assert made(np.ones((2, 3, 6, 6), F)).shape == (2, 8, 1, 1)


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("error", [ValueError("the window is closed"), NnapiError(ResultCode.BAD_DATA, "closed")])
def test_a_library_computes_nothing_in_its_place(error: Exception) -> None:
    pytest.importorskip("onnxruntime")
    calls = Calls()
    made = loaded(2, calls, mixed=True)
    calls.error = error
    with pytest.raises(type(error)) as caught:
        made(np.ones((2, 3, 6, 6), F))
    assert caught.value is error
    calls.error = None
    assert made(np.ones((2, 3, 6, 6), F)).shape == (2, 16, 1, 1)
    assert calls.seen[-1] == (2, 2)
