"""Forked children: they compute on devices of their own, hear what became of their parent's, and end quietly."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from processes import SETUP, ends_well, python

import nnvk

NAMES = [device.name for device in nnvk.get_devices()]


def on_each_device(script: str) -> None:
    """Run a script for each device that it knows as ``name``, all in one process."""
    python(f"for name in sys.argv[1:]:\n{textwrap.indent(textwrap.dedent(script), '    ')}", *NAMES, timeout=250)


def test_a_child_computes_with_what_its_parent_compiled() -> None:
    script = """
        compilation = compiled(name, 7)
        add(name, 7, compilation)
        def work():
            add(name, 7, compilation)
            add(name, 11)
            add(name, 7, compilation)
        in_child(work)
        in_child(lambda: in_child(work))
        add(name, 7, compilation)
    """
    on_each_device(script)


def test_a_child_does_the_first_thing_at_all(device: nnvk.Device) -> None:
    script = """
        in_child(lambda: add(sys.argv[1], 5))
        add(sys.argv[1], 5)
    """
    python(script, device.name)


def test_a_child_starts_executions() -> None:
    script = """
        def started():
            compilation, source, targets = compiled(name, 100), np.ones(100, np.float32), np.zeros((8, 100), np.float32)
            events = [ready(compilation, source, target).start_compute() for target in targets]
            events.append(ready(compilation, source, targets[0]).start_compute_with_dependencies(events))
            del events[3]  # dropped before its end
            for event in events:
                event.wait()
            gc.collect()
            add(name, 100, compilation)
            assert (targets == 2).all(), targets
        started()  # leaves idle threads behind
        in_child(started)
        started()
    """
    on_each_device(script)


def test_what_was_under_way_is_dead_in_the_child() -> None:
    script = """
        compilation = compiled(name, 3)
        source, targets = np.ones(3, np.float32), np.zeros((4, 3), np.float32)
        ended = ready(compilation, source, targets[0])
        done = ended.start_compute()
        done.wait()
        readable, writable = os.pipe()
        gate = nnvk.Event.create_from_sync_fence_fd(readable)
        waiting = ready(compilation, source, targets[1])
        pending = waiting.start_compute_with_dependencies([gate])
        descriptor = pending.get_sync_fence_fd()
        waiter = threading.Thread(target=pending.wait)  # holds the event's lock
        waiter.start()
        time.sleep(0.1)
        def work():
            done.wait()
            assert ended.get_output_operand_dimensions(0) == (3,)
            for _ in range(2):
                refused("DEAD_OBJECT", pending.wait)
            refused("DEAD_OBJECT", ready(compilation, source, targets[2]).start_compute_with_dependencies, [pending])
            add(name, 3, compilation)
        in_child(work)
        os.write(writable, b"x")
        pending.wait()
        waiter.join()
        import select
        assert select.select([descriptor], [], [], 10)[0]
        assert (targets[:2] == 2).all(), targets
    """
    on_each_device(script)


def test_a_descriptor_signals_though_a_child_has_it_too() -> None:
    script = """
        import select
        compilation = compiled(name, 3)
        readable, writable = os.pipe()
        gate = nnvk.Event.create_from_sync_fence_fd(readable)
        source, target = np.ones(3, np.float32), np.zeros(3, np.float32)
        pending = ready(compilation, source, target).start_compute_with_dependencies([gate])
        descriptor = pending.get_sync_fence_fd()
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        try:
            os.write(writable, b"x")
            assert select.select([descriptor], [], [], 10)[0]
            assert (target == 2).all()
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    """
    on_each_device(script)


def test_a_child_only_exits() -> None:
    script = """
        compilation, source, target = compiled(name, 2**20), np.ones(2**20, np.float32), np.zeros(2**20, np.float32)
        for _ in range(3):
            events = [ready(compilation, source, target).start_compute() for _ in range(4)]
            in_child(lambda: None)
            in_child(gc.collect)
            events = None
            in_child(lambda: None)
    """
    on_each_device(script)


def test_what_is_of_the_parents_device_is_dead_in_the_child() -> None:
    device = nnvk.get_devices()[0]
    if device.type is nnvk.DeviceTypeCode.CPU:
        pytest.skip("; ".join(nnvk.unavailable()))
    script = """
        name = sys.argv[1]
        compilation, source, target = compiled(name, 5), np.ones(5, np.float32), np.zeros(5, np.float32)
        def memory():
            desc = nnvk.MemoryDesc()
            desc.add_input_role(compilation, 0)
            desc.add_output_role(compilation, 0)
            desc.finish()
            return nnvk.DeviceMemory(desc)
        def to_memory(where):
            run = nnvk.Execution(compilation)
            run.set_input(0, source)
            run.set_input(1, source)
            run.set_output_from_memory(0, where)
            return run
        def from_memory(where):
            run = nnvk.Execution(compilation)
            run.set_input_from_memory(0, where)
            run.set_input(1, source)
            run.set_output(0, target)
            return run
        old = memory()
        to_memory(old).compute()
        bound = ready(compilation, source, target)
        bound.set_reusable(True)
        bound.compute()
        held = to_memory(memory())
        held.set_reusable(True)
        held.compute()
        def work():
            target[:] = 0
            for _ in range(2):
                bound.compute()
                assert (target == 2).all(), target
            refused("DEAD_OBJECT", held.compute)
            refused("DEAD_OBJECT", old.read)
            refused("DEAD_OBJECT", lambda: from_memory(old).compute())
            new = memory()
            to_memory(new).compute()
            from_memory(new).compute()
            assert (target == 3).all(), target
        in_child(work)
        bound.compute()
        from_memory(old).compute()
        assert (target == 3).all(), target
    """
    python(script, device.name)


def test_a_child_executes_in_stages_what_its_parent_compiled() -> None:
    """WHILE: x += 1, until x is no more less than 3."""
    script = """
        T, OP, B = nnvk.OperandType, nnvk.OperationCode, nnvk.OperandCode
        NUMBER, BOOL = T(F32, (1,)), T(B.TENSOR_BOOL8, (1,))
        def model(code, constant, result):
            made = nnvk.Model()
            x, c = made.add_operand(NUMBER), made.add_operand(NUMBER)
            made.set_operand_value(c, np.array([constant], np.float32))
            inputs = [x, c]
            if code is OP.ADD:
                inputs.append(made.add_operand(T(B.INT32)))
                made.set_operand_value(inputs[2], 0)
            y = made.add_operand(result)
            made.add_operation(code, inputs, [y])
            made.identify_inputs_and_outputs([x], [y])
            made.finish()
            return made
        loop = nnvk.Model()
        condition, body = loop.add_operand(T(B.MODEL)), loop.add_operand(T(B.MODEL))
        x, y = loop.add_operand(NUMBER), loop.add_operand(NUMBER)
        loop.set_operand_value_from_model(condition, model(OP.LESS, 3, BOOL))
        loop.set_operand_value_from_model(body, model(OP.ADD, 1, NUMBER))
        loop.add_operation(OP.WHILE, [condition, body, x], [y])
        loop.identify_inputs_and_outputs([x], [y])
        loop.finish()
        compilation = nnvk.Compilation(loop, [nnvk.get_device(name)])
        compilation.finish()
        def work():
            for start, end in ((0, 3), (1.5, 3.5), (7, 7)):
                (result,) = nnvk.run(compilation, [np.array([start], np.float32)])
                assert result == end, (start, result)
        work()
        in_child(work)
        work()
    """
    on_each_device(script)


@pytest.mark.parametrize("process", ["0", "1"])
def test_a_child_binds_anew_what_its_parent_has_bound(process: str) -> None:
    """In silence: no other device takes over."""
    script = """
        model = nnvk.Model()
        x = model.add_operand(nnvk.OperandType(F32, (4,)))
        y = model.add_operand(nnvk.OperandType(F32, (4,)))
        model.add_operation(nnvk.OperationCode.ABS, [x], [y])
        model.identify_inputs_and_outputs([x], [y])
        model.finish()
        compilation = nnvk.Compilation(model)
        compilation.finish()
        target = np.zeros(4, np.float32)
        run = nnvk.Execution(compilation)
        run.set_input(0, np.full(4, -2, np.float32))
        run.set_output(0, target)
        run.set_reusable(True)
        run.compute()
        def work():
            for start in (run.compute, lambda: run.start_compute().wait(), lambda: run.burst_compute(burst)):
                target[:] = 0
                start()
                assert (target == 2).all(), target
        burst = nnvk.Burst(compilation)
        run.burst_compute(burst)
        in_child(work)
    """
    python(script, NNVK_DRIVER_PROCESS=process)


def test_forks_amid_everything() -> None:
    """Whatever other threads hold at the moment of a fork, the child must not wait for it."""
    script = """
        stop, failed = threading.Event(), []
        shared = compiled(name, 64)
        def busy(number):
            try:
                while not stop.is_set():
                    number += 1
                    add(name, 64, shared)
                    add(name, 1000 + number % 7, operations=1 + number % 3)
                    event = ready(shared, np.ones(64, np.float32), np.zeros(64, np.float32)).start_compute()
                    if number % 2:
                        event.wait()
                    del event
            except BaseException:
                failed.append(traceback.format_exc())
        threads = [threading.Thread(target=busy, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        def work():
            add(name, 64, shared)
            add(name, 37)
            ready(shared, np.ones(64, np.float32), np.zeros(64, np.float32)).start_compute().wait()
        try:
            for _ in range(10):
                in_child(work)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert not failed, failed[0]
    """
    on_each_device(script)


POOL = """
def work(count):
    source, target = np.ones(count, np.float32), np.zeros(count, np.float32)
    for name in NAMES:
        add(name, count)
        add(name, count)
        target[:] = 0
        ready(compiled(name, count), source, target).start_compute().wait()
        assert (target == 2).all()
    return os.getpid()

if __name__ == "__main__":
    import multiprocessing
    for name in NAMES:
        add(name, 10)
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        assert os.getpid() not in pool.map(work, range(1, 9))
        for name in NAMES:
            add(name, 10)
        pool.close()
        pool.join()
    for name in NAMES:
        add(name, 10)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools(method: str, tmp_path: Path) -> None:
    file = tmp_path / "pool_of_processes.py"
    file.write_text(f"{SETUP}\nNAMES = {NAMES}\n{POOL}")
    ends_well([str(file), method])
