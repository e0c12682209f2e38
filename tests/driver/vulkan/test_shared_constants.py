"""Large constants are on the device once, whatever the number of plans that read them."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from nnvk.check.model_rows import Row, empty_like, execute, parse, reference
from nnvk.driver.vulkan import VulkanDevice, find_devices
from nnvk.driver.vulkan.planning.memory_plan import LEAST_SHARED, MOST_ALONE, place_constants
from nnvk.driver.vulkan.running import constants as uploads
from nnvk.driver.vulkan.running.constants import ConstantStore, SharedConstant, Upload
from nnvk.driver.vulkan.running.prepared_model import VulkanPreparedModel
from nnvk.driver.vulkan.shaders.commands import padded
from nnvk.types.constant import Constant, deferred_bytes
from nnvk.types.request import PrepareOptions

ROW = "FULLY_CONNECTED f32[{},{}] #f32[259,{}] #f32[259] NONE"
DEEP = 131
"""The weights of this depth are large."""


@pytest.fixture
def device() -> VulkanDevice:
    """A device of this test alone, with a store of its own."""
    found, reason = find_devices()
    if not found:
        pytest.skip(reason)
    return found[0]


def row(rows: int, depth: int = DEEP) -> Row:
    """A row with the same weights for each number of rows."""
    weights = np.random.default_rng(depth).standard_normal((259, depth), np.float32)
    return with_weights(parse(ROW.format(rows, depth, depth)), weights)


def with_weights(of: Row, weights: np.ndarray) -> Row:
    operands = tuple(
        replace(operand, constant=weights) if operand.type.dimensions == weights.shape else operand
        for operand in of.model.operands
    )
    return replace(of, model=replace(of.model, operands=operands))


def prepared(device: VulkanDevice, of: Row) -> VulkanPreparedModel:
    made = device.prepare_model(of.model, PrepareOptions())
    assert isinstance(made, VulkanPreparedModel)
    return made


def known(device: VulkanDevice) -> list[SharedConstant]:
    gc.collect()
    return list(device.gpu.constants._known.values())


def test_plans_of_other_sizes_share_what_they_read(device: VulkanDevice) -> None:
    models = [prepared(device, row(rows)) for rows in (2, 3, 7)]
    first, *others = [model.shared_constants() for model in models]
    assert len(first) == 1
    assert sum(first.values()) >= 4 * 259 * DEEP
    assert all(other == first for other in others)
    assert len(known(device)) == 1
    assert all(model.memory_bytes()["constants"] >= sum(first.values()) for model in models)


def test_a_constant_is_freed_with_its_last_plan(device: VulkanDevice) -> None:
    models = [prepared(device, row(rows)) for rows in (2, 3)]
    del models[0]
    assert len(known(device)) == 1
    del models[0]
    assert known(device) == []


@pytest.mark.parametrize("rows", [1, 5])
def test_results_of_plans_that_share(device: VulkanDevice, rows: int) -> None:
    kept = prepared(device, row(3))
    of = row(rows)
    expected = reference(of)
    outputs = empty_like(expected)
    execute(device, of, outputs)
    np.testing.assert_allclose(outputs[0], expected[0], rtol=1e-4, atol=1e-4)
    assert kept.shared_constants()


def test_an_array_that_changes_between_models(device: VulkanDevice) -> None:
    """The bytes decide, not the array that has them."""
    weights = np.zeros((259, DEEP), np.float32)
    models = []
    for last in (1, 2, 1):
        weights[-1, -1] = last
        models.append(prepared(device, with_weights(row(2), weights)))
    one, other, again = (model.shared_constants() for model in models)
    assert one.keys().isdisjoint(other)
    assert again == one
    assert len(known(device)) == 2


def test_memory_that_does_not_change_is_read_once(device: VulkanDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of a file are neither packed nor digested again for another size, and take no threads."""
    floats = np.random.default_rng(0).standard_normal((259, DEEP), np.float32)
    weights = np.frombuffer(floats.tobytes(), np.float32).reshape(259, DEEP)
    expected = prepared(device, with_weights(row(2), weights)).shared_constants
    kept = prepared(device, with_weights(row(3), weights))
    monkeypatch.setattr(ConstantStore, "_note", lambda *_: pytest.fail("it is digested again"))
    monkeypatch.setattr(uploads, "_MUCH", LEAST_SHARED)
    monkeypatch.setattr(uploads, "executor", lambda *_: pytest.fail("threads upload it again"))
    for rows in (4, 5):
        assert prepared(device, with_weights(row(rows), weights)).shared_constants() == expected()
    assert kept.shared_constants() == expected()


def test_a_constant_that_makes_its_elements_is_read_once(device: VulkanDevice) -> None:
    """The same object makes the same elements, whatever it makes them of."""
    reads: list[int] = []

    def make() -> np.ndarray:
        reads.append(0)
        return np.ones(LEAST_SHARED, np.uint8)

    constant = deferred_bytes(LEAST_SHARED, make)
    uploads = []
    for rows in (2, 3):
        uploads.append(upload(device, row(rows), constant))
        uploads[-1].wait()
    assert len(reads) == 1
    assert uploads[0].shared() == uploads[1].shared()
    del constant
    uploads.clear()
    gc.collect()
    assert device.gpu.constants._digests == {}


def test_digests_are_forgotten_with_the_memory(device: VulkanDevice) -> None:
    weights = np.frombuffer(np.ones((259, DEEP), np.float32).tobytes(), np.float32).reshape(259, DEEP)
    models = [prepared(device, with_weights(row(rows), weights)) for rows in (1, 2)]
    assert len(device.gpu.constants._digests) == 1
    del models, weights
    gc.collect()
    assert device.gpu.constants._digests == {}


def test_small_constants_stay_with_their_plans(device: VulkanDevice) -> None:
    small = prepared(device, row(2, 3))
    assert small.shared_constants() == {}
    assert small.memory_bytes()["constants"] > 0
    assert known(device) == []


def test_threads_prepare_at_once(device: VulkanDevice) -> None:
    """One of them uploads, and all wait for it."""
    sizes = range(1, 9)
    together = threading.Barrier(len(sizes))

    def work(rows: int) -> tuple[VulkanPreparedModel, np.ndarray, np.ndarray]:
        of = row(rows)
        together.wait()
        model = prepared(device, of)
        expected = reference(of)
        outputs = empty_like(expected)
        execute(device, of, outputs)
        return model, outputs[0], expected[0]

    with ThreadPoolExecutor(len(sizes)) as threads:
        done = list(threads.map(work, sizes))
    assert len(known(device)) == 1
    for _, output, expected in done:
        np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-4)


def upload(device: VulkanDevice, of: Row, make: Constant | None = None) -> Upload:
    shapes = [type_.dimensions for type_ in of.model.input_types()]
    plan = device.planner.plan(of.model, shapes, PrepareOptions())
    if make is not None:
        constants = [(address, make if address.nbytes >= LEAST_SHARED else data) for address, data in plan.constants]
        plan = replace(plan, constants=tuple(constants))
    return Upload(device.gpu.native(), plan, device.gpu.constants)


class Interrupted(BaseException):
    """An interruption, as by Ctrl-C."""


@pytest.mark.parametrize("error", [MemoryError("no room"), Interrupted("Ctrl-C")], ids=["error", "interruption"])
@pytest.mark.parametrize("much", [0, 1 << 40], ids=["by threads", "at once"])
def test_an_upload_that_fails_leaves_nothing_behind(
    device: VulkanDevice, monkeypatch: pytest.MonkeyPatch, error: BaseException, much: int
) -> None:
    """Plans that wait for it get its error, and the next one uploads again."""
    monkeypatch.setattr("nnvk.driver.vulkan.running.constants._MUCH", much)
    copy = Upload._copy

    def failing(*_: object) -> None:
        raise error

    monkeypatch.setattr(Upload, "_copy", failing)
    with pytest.raises(type(error)):
        upload(device, row(2)).wait()
    assert known(device) == [] or known(device)[0].has_failed
    monkeypatch.setattr(Upload, "_copy", copy)
    assert prepared(device, row(2)).shared_constants()


def test_who_waits_for_a_failing_upload_gets_its_error(device: VulkanDevice) -> None:
    native = device.gpu.native()
    store, own = ConstantStore(), list[SharedConstant]()
    content = np.zeros(LEAST_SHARED, np.uint8)
    first, given = store.claim(native, content, content.nbytes, own)
    again, nothing = store.claim(native, content, content.nbytes, own)
    assert given is not None
    assert (nothing, own) == (None, [first])
    assert again is first
    threading.Timer(0.05, first.end, [MemoryError("no room")]).start()
    with pytest.raises(MemoryError, match="no room"):
        again.wait()
    replaced, given = store.claim(native, content, content.nbytes, own)
    assert given is not None
    assert replaced is not first


def test_what_can_not_be_made(device: VulkanDevice) -> None:
    def failing() -> np.ndarray:
        raise MemoryError("no memory for weights")

    with pytest.raises(MemoryError, match="no memory for weights"):
        upload(device, row(2), deferred_bytes(4 * 260 * 132, failing)).wait()
    assert known(device) == []


def test_a_device_that_was_lost_keeps_its_constants_to_itself(device: VulkanDevice) -> None:
    before = prepared(device, row(2))
    device.gpu.renew()  # as in a forked child
    after = prepared(device, row(3))
    assert before.shared_constants().keys().isdisjoint(after.shared_constants())
    assert len(known(device)) == 2


def test_places_of_constants() -> None:
    sizes = [7, LEAST_SHARED, 0, LEAST_SHARED - 1, 3 * LEAST_SHARED + 5]
    placed = place_constants(sizes, 1 << 30)
    assert [place.page for place in placed.places] == [2, 0, 2, 2, 1]
    assert placed.pages[:2] == (LEAST_SHARED, padded(3 * LEAST_SHARED + 5))
    assert [placed.places[number].offset for number in (1, 4)] == [0, 0]


def test_only_so_many_constants_have_a_page_of_their_own() -> None:
    sizes = [LEAST_SHARED + number for number in range(MOST_ALONE + 3)]
    placed = place_constants(sizes, 1 << 30)
    assert len(placed.pages) == MOST_ALONE + 1
    assert [place.page for place in placed.places[:3]] == [MOST_ALONE] * 3, "the smallest lie together"


def test_small_constants_that_fill_several_pages() -> None:
    """The largest come first, each into the first page that has room."""
    placed = place_constants([1024, 3072, 2048, 1024], 4096)
    assert [(place.page, place.offset) for place in placed.places] == [(0, 3072), (0, 0), (1, 0), (1, 2048)]
    assert placed.pages == (4096, 3072)
    with pytest.raises(ValueError, match="a block of 4097 bytes does not fit into a page of 4096"):
        place_constants([4097], 4096)
