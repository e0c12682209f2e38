"""Rules of ANeuralNetworksCompilation."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from decorators import Decorated
from samples import add_model, added, chain_model, compiled, matrix_model, raises

import nnvk
from nnvk import OperationCode, PreferenceCode, PriorityCode, ResultCode
from nnvk.base.errors import NnapiError
from nnvk.hal import IPreparedModel
from nnvk.types.model import Model
from nnvk.types.request import Capabilities, PrepareOptions

CALLS: dict[str, Callable[[nnvk.Compilation], object]] = {
    "set_preference": lambda compilation: compilation.set_preference(PreferenceCode.LOW_POWER),
    "set_priority": lambda compilation: compilation.set_priority(PriorityCode.HIGH),
    "set_timeout": lambda compilation: compilation.set_timeout(10**9),
    "set_caching": lambda compilation: compilation.set_caching("/tmp", b"\0" * 32),
    "set_progress": lambda compilation: compilation.set_progress(lambda done, total: None),
    "finish": lambda compilation: compilation.finish(),
}


class Noting(Decorated):
    """Remembers with which options it prepares."""

    options: PrepareOptions | None = None

    def prepare_model(self, model: Model, options: PrepareOptions) -> IPreparedModel:
        self.options = options
        return super().prepare_model(model, options)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_finished_compilation_can_not_be_modified(
    call: Callable[[nnvk.Compilation], object], cpu: nnvk.Device
) -> None:
    compilation = compiled(add_model(), cpu)
    with raises(ResultCode.BAD_STATE, "finish"):
        call(compilation)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_one_that_failed_to_finish_neither(call: Callable[[nnvk.Compilation], object], cpu: nnvk.Device) -> None:
    compilation = failed(cpu)
    with raises(ResultCode.BAD_STATE):
        call(compilation)


def failed(device: nnvk.Device) -> nnvk.Compilation:
    """A compilation whose finish has failed: its operation is an extension's that nobody has."""
    model = nnvk.Model()
    type_ = nnvk.OperandType(nnvk.OperandCode.TENSOR_FLOAT32, (2,))
    source, target = model.add_operand(type_), model.add_operand(type_)
    model.add_operation(model.get_extension_operation_type("com.example.absent", 3), [source], [target])
    model.identify_inputs_and_outputs([source], [target])
    model.finish()
    compilation = nnvk.Compilation(model, [device])
    with raises(ResultCode.BAD_DATA, "com.example.absent/3"):
        compilation.finish()
    return compilation


def test_what_needs_a_finished_compilation(device: nnvk.Device) -> None:
    for compilation in (nnvk.Compilation(add_model(), [device]), failed(device)):
        for use in (
            nnvk.Execution,
            nnvk.Burst,
            lambda compilation: compilation.partitions,
            lambda compilation: compilation.get_preferred_memory_alignment_for_input(0),
            lambda compilation: compilation.get_preferred_memory_padding_for_output(0),
        ):
            with raises(ResultCode.BAD_STATE):
                use(compilation)
        for add_role in (nnvk.MemoryDesc().add_input_role, nnvk.MemoryDesc().add_output_role):
            with raises(ResultCode.BAD_DATA, "a compilation that is finished"):
                add_role(compilation, 0)


def test_devices_must_be_named_once(cpu: nnvk.Device) -> None:
    with raises(ResultCode.BAD_DATA, "empty"):
        nnvk.Compilation.create_for_devices(add_model(), [])
    with raises(ResultCode.BAD_DATA, "twice"):
        nnvk.Compilation.create_for_devices(add_model(), [cpu, cpu])


def test_only_named_devices_are_used(device: nnvk.Device) -> None:
    compilation = nnvk.Compilation.create_for_devices(chain_model([OperationCode.NEG, OperationCode.ABS]), [device])
    compilation.finish()
    assert [partition.device for partition in compilation.partitions] == [device]
    assert compilation.devices == (device,)


def test_by_default_the_fastest_device_is_used(gpu: nnvk.Device) -> None:
    compilation = compiled(add_model())
    assert compilation.devices is None
    assert [partition.device for partition in compilation.partitions] == [gpu]


@pytest.mark.parametrize(
    ("preference", "expected"),
    [
        (PreferenceCode.FAST_SINGLE_ANSWER, "fast"),
        (PreferenceCode.SUSTAINED_SPEED, "fast"),
        (PreferenceCode.LOW_POWER, "frugal"),
    ],
)
def test_the_preference_chooses_among_devices(cpu: nnvk.Device, preference: PreferenceCode, expected: str) -> None:
    class Fast(Decorated):
        capabilities = Capabilities(relative_time=0.1, relative_power=3.0)

    class Frugal(Decorated):
        capabilities = Capabilities(relative_time=2.0, relative_power=0.1)

    devices = [nnvk.Device(Frugal(cpu.driver, "frugal")), cpu, nnvk.Device(Fast(cpu.driver, "fast"))]
    compilation = nnvk.Compilation(add_model(), devices)
    compilation.set_preference(preference)
    compilation.finish()
    assert [partition.device.name for partition in compilation.partitions] == [expected]


def test_drivers_hear_of_preference_and_priority(cpu: nnvk.Device) -> None:
    driver = Noting(cpu.driver)
    compilation = nnvk.Compilation(add_model(), [nnvk.Device(driver)])
    compilation.set_preference(int(PreferenceCode.SUSTAINED_SPEED))
    compilation.set_priority(int(PriorityCode.LOW))
    compilation.set_timeout(60 * 10**9)
    compilation.finish()
    assert driver.options is not None
    assert driver.options.preference is PreferenceCode.SUSTAINED_SPEED
    assert driver.options.priority is PriorityCode.LOW
    assert driver.options.deadline_ns is not None
    assert driver.options.cache is None


def test_defaults(cpu: nnvk.Device) -> None:
    driver = Noting(cpu.driver)
    compiled(add_model(), nnvk.Device(driver))
    assert driver.options == PrepareOptions(PreferenceCode.FAST_SINGLE_ANSWER, PriorityCode.MEDIUM, None, None)


@pytest.mark.parametrize("value", [-1, 3, 100])
def test_preferences_that_do_not_exist(value: int) -> None:
    with raises(ResultCode.BAD_DATA, "preference"):
        nnvk.Compilation(add_model()).set_preference(value)


@pytest.mark.parametrize("value", [0, 91, 120])
def test_priorities_that_do_not_exist(value: int) -> None:
    with raises(ResultCode.BAD_DATA, "priority"):
        nnvk.Compilation(add_model()).set_priority(value)


# --- timeout -----------------------------------------------------------------------------------------------------


def test_a_timeout_needs_exactly_one_named_device(cpu: nnvk.Device, gpu: nnvk.Device) -> None:
    for compilation in (nnvk.Compilation(add_model()), nnvk.Compilation(add_model(), [cpu, gpu])):
        with raises(ResultCode.BAD_DATA, "exactly one device"):
            compilation.set_timeout(10**9)
    with raises(ResultCode.BAD_DATA, "negative"):
        nnvk.Compilation(add_model(), [cpu]).set_timeout(-1)


def test_a_compilation_that_takes_too_long(device: nnvk.Device) -> None:
    compilation = nnvk.Compilation(matrix_model(64, 8), [device])
    compilation.set_timeout(1)
    with raises(ResultCode.MISSED_DEADLINE_PERSISTENT):
        compilation.finish()
    with raises(ResultCode.BAD_STATE):
        nnvk.Execution(compilation)
    execution, output = added(device)
    execution.compute()
    assert (output == 3).all()


@pytest.mark.parametrize("duration", [0, 3600 * 10**9])
def test_a_compilation_in_time(device: nnvk.Device, duration: int) -> None:
    compilation = nnvk.Compilation(add_model(), [device])
    compilation.set_timeout(duration)
    compilation.finish()


# --- caching -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", [b"", b"\0" * 31, b"\0" * 33])
def test_a_cache_token_has_32_bytes(token: bytes, tmp_path: Path) -> None:
    with raises(ResultCode.BAD_DATA, "32 bytes"):
        nnvk.Compilation(add_model()).set_caching(tmp_path, token)


class Reporting(Decorated):
    """Reports the progress of three steps."""

    def prepare_model(self, model: Model, options: PrepareOptions) -> IPreparedModel:
        assert options.progress is not None
        for done in range(3):
            options.progress(done + 1, 3)
        return super().prepare_model(model, options)


def test_progress(cpu: nnvk.Device) -> None:
    reported: list[tuple[int, int]] = []
    compilation = nnvk.Compilation(add_model(), [nnvk.Device(Reporting(cpu.driver))])
    compilation.set_progress(lambda done, total: reported.append((done, total)))
    compilation.finish()
    assert reported == [(1, 3), (2, 3), (3, 3)]


def test_progress_on_a_device(device: nnvk.Device) -> None:
    reported: list[tuple[int, int]] = []
    compilation = nnvk.Compilation(chain_model([OperationCode.RELU, OperationCode.TANH]), [device])
    compilation.set_progress(lambda done, total: reported.append((done, total)))
    compilation.finish()
    assert not reported or reported[-1][0] == reported[-1][1]


def test_an_exception_of_the_progress_callback(cpu: nnvk.Device) -> None:
    calls: list[int] = []

    def callback(done: int, total: int) -> None:
        calls.append(done)
        raise KeyError("the window is closed")

    compilation = nnvk.Compilation(add_model(), [nnvk.Device(Reporting(cpu.driver))])
    compilation.set_progress(callback)
    with pytest.raises(KeyError, match="the window is closed"):
        compilation.finish()
    assert calls == [1]
    assert not compilation.is_finished


def test_a_progress_callback_is_callable() -> None:
    with pytest.raises(TypeError, match="must be callable, got 7"):
        nnvk.Compilation(add_model()).set_progress(7)  # type: ignore[arg-type]


def test_a_cache_directory_exists(tmp_path: Path) -> None:
    with raises(ResultCode.BAD_DATA, "does not exist"):
        nnvk.Compilation(add_model()).set_caching(tmp_path / "absent", b"\0" * 32)


def test_each_part_device_and_token_has_a_cache_file_of_its_own(cpu: nnvk.Device, tmp_path: Path) -> None:
    paths = []
    for token in (b"a" * 32, b"a" * 32, b"b" * 32):
        for name in ("one", "two"):
            driver = Noting(cpu.driver, name)
            compilation = nnvk.Compilation(add_model(), [nnvk.Device(driver)])
            compilation.set_caching(str(tmp_path), token)
            compilation.finish()
            assert driver.options is not None
            assert driver.options.cache is not None
            assert driver.options.cache.parent == tmp_path
            paths.append(driver.options.cache)
    assert paths[:2] == paths[2:4]
    assert len(set(paths)) == 4


def test_a_cached_compilation_computes_the_same(device: nnvk.Device, tmp_path: Path) -> None:
    source = np.linspace(-3, 3, 64 * 64, dtype=np.float32).reshape(64, 64)
    results = []
    for _ in range(3):
        compilation = nnvk.Compilation(matrix_model(64, 2), [device])
        compilation.set_caching(tmp_path, b"m" * 32)
        compilation.finish()
        results.append(nnvk.run(compilation, [source])[0])
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])


# --- preferred memory --------------------------------------------------------------------------------------------


def test_preferred_alignment_and_padding_are_powers_of_two(device: nnvk.Device) -> None:
    compilation = compiled(add_model(), device)
    for of in (
        compilation.get_preferred_memory_alignment_for_input,
        compilation.get_preferred_memory_padding_for_input,
        compilation.get_preferred_memory_alignment_for_output,
        compilation.get_preferred_memory_padding_for_output,
    ):
        count = 2 if "input" in of.__name__ else 1
        for index in range(count):
            assert of(index) > 0
            assert of(index).bit_count() == 1
        for index in (-1, count, 1000):
            with raises(ResultCode.BAD_DATA, "does not exist"):
                of(index)


def test_what_is_preferred_is_what_the_partition_prefers(cpu: nnvk.Device) -> None:
    """Only the device that runs the second operation sees the output."""

    class Wide(Decorated):
        def prepare_model(self, model: Model, options: PrepareOptions) -> IPreparedModel:
            prepared = super().prepare_model(model, options)
            prepared.preferred_alignment, prepared.preferred_padding = 4096, 256
            return prepared

        def get_supported_operations(self, model: Model):
            return [
                nnvk.hal.Support(None if operation.code is OperationCode.ABS else "no")
                for operation in model.operations
            ]

    model = chain_model([OperationCode.NEG, OperationCode.ABS])
    compilation = compiled(model, nnvk.Device(Wide(cpu.driver)), cpu)
    assert compilation.get_preferred_memory_alignment_for_output(0) == 4096
    assert compilation.get_preferred_memory_padding_for_output(0) == 256
    assert compilation.get_preferred_memory_alignment_for_input(0) < 4096
    assert compilation.get_preferred_memory_padding_for_input(0) == 1


# --- threads -----------------------------------------------------------------------------------------------------


def test_one_model_compiled_by_many_threads(device: nnvk.Device) -> None:
    model = matrix_model(32, 3)
    source = np.ones((32, 32), np.float32)
    results: list[np.ndarray] = []
    errors: list[NnapiError] = []

    def work() -> None:
        try:
            results.extend(nnvk.run(compiled(model, device), [source]))
        except NnapiError as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(results) == 8
    assert all((result == 1).all() for result in results)
