"""Fixtures of the extension module's tests: one device for all, and the shaders in `shaders/`."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nnvk import _native

SHADERS = Path(__file__).parent / "shaders"


@pytest.fixture(scope="session")
def spirv(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], bytes]:
    """SPIR-V of a shader by name: compiled where glslang is installed, else the copy beside the source."""
    folder = tmp_path_factory.mktemp("spirv")
    glslang = shutil.which("glslangValidator")

    def load(name: str) -> bytes:
        if glslang is None:
            return (SHADERS / f"{name}.spv").read_bytes()
        out = folder / f"{name}.spv"
        if not out.exists():
            source = str(SHADERS / f"{name}.comp")
            subprocess.run([glslang, "-V", "--target-env", "vulkan1.1", "-o", str(out), source], check=True)
        return out.read_bytes()

    return load


@pytest.fixture(scope="session")
def instance() -> _native.Instance:
    """An instance without validation."""
    return _native.Instance()


@pytest.fixture(scope="session")
def physical(instance: _native.Instance) -> _native.PhysicalDevice:
    """The first device of the machine."""
    return instance.physical_devices()[0]


@pytest.fixture(scope="session")
def device(physical: _native.PhysicalDevice) -> _native.Device:
    """A logical device shared by the tests."""
    return physical.create_device()


@pytest.fixture
def validated() -> Iterator[_native.Device]:
    """A device under the validation layer; the test fails if the layer complains about anything."""
    instance = _native.Instance(validation=True)
    yield instance.physical_devices()[0].create_device()
    assert instance.take_validation_messages() == []


class Adder:
    """`dst[i] += scale * src[i]` over the first and second half of one device buffer, with staging for both."""

    def __init__(self, device: _native.Device, spirv: bytes, count: int, scale: float = 1.0) -> None:
        self.device, self.count, self.nbytes = device, count, 4 * count
        self.staging = device.create_buffer(2 * self.nbytes, host_visible=True)
        self.arena = device.create_buffer(2 * self.nbytes, host_visible=False)
        words = [64, 0, 0, struct.unpack("<I", struct.pack("<f", scale))[0]]
        self.algorithm = device.create_algorithm(spirv, [self.arena, self.arena], words, 12)

    def dispatch(self, program: _native.Program) -> None:
        """Records one addition."""
        groups = ((self.count + 63) // 64, 1, 1)
        program.dispatch(self.algorithm, groups, struct.pack("<3I", self.count, 0, self.count))

    def program(self, times: int = 1, *, timestamps: bool = False) -> _native.Program:
        """Upload, `times` dependent additions to zero, download."""
        program = self.device.create_program()
        program.copy(self.staging, 0, self.arena, 0, self.nbytes)
        program.fill(self.arena, self.nbytes, self.nbytes, 0)
        for _ in range(times):
            program.barrier()
            if timestamps:
                program.timestamp()
            self.dispatch(program)
        if timestamps:
            program.timestamp()
        program.barrier()
        program.copy(self.arena, self.nbytes, self.staging, self.nbytes, self.nbytes)
        program.finish([(self.staging, 0, self.nbytes)], [(self.staging, self.nbytes, self.nbytes)])
        return program


class Spinner:
    """A program that keeps the device busy; `state` is its input and output, one uint32."""

    def __init__(self, device: _native.Device, spirv: bytes, groups: int, steps: int = 60_000) -> None:
        self.state = device.create_buffer(4, host_visible=True)
        self.algorithm = device.create_algorithm(spirv, [self.state], [], 4)
        self.program = device.create_program()
        self.program.dispatch(self.algorithm, (groups, 1, 1), struct.pack("<I", steps))
        self.program.finish([(self.state, 0, 4)], [(self.state, 0, 4)])

    @staticmethod
    def expected(state: int, groups: int, steps: int) -> int:
        """Compute in Python what the shader computes."""
        for x in range(1, groups + 1):
            for _ in range(steps):
                x ^= x << 13 & 0xFFFFFFFF
                x ^= x >> 17
                x ^= x << 5 & 0xFFFFFFFF
            state ^= x
        return state


@pytest.fixture
def adder(device: _native.Device, spirv: Callable[[str], bytes]) -> Adder:
    """1,000 floats."""
    return Adder(device, spirv("add"), 1000)


@pytest.fixture
def make_adder(spirv: Callable[[str], bytes]) -> Callable[..., Adder]:
    """Makes an `Adder` on a given device."""
    return lambda device, count=1000, scale=1.0: Adder(device, spirv("add"), count, scale)


@pytest.fixture
def make_spinner(spirv: Callable[[str], bytes]) -> Callable[..., Spinner]:
    """Makes a `Spinner` on a given device."""
    return lambda device, groups, steps=60_000: Spinner(device, spirv("spin"), groups, steps)


@pytest.fixture(scope="session")
def slow_groups(device: _native.Device, spirv: Callable[[str], bytes]) -> int:
    """Workgroups that keep the device busy for about a quarter of a second, as far as its limits go."""
    groups = 64
    spinner = Spinner(device, spirv("spin"), groups)
    spinner.program.run([None], [None])  # compiles the shader
    timed = device.create_program()
    timed.timestamp()
    timed.dispatch(spinner.algorithm, (groups, 1, 1), struct.pack("<I", 60_000))
    timed.timestamp()
    timed.finish([], [])
    timed.run([], [])
    start, end = timed.timestamps_ns()
    # The shader is linear over xor, and the numbers from 1 to a multiple of 4 don't cancel out.
    return min(int(groups * 250e6 / max(end - start, 1)), 65535) // 4 * 4
