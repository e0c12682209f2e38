from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nnvk import _native


def ramp(count: int = 1000) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.arange(count, dtype=np.float32)


@pytest.mark.parametrize("times", [1, 2, 17])
def test_dependent_dispatches_see_each_other(adder: Any, times: int) -> None:
    out = np.empty(1000, np.float32)
    assert adder.program(times).run([ramp()], [out])
    np.testing.assert_array_equal(out, times * ramp())


def test_program_is_replayed(adder: Any) -> None:
    program, out = adder.program(), np.empty(1000, np.float32)
    for i in range(20):
        program.run([ramp() + i], [out])
        np.testing.assert_array_equal(out, ramp() + i)


def test_specialization_constant_reaches_the_shader(device: _native.Device, make_adder: Callable[..., Any]) -> None:
    out = np.empty(10, np.float32)
    make_adder(device, 10, 2.5).program().run([ramp(10)], [out])
    np.testing.assert_array_equal(out, 2.5 * ramp(10))


def test_copy_and_fill_respect_their_ranges(device: _native.Device) -> None:
    host = device.create_buffer(64, host_visible=True)
    local = device.create_buffer(64, host_visible=False)
    program = device.create_program()
    program.fill(local, 0, 64, 0x01010101)
    program.barrier()
    program.copy(host, 3, local, 5, 7)
    program.barrier()
    program.copy(local, 0, host, 16, 48)
    program.finish([(host, 0, 16)], [(host, 16, 48)])
    source, out = np.arange(16, dtype=np.uint8) + 100, np.zeros(48, np.uint8)
    program.run([source], [out])
    expected = np.ones(48, np.uint8)
    expected[5:12] = source[3:10]
    np.testing.assert_array_equal(out, expected)


def test_ports_of_none_use_the_mapped_memory(adder: Any) -> None:
    program, view = adder.program(), adder.staging.view().view(np.float32)
    view[:1000] = 5
    program.run([None], [None])
    assert (view[1000:] == 5).all()


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)])
def test_inputs_are_any_contiguous_buffer(adder: Any, wrap: Callable[[bytes], Any]) -> None:
    out = bytearray(4000)
    adder.program().run((wrap(ramp().tobytes()),), (out,))
    assert bytes(out) == ramp().tobytes()


def test_timestamps_ascend(adder: Any) -> None:
    program = adder.program(3, timestamps=True)
    for _ in range(2):  # the query pool is reset in every submission
        program.run([ramp()], [None])
        stamps = program.timestamps_ns()
        assert len(stamps) == 4
        assert stamps == sorted(stamps)
        assert stamps[-1] > stamps[0]


def test_program_without_timestamps_has_none(adder: Any) -> None:
    program = adder.program()
    program.run([ramp()], [None])
    assert program.timestamps_ns() == []


def test_empty_program_runs(device: _native.Device) -> None:
    program = device.create_program()
    program.finish([], [])
    assert program.run([], [])


def test_validation_is_clean(validated: _native.Device, make_adder: Callable[..., Any]) -> None:
    adder, out = make_adder(validated), np.empty(1000, np.float32)
    program = adder.program(3, timestamps=True)
    for _ in range(3):
        program.run([ramp()], [out])
    fence = program.submit([ramp()])
    del program, adder  # in flight
    assert fence.wait()
    np.testing.assert_array_equal(out, 3 * ramp())


def test_pipelines_are_shared_and_outlive_their_first_user(
    validated: _native.Device, make_adder: Callable[..., Any]
) -> None:
    out = np.empty(10, np.float32)
    for scale in (1, 2, 1, 2):  # the constant is part of what is shared
        for _ in range(3):
            make_adder(validated, 10, scale).program(1).run([ramp(10)], [out])
            np.testing.assert_array_equal(out, scale * ramp(10))


def test_warming_up_writes_nothing(validated: _native.Device, make_adder: Callable[..., Any]) -> None:
    adder = make_adder(validated, 10)
    program = validated.create_program()
    program.copy(adder.staging, 0, adder.arena, 0, adder.nbytes)
    program.barrier()
    program.warm_up(adder.algorithm)
    program.barrier()
    program.copy(adder.arena, 0, adder.staging, adder.nbytes, adder.nbytes)
    program.finish([(adder.staging, 0, adder.nbytes)], [(adder.staging, adder.nbytes, adder.nbytes)])
    out = np.empty(10, np.float32)
    program.run([ramp(10)], [out])
    np.testing.assert_array_equal(out, ramp(10))


@pytest.mark.parametrize("between", ["", "fill", "add", "fill add", "add fill", "add add fill fill add"])
def test_barriers_order_what_comes_long_after(
    validated: _native.Device, make_adder: Callable[..., Any], between: str
) -> None:
    """Data of a copy are read by a shader, and its results by a copy, with other work and barriers between them."""
    adder, other = make_adder(validated, 10), make_adder(validated, 10)
    program = validated.create_program()
    program.copy(adder.staging, 0, adder.arena, 0, adder.nbytes)
    program.fill(adder.arena, adder.nbytes, adder.nbytes, 0x3F800000)  # 1.0
    program.fill(other.arena, 0, 2 * other.nbytes, 0)

    def others() -> None:
        for word in between.split():
            program.barrier()
            if word == "fill":
                program.fill(other.arena, 0, 2 * other.nbytes, 0)
            else:
                other.dispatch(program)

    others()
    program.barrier()
    adder.dispatch(program)
    others()
    program.barrier()
    program.copy(adder.arena, adder.nbytes, adder.staging, adder.nbytes, adder.nbytes)
    program.finish([(adder.staging, 0, adder.nbytes)], [(adder.staging, adder.nbytes, adder.nbytes)])
    for _ in range(2):
        out = np.empty(10, np.float32)
        program.run([ramp(10)], [out])
        np.testing.assert_array_equal(out, ramp(10) + 1)


def test_a_dispatch_after_warming_up_has_its_own_push_constants(
    validated: _native.Device, make_adder: Callable[..., Any]
) -> None:
    adder = make_adder(validated, 10)
    program = validated.create_program()
    program.fill(adder.arena, 0, 2 * adder.nbytes, 0x3F800000)  # 1.0
    program.barrier()
    program.warm_up(adder.algorithm)
    program.barrier()
    adder.dispatch(program)
    program.barrier()
    program.copy(adder.arena, adder.nbytes, adder.staging, adder.nbytes, adder.nbytes)
    program.finish([], [(adder.staging, adder.nbytes, adder.nbytes)])
    out = np.empty(10, np.float32)
    program.run([], [out])
    np.testing.assert_array_equal(out, np.full(10, 2, np.float32))


def test_which_algorithm_has_a_new_pipeline(physical: _native.PhysicalDevice, make_adder: Callable[..., Any]) -> None:
    device = physical.create_device()
    new = [make_adder(device, 10, scale).algorithm.has_new_pipeline for scale in (1, 1, 2, 2, 1)]
    assert new == [True, False, True, False, False]


def test_validation_reports_a_missing_barrier(make_adder: Callable[..., Any]) -> None:
    instance = _native.Instance(validation=True)
    device = instance.physical_devices()[0].create_device()
    adder = make_adder(device)
    program = device.create_program()
    adder.dispatch(program)
    adder.dispatch(program)
    program.finish([], [])
    messages = instance.take_validation_messages()
    assert any("SYNC-HAZARD" in message for message in messages), messages
    assert instance.take_validation_messages() == []


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (lambda p, a: p.copy(a.staging, 0, a.arena, 7900, 200), "not a range"),
        (lambda p, a: p.copy(a.staging, 2**63, a.arena, 0, 200), "not a range"),
        (lambda p, a: p.copy(a.arena, 0, a.arena, 100, 200), "overlap"),
        (lambda p, a: p.copy(a.arena, 0, a.arena, 100, 0), "not a range"),
        (lambda p, a: p.fill(a.arena, 2, 4, 0), "multiples of 4"),
        (lambda p, a: p.fill(a.arena, 0, 8004, 0), "not a range"),
        (lambda p, a: p.dispatch(a.algorithm, (0, 1, 1), bytes(12)), "0 workgroups in dimension 0"),
        (lambda p, a: p.dispatch(a.algorithm, (1, 1, 2**31), bytes(12)), "in dimension 2"),
        (lambda p, a: p.dispatch(a.algorithm, (1, 1, 1), bytes(8)), "expected 12 bytes of push constants, got 8"),
        (lambda p, a: p.finish([(a.arena, 0, 4)], []), "input 0: the buffer is not host visible"),
        (lambda p, a: p.finish([], [(a.staging, 8000, 4)]), "output 0: 4 bytes at offset 8000"),
    ],
)
def test_misuse_in_recording_is_a_value_error(adder: Any, record: Callable[[Any, Any], None], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        record(adder.device.create_program(), adder)


def test_objects_of_another_device_are_refused(physical: _native.PhysicalDevice, adder: Any) -> None:
    other = physical.create_device()
    program = other.create_program()
    with pytest.raises(ValueError, match="another device"):
        adder.dispatch(program)
    with pytest.raises(ValueError, match="another device"):
        program.warm_up(adder.algorithm)
    with pytest.raises(ValueError, match="another device"):
        program.fill(adder.arena, 0, 4, 0)
    with pytest.raises(ValueError, match="binding 0: the buffer belongs to another device"):
        other.create_algorithm(b"", [adder.arena], [], 0)


@pytest.mark.parametrize(
    ("inputs", "outputs", "error", "message"),
    [
        ([], [None], ValueError, "expected 1 inputs, got 0"),
        ([None], [None, None], ValueError, "expected 1 outputs, got 2"),
        ([bytes(3999)], [None], ValueError, "input 0: expected 4000 bytes, got 3999"),
        ([b""], [None], ValueError, "input 0: expected 4000 bytes, got 0"),
        ([np.zeros((20, 100), np.float32)[:, ::2]], [None], ValueError, "input 0: expected a C-contiguous buffer"),
        ([None], [bytes(4000)], ValueError, "output 0: expected a C-contiguous writable buffer"),
        ([None], [np.zeros(2000, np.float32)[::2]], ValueError, "output 0: expected a C-contiguous writable buffer"),
        ([5], [None], TypeError, "input 0: expected a buffer-protocol object or None, got int"),
        (5, [None], TypeError, "expected a sequence of buffers"),
    ],
)
def test_misuse_of_run_is_refused(adder: Any, inputs: Any, outputs: Any, error: type[Exception], message: str) -> None:
    program = adder.program()
    with pytest.raises(error, match=message):
        program.run(inputs, outputs)
    assert program.run([ramp()], [None])


@pytest.mark.skipif(sys.version_info < (3, 12), reason="__buffer__ came with Python 3.12")
def test_list_may_change_while_its_buffers_are_taken(adder: Any) -> None:
    class Clearing:
        def __buffer__(self, flags: int) -> memoryview:
            inputs.clear()
            return memoryview(bytes(4000))

    inputs: list[Any] = [Clearing(), None, object()]
    with pytest.raises(TypeError, match="input 2: expected a buffer-protocol object or None, got object"):
        adder.program().run(inputs, [None])
    assert not inputs


def test_unfinished_program_cannot_run(device: _native.Device) -> None:
    with pytest.raises(RuntimeError, match="not finished"):
        device.create_program().run([], [])


def test_finished_program_cannot_record(adder: Any) -> None:
    program = adder.program()
    for record in (program.barrier, program.timestamp, lambda: program.finish([], [])):
        with pytest.raises(RuntimeError, match="finished"):
            record()


def test_nothing_to_fetch_before_a_submission(adder: Any) -> None:
    program = adder.program()
    with pytest.raises(RuntimeError, match="never submitted"):
        program.fetch([None])
    with pytest.raises(RuntimeError, match="never submitted"):
        program.timestamps_ns()
    assert program.wait()


@pytest.mark.parametrize(
    ("spirv", "size", "message"),
    [
        (b"abc", 0, "multiple of 4"),
        (bytes(64), 0, "not SPIR-V"),
        (bytes(64), 6, "multiple of 4"),
        (bytes(64), 1 << 20, "at most"),
    ],
)
def test_misuse_of_create_algorithm_is_a_value_error(
    device: _native.Device, spirv: bytes, size: int, message: str
) -> None:
    buffer = device.create_buffer(64, host_visible=False)
    with pytest.raises(ValueError, match=message):
        device.create_algorithm(spirv, [buffer], [], size)


def test_a_required_subgroup_size(validated: _native.Device, spirv: Callable[[str], bytes]) -> None:
    """Every size that the device offers, from 1 to 128: subgroups have it, and fill the workgroup."""
    limits = validated.physical.limits
    if not {"subgroupSizeControl", "computeFullSubgroups"} <= set(validated.features):
        pytest.skip("the device has no control of subgroup sizes")
    buffer = validated.create_buffer(64, host_visible=True)
    for size in (2**exponent for exponent in range(8)):
        arguments = spirv("subgroups"), [buffer], [], 0
        if not limits["minSubgroupSize"] <= size <= limits["maxSubgroupSize"]:
            with pytest.raises(ValueError, match=f"no subgroups of {size} invocations"):
                validated.create_algorithm(*arguments, subgroup_size=size)
            continue
        program = validated.create_program()
        algorithm = validated.create_algorithm(*arguments, subgroup_size=size, full_subgroups=True)
        program.dispatch(algorithm, (1, 1, 1), b"")
        program.finish([], [])
        program.run([], [])
        assert list(buffer.view().view("u4")[:2]) == [size, 128 // size]


def test_a_subgroup_size_needs_its_features(device: _native.Device, spirv: Callable[[str], bytes]) -> None:
    physical = device.physical
    plain = physical.create_device([])
    buffer = plain.create_buffer(64, host_visible=False)
    size = int(physical.limits["subgroupSize"])
    with pytest.raises(ValueError, match="no subgroups of"):
        plain.create_algorithm(spirv("subgroups"), [buffer], [], 0, subgroup_size=size)


def test_algorithm_needs_a_buffer(device: _native.Device) -> None:
    with pytest.raises(ValueError, match="at least one buffer"):
        device.create_algorithm(struct.pack("<5I", 0x07230203, 0, 0, 0, 0), [], [], 0)


def test_buffer_beyond_the_descriptor_range_is_refused(device: _native.Device) -> None:
    limit = int(device.physical.limits["maxStorageBufferRange"])
    if limit > 1 << 30:
        pytest.skip("the device binds buffers of any size")
    buffer = device.create_buffer(limit + 1, host_visible=False)
    with pytest.raises(ValueError, match="maxStorageBufferRange"):
        device.create_algorithm(struct.pack("<5I", 0x07230203, 0, 0, 0, 0), [buffer], [], 0)
