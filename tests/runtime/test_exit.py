"""Calls while the interpreter ends."""

from __future__ import annotations

import pytest
from processes import python

from nnvk.demo.assets import DATA


@pytest.mark.parametrize("process", ["0", "1"])
def test_a_handler_compiles_and_computes(process: str) -> None:
    """In silence: no other device takes over."""
    script = """
        import atexit
        def load():
            return nnvk.load(sys.argv[1])
        def compute(model):
            first, second = model.stream([image, image])
            assert (first == second).all() and (model(image) == first).all()
        image = np.zeros((1, 16, 16, 1), np.float32)
        before = load()
        atexit.register(lambda: (compute(before), compute(load())))
    """
    python(script, str(DATA / "digits_float.tflite"), NNVK_DRIVER_PROCESS=process)
