"""Pipelines are compiled before the first execution, with helpers if the driver is lazy, and slow ones are named."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nnvk.driver.vulkan.running import compiler, watch
from nnvk.driver.vulkan.running.compiler import Compiler, never
from nnvk.driver.vulkan.running.watch import Watch
from nnvk.driver.vulkan.shaders.commands import Dispatch

COMPILE_S = 0.08
LATER = """
import time
from nnvk.check.model_rows import empty_like, execute, parse, reference
from nnvk.driver.vulkan import find_devices
from nnvk.types.request import ExecuteOptions, InputArgument, OutputArgument, PrepareOptions, Request
import numpy as np
row = parse("CONV_2D f32[1,7,9,13] #f32[19,3,3,13] #f32[19] SAME 1 1 RELU nhwc -> f32")
device = find_devices()[0][0]
begin = time.perf_counter()
prepared = device.prepare_model(row.model, PrepareOptions())
prepared_s = time.perf_counter() - begin
outputs = [OutputArgument(array.view(np.uint8).reshape(-1)) for array in empty_like(reference(row))]
request = Request([InputArgument(array) for array in row.inputs], outputs)
begin = time.perf_counter()
prepared.execute(request, ExecuteOptions())
print(prepared_s, time.perf_counter() - begin)
"""


class LazyDriver:
    """A driver that compiles a shader at its first dispatch on each device, unless it finds it on disk."""

    def __init__(self, *, shared: bool, broken_helpers: bool = False) -> None:
        self.shared = shared
        self.broken_helpers = broken_helpers
        self.disk: set[bytes] = set()
        self.compiled: Counter[bytes] = Counter()
        self.lock = threading.Lock()
        self.busy_s: dict[bytes, float] = {}
        """The processor time of shaders that need some."""
        self.helpers_stop: threading.Event | None = None
        """A helper compiles its second shader after this event."""

    def create_device(self, features: list[str]) -> LazyDevice:
        if self.broken_helpers:
            raise RuntimeError("no more devices")
        return LazyDevice(self, self.helpers_stop)


class LazyDevice:
    """`nnvk._native.Device`, as far as the compiler uses it."""

    features: tuple[str, ...] = ()

    def __init__(self, driver: LazyDriver, second_shader: threading.Event | None = None) -> None:
        self.physical = driver
        self.second_shader = second_shader
        self.known: set[bytes] = set()
        self.compiled_s = 0.0
        """The seconds that the device's own queue has compiled."""

    def create_buffer(self, size: int, *, host_visible: bool) -> object:
        return object()

    def create_algorithm(
        self,
        module: bytes,
        buffers: list[object],
        constants: tuple[int, ...],
        size: int,
        *,
        subgroup_size: int,
        full_subgroups: bool,
    ) -> Any:
        return SimpleNamespace(module=module, has_new_pipeline=True)

    def create_program(self) -> LazyProgram:
        return LazyProgram(self)

    def first_dispatch(self, module: bytes) -> None:
        driver = self.physical
        with driver.lock:
            found = module in self.known or (driver.shared and module in driver.disk)
        if not found:
            if self.second_shader is not None and self.known:
                assert self.second_shader.wait(60)
            time.sleep(COMPILE_S)
            self.compiled_s += COMPILE_S
            begin = time.thread_time()
            while time.thread_time() - begin < driver.busy_s.get(module, 0.0):
                hashlib.pbkdf2_hmac("sha256", b"shader", b"", 1000)  # without the interpreter's lock
            with driver.lock:
                driver.compiled[module] += 1
                driver.disk.add(module)
        self.known.add(module)


class LazyProgram:
    """`nnvk._native.Program`, as far as the compiler uses it."""

    def __init__(self, device: LazyDevice) -> None:
        self._device = device
        self._modules: list[bytes] = []
        self._thread: threading.Thread | None = None

    def warm_up(self, algorithm: Any) -> None:
        self._modules.append(algorithm.module)

    def finish(self, inputs: list[object], outputs: list[object]) -> None:
        pass

    def run(self, inputs: list[object], outputs: list[object], timeout_ns: int = -1) -> bool:
        self._thread = threading.Thread(target=lambda: [self._device.first_dispatch(each) for each in self._modules])
        self._thread.start()
        return self.wait(timeout_ns)

    def wait(self, timeout_ns: int = -1) -> bool:
        assert self._thread is not None
        self._thread.join(None if timeout_ns < 0 else timeout_ns / 1e9)
        return not self._thread.is_alive()


def dispatch(number: int) -> Dispatch:
    """A dispatch of a shader of its own."""
    name = f"shader.{number}"
    shader = SimpleNamespace(
        name=name,
        bindings=("src", "dst"),
        push_constant_size=4,
        frozen=lambda *_, **__: name.encode(),
        subgroup_size=lambda *_: 0,
        has_full_subgroups=False,
    )
    return cast(Dispatch, SimpleNamespace(shader=shader, specialization=()))


DISPATCHES = [dispatch(number) for number in range(8)]
MODULES = [each.shader.name.encode() for each in DISPATCHES]


def compile_on(driver: LazyDriver, watched: Watch | None = None, *, concurrently: bool = True) -> LazyDevice:
    """The device after all shaders were compiled."""
    device = LazyDevice(driver)
    compiling = Compiler(device, never, watched or Watch())  # type: ignore[arg-type]
    if not driver.shared:
        driver.helpers_stop = compiling._stop

    def create(each: Dispatch) -> Any:
        return compiling.algorithm(device, each, [])  # type: ignore[arg-type]

    compiling.compile(DISPATCHES, create, concurrently=concurrently)
    return device


@pytest.fixture(params=[1, 2, 4])
def cores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The cores that the process may use."""
    monkeypatch.setattr(compiler, "cores", lambda: request.param)
    return cast(int, request.param)


def test_helpers_share_the_work_of_a_lazy_driver(cores: int) -> None:
    driver = LazyDriver(shared=True)
    begin = time.monotonic()
    device = compile_on(driver)
    seconds = time.monotonic() - begin
    assert device.known == set(MODULES)
    assert driver.compiled == Counter(MODULES), "each shader is compiled once in the process"
    if cores > 1:
        assert seconds < 0.9 * COMPILE_S * len(MODULES)


def test_helpers_stop_if_the_device_does_not_find_their_shaders(cores: int) -> None:
    driver = LazyDriver(shared=False)
    assert compile_on(driver).known == set(MODULES)
    helpers = cores - 1
    assert driver.compiled.total() <= len(MODULES) + 2 * helpers, "a helper finishes only what it has begun meanwhile"


def test_the_device_compiles_all_if_helpers_fail(cores: int) -> None:
    driver = LazyDriver(shared=True, broken_helpers=True)
    assert compile_on(driver).known == set(MODULES)
    assert driver.compiled == Counter(MODULES)


def test_the_device_compiles_what_a_helper_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    class FailingDriver(LazyDriver):
        def create_device(self, features: list[str]) -> LazyDevice:
            device = LazyDevice(self)
            device.create_algorithm = _fail  # type: ignore[method-assign]
            return device

    monkeypatch.setattr(compiler, "cores", lambda: 2)
    driver = FailingDriver(shared=True)
    assert compile_on(driver).known == set(MODULES)


@pytest.mark.parametrize("cores", [1, 2], indirect=True)
def test_the_queue_is_left_to_executions_in_the_background(cores: int) -> None:
    driver = LazyDriver(shared=True)
    device = compile_on(driver, Watch(is_wanted=lambda: True))
    assert device.known == set(MODULES)
    assert driver.compiled == Counter(MODULES)
    assert device.compiled_s == pytest.approx(COMPILE_S), "helpers compile all shaders but the first one"


@pytest.mark.parametrize("wanted", [0, 5, 12])
def test_compilation_stops_if_nobody_wants_it(cores: int, wanted: int) -> None:
    asked = iter(range(100))
    driver = LazyDriver(shared=True)
    with pytest.raises(RuntimeError, match="nobody needs the pipelines"):
        compile_on(driver, Watch(is_wanted=lambda: next(asked) < wanted))
    threads = [thread.name for thread in threading.enumerate()]
    assert "nnvk-helper" not in threads
    assert driver.compiled.total() <= wanted


def _fail(*_: object, **__: object) -> Any:
    raise MemoryError("no memory for a pipeline")


def test_no_helper_starts_if_nothing_is_left_to_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = LazyDriver(shared=True, broken_helpers=True)
    driver.disk.update(MODULES)
    monkeypatch.setattr(compiler, "LAZY_S", 60.0)  # a dispatch may take longer on a busy machine
    monkeypatch.setattr(Compiler, "_start_helpers", lambda self: pytest.fail("a helper starts"))
    compile_on(driver)
    assert not driver.compiled


def test_progress(cores: int) -> None:
    reported: list[tuple[int, int]] = []
    thread = threading.get_ident()

    def progress(done: int, total: int) -> None:
        assert threading.get_ident() == thread
        reported.append((done, total))

    compile_on(LazyDriver(shared=True), Watch(progress=progress))
    assert [total for _, total in reported] == [16] * len(reported)
    assert [done for done, _ in reported] == sorted({done for done, _ in reported})
    assert reported[-1] == (16, 16)


@pytest.mark.parametrize("cores", [1, 2], indirect=True)
def test_a_slow_shader_is_named_while_it_compiles(cores: int, caplog: pytest.LogCaptureFixture) -> None:
    driver = LazyDriver(shared=True)
    driver.busy_s[MODULES[7]] = 1.2
    named: list[tuple[str, bool]] = []

    def too_slow(each: Dispatch) -> str:
        named.append((each.shader.name, MODULES[7] in driver.disk))
        return "another one is taken next time"

    with caplog.at_level(logging.INFO, "nnvk.driver"):
        compile_on(driver, Watch("vulkan-9", 0.5, too_slow=too_slow))
    assert named == [("shader.7", False)]
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        "vulkan-9: the driver takes more than 0.5 s to compile a pipeline of shader shader.7; "
        "another one is taken next time"
    ]
    assert re.search(r"vulkan-9: a pipeline of shader shader\.7 took [1-9]", caplog.text)
    assert re.search(r"vulkan-9: compiling the shaders took [1-9]", caplog.text)


@pytest.mark.parametrize("cores", [1, 2], indirect=True)
def test_waiting_does_not_count(cores: int) -> None:
    watched = Watch(limit_s=COMPILE_S / 2, too_slow=lambda _: pytest.fail("the driver has computed nothing"))
    compile_on(LazyDriver(shared=True), watched)


def test_compilations_share_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    passed, used = 0.0, 0.0

    def advance(seconds: float, cpu_s: float) -> None:
        nonlocal passed, used
        passed += seconds
        used += cpu_s
        watched.look()

    clocks = SimpleNamespace(monotonic=lambda: passed, process_time=lambda: used)
    monkeypatch.setattr(watch, "time", clocks)
    slow: list[str] = []
    watched = Watch(limit_s=3, too_slow=lambda each: slow.append(each.shader.name) or "")
    with watched.compiling(DISPATCHES[0]):
        advance(2, 2)
        with watched.compiling(DISPATCHES[1]):
            advance(1.8, 1.8)
            assert slow == []
            advance(0.2, 0.2)
            assert slow == ["shader.0"], "2 s alone and half of 2 s"
            advance(2, 4)
            assert slow == ["shader.0", "shader.1"], "two cores worked, one for each"
        advance(9, 18)
    assert slow == ["shader.0", "shader.1"], "each is named once"
    with watched.compiling(DISPATCHES[2]):
        advance(20, 2.9)
    with watched.compiling(DISPATCHES[3]):
        advance(2.9, 20)
    assert slow == ["shader.0", "shader.1"], "neither more than the time that has passed nor more than was used"


def test_without_a_limit_nothing_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "cores", lambda: 1)
    compile_on(LazyDriver(shared=True), Watch(too_slow=lambda _: pytest.fail("there is no limit")))


def test_an_error_of_creation_is_raised() -> None:
    def create(each: Dispatch) -> Any:
        raise MemoryError(each.shader.name)

    device = LazyDevice(LazyDriver(shared=True))
    with pytest.raises(MemoryError, match=r"shader\."):
        Compiler(device, never, Watch()).compile(DISPATCHES, create)  # type: ignore[arg-type]


def test_compiled_pipelines_take_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "executor", lambda *_: pytest.fail("threads are started"))
    device = compile_on(LazyDriver(shared=True), concurrently=False)
    assert len(device.known) == len(DISPATCHES)


def test_the_first_execution_compiles_nothing() -> None:
    environment = {**os.environ, "MESA_SHADER_CACHE_DISABLE": "true", "NNVK_CACHE_DIR": "0"}
    ran = subprocess.run(
        [sys.executable, "-c", LATER], env=environment, capture_output=True, text=True, timeout=120, check=True, cwd="/"
    )
    prepared_s, first_s = map(float, ran.stdout.split())
    assert first_s < prepared_s / 4, "lavapipe would compile the shader now"
