"""Every way to execute: synchronous, fenced, in a burst, with device memory, of any shape, again, and from threads."""

from __future__ import annotations

import gc
import itertools
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from guarded import run_guarded
from networks import CLASSES, classifier, images, increment, random_graph
from waiting import eventually

from nnvk.base.detached_work import expect_detached_work
from nnvk.base.errors import NnapiError, ResultCode
from nnvk.check.model_rows import parse
from nnvk.driver.cpu import CpuDevice
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.running.execution import SubmittedExecution
from nnvk.driver.vulkan.running.prepared_model import VulkanPreparedModel
from nnvk.driver.vulkan.running.resident_plan import LEAST_IDLE, MAX_BOUND, MOST_IDLE
from nnvk.driver.vulkan.running.scheduler import IN_FLIGHT
from nnvk.driver.vulkan.running.segment import MAX_PLANS
from nnvk.hal import DeferredExecution, IDevice, IFencedExecution, IPreparedModel
from nnvk.types.codes import PriorityCode
from nnvk.types.model import Model
from nnvk.types.request import (
    NOT_MEASURED,
    ExecuteOptions,
    ExecutionResult,
    InputArgument,
    OutputArgument,
    PrepareOptions,
    Request,
)

OPTIONS = ExecuteOptions()
SIZE = 1000
VECTOR = increment(SIZE).frozen.input_types()[0]


def host(*arrays: np.ndarray) -> list[InputArgument]:
    return [InputArgument(array) for array in arrays]


def to_host(*arrays: np.ndarray) -> list[OutputArgument]:
    return [OutputArgument(array.reshape(-1).view(np.uint8)) for array in arrays]


def prepare(device: IDevice, model: Model, priority: PriorityCode = PriorityCode.MEDIUM) -> IPreparedModel:
    return device.prepare_model(model, PrepareOptions(priority=priority))


def reference(model: Model, source: np.ndarray) -> np.ndarray:
    output = np.empty((source.shape[0], CLASSES), np.float32)
    prepare(CpuDevice(), model).execute(Request(host(source), to_host(output)), OPTIONS)
    return output


@pytest.fixture(scope="module")
def plus_one(vulkan: VulkanDevice) -> IPreparedModel:
    return prepare(vulkan, increment(SIZE).frozen)


def numbers(start: float = 0) -> np.ndarray:
    return np.arange(start, start + SIZE, dtype=np.float32)


# --- again, and again --------------------------------------------------------------------------------------------


def test_a_bound_request_sees_new_inputs_each_time(plus_one: IPreparedModel) -> None:
    source, output = numbers(), np.zeros(SIZE, np.float32)
    execution = plus_one.create_reusable_execution(Request(host(source), to_host(output)))
    for turn in range(3):
        source[:] = numbers(turn)
        result = execution.execute(OPTIONS)
        np.testing.assert_array_equal(output, source + 1)
        assert result.output_shapes[0].dimensions == (SIZE,)


def test_fenced_and_burst(plus_one: IPreparedModel) -> None:
    source, output = numbers(), np.zeros(SIZE, np.float32)
    execution = plus_one.create_reusable_execution(Request(host(source), to_host(output)))
    burst = plus_one.configure_execution_burst()
    for turn in range(3):
        source[:] = numbers(turn)
        fenced = execution.execute_fenced((), OPTIONS)
        assert fenced.wait()
        assert fenced.result() is fenced.result()
        np.testing.assert_array_equal(output, source + 1)
        output[:] = 0
        burst.execute(execution, OPTIONS)
        np.testing.assert_array_equal(output, source + 1)


def test_an_output_that_nobody_wants(plus_one: IPreparedModel) -> None:
    result = plus_one.execute(Request(host(numbers()), [OutputArgument(None)]), OPTIONS)
    assert result.code is ResultCode.NO_ERROR


def test_the_arguments_are_not_copied_needlessly(vulkan: VulkanDevice, plus_one: IPreparedModel) -> None:
    counters = vulkan.gpu.counters
    before = counters.bytes_from_host, counters.bytes_to_host
    plus_one.execute(Request(host(numbers()), to_host(np.zeros(SIZE, np.float32))), OPTIONS)
    assert (counters.bytes_from_host - before[0], counters.bytes_to_host - before[1]) == (4 * SIZE, 4 * SIZE)


# --- time --------------------------------------------------------------------------------------------------------


def test_timing(vulkan: VulkanDevice, plus_one: IPreparedModel) -> None:
    request = Request(host(numbers()), to_host(np.zeros(SIZE, np.float32)))
    assert plus_one.execute(request, OPTIONS).timing.in_driver_ns == NOT_MEASURED
    timing = plus_one.execute(request, ExecuteOptions(measure=True)).timing
    assert 0 < timing.in_driver_ns < 10**10
    if vulkan.profile.timestamps:
        assert 0 <= timing.on_hardware_ns <= timing.in_driver_ns
    else:
        assert timing.on_hardware_ns == NOT_MEASURED


def test_a_deadline_in_the_past(plus_one: IPreparedModel) -> None:
    source, output = numbers(), np.zeros(SIZE, np.float32)
    request = Request(host(source), to_host(output))
    with pytest.raises(NnapiError) as error:
        plus_one.execute(request, ExecuteOptions(deadline_ns=time.monotonic_ns() - 1))
    assert error.value.code is ResultCode.MISSED_DEADLINE_TRANSIENT
    plus_one.execute(request, ExecuteOptions(deadline_ns=time.monotonic_ns() + 10**10))
    np.testing.assert_array_equal(output, source + 1)


def test_work_that_outlasts_its_deadline_is_abandoned_and_its_memory_used_again(vulkan: VulkanDevice) -> None:
    size = 1_000_000
    prepared = prepare(vulkan, increment(size).frozen)
    source, output = np.zeros(size, np.float32), np.zeros(size, np.float32)
    request = Request(host(source), to_host(output))
    (plan,) = prepared._program.single._plans.values()  # type: ignore[attr-defined]
    gc.collect()  # what other tests have left shall not go meanwhile
    allocated = vulkan.gpu.native().allocated_bytes
    missed = 0
    for turn in range(6):  # a fast device needs a short deadline
        try:
            prepared.execute(request, ExecuteOptions(deadline_ns=time.monotonic_ns() + (300_000 >> turn)))
        except NnapiError as error:
            assert error.code is ResultCode.MISSED_DEADLINE_TRANSIENT
            assert not output.any(), "written after the deadline"
            missed += 1
        output[:] = 0
        assert eventually(lambda: [*map(len, plan._idle.values())] == [1])
    assert missed
    prepared.execute(request, OPTIONS)
    assert (output == 1).all()
    assert vulkan.gpu.native().allocated_bytes <= allocated, "others may have freed memory meanwhile"


def test_work_that_outlasts_its_deadline_when_no_thread_is_left(
    own: VulkanDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is abandoned all the same, and its recording comes back later."""
    prepared = prepare(own, increment(SIZE).frozen)
    assert isinstance(prepared, VulkanPreparedModel)
    (plan,) = prepared._program.single._plans.values()
    output = np.zeros(SIZE, np.float32)
    execution = prepared.create_reusable_execution(Request(host(numbers()), to_host(output)))
    fence = execution.execute_fenced((), ExecuteOptions(deadline_ns=time.monotonic_ns() + 10**12))
    assert isinstance(fence, SubmittedExecution)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    expect_detached_work()
    with monkeypatch.context() as patch:
        patch.setattr(fence, "_await", lambda timeout_ns: False)
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(NnapiError) as error:
            fence.result()
    assert error.value.code is ResultCode.MISSED_DEADLINE_TRANSIENT
    give_up = time.monotonic() + 20
    while not any(plan._idle.values()) and time.monotonic() < give_up:
        time.sleep(0.01)
    assert [len(idle) for idle in plan._idle.values()] == [1]
    assert not output.any()


class Held:
    """A fence in flight that a test signals."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def wait(self, timeout_ns: int = -1) -> bool:
        return self.over.wait(None if timeout_ns < 0 else timeout_ns / 1e9)

    @property
    def signaled(self) -> bool:
        return self.over.is_set()

    def export_sync_fd(self) -> int:
        return -1


@pytest.fixture
def held(vulkan: VulkanDevice) -> Iterator[Callable[[], None]]:
    """As much in flight as there may be, so that everything else waits for its turn until this is called."""
    fences = [Held() for _ in range(IN_FLIGHT)]

    def let_go() -> None:
        for fence in fences:
            fence.over.set()

    for fence in fences:
        assert vulkan.gpu.scheduler.submit(PriorityCode.HIGH, lambda fence=fence: fence) is fence
    yield let_go
    let_go()


def test_what_is_given_up_before_its_turn_never_runs(vulkan: VulkanDevice, held: Callable[[], None]) -> None:
    prepared = prepare(vulkan, increment(SIZE).frozen)
    memory, output = vulkan.allocate(VECTOR, (SIZE,)), np.zeros(SIZE, np.float32)
    execution = prepared.create_reusable_execution(Request(host(numbers()), [OutputArgument(None, memory.token)]))
    assert isinstance(prepared, VulkanPreparedModel)
    (plan,) = prepared._program.single._plans.values()
    for _ in range(3):
        with pytest.raises(NnapiError) as error:
            execution.execute(ExecuteOptions(deadline_ns=time.monotonic_ns() + 20_000_000))
        assert error.value.code is ResultCode.MISSED_DEADLINE_TRANSIENT
        assert [len(idle) for idle in plan._bound.values()] == [1], "the instance comes back at once"
    memory.copy_from(np.full(SIZE, 7, np.float32).view(np.uint8))
    after = prepared.create_reusable_execution(Request(host(numbers()), to_host(output))).execute_fenced((), OPTIONS)
    held()
    after.result()  # its turn comes behind those that were given up
    np.testing.assert_array_equal(output, numbers(1))
    memory.copy_to(output.view(np.uint8))
    assert (output == 7).all()


def test_a_turn_that_nobody_can_give(fresh: VulkanDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    prepared, output = prepare(fresh, increment(SIZE).frozen), np.zeros(SIZE, np.float32)
    assert isinstance(prepared, VulkanPreparedModel)
    (plan,) = prepared._program.single._plans.values()
    execution = prepared.create_reusable_execution(Request(host(numbers()), to_host(output)))
    fences = [Held() for _ in range(IN_FLIGHT)]
    for fence in fences:
        fresh.gpu.scheduler.submit(PriorityCode.HIGH, lambda fence=fence: fence)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(NnapiError) as error:
            execution.execute(OPTIONS)
    assert error.value.code is ResultCode.RESOURCE_EXHAUSTED_TRANSIENT
    assert [*map(len, plan._idle.values())] == [1], "the recording is there for the next one"
    waiting = execution.execute_fenced((), OPTIONS)
    for fence in fences:
        fence.over.set()
    waiting.result()
    np.testing.assert_array_equal(output, numbers(1))


# --- fences ------------------------------------------------------------------------------------------------------


def test_a_fenced_chain_through_memory_of_the_host(plus_one: IPreparedModel) -> None:
    arrays = [numbers(), *(np.zeros(SIZE, np.float32) for _ in range(4))]
    fences: list[IFencedExecution] = []
    for source, target in itertools.pairwise(arrays):
        execution = plus_one.create_reusable_execution(Request(host(source), to_host(target)))
        fences.append(execution.execute_fenced(fences[-1:], OPTIONS))
    fences[-1].result()
    np.testing.assert_array_equal(arrays[-1], numbers(4))


def test_a_fenced_chain_through_device_memory_goes_to_the_queue_at_once(
    vulkan: VulkanDevice, plus_one: IPreparedModel
) -> None:
    memories = [vulkan.allocate(VECTOR, (SIZE,)) for _ in range(4)]
    memories[0].copy_from(numbers().view(np.uint8))
    fences: list[IFencedExecution] = []
    for source, target in itertools.pairwise(memories):
        request = Request([InputArgument(None, source.token, (SIZE,))], [OutputArgument(None, target.token)])
        fences.append(plus_one.create_reusable_execution(request).execute_fenced(fences[-1:], OPTIONS))
    assert not any(isinstance(fence, DeferredExecution) for fence in fences)
    fences[-1].result()
    output = np.zeros(SIZE, np.float32)
    memories[-1].copy_to(output.view(np.uint8))
    np.testing.assert_array_equal(output, numbers(3))


def test_a_long_fenced_chain(vulkan: VulkanDevice, plus_one: IPreparedModel) -> None:
    memories = [vulkan.allocate(VECTOR, (SIZE,)) for _ in range(2)]
    fence: list[IFencedExecution] = []
    length = 1500
    executions = []
    for source, target in (memories, memories[::-1]):
        request = Request([InputArgument(None, source.token, (SIZE,))], [OutputArgument(None, target.token)])
        executions.append(plus_one.create_reusable_execution(request))
    for turn in range(length):
        fence = [executions[turn % 2].execute_fenced(fence, OPTIONS)]
    fence[0].result()
    output = np.zeros(SIZE, np.float32)
    memories[length % 2].copy_to(output.view(np.uint8))
    assert (output == length).all()


def test_what_a_dependency_writes_is_written_before(vulkan: VulkanDevice, plus_one: IPreparedModel) -> None:
    """Both write the same memory of the host: what comes later stays, though nobody waits for what came first."""
    memories = [vulkan.allocate(VECTOR, (SIZE,)) for _ in range(2)]
    for number, memory in enumerate(memories):
        memory.copy_from(numbers(10.0 * number).view(np.uint8))
    output = np.zeros(SIZE, np.float32)
    requests = [Request([InputArgument(None, memory.token, (SIZE,))], to_host(output)) for memory in memories]
    first = plus_one.create_reusable_execution(requests[0]).execute_fenced((), OPTIONS)
    second = plus_one.create_reusable_execution(requests[1]).execute_fenced([first], OPTIONS)
    second.result()
    first.result()
    np.testing.assert_array_equal(output, numbers(11))


def test_the_failure_of_a_dependency_is_passed_on(plus_one: IPreparedModel) -> None:
    def fail() -> ExecutionResult:
        raise NnapiError(ResultCode.OP_FAILED, "the dependency fails")

    output = np.zeros(SIZE, np.float32)
    execution = plus_one.create_reusable_execution(Request(host(numbers()), to_host(output)))
    fence = execution.execute_fenced([DeferredExecution(fail)], OPTIONS)
    with pytest.raises(NnapiError, match="the dependency fails"):
        fence.result()
    assert not output.any()


def test_a_fence_over_outputs_of_the_host_is_no_sync_file(plus_one: IPreparedModel) -> None:
    request = Request(host(numbers()), to_host(np.zeros(SIZE, np.float32)))
    fence = plus_one.create_reusable_execution(request).execute_fenced((), OPTIONS)
    assert fence.export_sync_fd() is None
    fence.result()


# --- device memory -----------------------------------------------------------------------------------------------


def test_device_memory_in_and_out(vulkan: VulkanDevice, plus_one: IPreparedModel) -> None:
    memory, other = vulkan.allocate(VECTOR, (SIZE,)), vulkan.allocate(VECTOR, (SIZE,))
    output = np.zeros(SIZE, np.float32)
    counters = vulkan.gpu.counters
    plus_one.execute(Request(host(numbers()), [OutputArgument(None, memory.token)]), OPTIONS)
    before = counters.bytes_from_host, counters.bytes_to_host
    request = Request([InputArgument(None, memory.token, (SIZE,))], [OutputArgument(None, other.token)])
    for _ in range(3):
        plus_one.execute(request, OPTIONS)
    assert (counters.bytes_from_host, counters.bytes_to_host) == before
    plus_one.execute(Request([InputArgument(None, other.token, (SIZE,))], to_host(output)), OPTIONS)
    np.testing.assert_array_equal(output, numbers(3))
    other.copy_to(output.view(np.uint8))
    np.testing.assert_array_equal(output, numbers(2))


def test_new_device_memory_holds_nothing_of_others(vulkan: VulkanDevice) -> None:
    memory = vulkan.allocate(VECTOR, (SIZE,))
    memory.copy_from(np.full(4 * SIZE, 255, np.uint8))
    del memory
    output = np.full(4 * SIZE, 77, np.uint8)
    vulkan.allocate(VECTOR, (SIZE,)).copy_to(output)
    assert not output.any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": 10**6}, "input 0: .* has no buffer 1000000"),
        ({"target": 10**6}, "output 0: .* has no buffer 1000000"),
        ({"source": "small"}, "input 0 takes 4000 bytes, buffer .* has 400"),
        ({"source": "padded"}, "input 0 takes 4000 bytes, buffer .* has 3980"),
        ({"target": "source"}, "output 0 is device memory that the same execution uses already"),
    ],
    ids=["no source", "no target", "too small", "too small but for padding", "in place"],
)
def test_unfit_device_memory(
    vulkan: VulkanDevice, plus_one: IPreparedModel, change: dict[str, int | str], message: str
) -> None:
    memories = {
        "source": vulkan.allocate(VECTOR, (SIZE,)),
        "target": vulkan.allocate(VECTOR, (SIZE,)),
        "small": vulkan.allocate(VECTOR, (100,)),
        "padded": vulkan.allocate(VECTOR, (SIZE - 5,)),
    }
    names = {"source": "source", "target": "target"} | change
    source, target = (name if isinstance(name, int) else memories[name].token for name in names.values())
    request = Request([InputArgument(None, source, (SIZE,))], [OutputArgument(None, target)])
    with pytest.raises(NnapiError, match=message) as error:
        plus_one.create_reusable_execution(request)
    assert error.value.code is ResultCode.BAD_DATA


@pytest.mark.parametrize("size", [100, SIZE - 1])  # padded, the latter takes as many bytes as the output
def test_too_small_device_memory_for_an_output_tells_the_size(
    vulkan: VulkanDevice, plus_one: IPreparedModel, size: int
) -> None:
    small = vulkan.allocate(VECTOR, (size,))
    result = plus_one.execute(Request(host(numbers()), [OutputArgument(None, small.token)]), OPTIONS)
    assert result.code is ResultCode.OUTPUT_INSUFFICIENT_SIZE
    assert result.output_shapes[0].dimensions == (SIZE,)


def test_instances_go_with_the_memory_that_they_are_recorded_on(vulkan: VulkanDevice) -> None:
    prepared = prepare(vulkan, increment(SIZE).frozen)
    native = vulkan.gpu.native()
    gc.collect()
    before = native.allocated_bytes
    for _ in range(3 * MAX_BOUND):
        memory = vulkan.allocate(VECTOR, (SIZE,))
        prepared.execute(Request(host(numbers()), [OutputArgument(None, memory.token)]), OPTIONS)
        del memory
    gc.collect()
    assert native.allocated_bytes == before
    memories = [vulkan.allocate(VECTOR, (SIZE,)) for _ in range(3 * MAX_BOUND)]
    kept = native.allocated_bytes
    for memory in memories:
        prepared.execute(Request(host(numbers()), [OutputArgument(None, memory.token)]), OPTIONS)
    per_instance = (native.allocated_bytes - kept) / MAX_BOUND
    assert per_instance < 6 * 4 * SIZE, "more instances are kept than may be"
    del memories, memory
    gc.collect()
    assert native.allocated_bytes <= before, "others may have freed memory meanwhile"


def test_copies_larger_than_the_memory(vulkan: VulkanDevice) -> None:
    memory = vulkan.allocate(VECTOR, (SIZE,))
    for copy in (memory.copy_to, memory.copy_from):
        for nbytes in (4 * SIZE + 1, 8 * SIZE):
            with pytest.raises(NnapiError) as error:
                copy(np.zeros(nbytes, np.uint8))
            assert error.value.code is ResultCode.BAD_DATA


# --- shapes ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dynamic(vulkan: VulkanDevice) -> IPreparedModel:
    return prepare(vulkan, classifier().frozen)


def test_shapes_that_come_with_the_execution(dynamic: IPreparedModel) -> None:
    for batch in (1, 3, 2, 3, 7, 1):
        source, output = images(batch, batch), np.zeros((batch, CLASSES), np.float32)
        result = dynamic.execute(Request(host(source), to_host(output)), OPTIONS)
        assert result.output_shapes[0].dimensions == (batch, CLASSES)
        np.testing.assert_allclose(output, reference(classifier().frozen, source), rtol=6e-7, atol=1e-5)


def test_buffers_that_turn_out_too_small(dynamic: IPreparedModel) -> None:
    source, output = images(3), np.full((2, CLASSES), 7, np.float32)
    result = dynamic.execute(Request(host(source), to_host(output)), OPTIONS)
    assert result.code is ResultCode.OUTPUT_INSUFFICIENT_SIZE
    assert not result.output_shapes[0].is_sufficient
    assert (output == 7).all()
    large = np.full((5, CLASSES), 7, np.float32)
    assert dynamic.execute(Request(host(source), to_host(large)), OPTIONS).code is ResultCode.NO_ERROR
    np.testing.assert_allclose(large[:3], reference(classifier().frozen, source), rtol=6e-7, atol=1e-5)
    assert (large[3:] == 7).all()


def test_plans_for_many_shapes_are_given_up_again(own: VulkanDevice) -> None:
    prepared = prepare(own, parse("RELU f32[1?,3]").model)
    assert isinstance(prepared, VulkanPreparedModel)
    for batch in range(1, MAX_PLANS + 4):
        prepared.execute(Request(host(np.ones((batch, 3), np.float32)), [OutputArgument(None)]), OPTIONS)
    assert len(prepared._program.single._plans) == MAX_PLANS


@pytest.mark.parametrize("shape", [(2, 6, 6), (2, 6, 6, 5), (2, 7, 6, 4), ()], ids=str)
def test_shapes_that_do_not_fit(dynamic: IPreparedModel, shape: tuple[int, ...]) -> None:
    with pytest.raises(NnapiError) as error:
        dynamic.execute(Request(host(np.zeros(shape, np.float32)), [OutputArgument(None)]), OPTIONS)
    assert error.value.code is ResultCode.BAD_DATA


def test_an_empty_batch(dynamic: IPreparedModel) -> None:
    """A part may get a tensor without elements from another part."""
    output = np.full((1, CLASSES), 7, np.float32)
    result = dynamic.execute(Request(host(np.zeros((0, 6, 6, 4), np.float32)), to_host(output)), OPTIONS)
    assert result.code is ResultCode.NO_ERROR
    assert result.output_shapes[0].dimensions == (0, CLASSES)
    assert (output == 7).all()


# --- threads -----------------------------------------------------------------------------------------------------


def run_in_threads(*works: Callable[[], None]) -> None:
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def test_two_threads_share_a_prepared_model(vulkan: VulkanDevice, dynamic: IPreparedModel) -> None:
    model = classifier().frozen

    def work(seed: int) -> None:
        for turn in range(15):
            batch = 1 + (seed + turn) % 3
            source, output = images(batch, 100 * seed + turn), np.zeros((batch, CLASSES), np.float32)
            dynamic.execute(Request(host(source), to_host(output)), OPTIONS)
            np.testing.assert_allclose(output, reference(model, source), rtol=6e-7, atol=1e-5)

    run_in_threads(lambda: work(1), lambda: work(2))


def test_threads_of_all_priorities(vulkan: VulkanDevice) -> None:
    def work(priority: PriorityCode) -> None:
        prepared = prepare(vulkan, increment(SIZE).frozen, priority)
        for turn in range(15):
            source, output = numbers(turn), np.zeros(SIZE, np.float32)
            fences = [
                prepared.create_reusable_execution(Request(host(source), to_host(output))).execute_fenced((), OPTIONS)
                for _ in range(3)
            ]
            for fence in fences:
                fence.result()
            np.testing.assert_array_equal(output, source + 1)

    run_in_threads(*(lambda priority=priority: work(priority) for priority in PriorityCode))


def test_what_a_peak_of_concurrency_took_is_given_back(vulkan: VulkanDevice) -> None:
    gc.collect()  # what others have left shall not go meanwhile
    size = 1 << 20
    prepared, native = prepare(vulkan, increment(size).frozen), vulkan.gpu.native()
    before, nbytes = native.allocated_bytes, 4 * size
    source, output = np.zeros(size, np.float32), np.zeros(size, np.float32)
    execution = prepared.create_reusable_execution(Request(host(source), to_host(output)))
    fences = [execution.execute_fenced((), OPTIONS) for _ in range(4 * LEAST_IDLE)]
    assert native.allocated_bytes - before > 4 * LEAST_IDLE * nbytes
    for fence in fences:  # which stay
        fence.result()
    assert (output == 1).all()
    assert native.allocated_bytes - before <= LEAST_IDLE * 4 * nbytes


def test_small_instances_are_kept_for_the_next_peak(vulkan: VulkanDevice) -> None:
    gc.collect()
    prepared, native = prepare(vulkan, increment(SIZE).frozen), vulkan.gpu.native()
    execution = prepared.create_reusable_execution(Request(host(numbers()), to_host(np.zeros(SIZE, np.float32))))

    def peak(count: int) -> int:
        fences = [execution.execute_fenced((), OPTIONS) for _ in range(count)]
        allocated = native.allocated_bytes
        for fence in fences:
            fence.result()
        return allocated - native.allocated_bytes

    assert peak(MOST_IDLE) == peak(MOST_IDLE) == 0
    assert peak(MOST_IDLE + 1) > 0


# --- graphs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs(vulkan: VulkanDevice, seed: int) -> None:
    model = random_graph(seed).frozen
    rng = np.random.default_rng(seed)
    inputs = [rng.standard_normal((4, 8), np.float32) for _ in model.inputs]
    expected, actual, guarded = ([np.zeros((4, 8), np.float32) for _ in model.outputs] for _ in range(3))
    prepare(CpuDevice(), model).execute(Request(host(*inputs), to_host(*expected)), OPTIONS)
    prepare(vulkan, model).execute(Request(host(*inputs), to_host(*actual)), OPTIONS)
    assert run_guarded(vulkan, model, inputs, guarded) == []
    for want, got, alone in zip(expected, actual, guarded, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-5)
        assert got.tobytes() == alone.tobytes()
