"""A driver in another process, where this process or that one has hardly a descriptor left."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from descriptors import limited, lowered
from remote import Remote, remote
from samples import added, compiled

import nnvk
from nnvk import Model, NnapiError, OperandCode, OperandType, OperationCode, ResultCode

ELEMENTS = 50_000
"""More than a packet holds."""


def large_model() -> Model:
    """output = input + a constant."""
    model, type_ = Model(), OperandType(OperandCode.TENSOR_FLOAT32, (ELEMENTS,))
    operands = [model.add_operand(given) for given in (type_, type_, OperandType(OperandCode.INT32), type_)]
    model.set_operand_value(operands[1], np.ones(ELEMENTS, np.float32))
    model.set_operand_value(operands[2], np.int32(0))
    model.add_operation(OperationCode.ADD, operands[:3], operands[3:])
    model.identify_inputs_and_outputs(operands[:1], operands[3:])
    model.finish()
    return model


def walk(device: nnvk.Device) -> list[ResultCode]:
    """Make calls that pass descriptors, or packets that need one, and return their result codes."""
    codes: list[ResultCode] = []

    def tried(call: Callable[[], object]) -> None:
        try:
            call()
            codes.append(ResultCode.NO_ERROR)
        except NnapiError as error:
            codes.append(error.code)

    def large() -> None:
        (output,) = nnvk.run(compiled(large_model(), device), [np.ones(ELEMENTS, np.float32)])
        assert (output == 2).all()

    def fenced() -> None:
        run, _ = added(device)
        before = run.start_compute_with_dependencies([])
        run, _ = added(device)
        run.start_compute_with_dependencies([before]).wait()
        before.wait()

    for call in (large, fenced, lambda: added(device)[0].compute()):
        tried(call)
    return codes


@pytest.mark.parametrize("who", ["this process", "the driver's"])
def test_the_last_descriptors(who: str, own: Remote) -> None:
    """Each call succeeds or says that resources are exhausted, and works again when they are not."""
    pid = own.pid
    found = []
    for count in range(16):
        with limited(count, 0 if who == "this process" else pid):
            found.append(walk(own.device))
        assert set(walk(own.device)) == {ResultCode.NO_ERROR}
    assert {code for codes in found for code in codes} == {
        ResultCode.NO_ERROR,
        ResultCode.RESOURCE_EXHAUSTED_TRANSIENT,
    }
    assert set(found[-1]) == {ResultCode.NO_ERROR}
    assert own.pid == pid  # it has not been started again


def test_a_limit_of_no_descriptors_at_all(own: Remote) -> None:
    """The process is not taken for dead."""
    pid = own.pid
    walk(own.device)
    with lowered(0):
        assert set(walk(own.device)) <= {ResultCode.NO_ERROR, ResultCode.RESOURCE_EXHAUSTED_TRANSIENT}
    assert set(walk(own.device)) == {ResultCode.NO_ERROR} and own.pid == pid


def test_a_process_that_can_not_be_started_for_want_of_descriptors() -> None:
    device = remote()
    for count in range(8):
        device.kill()
        with limited(count):
            try:
                device.device.driver.wait()
                assert count > 0
            except NnapiError as error:
                assert error.code is ResultCode.RESOURCE_EXHAUSTED_TRANSIENT
        device.device.driver.wait()
    device.connection.close()
