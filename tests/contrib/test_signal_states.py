"""tflite-micro's operators on signals that keep a state: several executions are as one on the whole signal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from handed_over import Graph, Node, Tensor
from signal_net import executed, model, options
from tflite_net import Net, T, write

from nnvk.api import Compilation, run
from nnvk.base.errors import NnapiError
from nnvk.base.packets import Reader, Writer
from nnvk.importers.tflite import TfliteImportError, load, partition

SIGNED, UNSIGNED = "INT16", "UINT32"
VALID = T("BOOL", ())


def signal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-(2**15), 2**15, shape).astype(np.int16)


def parts(whole: np.ndarray, count: int) -> list[list[np.ndarray]]:
    """The executions of a signal, along its last axis."""
    return [[part] for part in np.split(whole, count, axis=-1)]


def results(
    name: str, executions: Sequence[Sequence[np.ndarray]], outputs: Sequence[T], **entries: float
) -> list[list[np.ndarray]]:
    (array,) = executions[0]
    data = model(f"Signal{name}", [T(array.dtype.name.upper(), array.shape)], outputs, **entries)
    return executed(data, executions)


# --- delays and frames ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 3, 5, 11])
def test_a_delay(length: int) -> None:
    whole = signal(length, 2, 35)
    found = results("Delay", parts(whole, 7), [T(SIGNED, (2, 5))], delay_length=length)
    want = np.concatenate([np.zeros((2, length), np.int16), whole], axis=1)[:, :35]
    np.testing.assert_array_equal(np.concatenate([one for (one,) in found], axis=1), want)


@pytest.mark.parametrize(
    ("size", "stride", "width", "prefill"),
    [(7, 3, 9, True), (7, 3, 3, False), (7, 3, 12, False), (5, 5, 10, True), (23, 2, 6, False), (3, 7, 14, False)],
)
def test_frames(size: int, stride: int, width: int, prefill: bool) -> None:
    """Those that are not there yet are zeros, and the first that is begins with the signal."""
    whole, count = signal(size, 2, width * 6), width // stride
    shape = (2, count, size)
    entries = {"frame_size": size, "frame_step": stride, "prefill": prefill}
    found = results("Framer", parts(whole, 6), [T(SIGNED, shape), T("BOOL", ())], **entries)
    line = np.concatenate([np.zeros((2, size - stride if prefill else 0), np.int16), whole], axis=1)
    early = 0 if prefill else max(0, -(-size // stride) - 1)
    frames = [np.zeros((2, size), np.int16)] * early
    frames += [line[:, at : at + size] for at in range(0, line.shape[1] - size + 1, stride)]
    for number, (got, valid) in enumerate(found):
        np.testing.assert_array_equal(got, np.stack(frames[number * count : (number + 1) * count], axis=1))
        assert valid.tolist() is (number * count >= early)


@pytest.mark.parametrize(
    ("left", "right", "stride"), [(2, 1, 1), (1, 1, 2), (0, 3, 4), (3, 0, 2), (0, 0, 1), (2, 2, 5)]
)
def test_stacks(left: int, right: int, stride: int) -> None:
    """The first frame stands for those before it."""
    whole, height = signal(left, 13, 3), left + right + 1
    outputs = [T(SIGNED, (height * 3,)), T("BOOL", ())]
    entries = {"num_channels": 3, "stacker_left_context": left, "stacker_right_context": right, "stacker_step": stride}
    found = results("Stacker", [[frame] for frame in whole], outputs, **entries)
    line = np.concatenate([np.repeat(whole[:1], left, axis=0), whole])
    assert [valid.tolist() for _, valid in found] == [
        number >= right and (number - right) % stride == 0 for number in range(13)
    ]
    for number, (got, valid) in enumerate(found):
        first = number - right
        np.testing.assert_array_equal(got, line[first : first + height].reshape(-1) if valid else 0)


# --- sums ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "stride", "count"), [(7, 3, 4), (5, 5, 2), (9, 2, 3), (4, 1, 1)])
@pytest.mark.parametrize("dtype", [np.int16, np.float32])
def test_frames_that_overlap_are_added(dtype: type[np.generic], size: int, stride: int, count: int) -> None:
    """Sums of INT16 are saturated each time."""
    frames = signal(size, 2, 5 * count, size).astype(dtype)
    type_, number = (SIGNED, 7) if dtype is np.int16 else ("FLOAT32", 0)
    executions = [[part] for part in np.split(frames, 5, axis=1)]
    found = results("OverlapAdd", executions, [T(type_, (2, count * stride))], T=number, frame_step=stride)
    line = np.zeros((2, 5 * count * stride + size))
    for at in range(5 * count):
        line[:, at * stride : at * stride + size] += frames[:, at]
        if dtype is np.int16:
            line = line.clip(-(2**15), 2**15 - 1)
    got = np.concatenate([one for (one,) in found], axis=1)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, line[:, : got.shape[1]], rtol=1e-6)


@pytest.mark.parametrize(
    ("smoothing", "extra", "shift", "clamping"),
    [(655, 10, 14, True), (9000, 0, 14, False), (2**31 - 1, 3, 20, False), (123, 5, 0, True)],
)
def test_noise_is_subtracted(smoothing: int, extra: int, shift: int, clamping: bool) -> None:
    """Numbers wrap around within 32 bits, and products within 64."""
    rng = np.random.default_rng(extra)
    executions = [[rng.integers(0, 2 ** (17 + 15 * (at % 2)), 7).astype(np.uint32)] for at in range(5)]
    factors = {"smoothing": smoothing, "one_minus_smoothing": 15729, "alternate_smoothing": 999}
    factors["alternate_one_minus_smoothing"] = 15385
    found = results(
        "FilterBankSpectralSubtraction",
        executions,
        [T(UNSIGNED, (7,)), T(UNSIGNED, (7,))],
        **factors,
        clamping=clamping,
        min_signal_remaining=820,
        num_channels=7,
        smoothing_bits=extra,
        spectral_subtraction_bits=shift,
    )
    noise = [0] * 7
    for (numbers,), (got, estimate) in zip(executions, found, strict=True):
        want = []
        for at, number in enumerate(numbers.tolist()):
            new, old = (999, 15385) if at % 2 else (smoothing, 15729)
            scaled = (number << extra) % 2**32
            noise[at] = ((scaled * new + noise[at] * old) % 2**64 >> shift) % 2**32
            taken = min(noise[at], scaled)
            if clamping:
                noise[at] = taken
            want.append(max((scaled - taken) >> extra, (number * 820 >> shift) % 2**32))
        assert (got.tolist(), estimate.tolist()) == (want, noise)


# --- states --------------------------------------------------------------------------------------------------


def test_states_have_names_and_begin_anew() -> None:
    entries = {"frame_size": 7, "frame_step": 3, "prefill": False}
    data = model("SignalFramer", [T(SIGNED, (2, 9))], [T(SIGNED, (2, 3, 7)), VALID], **entries)
    imported = load(data)
    named = [(state.input.name, state.input.file_type, state.input.shape) for state in imported.states]
    assert named == [("SignalFramer 0/samples", SIGNED, (2, 9)), ("SignalFramer 0/count", "INT32", (1,))]
    assert not any(one.any() for one in imported.initial_state())
    whole = [[signal(1, 2, 9)]]
    for got, want in zip(executed(data, whole)[0], executed(data, whole)[0], strict=True):
        np.testing.assert_array_equal(got, want)


def test_two_operators_of_a_kind_have_their_own_states() -> None:
    source, middle, result = (T(SIGNED, (4,)) for _ in range(3))
    net = Net([source], [result])
    net.op("SignalDelay", [source], middle, custom=options(delay_length=2))
    net.op("SignalDelay", [middle], result, custom=options(delay_length=3))
    whole = signal(8, 20)
    found = executed(write(net), parts(whole, 5))
    np.testing.assert_array_equal(np.concatenate([one for (one,) in found]), [*np.zeros(5, np.int16), *whole[:15]])


@pytest.mark.parametrize("count", [-1, 10])
def test_a_state_that_can_not_be_fails_the_execution(count: int) -> None:
    entries = {"frame_size": 7, "frame_step": 3, "prefill": False}
    imported = load(model("SignalFramer", [T(SIGNED, (2, 9))], [T(SIGNED, (2, 3, 7)), VALID], **entries))
    samples, _ = imported.initial_state()
    compilation = Compilation(imported.model)
    compilation.finish()
    encoded = imported.encode([signal(1, 2, 9)], [samples, np.array([count], np.int32)])
    with pytest.raises(NnapiError, match=f"SignalFramer.*from 0 to 9 elements, got {count}"):
        run(compilation, encoded)


def test_a_state_is_none_of_the_delegate() -> None:
    """TensorFlow Lite has no tensor for it. It can hand over an operator that has none."""
    tensors = [Tensor(number, (12,), "INT16") for number in range(3)]
    nodes = [
        Node(32, (0,), (1,), options(delay_length=2), "SignalDelay"),
        Node(32, (1, 1), (2,), options(shift=3), "SignalWindow"),
    ]
    packet = b"".join(Graph(tensors, nodes, [0], [2]).put(Writer()).parts)
    reasons = partition.examine(partition.read(Reader(memoryview(packet))))
    assert reasons == ["a state that is no tensor can't be handed over", ""]


def test_a_state_in_a_branch_is_refused() -> None:
    source, result = T(SIGNED, (4,)), T(SIGNED, (4,))
    branches = []
    for _ in range(2):
        one, other = T(SIGNED, (4,)), T(SIGNED, (4,))
        branch = Net([one], [other])
        branch.op("SignalDelay", [one], other, custom=options(delay_length=2))
        branches.append(branch)
    choice = T("BOOL", (1,))
    net = Net([choice, source], [result])
    net.op("IF", [choice, source], result, "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=2)
    with pytest.raises(TfliteImportError, match="subgraph 1 has variables"):
        load(write(net, *branches))


# --- refusals ------------------------------------------------------------------------------------------------

FRAME, FRAMES, CHANNELS = T(SIGNED, (2, 12)), T(SIGNED, (2, 3, 8)), T(UNSIGNED, (5,))
FRAMER = {"frame_size": 8, "frame_step": 4, "prefill": True}
STACK = {"num_channels": 6, "stacker_left_context": 1, "stacker_right_context": 1, "stacker_step": 1}
STACKED = [T(SIGNED, (18,)), VALID]
ADDED = {"T": 7, "frame_step": 4}
NOISE: dict[str, float] = dict.fromkeys(
    [
        *("alternate_one_minus_smoothing", "alternate_smoothing", "min_signal_remaining", "one_minus_smoothing"),
        *("smoothing", "smoothing_bits", "spectral_subtraction_bits"),
    ],
    1,
)
NOISE |= {"clamping": True, "num_channels": 5}
SUBTRACTION = "FilterBankSpectralSubtraction"


@pytest.mark.parametrize(
    ("name", "source", "outputs", "entries", "reason"),
    [
        (
            "Delay",
            T("FLOAT32", (4,)),
            [FRAME],
            {"delay_length": 1},
            "the input must be of int16, got float32",
        ),
        ("Delay", FRAME, [FRAME], {"delay_length": -1}, "delay_length must be a whole number from 0 to"),
        ("Delay", FRAME, [FRAME], {"delay_length": 1 << 40}, "delay_length must be a whole number from 0 to"),
        ("Delay", FRAME, [T(SIGNED, (12,))], {"delay_length": 1}, "is declared [12], its inputs give [2, 12]"),
        ("Framer", FRAME, [FRAMES], FRAMER, "its function must give 3 outputs and states, got 4"),
        ("Framer", FRAME, [FRAMES, T(SIGNED, ())], FRAMER, "its function must give output 1 as int16, got bool"),
        ("Framer", FRAME, [FRAMES, VALID], {**FRAMER, "frame_step": 5}, "must be a multiple of 5, got [2, 12]"),
        ("Framer", FRAME, [FRAMES, VALID], {**FRAMER, "frame_step": 12}, "at most frame_size = 8 with prefill, got 12"),
        ("Framer", FRAME, [FRAMES, VALID], {**FRAMER, "frame_size": 0}, "frame_size must be a whole number from 1"),
        (
            "Framer",
            T(SIGNED, (2, 8000)),
            [FRAMES, VALID],
            {**FRAMER, "frame_size": 1 << 16},
            "constants, states and operations take more",
        ),
        ("Delay", T(SIGNED, (99, 4)), [FRAME], {"delay_length": 1 << 24}, "constants, states and operations take more"),
        ("Framer", FRAME, [FRAME, VALID], FRAMER, "is declared [2, 12], its inputs give [2, 3, 8]"),
        ("Stacker", FRAME, STACKED, STACK, "the input must have 1 dimensions, got shape [2, 12]"),
        ("Stacker", T(SIGNED, (7,)), STACKED, STACK, "num_channels must be a whole number from 7 to 7, got 6"),
        ("Stacker", T(SIGNED, (6,)), STACKED, {**STACK, "stacker_step": 4}, "from 1 to 3, got 4"),
        ("Stacker", T(SIGNED, (6,)), [T(SIGNED, (12,)), VALID], STACK, "is declared [12], its inputs give [18]"),
        ("Stacker", T(SIGNED, (6,)), STACKED, {**STACK, "stacker_left_context": 1 << 23}, "a stack must have at most"),
        ("OverlapAdd", T("INT32", (3, 8)), [FRAME], ADDED, "must be of float32, int16, got int32"),
        ("OverlapAdd", FRAMES, [FRAME], {**ADDED, "T": 0}, "the option T must be 7, the number of INT16, got 0"),
        ("OverlapAdd", FRAMES, [FRAME], {**ADDED, "frame_step": 9}, "from 1 to 8, got 9"),
        ("OverlapAdd", T(SIGNED, (8,)), [FRAME], ADDED, "must have 2 dimensions at least, got shape [8]"),
        ("OverlapAdd", FRAMES, [T(SIGNED, (12,))], ADDED, "is declared [12], its inputs give [2, 12]"),
        (SUBTRACTION, CHANNELS, [CHANNELS], NOISE, "its function must give 2 outputs and states, got 3"),
        (SUBTRACTION, FRAME, [CHANNELS, CHANNELS], NOISE, "must be of uint32, got int16"),
        (SUBTRACTION, CHANNELS, [CHANNELS, CHANNELS], {**NOISE, "num_channels": 4}, "from 5 to 5, got 4"),
        (SUBTRACTION, CHANNELS, [CHANNELS, CHANNELS], {**NOISE, "smoothing_bits": 32}, "from 0 to 31, got 32"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_refusals(name: str, source: T, outputs: Sequence[T], entries: dict[str, float], reason: str) -> None:
    one, *several = T(source.type, source.shape), *(T(output.type, output.shape) for output in outputs)
    with pytest.raises(TfliteImportError) as raised:
        load(model(f"Signal{name}", [one], several, **entries))
    assert f"operator 0 (Signal{name})" in str(raised.value)
    assert reason in str(raised.value)
