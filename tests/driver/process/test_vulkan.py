"""NNVK_DRIVER_PROCESS=1: the Vulkan driver outside of the interpreter, whose end it survives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from c_library import await_end
from processes import SETUP, python

import nnvk

pytestmark = pytest.mark.skipif(
    all(device.type is not nnvk.DeviceTypeCode.GPU for device in nnvk.get_devices()), reason="there is no Vulkan device"
)
PID = """
import contextlib

def pid():
    return nnvk.get_device("vulkan-0").driver._process._current._process.pid

def end(number):
    "End the driver's process by a signal, after which its threads may go on for a moment."
    process = pid()
    os.kill(process, number)
    with contextlib.suppress(FileNotFoundError):
        while open(f"/proc/{process}/stat").read().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.001)

"""


def apart(script: str, **environment: str) -> str:
    """Run a script whose Vulkan driver is in another process, and return its output.

    The script can call ``pid()`` for the number of that process, and ``end(signal)`` to end it.
    """
    lines = script.splitlines()
    indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return python(PID + "\n".join(line[indent:] for line in lines), NNVK_DRIVER_PROCESS="1", **environment)


def test_the_driver_is_not_in_this_process() -> None:
    apart("""
        name = nnvk.get_devices()[0].name
        assert name == "vulkan-0" and nnvk.get_devices()[-1].name == "nnapi-reference"
        compilation = compiled(name, 100)
        add(name, 100, compilation)
        assert compilation.partitions[0].prepared.memory_bytes()["staging"] > 0
        assert "libvulkan" not in open("/proc/self/maps").read()
        assert "libvulkan" in open(f"/proc/{pid()}/maps").read()
    """)


def test_models_share_large_constants_there() -> None:
    apart("""
        def shared(rows):
            model = nnvk.Model()
            a, b = (model.add_operand(nnvk.OperandType(F32, (size, 1 << 15))) for size in (rows, 1))
            fuse = model.add_operand(nnvk.OperandType(nnvk.OperandCode.INT32))
            out = model.add_operand(nnvk.OperandType(F32, (rows, 1 << 15)))
            model.set_operand_value(b, np.ones((1, 1 << 15), np.float32))
            model.set_operand_value(fuse, 0)
            model.add_operation(nnvk.OperationCode.ADD, [a, b, fuse], [out])
            model.identify_inputs_and_outputs([a], [out])
            model.finish()
            compilation = nnvk.Compilation(model, [nnvk.get_device("vulkan-0")])
            compilation.finish()
            compilations.append(compilation)
            return compilation.partitions[0].prepared.shared_memory()

        compilations = []
        first, second = shared(1), shared(2)
        both = dict(first.items() & second.items())
        assert list(both.values()) == [1 << 17], (first, second)
        held = [each.partitions[0].prepared.memory_bytes()["constants"] for each in compilations]
        assert held == [1 << 17] * 2, held
    """)


def test_a_driver_that_crashes() -> None:
    apart("""
        add("vulkan-0", 10)
        for number in (signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT):
            compilation = compiled("vulkan-0", 100)
            add("vulkan-0", 100, compilation)
            end(number)
            began = time.monotonic()
            refused("DEAD_OBJECT", add, "vulkan-0", 100, compilation)
            assert time.monotonic() - began < 1
            add("vulkan-0", 100)
    """)


def test_the_cpu_takes_over() -> None:
    """Where the choice of devices was nnvk's."""
    apart("""
        import logging
        logging.disable()
        model = nnvk.Model()
        a, b = (model.add_operand(nnvk.OperandType(F32, (4,))) for _ in range(2))
        model.add_operation(nnvk.OperationCode.RELU, [a], [b])
        model.identify_inputs_and_outputs([a], [b])
        model.finish()
        compilation = nnvk.Compilation(model)
        compilation.finish()
        assert compilation.partitions[0].device.name == "vulkan-0"
        end(signal.SIGKILL)
        (result,) = nnvk.run(compilation, [np.array([-1, 0, 1, 2], np.float32)])
        assert result.tolist() == [0, 0, 1, 2]
    """)


def test_caches_and_settings_are_the_driver_s(tmp_path: Path) -> None:
    apart(
        f"""
        from nnvk.base.settings import override
        model = compiled("vulkan-0", 5).model  # the driver has started
        for turn in range(2):
            built = nnvk.Model()
            a, b = (built.add_operand(nnvk.OperandType(F32, (4,))) for _ in range(2))
            built.add_operation(nnvk.OperationCode.RELU, [a], [b])
            built.identify_inputs_and_outputs([a], [b])
            built.finish()
            compilation = nnvk.Compilation(built, [nnvk.get_device("vulkan-0")])
            compilation.set_caching({str(tmp_path)!r}, bytes(32))
            compilation.finish()
            assert len([name for name in os.listdir({str(tmp_path)!r}) if name[0] != "."]) == 1
            nnvk.run(compilation, [np.zeros(4, np.float32)])
        environment = open(f"/proc/{{pid()}}/environ", "rb").read().split(bytes(1))
        assert b"NNVK_DEVICE_PROFILE=mobile-min" in environment
    """,
        NNVK_DEVICE_PROFILE="mobile-min",
    )


def test_forked_children_have_drivers_of_their_own() -> None:
    """They compute with what their parent has compiled; what it has under way is the parent's."""
    apart("""
        compilation = compiled("vulkan-0", 7)
        add("vulkan-0", 7, compilation)
        parents = pid()
        source, target = np.ones(7, np.float32), np.zeros(7, np.float32)
        run = ready(compilation, source, target)
        event = ready(compilation, source, target).start_compute()
        def work():
            refused("DEAD_OBJECT", event.wait)
            add("vulkan-0", 7, compilation)
            add("vulkan-0", 11)
            assert pid() != parents
        in_child(work)
        event.wait()
        run.compute()
        add("vulkan-0", 7, compilation)
        assert pid() == parents
    """)


def test_ctrl_c_leaves_a_usable_execution() -> None:
    apart("""
        compilation = compiled("vulkan-0", 3_000_000, 60)
        source, target = np.ones(3_000_000, np.float32), np.zeros(3_000_000, np.float32)
        run = ready(compilation, source, target)
        run = nnvk.Execution(compilation)
        run.set_reusable(True)
        run.set_input(0, source), run.set_input(1, source), run.set_output(0, target)
        run.compute()
        interrupted = 0
        for delay in (0.001, 0.01, 0.02, 0.04):
            target[:] = 0
            try:
                threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)).start()
                for _ in range(100):
                    run.compute()
                    assert (target == 61).all()
            except KeyboardInterrupt:
                interrupted += 1
        assert interrupted == 4
        run.compute()
        assert (target == 61).all()
    """)


SLEEPER = """
add("vulkan-0", 10)
print(nnvk.get_device("vulkan-0").driver._process._current._process.pid, flush=True)
if sys.argv[1] == "exit":
    sys.exit()
while True:
    add("vulkan-0", 100000)
"""


@pytest.mark.parametrize("end", ["exit", "SIGKILL", "SIGTERM"])
def test_the_driver_ends_with_the_interpreter(end: str) -> None:
    command = [sys.executable, "-X", "dev", "-c", SETUP + SLEEPER, end]
    environment = {**os.environ, "NNVK_DRIVER_PROCESS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd="/") as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        if end != "exit":
            process.send_signal(signal.Signals[end])
        process.wait(30)
    await_end(pid, 10)


def test_a_driver_that_does_not_start() -> None:
    """The interpreter goes on without Vulkan, and says why."""
    apart("""
        import multiprocessing
        multiprocessing.set_executable("/bin/false")
        assert [device.name for device in nnvk.get_devices()] == ["nnapi-reference"]
        (reason,) = nnvk.unavailable()
        assert reason == "the driver's process does not start: it has ended with exit code 1", reason
    """)
