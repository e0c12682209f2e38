"""Compilation caching: no file can do harm."""

from __future__ import annotations

import copy
import itertools
import os
import random
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cached import MODEL, Load, compute, parts, sealed, signed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nnvk.base import files
from nnvk.check.model_rows import parse
from nnvk.driver.vulkan import VulkanDevice
from nnvk.driver.vulkan.planning import cache
from nnvk.driver.vulkan.running.resident_plan import ResidentPlan
from nnvk.driver.vulkan.running.workspaces import Workspaces
from nnvk.types.model import Model
from nnvk.types.request import PrepareOptions


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


def test_a_header_of_another_kind_is_noticed(load: Load, header: Any, constants: bytes, path: Path) -> None:
    assert load(path, sealed(header, constants)) is not None
    for part, value in itertools.product(header, (None, 3, "x", [["x"]], [[1, 2]], {"a": 1}, [])):
        if value != header[part] and (part, value) != ("choices", []):  # there may have been none
            assert load(path, sealed(header | {part: value}, constants)) is None, (part, value)
    for document in (None, [], 3, "x", {}):
        assert load(path, sealed(document, constants)) is None
    path.write_bytes(sealed(header, constants))
    for text in (b"[" * 100_000, b"[1e400]", b"\xff", b"NaN"):
        body = files._START.pack(cache.KIND.magic, cache.KIND.format, len(text), 0) + text
        assert load(path, signed(body)) is None


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
    """Position of the first command that is a dispatch (7 parts), or a copy (3)."""
    return next(number for number, row in enumerate(header["commands"]) if len(row) == length)


@pytest.mark.parametrize("value", WRONG_NUMBERS, ids=repr)
def test_numbers_out_of_range_are_noticed(load: Load, header: Any, constants: bytes, path: Path, value: Any) -> None:
    number, dispatch = next(iter(header["tensors"])), first(header, 7)
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
    dispatch = first(header, 7)
    for name in at(header, "commands", dispatch, 4):
        assert load(path, sealed(changed(header, ["commands", dispatch, 4, name], value), constants)) is None, name


def test_what_does_not_fit_together_is_noticed(load: Load, header: Any, constants: bytes, path: Path) -> None:
    number, dispatch = next(iter(header["tensors"])), first(header, 7)
    name, groups, tensors, words, push, operation, fused = header["commands"][dispatch]
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
        (["commands", dispatch], [name, groups[:2], tensors, words, push, operation, fused]),
        (["commands", dispatch], [name, [*groups, 1], tensors, words, push, operation, fused]),
        (["commands", dispatch], ["no such shader", groups, tensors, words, push, operation, fused]),
        (["commands", dispatch], [name, [65535, 65535, 1], tensors, words, push, operation, fused]),
        (["commands", dispatch], [name, groups, tensors | {"more": 0}, words, push, operation, fused]),
        (["commands", dispatch], [name, groups, dict.fromkeys(tensors, constant), words, push, operation, fused]),
        (["commands", dispatch], [name, groups, tensors, [*words, 1], push, operation, fused]),
        (["commands", dispatch], [name, groups, tensors, [], push, operation, fused]),
        (["commands", dispatch], [name, groups, tensors, words, push | {"more": 0}, operation, fused]),
        (["commands", dispatch], [name, groups, tensors, words, push, operation, [99]]),
        (["commands", dispatch], [name, groups, tensors, words, push, operation, ["x"]]),
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
    "data_error", ["{} of {}", "{1}", "{index}", "{0.__class__}", "{:999999999}", "}", "x" * 2000, 3, None, []]
)
def test_complaints_that_no_shader_has_are_noticed(
    own: VulkanDevice, path: Path, lowered: list[Model], data_error: object
) -> None:
    """They are put together with a number when an execution fails."""
    row = parse("GATHER f32[5,3] 0 @(0,4)")
    shapes = [array.shape for array in row.inputs]
    own.prepare_model(row.model, PrepareOptions(cache=path))
    (good,) = parts(path.read_bytes())[0]["flags"]
    for count, text in enumerate(("x{:r}", good[1], data_error), 1):
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
    """The device accepts any change that the cache does not notice, such as another push constant."""
    header, constants = parts(entry)
    choice = random.Random(seed)
    for _ in range(count):
        damage(header, choice)
    plan = load(path, sealed(header, constants))
    if plan is not None:
        ResidentPlan(own.gpu, own._buffers, Workspaces(), MODEL, plan).warm_up()


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
    assert not list(tmp_path.glob(".*.tmp"))
