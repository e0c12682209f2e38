"""Many interpreters, threads, forks, and what is deleted first."""

from __future__ import annotations

import gc
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from delegated import VALUES, Delegated, chain, invoke, litert

import nnvk
from nnvk.serve.installed import DELEGATE

DEVICES = [device.name for device in nnvk.get_devices()]
CPU = "nnapi-reference"


def test_several_models_at_once() -> None:
    models = [Delegated(chain(*["NEG"] * count), device=CPU) for count in (1, 2, 3)]
    for _ in range(2):
        for count, model in enumerate(models, 1):
            np.testing.assert_array_equal(model(VALUES), [VALUES * (-1) ** count])


@pytest.mark.parametrize("device", DEVICES)
def test_threads(device: str) -> None:
    """Each with interpreters of its own, which it makes, resizes and deletes while others compute."""

    def work(seed: int) -> None:
        generator = np.random.default_rng(seed)
        for _ in range(3):
            model = Delegated(chain("NEG", "EXP"), device=device, verbosity=0)
            for rows in (2, 1 + seed):
                model.resize((rows, 3))
                for _ in range(5):
                    values = generator.random((rows, 3), np.float32)
                    np.testing.assert_allclose(model(values), [np.exp(-values)], rtol=1e-5)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))


def test_a_delegate_of_two_interpreters() -> None:
    delegate = litert.load_delegate(str(DELEGATE), {"device": CPU, "verbosity": 0})
    interpreters = [
        litert.Interpreter(model_content=chain(*names), experimental_delegates=[delegate])
        for names in (("NEG",), ("ABS", "NEG"))
    ]
    for interpreter in interpreters:
        interpreter.allocate_tensors()
    for interpreter in (*interpreters, *interpreters[::-1]):
        np.testing.assert_array_equal(invoke(interpreter, [VALUES]), [-VALUES])


@pytest.mark.parametrize("is_delegate_first", [True, False])
def test_what_is_deleted_first(is_delegate_first: bool) -> None:
    model = Delegated(chain("NEG"), device=CPU)
    np.testing.assert_array_equal(model(VALUES), [-VALUES])
    assert model.interpreter._delegates
    if is_delegate_first:
        model.interpreter._delegates = []
        gc.collect()
        np.testing.assert_array_equal(model(VALUES), [-VALUES])
    del model
    gc.collect()
    np.testing.assert_array_equal(Delegated(chain("NEG"), device=CPU)(VALUES), [-VALUES])


@pytest.mark.parametrize("device", DEVICES)
def test_a_forked_child_goes_on(device: str) -> None:
    """It has the interpreter and none of its parent's server; it gets one of its own."""
    model = Delegated(chain("NEG"), device=device, verbosity=0)
    np.testing.assert_array_equal(model(VALUES), [-VALUES])
    child = os.fork()
    if child == 0:
        try:
            is_right = all((model(VALUES * times)[0] == -VALUES * times).all() for times in (1, 2))
            model.resize((1, 3))
            is_right = is_right and bool((model(VALUES[:1])[0] == -VALUES[:1]).all())
        except BaseException:
            is_right = False
        os._exit(0 if is_right else 1)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(model(2 * VALUES), [-2 * VALUES])
