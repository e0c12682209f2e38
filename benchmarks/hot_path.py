"""Measure the cost of `Execution.compute()` beyond the GPU's work, and whether other threads run while it waits.

    python benchmarks/hot_path.py [--device NAME] [--runs N] [--save]

First: a reusable execution of three small operations against the bare submit-and-wait of the same recorded command
buffer, in turns; and the same through the C library, and with the driver in a process of its own. All of that on one
core, for what the calls themselves cost, and on all cores, where much of the time is the system's: a thread that waits
is woken on a core that sleeps. Second: how fast another thread counts while an execution is under way.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from c_client import CCompilation, CExecution, CModel
from harness import RUNS_OF_A_TURN, Run, Section, Table, Turns, alternate, device_of, driver_of, options, report

import nnvk
from nnvk import FuseCode, OperandCode, OperandType, OperationCode, api
from nnvk.driver import process
from nnvk.driver.vulkan.running.prepared_model import VulkanPreparedModel

LIMIT_US = 15.0
"""The limit of compute() beyond submit and wait in a loop on one core, in microseconds."""
LIMIT_APART_US = 60.0
"""The limit if the driver is in another process."""
APART = ("compute(), C library", "compute(), driver process")
LEAST_RATE = 0.8
"""How fast the other thread must count, of what it reaches while nobody waits for the same work."""
RUNS = 3000
"""Runs of each way."""
_SIZE = 1024


def _scalar(model: nnvk.Model, value: int) -> int:
    index = model.add_operand(OperandType(OperandCode.INT32))
    model.set_operand_value(index, value)
    return index


def _tensor(model: nnvk.Model, data: np.ndarray) -> int:
    index = model.add_operand(OperandType(OperandCode.TENSOR_FLOAT32, data.shape))
    model.set_operand_value(index, data)
    return index


Measured = TypeVar("Measured")
Built = TypeVar("Built", nnvk.Model, CModel)


def small_model(model: Built) -> Built:
    """Three operations on 1,024 floats: (x + constant) * constant, LOGISTIC."""
    tensor, scalar = OperandType(OperandCode.TENSOR_FLOAT32, (1, _SIZE)), OperandType(OperandCode.INT32)
    source, total, product, target, constant, plain = range(6)
    for type_ in (*[tensor] * 5, scalar):
        model.add_operand(type_)
    model.set_operand_value(constant, np.linspace(-1, 1, _SIZE, dtype=np.float32)[None])
    model.set_operand_value(plain, np.array([FuseCode.NONE], np.int32))
    model.add_operation(OperationCode.ADD, [source, constant, plain], [total])
    model.add_operation(OperationCode.MUL, [total, constant, plain], [product])
    model.add_operation(OperationCode.LOGISTIC, [product], [target])
    model.identify_inputs_and_outputs([source], [target])
    model.finish()
    return model


def long_model(products: int) -> nnvk.Model:
    """Matrix products of 1024x1024 by 1024, one after the other, on the same weights."""
    model = nnvk.Model()
    type_ = OperandType(OperandCode.TENSOR_FLOAT32, (_SIZE, _SIZE))
    generator = np.random.default_rng(0)
    weights = _tensor(model, generator.uniform(-1, 1, (_SIZE, _SIZE)).astype(np.float32))
    bias = _tensor(model, np.zeros(_SIZE, np.float32))
    bounded = _scalar(model, FuseCode.RELU1)
    tensors = [model.add_operand(type_) for _ in range(products + 1)]
    for source, target in itertools.pairwise(tensors):
        model.add_operation(OperationCode.FULLY_CONNECTED, [source, weights, bias, bounded], [target])
    model.identify_inputs_and_outputs([tensors[0]], [tensors[-1]])
    model.finish()
    return model


@dataclass(frozen=True, slots=True)
class Prepared:
    """A model on a device with its arrays."""

    model: nnvk.Model
    compilation: nnvk.Compilation
    execution: nnvk.Execution
    source: np.ndarray
    target: np.ndarray


def prepare(model: nnvk.Model, device: nnvk.Device) -> Prepared:
    """Compile a model of one input and one output, and run it once."""
    compilation = nnvk.Compilation(model, [device])
    compilation.finish()
    (type_,) = compilation.model.input_types()
    source = np.random.default_rng(0).uniform(-1, 1, type_.dimensions).astype(np.float32)
    target = np.empty_like(source)
    execution = nnvk.Execution(compilation)
    execution.set_reusable(True)
    execution.set_input(0, source)
    execution.set_output(0, target)
    execution.compute()
    return Prepared(model, compilation, execution, source, target)


# --- the cost of a call -----------------------------------------------------------------------------------------------


def recorded_program(compilation: nnvk.Compilation) -> Any:
    """The very `nnvk._native.Program` that executions submit: between them it lies idle in the driver's pool."""
    (partition,) = compilation.partitions
    assert isinstance(partition.prepared, VulkanPreparedModel)
    (plan,) = partition.prepared._program.single._plans.values()
    (recording,) = (recording for idle in plan._idle.values() for recording in idle)
    return recording.program


def call_contenders(device: nnvk.Device) -> dict[str, Run]:
    """Ways to run the three operations, the barest first."""
    prepared = prepare(small_model(nnvk.Model()), device)
    program = recorded_program(prepared.compilation)
    target = np.empty_like(prepared.target)
    program.run([prepared.source], [target])
    if not np.array_equal(target, prepared.target):
        raise AssertionError("the program and the execution disagree")
    burst = nnvk.Burst(prepared.compilation)
    through_c, apart = c_library_run(prepared, device), apart_from(prepared, device)
    return {
        "submit and wait": lambda: program.run([None], [None]),
        "submit and wait, with copies": lambda: program.run([prepared.source], [target]),
        "compute()": prepared.execution.compute,
        "burst_compute()": lambda: prepared.execution.burst_compute(burst),
        "start_compute(), wait()": lambda: prepared.execution.start_compute().wait(),
        **dict(zip(APART, (through_c, apart), strict=True)),
    }


def c_library_run(prepared: Prepared, device: nnvk.Device) -> Run:
    """The same through libneuralnetworks.so, called by ctypes."""
    execution = CExecution(CCompilation(small_model(CModel()), device.name))
    execution.library.call("Execution_setReusable", execution.handle, True)
    target = np.empty_like(prepared.target)
    execution.set_input(0, prepared.source)
    execution.set_output(0, target)
    execution.compute()
    _check_equal(prepared, target)
    compute, handle = execution.library.Execution_compute, execution.handle
    kept = execution, target  # as long as the run is

    def run() -> None:
        if compute(handle):
            raise AssertionError(f"{kept[0]} fails")

    return run


def apart_from(prepared: Prepared, device: nnvk.Device) -> Run:
    """The same with the Vulkan driver in a process of its own."""
    found, _ = process.find_devices(api.driver_command)
    (remote,) = (nnvk.Device(each) for each in found if each.name == device.name)
    there = prepare(prepared.model, remote)
    _check_equal(prepared, there.target)
    return there.execution.compute


def _check_equal(prepared: Prepared, target: np.ndarray) -> None:
    if not np.array_equal(prepared.target, target):
        raise AssertionError("two processes disagree")


def time_calls(device_name: str, runs: int, on_one_core: bool) -> dict[str, Turns]:
    """Time every way, all its processes and threads on one core, or wherever the system puts them.

    Where a thread runs is settled when it starts, so that this must run in a process of its own.
    """
    if on_one_core:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    return alternate(call_contenders(nnvk.get_device(device_name)), runs)


def call_table(turns: dict[str, Turns], cores: str) -> Table:
    """The costs over the first."""
    bare = turns["submit and wait"].following
    rows = []
    for name, value in turns.items():
        over = value.following.median - bare.median
        times = (value.following.median, value.following.minimum, over, value.first.median)
        rows.append([name, *(f"{time / 1e3:.1f}" for time in times)])
    note = (
        f"Medians of {len(bare.runs)} runs in a loop, the ways in turns of {RUNS_OF_A_TURN}, the first of which is "
        "apart: others have run before it."
    )
    title = f"Three operations on 1,024 floats, on {cores}, in microseconds"
    return Table(title, ["way", "median", "min", "median over bare", "first of a turn"], rows, note=note)


def costs_over_limits(turns: dict[str, Turns]) -> list[str]:
    """The limits that are not kept."""
    medians = {name: value.following.median / 1e3 for name, value in turns.items()}
    costs = {"compute()": (medians["compute()"] - medians["submit and wait"], LIMIT_US, "submit and wait")}
    costs |= {name: (medians[name] - medians["compute()"], LIMIT_APART_US, "compute()") for name in APART}
    return [
        f"{name} costs {cost:.1f} us over {base}, the limit is {limit:.0f}"
        for name, (cost, limit, base) in costs.items()
        if cost > limit
    ]


# --- another thread ---------------------------------------------------------------------------------------------------


class Counter:
    """A thread that counts as fast as Python lets it."""

    def __init__(self) -> None:
        self.count = 0
        self.stopped = False

    def work(self) -> None:
        """Count until stopped."""
        while not self.stopped:
            self.count += 1

    def rate_during(self, action: Callable[[], object]) -> float:
        """Counts per second while ``action`` runs in the calling thread."""
        count, began = self.count, time.perf_counter()
        action()
        return (self.count - count) / (time.perf_counter() - began)


@contextmanager
def counting() -> Iterator[Counter]:
    """A counter at work."""
    counter = Counter()
    thread = threading.Thread(target=counter.work)
    thread.start()
    try:
        yield counter
    finally:
        counter.stopped = True
        thread.join()


@dataclass(frozen=True, slots=True)
class Rates:
    """Counts per second, a value for each round."""

    alone: list[float]
    """The main thread sleeps and the device is idle."""
    beside: list[float]
    """The main thread sleeps while the device works: what the work itself takes from the counter."""
    waiting: list[float]
    """The main thread waits in compute() for the same work."""
    cores_left: int
    seconds: float
    """One execution."""


def count(device_name: str, rounds: int, seconds: float, spare_core: bool) -> Rates:
    """Count beside executions of at least ``seconds``.

    ``spare_core``: a software device shall leave a core to the counter. It reads that from the environment when it is
    first used, so that this must run in a process of its own.
    """
    cores = os.cpu_count() or 1
    if spare_core:
        os.environ["LP_NUM_THREADS"] = str(max(1, cores - 1))
    device = nnvk.get_device(device_name)
    products, duration = 1, 0.0
    while products <= 256:
        prepared = prepare(long_model(products), device)
        began = time.perf_counter()
        prepared.execution.compute()
        duration = time.perf_counter() - began
        if duration >= seconds:
            break
        products *= 2

    def beside() -> None:
        event = prepared.execution.start_compute()
        counted.append(counter.rate_during(lambda: time.sleep(0.8 * duration)))
        event.wait()

    alone: list[float] = []
    counted: list[float] = []
    waiting: list[float] = []
    with counting() as counter:
        for _ in range(rounds):
            alone.append(counter.rate_during(lambda: time.sleep(duration)))
            beside()
            waiting.append(counter.rate_during(prepared.execution.compute))
    return Rates(alone, counted, waiting, 1 if spare_core and cores > 1 else 0, duration)


def in_a_process(measure: Callable[..., Measured], *arguments: object) -> Measured:
    """Measure in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, *arguments).result()


def rate_table(rates: Rates, software: bool) -> tuple[Table, list[str]]:
    """The rates, and the limits that are not kept."""
    alone, beside, waiting = (np.array(values) for values in (rates.alone, rates.beside, rates.waiting))

    def relative(values: np.ndarray, of: np.ndarray) -> str:
        return f"{np.median(values / of):.2f}"  # round by round: others may use the machine

    rows = [
        ["main thread sleeps, device idle", f"{np.median(alone) / 1e6:.2f}", "1.00", "-"],
        ["main thread sleeps, device at work", f"{np.median(beside) / 1e6:.2f}", relative(beside, alone), "1.00"],
        [
            "main thread in compute()",
            f"{np.median(waiting) / 1e6:.2f}",
            relative(waiting, alone),
            relative(waiting, beside),
        ],
    ]
    failures = []
    if np.median(waiting / beside) < LEAST_RATE:
        failures.append(f"a thread counts {relative(waiting, beside)} as fast while another waits in compute()")
    note = f"Medians of {len(rates.alone)} executions of {rates.seconds:.2f} s each."
    if software:
        note += " The device runs on the CPU; one core was left free." if rates.cores_left else ""
    columns = ["while the second thread counts", "million counts/s", "of idle", "of device at work"]
    return Table("A second thread while the first waits", columns, rows, note=note), failures


def main() -> int:
    """Measure both."""
    parser = options("Measure the cost of Execution.compute() beyond the GPU's work.")
    arguments = parser.parse_args()
    device = device_of(arguments)
    runs = 20 if arguments.quick else arguments.runs or RUNS
    one_core = in_a_process(time_calls, device.name, runs, True)
    all_cores = in_a_process(time_calls, device.name, runs, False)
    calls = [call_table(one_core, "one core"), call_table(all_cores, "all cores")]
    rates = in_a_process(count, device.name, *((1, 0.05) if arguments.quick else (15, 0.3)), True)
    counts, slow = rate_table(rates, driver_of(device).profile.is_cpu)
    figures = {
        "calls": {name: value.following.figures() for name, value in one_core.items()},
        "calls_on_all_cores": {name: value.following.figures() for name, value in all_cores.items()},
        "counts_per_second": {"alone": rates.alone, "device_at_work": rates.beside, "in_compute": rates.waiting},
    }
    failures = costs_over_limits(one_core) + slow
    return report(Section("hot_path", "Hot path", [*calls, counts], figures, failures), device, arguments)


if __name__ == "__main__":
    sys.exit(main())
