"""Objects of a parent process in a forked child: they refuse every call, and are left alone when they go."""

from __future__ import annotations

from pathlib import Path

from processes import python

SHADERS = Path(__file__).parent / "shaders"
SETUP = """
from nnvk import _native
spirv = open(sys.argv[1], "rb").read()

def objects():
    instance = _native.Instance()
    physical = instance.physical_devices()[0]
    device = physical.create_device()
    buffer = device.create_buffer(4, host_visible=True)
    algorithm = device.create_algorithm(spirv, [buffer], [], 4)
    program = device.create_program()
    program.dispatch(algorithm, (64, 1, 1), (1000).to_bytes(4, "little"))
    program.finish([(buffer, 0, 4)], [(buffer, 0, 4)])
    out = np.zeros(1, np.uint32)
    program.run([out], [out])
    return instance, physical, device, buffer, algorithm, program, int(out[0])
"""


def test_every_call_on_an_object_of_the_parent_is_refused() -> None:
    script = """
instance, physical, device, buffer, algorithm, program, expected = objects()
recording, fence, done = device.create_program(), program.submit([None]), device.create_program()
timed = physical.limits["timestampValidBits"] > 0
CALLS = {
    "take_validation_messages": lambda: instance.take_validation_messages(),
    "physical_devices": lambda: instance.physical_devices(),
    "create_device": lambda: physical.create_device(),
    "create_buffer": lambda: device.create_buffer(4, host_visible=True),
    "create_algorithm": lambda: device.create_algorithm(spirv, [buffer], [], 4),
    "create_program": lambda: device.create_program(),
    "pipeline_cache_data": lambda: device.pipeline_cache_data(),
    "wait_idle": lambda: device.wait_idle(),
    "view": lambda: buffer.view(),
    "copy": lambda: recording.copy(buffer, 0, buffer, 0, 4),
    "fill": lambda: recording.fill(buffer, 0, 4, 0),
    "dispatch": lambda: recording.dispatch(algorithm, (1, 1, 1), bytes(4)),
    "barrier": lambda: recording.barrier(),
    "timestamp": lambda: recording.timestamp(),
    "finish": lambda: recording.finish([], []),
    "run": lambda: program.run([None], [None]),
    "submit": lambda: program.submit([None]),
    "wait": lambda: program.wait(),
    "fetch": lambda: program.fetch([None]),
    "timestamps_ns": lambda: program.timestamps_ns(),
    "fence.wait": lambda: fence.wait(),
    "fence.signaled": lambda: fence.signaled,
    "fence.export_sync_fd": lambda: fence.export_sync_fd(),
}
def work():
    for name, call in CALLS.items():
        try:
            call()
        except _native.DeviceLostError as error:
            assert "before a fork" in str(error), error
        else:
            raise AssertionError(f"{name} is not refused")
    assert device.lost
    assert physical.name and physical.limits and device.features is not None
    assert objects()[-1] == expected
in_child(work)
assert not device.lost
assert fence.wait()
assert objects()[-1] == expected
"""
    python(SETUP + script, str(SHADERS / "spin.spv"))


def test_objects_of_the_parent_go_in_any_order() -> None:
    script = """
kept = [*objects(), *objects()]
def work():
    for _ in range(len(kept)):
        kept.pop(len(kept) // 2)
        gc.collect()
    objects()
in_child(work)
in_child(lambda: None)
objects()
"""
    python(SETUP + script, str(SHADERS / "spin.spv"))


def test_a_fork_waits_until_no_thread_is_in_the_driver() -> None:
    """Without that, a lock of the Vulkan loader is taken for good in most of these children."""
    script = """
stop = threading.Event()
def busy():
    while not stop.is_set():
        objects()
threads = [threading.Thread(target=busy) for _ in range(2)]
for thread in threads:
    thread.start()
try:
    for _ in range(20):
        pid = os.fork()
        if pid == 0:
            objects()
            os._exit(0)
        give_up = time.monotonic() + 30
        while not (ended := os.waitpid(pid, os.WNOHANG))[0] and time.monotonic() < give_up:
            time.sleep(0.002)
        if not ended[0]:
            os.kill(pid, signal.SIGABRT)
        assert ended[0] and ended[1] == 0, ended
finally:
    stop.set()
    for thread in threads:
        thread.join()
"""
    python(SETUP + script, str(SHADERS / "spin.spv"))
