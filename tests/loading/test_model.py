"""The model that `nnvk.load` returns: calls, events, streams, threads, states, signatures, the end."""

from __future__ import annotations

import asyncio
import cProfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tflite_metadata import metadata, packed
from tflite_net import Net, Signature, T, write

import nnvk
from nnvk import Device, NnapiError, ResultCode, get_devices
from nnvk.demo.assets import DATA
from nnvk.loading import LoadedModel, ModelEvent

INT8, FLOAT = DATA / "digits_int8.tflite", DATA / "digits_float.tflite"
SEVEN = DATA / "0007_label7.png"
DEVICES = [device.name for device in get_devices()]


def floats(*shape: int, name: str = "") -> T:
    return T("FLOAT32", shape, name=name)


def arithmetic() -> bytes:
    """Two inputs, their sum and their difference; a second function multiplies by 3."""
    a, b, total, less = (
        floats(2, 3, name="a"),
        floats(2, 3, name="b"),
        floats(2, 3, name="sum"),
        floats(2, 3, name="less"),
    )
    main = Net([a, b], [total, less])
    main.op("ADD", [a, b], total)
    main.op("SUB", [a, b], less)
    x, y = floats(4), floats(4)
    other = Net([x], [y])
    other.op("MUL", [x, T(data=[3.0])], y)
    keys = [
        Signature("both", 0, {"right": b, "left": a}, {"minus": less, "plus": total}),
        Signature("times", 1, {"x": x}, {"y": y}),
    ]
    return write(main, other, signatures=keys)


def counter() -> bytes:
    """Adds its input to a variable, and gives the variable."""
    step, total = floats(2, name="step"), floats(2, name="total")
    net, first = Net([step], [total]), Net()
    net.op("CALL_ONCE", [], [None], "CallOnceOptions", InitSubgraphIndex=1)
    places = [
        each.op("VAR_HANDLE", [], T("RESOURCE", ()), "VarHandleOptions", SharedName="sum") for each in (net, first)
    ]
    first.op("ASSIGN_VARIABLE", [places[1], T(data=[0.0, 0.0])], [None], "AssignVariableOptions")
    before = net.op("READ_VARIABLE", [places[0]], floats(2), "ReadVariableOptions")
    net.op("ADD", [before, step], total)
    net.op("ASSIGN_VARIABLE", [places[0], total], [None], "AssignVariableOptions")
    return write(net, first, signatures=[Signature("add", 0, {"x": step}, {"y": total})])


def finder() -> bytes:
    """The places of elements that are not 0, so that data decide the size of the output."""
    x, places = T("BOOL", (6,), name="x"), T("INT64", name="places")
    net = Net([x], [places])
    net.op("WHERE", [x], places)
    return write(net)


A = np.float32([[1, 2, 3], [4, 5, 6]])
B = np.float32([[3, 1, 2], [9, 9, 9]])


@pytest.mark.parametrize("device", DEVICES)
def test_a_picture_in_three_lines(device: str) -> None:
    model = nnvk.load(INT8, device=device)
    scores = model(SEVEN)
    assert (scores.shape, scores.argmax()) == ((1, 10), 7)
    for same in (str(SEVEN), Image.open(SEVEN), model.read([SEVEN])[0]):
        assert (model(same) == scores).all()
    assert (model({"image": SEVEN}) == scores).all()


def test_a_list_of_pictures_gives_a_list_of_results() -> None:
    model = nnvk.load(INT8, device="cpu")
    other = next(DATA.glob("*_label3.png"))
    with Image.open(other) as image:
        several = model([SEVEN, str(other), image])
        in_a_dictionary = model((SEVEN, image), outputs=dict)
    assert [scores.argmax() for scores in several] == [7, 3, 3]
    assert [[*each] for each in in_a_dictionary] == [["probabilities"], ["probabilities"]]
    assert asyncio.run(model.run_async([SEVEN]))[0].shape == (1, 10)
    with pytest.raises(FileNotFoundError, match=r"none\.png"):
        model([SEVEN, "none.png"])
    with pytest.raises(IsADirectoryError, match="a folder, not the file of an input"):
        model(DATA)
    # Only a call takes several.
    for wrong in (lambda: model.start([SEVEN]), lambda: model({"image": [SEVEN]}), lambda: model.prepare([SEVEN])):
        with pytest.raises(NnapiError, match=r"'image' takes one image or file; only model\(\[...\]\), of a model"):
            wrong()


@pytest.mark.parametrize("source", [FLOAT, str(FLOAT), FLOAT.read_bytes()], ids=["path", "name", "bytes"])
def test_sources(source: Path | str | bytes) -> None:
    zeros = np.zeros((1, 16, 16, 1), np.float32)
    assert nnvk.load(source, device="cpu")(zeros).shape == (1, 10)


def test_a_folder_with_a_model(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "model.tflite").write_bytes(arithmetic())
    assert nnvk.load(tmp_path, device="cpu").name == "model.tflite"
    with pytest.raises(
        ValueError, match=r"a folder with 2 models, give one of them: .*digits_float.tflite, digits_int8"
    ):
        nnvk.load(DATA)
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").write_bytes(b"")
    with pytest.raises(ValueError, match=r"it has a SavedModel, which tf.lite.TFLiteConverter"):
        nnvk.load(tmp_path / "saved")


@pytest.fixture(scope="module", params=DEVICES)
def both(request: pytest.FixtureRequest) -> LoadedModel:
    return nnvk.load(arithmetic(), device=request.param)


def test_outputs_come_as_they_are_asked_for(both: LoadedModel) -> None:
    total, less = both(A, B)
    assert (total == A + B).all()
    assert (less == A - B).all()
    assert (both(A, B, outputs="less") == A - B).all()
    swapped = both(A, B, outputs=["less", "sum"])
    assert isinstance(swapped, tuple)
    assert (swapped[1] == A + B).all()
    named = both({"b": B, "a": A}, outputs=dict)
    assert list(named) == ["sum", "less"]
    assert (named["less"] == A - B).all()
    with pytest.raises(
        NnapiError, match=r"no output is called 'lss', there are \['sum', 'less'\]; did you mean 'less'"
    ):
        both(A, B, outputs="lss")


def test_results_are_the_callers(both: LoadedModel) -> None:
    """Neither does a later call change them, nor do they change a later call."""
    source = A.copy()
    first, _ = both(source, B)
    first[:] = 0
    source[:] = 7
    second, _ = both(A, B)
    assert (second == A + B).all()
    assert (first == 0).all()


@pytest.mark.parametrize("side", [4, 640])
@pytest.mark.parametrize("device", DEVICES)
def test_results_share_no_memory_with_inputs_or_other_results(device: str, side: int) -> None:
    """Small arrays are copied, and large ones are bound as they are."""
    x, y = floats(side, side), floats(side, side)
    net = Net([x], [y, x])
    net.op("MUL", [x, T(data=[2.0])], y)
    model = nnvk.load(write(net), device=device)
    wide = np.arange(side * side * 2, dtype=np.float32).reshape(side, side * 2)
    given = [wide[:, ::2], np.ascontiguousarray(wide[:, 1::2])]
    expected = [array.copy() for array in given]
    found = [model(array) for array in (*given, given[1])]
    for array in given:
        array[...] = -1
    results = [result for pair in found for result in pair]
    for (doubled, same), source in zip(found, (*expected, expected[1]), strict=True):
        np.testing.assert_array_equal(doubled, source * 2)
        np.testing.assert_array_equal(same, source)
    for number, one in enumerate(results):
        assert one.flags.writeable
        assert not any(np.shares_memory(one, other) for other in (*given, *results[:number]))


def test_inputs_in_any_strides_and_of_python(both: LoadedModel) -> None:
    wide = np.repeat(A, 2, axis=1)
    assert (both(wide[:, ::2], B)[0] == A + B).all()
    assert (both(A.T.copy().T, B)[0] == A + B).all()
    assert (both(A.tolist(), B.astype(np.float64))[0] == A + B).all()
    assert (both([A, B])[0] == A + B).all()


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ((A,), "the model has 2 inputs, got 1: 0: float32 2x3 for 'a'; 1: float32 2x3 for 'b'"),
        ((A, B[:1]), "'b' must have shape 2x3, got 1x3"),
        ((A, B.T), "'b' must have shape 2x3, got 3x2"),
        ((A, B.astype(complex)), "'b' must be an array of float32, got complex128"),
    ],
)
def test_inputs_that_do_not_fit(both: LoadedModel, inputs: tuple[np.ndarray, ...], reason: str) -> None:
    for call in (both, both.start):
        with pytest.raises(NnapiError) as caught:
            call(*inputs)
        assert (caught.value.code, caught.value.reason) == (ResultCode.BAD_DATA, reason)


def test_an_event_has_the_outputs(both: LoadedModel) -> None:
    source = A.copy()
    event = both.start(source, B, outputs="less")
    source[:] = 0
    assert isinstance(event, nnvk.Event)
    assert isinstance(event, ModelEvent)
    event.wait()
    assert (event.result() == A - B).all()
    assert (event.result() == A - B).all()


def test_an_event_loop_goes_on_meanwhile(both: LoadedModel) -> None:
    async def several() -> list[np.ndarray]:
        return await asyncio.gather(*(both.run_async(A * n, B, outputs="sum") for n in range(5)))

    for n, result in enumerate(asyncio.run(several())):
        assert (result == A * n + B).all()


@pytest.mark.parametrize("in_flight", [1, 2, 7])
def test_a_stream_keeps_the_order(both: LoadedModel, in_flight: int) -> None:
    items = [(A * n, B) for n in range(6)]
    results = list(both.stream(items, in_flight=in_flight, outputs="sum"))
    assert len(results) == 6
    for n, result in enumerate(results):
        assert (result == A * n + B).all()
    with pytest.raises(NnapiError, match="in_flight"):
        both.stream(items, in_flight=0)
    with pytest.raises(TypeError):
        both.stream(5)


def test_threads_share_a_model(both: LoadedModel) -> None:
    start = threading.Barrier(8)

    def work(n: int) -> bool:
        start.wait()
        return all((both(A * n, B, outputs="sum") == A * n + B).all() for _ in range(30))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


# --- states -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_states_go_from_call_to_call(device: str) -> None:
    model = nnvk.load(counter(), device=device)
    assert [model([1, 2]).tolist() for _ in range(3)] == [[1, 2], [2, 4], [3, 6]]
    model.reset()
    assert model([1, 0]).tolist() == [1, 0]
    events = [model.start([1, 0]) for _ in range(4)]
    assert model([1, 0]).tolist() == [6, 0]
    assert [event.result()[0] for event in events] == [2, 3, 4, 5]
    assert [row[0] for row in model.stream([[1, 0]] * 3)] == [7, 8, 9]


@pytest.mark.parametrize("device", DEVICES)
def test_sizes_that_data_decide(device: str) -> None:
    model = nnvk.load(finder(), device=device)
    some, none = np.array([1, 0, 0, 1, 1, 0], bool), np.zeros(6, bool)
    assert model(some).ravel().tolist() == [0, 3, 4]
    assert model(none).shape == (0, 1)
    assert model.start(some).result().ravel().tolist() == [0, 3, 4]


def test_an_error_of_a_computation_comes_with_the_event(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nnvk.load(finder(), device="cpu")
    monkeypatch.setattr("nnvk.loading.shaped_model.run", lambda *_: 1 / 0)
    event = model.start(np.zeros(6, bool))
    with pytest.raises(NnapiError, match="division by zero"):
        event.result()


# --- signatures -------------------------------------------------------------------------------------------------------


def test_signatures(both: LoadedModel) -> None:
    assert list(both.signatures) == ["both", "times"]
    results = both["both"](left=A, right=B)
    assert list(results) == ["minus", "plus"]
    assert (results["minus"] == A - B).all()
    assert (both["times"](x=[1, 2, 3, 4])["y"] == [3, 6, 9, 12]).all()
    assert both["both"].inputs["right"].name == "b"
    assert repr(both["times"]) == "<nnvk.LoadedSignature 'times'(x) -> (y)>"
    with pytest.raises(KeyError, match=r"no signature 'tims', there are \['both', 'times'\]; did you mean 'times'\?"):
        both["tims"]
    with pytest.raises(NnapiError, match=r"signature 'both' has no input 'lef', .*; did you mean 'left'\?"):
        both["both"](lef=A, right=B)
    with pytest.raises(NnapiError, match="signature 'both': input 'right' is missing"):
        both["both"](left=A)


def test_functions_of_one_subgraph_share_its_states() -> None:
    model = nnvk.load(counter(), device="cpu")
    assert model([1, 1]).tolist() == [1, 1]
    assert model["add"](x=[1, 1])["y"].tolist() == [2, 2]
    assert model([1, 1]).tolist() == [3, 3]


# --- descriptions -----------------------------------------------------------------------------------------------------


def test_descriptions(tmp_path: Path) -> None:
    model = nnvk.load(INT8, device="cpu")
    assert repr(model) == (
        "<nnvk.LoadedModel digits_int8.tflite: image int8 1x16x16x1 -> probabilities int8 1x10; "
        "11 operations on nnapi-reference, in 1 partition>"
    )
    assert [port.name for port in model.inputs] == ["image"]
    assert model.outputs[0].real_number == "0.00390625 * (q + 128)"
    assert model.compilation.is_finished
    assert isinstance(model.compilation, nnvk.Compilation)
    page = model._repr_html_()
    assert "<td>probabilities</td><td>int8</td><td>1x10</td><td>0.00390625 * (q + 128)</td>" in page


def test_the_metadata_is_with_the_inputs() -> None:
    x, y = floats(1, 2, 2, 3, name="x<b>"), floats(1, 2, 2, 3, name="y")
    net = Net([x], [y])
    net.op("NEG", [x], y)
    described = metadata("Pixels", mean=[100.0], std=[2.0], labels="l.txt")
    model = nnvk.load(packed(write(net, metadata=described), {"l.txt": "red\ngreen\n"}), device="cpu")
    assert model.metadata.name == "Pixels"
    assert model.inputs[0].metadata.mean == (100.0,)
    assert model.outputs[0].metadata.labels == ("red", "green")
    assert "x&lt;b&gt;" in model._repr_html_()
    assert "2 labels" in model._repr_html_()


@pytest.mark.parametrize("device", DEVICES)
def test_where_and_how_long(device: str) -> None:
    model = nnvk.load(INT8, device=device)
    placed = model.where()
    assert [one.operation for one in placed][:2] == ["CONV_2D", "DEPTHWISE_CONV_2D"]
    assert {one.device for one in placed} == {device}
    assert all(one.reason == "" for one in placed)
    assert placed[0].layer is not None
    assert placed[0].layer.name == "stem"
    for profile in (model.profile(), model.profile(SEVEN)):
        assert (profile.model, profile.device) == ("digits_int8.tflite", device)
        assert sum(part.share for part in profile.parts) == pytest.approx(1)


# --- devices and the end ----------------------------------------------------------------------------------------------


def test_devices() -> None:
    cpu = next(device for device in get_devices() if device.type is nnvk.DeviceTypeCode.CPU)
    for name in ("cpu", "CPU", cpu.name, cpu):
        model = nnvk.load(FLOAT, device=name)
        assert model.compilation.devices == (cpu,)
    assert nnvk.load(FLOAT).compilation.devices is None
    with pytest.raises(NnapiError, match="there is no device 'abacus'; the devices are"):
        nnvk.load("absent.tflite", device="abacus")


def test_no_fallback() -> None:
    (device,) = nnvk.load(FLOAT, fallback=False).compilation.devices or ()
    assert isinstance(device, Device)


def test_the_end() -> None:
    with nnvk.load(arithmetic(), device="cpu") as model:
        other = model["times"]
        assert (other(x=[1, 1, 1, 1])["y"] == 3).all()
    for call in (lambda: model(A, B), lambda: model.start(A, B), lambda: other(x=[1, 1, 1, 1])):
        with pytest.raises(NnapiError, match="the model is closed") as caught:
            call()
        assert caught.value.code is ResultCode.BAD_STATE
    assert "closed" in repr(model)


def test_plans_are_kept_for_other_processes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    vulkan = next((name for name in DEVICES if name.startswith("vulkan")), None)
    if vulkan is None:
        pytest.skip("needs a Vulkan device")
    zeros = np.zeros((1, 16, 16, 1), np.float32)
    first = nnvk.load(FLOAT, device=vulkan, cache=tmp_path)(zeros)
    (file,) = tmp_path.glob("*.nnvk")
    with caplog.at_level("DEBUG", "nnvk.driver"):
        assert (nnvk.load(FLOAT, device=vulkan, cache=tmp_path)(zeros) == first).all()
    assert f"the plan comes from cache file {file}" in caplog.text
    nnvk.load(FLOAT, device=vulkan, cache=tmp_path, relaxed=True)
    assert len(list(tmp_path.glob("*.nnvk"))) == 2
    with pytest.raises(NnapiError, match="the folder for plans does not exist"):
        nnvk.load(FLOAT, cache=tmp_path / "absent")
    with pytest.raises(TypeError, match="NNVK_KEEP_PLANS=0 keeps no plans"):
        nnvk.load(FLOAT, cache=False)


@pytest.mark.skipif("vulkan-0" not in DEVICES, reason="there is no Vulkan device")
def test_a_call_of_a_small_model_makes_few_calls() -> None:
    """All that can be done before is done before: the fixed cost of a call is that of its functions."""
    loaded = nnvk.load(arithmetic(), device="vulkan-0")
    a = np.ones((2, 3), np.float32)
    loaded(a, a)
    profile = cProfile.Profile()
    profile.runcall(lambda: [loaded(a, a) for _ in range(20)])
    # The function that is profiled, and the end of profiling, are calls too. Versions of Python count those of locks
    # differently.
    counted = (function for function in profile.getstats() if "_thread" not in str(function.code))
    assert sum(function.callcount for function in counted) // 20 <= 65
