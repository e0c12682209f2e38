"""Ctrl-C during a computation: it acts at once, and everything is usable afterwards."""

from __future__ import annotations

import pytest
from processes import python

import nnvk

# Additions that keep the device busy for a second or more.
BUSY = """
    name = sys.argv[1]
    count, operations = 2**20, 64
    while True:
        compilation, source = compiled(name, count, operations), np.ones(count, np.float32)
        target = np.zeros(count, np.float32)
        run = ready(compilation, source, target)
        run.set_reusable(True)
        run.compute()  # what the first one takes longer is not counted
        began = time.monotonic()
        run.compute()
        took = time.monotonic() - began
        if took > 1:
            break
        operations = min(int(operations * 1.5 / took) + 1, 20 * operations)
    assert (target == 1 + operations).all()

    def interrupted(call, *arguments):
        "Seconds from the signal to the end of a call that it must interrupt."
        target[:] = 0
        sent = []
        def send():
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        timer = threading.Timer(took / 10, send)
        timer.start()
        try:
            call(*arguments)
        except KeyboardInterrupt:
            took_to_act = time.monotonic() - sent[0]
        else:
            raise AssertionError("the computation ended first")
        timer.join()
        assert took_to_act < took / 3, (took_to_act, took)
"""


@pytest.fixture
def gpu() -> nnvk.Device:
    """The first GPU."""
    device = nnvk.get_devices()[0]
    if device.type is nnvk.DeviceTypeCode.CPU:
        pytest.skip("; ".join(nnvk.unavailable()))
    return device


def test_computations_events_and_the_interpreter(gpu: nnvk.Device) -> None:
    """Ctrl-C interrupts compute() and the wait for an event, and at last the interpreter ends at once and quietly."""
    script = """
    native = nnvk.get_device(name).driver.gpu.native()
    interrupted(run.compute)
    run.compute()
    assert (target == 1 + operations).all()
    allocated = native.allocated_bytes
    for _ in range(3):  # what was given up is used again
        interrupted(run.compute)
        native.wait_idle()
        time.sleep(0.2)
    run.compute()
    assert (target == 1 + operations).all()
    assert native.allocated_bytes == allocated, (native.allocated_bytes, allocated)

    event = run.start_compute()
    interrupted(event.wait)
    refused("BAD_STATE", run.compute)  # it is under way
    event.wait()
    assert (target == 1 + operations).all()
    run.compute()

    interrupted(run.compute)
    """
    python(BUSY + script, gpu.name, timeout=250)


def test_a_signal_handler_may_raise_something_else_and_compute_itself(gpu: nnvk.Device) -> None:
    script = """
    class Enough(Exception):
        pass
    def on_alarm(*_):
        add(name, 5)
        raise Enough
    signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, took / 10)
    try:
        run.compute()
    except nnvk.NnapiError as error:  # as any exception that comes out of a driver
        assert error.code.name == "OP_FAILED" and isinstance(error.__cause__, Enough), error
    else:
        raise AssertionError("the computation ended first")
    run.compute()
    assert (target == 1 + operations).all()
    """
    python(BUSY + script, gpu.name, timeout=250)
