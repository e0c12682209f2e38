"""Compilation caching: what is kept, when it is used, and that no file can do harm."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from networks import CLASSES, classifier, images, increment
from rows import parse, request

from nnvk.api import Compilation, get_device
from nnvk.api import run as run_once
from nnvk.base import files
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.planning import cache, planner
from nnvk.driver.vulkan.planning.cache import PlanCache, key_of
from nnvk.driver.vulkan.planning.plan import Plan
from nnvk.driver.vulkan.running.resident_plan import ResidentPlan
from nnvk.driver.vulkan.shaders.commands import Copy
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.types.model import Lifetime, Model
from nnvk.types.request import ExecuteOptions, PrepareOptions

BATCH = 2
MODEL = classifier(BATCH).frozen
SHAPES = [(BATCH, 6, 6, 4)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "entry.nnvk"


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[Model]:
    """The models that were lowered."""
    models: list[Model] = []
    lower = planner.lower

    def counted(model: Model, *arguments: Any) -> Plan:
        models.append(model)
        return lower(model, *arguments)

    monkeypatch.setattr(planner, "lower", counted)
    return models


@pytest.fixture(scope="module")
def library(own: VulkanDevice) -> ShaderLibrary:
    return own.planner.library


Load = Callable[..., "Plan | None"]


@pytest.fixture(scope="module")
def load(own: VulkanDevice, library: ShaderLibrary, key: dict[str, str]) -> Load:
    """Reads the plan of `MODEL` from a file, whose content may be given."""

    def load_plan(path: Path, content: bytes | None = None, key: dict[str, str] = key) -> Plan | None:
        if content is not None:
            path.write_bytes(content)
        return PlanCache(path, key).load(MODEL, SHAPES, own.profile, library)

    return load_plan


@pytest.fixture(scope="module")
def entry(own: VulkanDevice, library: ShaderLibrary, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A good file."""
    path = tmp_path_factory.mktemp("cache") / "entry.nnvk"
    own.prepare_model(MODEL, PrepareOptions(cache=path))
    return path.read_bytes()


@pytest.fixture(scope="module")
def key(own: VulkanDevice, library: ShaderLibrary) -> dict[str, str]:
    return key_of(own.version, own.profile, library, MODEL)


def compute(device: VulkanDevice, path: Path | None, model: Model = MODEL) -> np.ndarray:
    output = np.zeros((BATCH, CLASSES), np.float32)
    prepared = device.prepare_model(model, PrepareOptions(cache=path))
    prepared.execute(request([images(BATCH)], [output]), ExecuteOptions())
    return output


# --- use ---------------------------------------------------------------------------------------------------------


def test_a_second_preparation_lowers_nothing(vulkan: VulkanDevice, path: Path, lowered: list[Model]) -> None:
    expected = compute(vulkan, None)
    assert compute(vulkan, path).tobytes() == expected.tobytes()
    assert len(lowered) == 2
    assert path.exists()
    for _ in range(2):
        assert compute(vulkan, path).tobytes() == expected.tobytes()
    assert len(lowered) == 2


def test_a_plan_comes_back_as_it_was(
    own: VulkanDevice, library: ShaderLibrary, path: Path, key: dict[str, str]
) -> None:
    plan = own.planner.plan(MODEL, SHAPES, PrepareOptions())
    PlanCache(path, key).store(plan)
    back = PlanCache(path, key).load(MODEL, SHAPES, own.profile, library)
    assert back is not None
    for field in ("barriers", "pages", "inputs", "outputs", "output_shapes"):
        assert getattr(back, field) == getattr(plan, field), field
    assert dict(back.addresses) == dict(plan.addresses)
    for ours, theirs in zip(back.commands, plan.commands, strict=True):
        if isinstance(theirs, Copy):
            assert ours == theirs
            continue
        assert not isinstance(ours, Copy)
        assert ours.shader.name == theirs.shader.name
        assert tuple(ours.groups) == tuple(theirs.groups)
        assert (ours.tensors, ours.specialization, ours.push) == (theirs.tensors, theirs.specialization, theirs.push)
        assert ours.operation == theirs.operation
        assert ours.shader.push_constants({**ours.push, **dict.fromkeys(ours.shader.offsets, 0)})
    for (ours_at, data), (theirs_at, original) in zip(back.constants, plan.constants, strict=True):
        assert ours_at == theirs_at
        assert data.tobytes() == original.tobytes()


@pytest.mark.parametrize(
    "text",
    [
        "RELU f32[3]",
        "CONV_2D u8[1,5,7,3]*0.05+120 #pc0[5,3,3,3] #i32[5] SAME 1 1 RELU -> u8*0.08+100",
        "CONCATENATION i8[2,3]*0.5+3 i8[2,5]*0.25+9 1",
        "RESHAPE f32[2,3] (3,2)",
        "MEAN u8[3,16385]*0.5+3 (1) 0",
        "GATHER f32[5,3] 0 @(0,4)",
    ],
)
def test_operations_from_the_cache(vulkan: VulkanDevice, path: Path, lowered: list[Model], text: str) -> None:
    row = parse(text)
    outputs = []
    for _ in range(2):
        prepared = vulkan.prepare_model(row.model, PrepareOptions(cache=path))
        output = np.zeros(100_000, np.uint8)
        prepared.execute(request(row.inputs, [output]), ExecuteOptions())
        outputs.append(output.tobytes())
    assert outputs[0] == outputs[1]
    assert len(lowered) == 1


def test_models_with_open_shapes_are_not_kept(own: VulkanDevice, path: Path) -> None:
    model = classifier(0).frozen
    output = np.zeros((BATCH, CLASSES), np.float32)
    prepared = own.prepare_model(model, PrepareOptions(cache=path))
    prepared.execute(request([images(BATCH)], [output]), ExecuteOptions())
    assert not path.exists()


def test_the_public_way(tmp_path: Path, lowered: list[Model]) -> None:
    device = get_device("vulkan-0")
    results = []
    for token in (b"a" * 32, b"a" * 32, b"b" * 32):
        compilation = Compilation(classifier(BATCH), [device])
        compilation.set_caching(tmp_path, token)
        compilation.finish()
        results.append(run_once(compilation, [images(BATCH)])[0].tobytes())
    assert len(set(results)) == 1
    assert len(lowered) == 2, "once for each token"
    assert len(list(tmp_path.iterdir())) == 2


# --- what a plan depends on --------------------------------------------------------------------------------------


def with_operand(model: Model, index: int, **changes: Any) -> Model:
    operands = list(model.operands)
    operands[index] = replace(operands[index], **changes)
    return replace(model, operands=tuple(operands))


def test_another_model_is_lowered_and_replaces_the_entry(own: VulkanDevice, path: Path, lowered: list[Model]) -> None:
    weights = next(i for i, operand in enumerate(MODEL.operands) if operand.lifetime is Lifetime.CONSTANT)
    value = MODEL.operands[weights].value
    assert value is not None
    changed = value.copy()
    changed.flat[0] += 1
    other = with_operand(MODEL, weights, value=changed)
    first = compute(own, path)
    second = compute(own, path, other)
    assert first.tobytes() != second.tobytes()
    assert second.tobytes() == compute(own, path, other).tobytes()
    assert lowered == [MODEL, other]


def test_everything_that_matters_is_in_the_key(
    own: VulkanDevice, library: ShaderLibrary, key: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def differs(part: str, other: dict[str, str]) -> bool:
        return [name for name in key if key[name] != other[name]] == [part]

    assert key == key_of(own.version, own.profile, library, classifier(BATCH).frozen)
    assert differs("device", key_of("another driver", own.profile, library, MODEL))
    by_buffer = not own.profile.barriers_by_buffer
    for change in ({"max_groups": 7}, {"features": frozenset()}, {"barriers_by_buffer": by_buffer}):
        assert differs("profile", key_of(own.version, replace(own.profile, **change), library, MODEL))
    for model in (
        classifier(BATCH + 1).frozen,
        classifier(BATCH, seed=1).frozen,
        replace(MODEL, relaxed=True),
        replace(MODEL, operations=MODEL.operations[:-1]),
        with_operand(MODEL, MODEL.outputs[0], lifetime=Lifetime.TEMPORARY_VARIABLE),
    ):
        assert differs("model", key_of(own.version, own.profile, library, model))
    monkeypatch.setattr(library, "digest", "other shaders")
    assert differs("shaders", key_of(own.version, own.profile, library, MODEL))
    monkeypatch.undo()
    monkeypatch.setattr(cache, "_code_digest", lambda: "other code")
    assert differs("code", key_of(own.version, own.profile, library, MODEL))


def test_a_plan_for_something_else_is_not_used(load: Load, key: dict[str, str], entry: bytes, path: Path) -> None:
    assert load(path, entry) is not None
    for part in key:
        assert load(path, key=key | {part: "another"}) is None


# --- damage ------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_flipped_bits_are_noticed(load: Load, entry: bytes, path: Path, data: st.DataObject) -> None:
    content = bytearray(entry)
    for place in data.draw(st.lists(st.integers(0, len(entry) - 1), min_size=1, max_size=4, unique=True)):
        content[place] ^= data.draw(st.integers(1, 255))
    assert load(path, bytes(content)) is None


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_files_that_are_cut_off_or_longer_are_noticed(
    load: Load, entry: bytes, path: Path, data: st.DataObject
) -> None:
    cut = entry[: data.draw(st.integers(0, len(entry) - 1))]
    assert load(path, cut) is None
    assert load(path, entry + data.draw(st.binary(min_size=1, max_size=50))) is None


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200))
def test_foreign_files_are_noticed(load: Load, path: Path, content: bytes) -> None:
    assert load(path, content) is None
    start = files._START.pack(cache.KIND.magic, cache.KIND.format, 2**60, 2**60)
    assert load(path, start + content) is None


def sealed(header: Any, constants: bytes) -> bytes:
    """A file with a good digest, whatever is in it."""
    text = json.dumps(header).encode()
    start = files._START.pack(cache.KIND.magic, cache.KIND.format, len(text), len(constants))
    return (content := start + text + constants) + hashlib.sha256(content).digest()


def parts(entry: bytes) -> tuple[dict[str, Any], bytes]:
    _, _, header, constants = files._START.unpack_from(entry)
    start = files._START.size
    return json.loads(entry[start : start + header]), entry[start + header :][:constants]


@pytest.fixture(scope="module")
def header(entry: bytes) -> dict[str, Any]:
    return parts(entry)[0]


@pytest.fixture(scope="module")
def constants(entry: bytes) -> bytes:
    return parts(entry)[1]


def test_a_header_of_another_kind_is_noticed(load: Load, header: Any, constants: bytes, path: Path) -> None:
    assert load(path, sealed(header, constants)) is not None
    for part, value in itertools.product(header, (None, 3, "x", [["x"]], [[1, 2]], {"a": 1}, [])):
        if value != header[part]:
            assert load(path, sealed(header | {part: value}, constants)) is None, (part, value)
    for document in (None, [], 3, "x", {}):
        assert load(path, sealed(document, constants)) is None
    path.write_bytes(sealed(header, constants))
    for text in (b"[" * 100_000, b"[1e400]", b"\xff", b"NaN"):
        body = files._START.pack(cache.KIND.magic, cache.KIND.format, len(text), 0) + text
        assert load(path, body + hashlib.sha256(body).digest()) is None


def at(header: Any, *keys: Any) -> Any:
    for key in keys:
        header = header[key]
    return header


WRONG_NUMBERS = [-1, 0.5, 1.0, 1e300, float("nan"), 2**31, 2**40, 10**400, "x", None, [], True]
"""For sizes and places."""


def changed(header: Any, keys: Sequence[Any], value: Any) -> Any:
    """A header with another value in one place."""
    other = copy.deepcopy(header)
    at(other, *keys[:-1])[keys[-1]] = value
    return other


def first(header: Any, length: int) -> int:
    """Position of the first command that is a dispatch (6 parts), or a copy (3)."""
    return next(number for number, row in enumerate(header["commands"]) if len(row) == length)


@pytest.mark.parametrize("value", WRONG_NUMBERS, ids=repr)
def test_numbers_out_of_range_are_noticed(load: Load, header: Any, constants: bytes, path: Path, value: Any) -> None:
    number, dispatch = next(iter(header["tensors"])), first(header, 6)
    places: list[list[Any]] = [
        *(["pages", storage, 0] for storage in ("arena", "constants", "staging")),
        *(["tensors", number, part] for part in (1, 2, 3)),
        *(["constants", 0, part] for part in (1, 2, 3)),
        *([edge, 0, part] for edge in ("inputs", "outputs") for part in (1, 2, 3)),
        ["barriers", 0],
        ["output_shapes", 0, 0],
        *(["commands", dispatch, 1, axis] for axis in range(3)),
        *(["commands", dispatch, 2, name] for name in at(header, "commands", dispatch, 2)),
        *(["commands", dispatch, 3, word] for word in range(len(at(header, "commands", dispatch, 3)))),
        ["commands", dispatch, 5],
    ]
    for place in places:
        assert load(path, sealed(changed(header, place, value), constants)) is None, place


@pytest.mark.parametrize("value", ["x", None, [], {}, 10**400], ids=repr)
def test_push_constants_of_other_types_are_noticed(
    load: Load, header: Any, constants: bytes, path: Path, value: Any
) -> None:
    dispatch = first(header, 6)
    for name in at(header, "commands", dispatch, 4):
        assert load(path, sealed(changed(header, ["commands", dispatch, 4, name], value), constants)) is None, name


def test_what_does_not_fit_together_is_noticed(load: Load, header: Any, constants: bytes, path: Path) -> None:
    number, dispatch = next(iter(header["tensors"])), first(header, 6)
    name, groups, tensors, words, push, operation = header["commands"][dispatch]
    constant = next(key for key, row in header["tensors"].items() if row[0] == "constants")
    written = next(key for key, row in header["tensors"].items() if row[0] == "arena")
    cases: list[tuple[list[Any], Any]] = [
        *((["tensors", number], row) for row in (["heap", 0, 0, 4], ["arena", 0], ["arena", 9, 0, 4], [], "arena")),
        (["tensors", number, 2], header["tensors"][number][2] + 4),  # not aligned
        (["pages", "arena"], [size * 2 for size in header["pages"]["arena"]]),
        (["pages", "arena"], [*header["pages"]["arena"], 64]),
        (["pages", "constants"], []),
        (["constants"], header["constants"][1:]),
        (["constants"], [*header["constants"], header["constants"][0]]),
        (["inputs"], [*header["inputs"], None]),
        (["inputs"], [None]),
        (["inputs", 0, 0], "arena"),
        (["outputs"], header["inputs"]),
        (["output_shapes"], [[1, 2]]),
        (["flags"], [[header["outputs"][0], "it is {}"]]),
        (["counts"], header["outputs"]),
        (["counts"], [None, None]),
        (["barriers"], []),
        (["barriers"], list(range(len(header["commands"])))),
        (["commands"], header["commands"] * 1000),
        (["commands", dispatch], [name, groups[:2], tensors, words, push, operation]),
        (["commands", dispatch], [name, [*groups, 1], tensors, words, push, operation]),
        (["commands", dispatch], ["no such shader", groups, tensors, words, push, operation]),
        (["commands", dispatch], [name, [65535, 65535, 1], tensors, words, push, operation]),
        (["commands", dispatch], [name, groups, tensors | {"more": 0}, words, push, operation]),
        (["commands", dispatch], [name, groups, dict.fromkeys(tensors, constant), words, push, operation]),
        (["commands", dispatch], [name, groups, tensors, [*words, 1], push, operation]),
        (["commands", dispatch], [name, groups, tensors, [], push, operation]),
        (["commands", dispatch], [name, groups, tensors, words, push | {"more": 0}, operation]),
        (["commands", dispatch], [name, groups, tensors, words, push]),
        *((["commands", dispatch], [written, written, nbytes]) for nbytes in (0, -4, 3, 2**31, "x")),
        (["commands", dispatch], [written, constant, 4]),
        (["commands", dispatch], ["no", "such", "tensor"]),
    ]
    for place, value in cases:
        assert load(path, sealed(changed(header, place, value), constants)) is None, (place, value)
    assert load(path, sealed(header, constants + b"\0")) is None
    assert load(path, sealed(header, constants[:-1])) is None


@pytest.mark.parametrize(
    "complaint", ["{} of {}", "{1}", "{index}", "{0.__class__}", "{:999999999}", "}", "x" * 2000, 3, None, []]
)
def test_complaints_that_no_shader_has_are_noticed(
    own: VulkanDevice, path: Path, lowered: list[Model], complaint: object
) -> None:
    """They are put together with a number when an execution fails."""
    row = parse("GATHER f32[5,3] 0 @(0,4)")
    shapes = [array.shape for array in row.inputs]
    own.prepare_model(row.model, PrepareOptions(cache=path))
    (good,) = parts(path.read_bytes())[0]["flags"]
    for count, text in enumerate(("x{:r}", good[1], complaint), 1):
        header, constants = parts(path.read_bytes())
        header["flags"] = [[good[0], text]]
        path.write_bytes(sealed(header, constants))
        own.planner.plan(row.model, shapes, PrepareOptions(cache=path))
        assert len(lowered) == (1 if count < 3 else 2), text


def nodes(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a header: what it is in, and its key there."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in ((value, key), *nodes(value[key]))]


def damage(header: Any, choice: random.Random) -> None:
    """Put another value in one place: a number out of range, what another place has, or one near to what is there."""
    places = [place for part in header if part != "key" for place in nodes(header[part])]
    (inside, key), (other, other_key) = choice.sample(places, 2)
    numbers = [*WRONG_NUMBERS, 0, 1, 2, 64, 128, 256, 65536]
    if type(inside[key]) is int and choice.random() < 0.3:
        inside[key] += choice.choice((-64, -1, 1, 4, 64))
    else:
        inside[key] = choice.choice([*numbers, copy.deepcopy(other[other_key])])


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), count=st.integers(1, 3))
def test_a_plan_of_any_header_can_be_prepared(
    own: VulkanDevice, load: Load, entry: bytes, path: Path, seed: int, count: int
) -> None:
    """What is not noticed, such as another push constant, the device takes as well."""
    header, constants = parts(entry)
    choice = random.Random(seed)
    for _ in range(count):
        damage(header, choice)
    plan = load(path, sealed(header, constants))
    if plan is not None:
        ResidentPlan(own.gpu, own._buffers, MODEL, plan).warm_up()


def test_a_file_that_is_longer_than_a_plan_can_be_is_not_read(
    load: Load, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sparse: it takes no disk, but all of the memory of who reads it."""
    monkeypatch.setattr(np, "frombuffer", lambda *_: pytest.fail("it is used"))
    for header, constants in ((1 << 40, 0), (8, 1 << 40)):
        with path.open("wb") as file:
            file.write(files._START.pack(cache.KIND.magic, cache.KIND.format, header, constants))
            file.truncate(files._START.size + header + constants + 32)
        assert load(path) is None


@pytest.mark.parametrize("kind", ["pipe", "folder", "socket", "link to nothing", "device"])
def test_what_is_no_file_is_as_good_as_none(own: VulkanDevice, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "entry.nnvk"
    with socket.socket(socket.AF_UNIX) as server:
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        elif kind == "socket":
            server.bind(str(path))
        else:
            path.symlink_to("/dev/zero" if kind == "device" else "/absent/entry")
        assert compute(own, path).tobytes() == compute(own, None).tobytes()
    assert path.is_file() == (kind != "folder"), "it is replaced where it can be"
    assert Path("/dev/zero").is_char_device()


def test_damage_is_repaired(own: VulkanDevice, path: Path, entry: bytes, lowered: list[Model]) -> None:
    expected = compute(own, None)
    for content in (b"", b"garbage", entry[:-1], entry[: len(entry) // 2], bytes(len(entry))):
        path.write_bytes(content)
        assert compute(own, path).tobytes() == expected.tobytes()
        assert path.read_bytes() == entry
    assert len(lowered) == 6


def test_a_cache_that_can_not_be_written_or_read_does_no_harm(
    own: VulkanDevice, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = compute(own, None)
    assert compute(own, tmp_path / "missing" / "entry.nnvk").tobytes() == expected.tobytes()
    assert "can't be written" in caplog.text
    (tmp_path / "folder.nnvk").mkdir()
    assert compute(own, tmp_path / "folder.nnvk").tobytes() == expected.tobytes()
    assert not list(tmp_path.glob(".*"))


# --- processes ---------------------------------------------------------------------------------------------------

WRITER = """
    import os, signal, sys
    sys.path.insert(0, {support!r})
    from pathlib import Path
    from networks import classifier
    from nnvk.driver.vulkan import find_devices
    from nnvk.driver.vulkan.planning import cache
    from nnvk.types.request import PrepareOptions

    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    {hook}
    device = find_devices()[0][0]
    device.prepare_model(classifier({batch}).frozen, PrepareOptions(cache=Path({path!r})))
"""
HOOKS = {
    "at the first bytes": "cache._encoded = die",
    "amid the constants": """
    encoded = cache._encoded
    class Cut(list):
        passes = 0
        def __iter__(self):
            self.passes += 1
            for number, part in enumerate(super().__iter__()):
                if (self.passes, number) == (2, 1):
                    die()
                yield part
    def cut(plan, key):
        header, body = encoded(plan, key)
        return header, Cut(body)
    cache._encoded = cut
    """,
    "before it is on the disk": "os.fsync = die",
    "before it is in its place": "os.replace = die",
}


def writer(path: Path, hook: str = "") -> subprocess.Popen[bytes]:
    support = str(Path(__file__).parents[2] / "support")
    lines = textwrap.dedent(WRITER).format(support=support, batch=BATCH, path=str(path), hook="pass  # hook")
    script = lines.replace("pass  # hook", textwrap.dedent(hook))
    # Not in the source tree, whose package would hide the installed one.
    return subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, cwd="/")


def finish(process: subprocess.Popen[bytes]) -> int:
    _, errors = process.communicate(timeout=60)
    assert process.returncode in (0, -signal.SIGKILL), errors.decode()
    return process.returncode


@pytest.mark.parametrize("moment", HOOKS)
def test_processes_that_are_killed_while_they_write(
    own: VulkanDevice, path: Path, entry: bytes, moment: str, lowered: list[Model]
) -> None:
    old = b"an older entry" * 1000
    path.write_bytes(old)
    assert finish(writer(path, HOOKS[moment])) == -signal.SIGKILL
    assert path.read_bytes() == old
    assert len(list(path.parent.glob(".*.tmp"))) <= 1
    compute(own, path)
    assert path.read_bytes() == entry
    compute(own, path)
    assert len(lowered) == 1


def test_what_killed_processes_leave_is_removed_in_the_end(own: VulkanDevice, path: Path) -> None:
    names = (f".{path.name}.a.tmp", f".{path.name}.b.tmp", ".x.nnvk.c.tmp")
    left, fresh, other = (path.parent / name for name in names)
    for file in (left, fresh, other):
        file.write_bytes(b"half")
    for file in (left, other):
        os.utime(file, (time.time() - 10_000,) * 2)
    compute(own, path)
    assert not left.exists()
    assert fresh.exists(), "somebody may be writing it"
    assert other.exists(), "it belongs to another entry"


def test_processes_share_a_cache(own: VulkanDevice, path: Path, entry: bytes, lowered: list[Model]) -> None:
    processes = [writer(path) for _ in range(2)]
    assert [finish(process) for process in processes] == [0, 0]
    assert path.read_bytes() == entry
    compute(own, path)
    assert not lowered


def test_readers_never_see_half_a_file(load: Load, key: dict[str, str], own: VulkanDevice, path: Path) -> None:
    kept = PlanCache(path, key)
    plan = own.planner.plan(MODEL, SHAPES, PrepareOptions())
    kept.store(plan)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            kept.store(plan)

    def plans() -> Iterator[Plan | None]:
        for _ in range(100):
            yield load(path)

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        assert all(loaded is not None for loaded in plans())
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_constants_are_not_held_twice(own: VulkanDevice, path: Path) -> None:
    """Once they are on the device, neither packed arrays nor a file's content stay in the memory of the process."""
    for _ in range(2):
        prepared = own.prepare_model(increment(100_000).frozen, PrepareOptions(cache=path))
        (plan,) = prepared._program.single._plans.values()  # type: ignore[attr-defined]
        assert plan.plan.constants == ()
