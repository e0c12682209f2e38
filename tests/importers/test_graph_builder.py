"""The graph under construction: constants and what they are charged, shapes, folding, edges, and the finished model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from recorded_budget import RecordedBudget

from nnvk import OperandCode, OperandType
from nnvk.api import Model
from nnvk.importers import graph_builder
from nnvk.importers.budget import PART_COST, SCALE_COST
from nnvk.importers.emitter import BOOL8, F32, I32, NONE
from nnvk.importers.errors import Unmapped
from nnvk.importers.graph_builder import Argument, Graph, Source, Value, at_least_1d, edge_shape
from nnvk.types.codes import OperationCode as Op
from nnvk.types.constant import DeferredConstant
from nnvk.types.operand import ChannelQuant

F16 = OperandType(OperandCode.TENSOR_FLOAT16)
Q8 = OperandType(OperandCode.TENSOR_QUANT8_ASYMM_SIGNED, scale=0.5, zero_point=3)
Q16 = OperandType(OperandCode.TENSOR_QUANT16_SYMM, scale=0.25)
LARGE = 4096
"""Elements of FLOAT32 that are no small constant."""


@pytest.fixture
def budget() -> RecordedBudget:
    return RecordedBudget()


@pytest.fixture
def graph(budget: RecordedBudget) -> Graph:
    return Graph(budget, relaxed=False)


def floats(graph: Graph, *shape: int) -> Value:
    return graph.input(F32.with_dimensions(shape))


def constant(graph: Graph, *numbers: float, type_: OperandType = F32) -> Value:
    return graph.constant(type_.with_dimensions((len(numbers),)), lambda: np.array(numbers))


def finished(graph: Graph, *outputs: Value) -> Model:
    return graph.finish(outputs, [f"in{index}" for index in range(len(graph._inputs))])


def codes(graph: Graph, *outputs: Value) -> list[str]:
    """The operations of the finished model."""
    return [operation.code.name for operation in finished(graph, *outputs).frozen.operations]


# --- constants -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("elements", "is_made"), [(LARGE - 1, True), (LARGE, False), (LARGE + 1, False)])
def test_small_constants_are_made_at_once(elements: int, is_made: bool, graph: Graph, budget: RecordedBudget) -> None:
    value = graph.deferred(F32.with_dimensions((elements,)), lambda: np.ones(elements, np.float32))
    assert isinstance(value.constant, DeferredConstant) is not is_made
    assert budget.charged == [4 * elements]
    assert value.array.shape == (elements,) and value.array.all()


@pytest.mark.parametrize(
    ("make", "is_deferred"),
    [
        (lambda: np.ones((64, 128), np.float32), False),
        (lambda: np.ones((128, 64), np.float32).T, True),
        (lambda: np.ones((64, 128), np.float64), True),
        (lambda: np.ones((64, 128), np.int32), True),
    ],
    ids=["as it is", "in another order", "of double precision", "of whole numbers"],
)
def test_large_arrays_are_kept(
    make: Callable[[], np.ndarray], is_deferred: bool, graph: Graph, budget: RecordedBudget
) -> None:
    array = make()
    value = graph.kept(F32.with_dimensions((64, 128)), array)
    assert isinstance(value.constant, DeferredConstant) is is_deferred
    assert np.shares_memory(value.array, array) is (array.dtype == np.float32)
    assert (value.array.dtype, value.array.shape, budget.charged) == (np.float32, (64, 128), [4 * 64 * 128])


@pytest.mark.parametrize(("dtype", "is_kept"), [(np.float32, True), (np.float16, False)])
def test_large_deferred_constants(dtype: type, is_kept: bool, graph: Graph, budget: RecordedBudget) -> None:
    given = DeferredConstant((LARGE,), np.dtype(dtype), lambda: np.ones(LARGE, dtype))
    value = graph.kept(F32.with_dimensions((LARGE,)), given)
    assert (value.constant is given) is is_kept
    assert (value.array.dtype, budget.charged) == (np.float32, [4 * LARGE])


def test_constants_of_one_number_are_shared(graph: Graph, budget: RecordedBudget) -> None:
    type_ = F32.with_dimensions((2, 3))
    one = graph.filled(np.array(1, np.float32), type_)
    assert graph.filled(np.array(1, np.float32), type_) is one
    assert budget.charged == [24]
    assert graph.filled(np.array(2, np.float32), type_) is not one
    assert graph.filled(np.array(1, np.float32), F32.with_dimensions((3, 2))) is not one
    assert one.array.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_a_value_says_whether_it_is_known(graph: Graph) -> None:
    known, unknown = constant(graph, 1, 2), floats(graph, 2)
    assert (known.is_constant, unknown.is_constant, unknown.known_array) == (True, False, None)
    assert known.known_array is not None and known.known_array.tolist() == [1, 2]
    assert (known.size, known.shape, known.code) == (2, (2,), OperandCode.TENSOR_FLOAT32)


def test_what_is_derived_once(graph: Graph) -> None:
    value, made = floats(graph, 2), []

    def make() -> Value:
        made.append(constant(graph, 1))
        return made[-1]

    assert value.once("key", make) is value.once("key", make) is made[0]
    assert value.once("other", make) is made[1]


# --- operations ----------------------------------------------------------------------------------------------


def test_parts_are_charged(graph: Graph, budget: RecordedBudget) -> None:
    x = floats(graph, 2, 3)
    assert budget.charged == [PART_COST]
    graph.emit(Op.ADD, [x, constant(graph, 1, 2, 3), NONE], [F32])
    # The constant, its operand, the activation, the result, and the operation.
    assert budget.charged[1:] == [12, PART_COST + 12, PART_COST + 4, PART_COST, PART_COST]


def test_scales_of_channels_are_charged(graph: Graph, budget: RecordedBudget) -> None:
    code = OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL
    type_ = OperandType(code, (3, 1, 1, 2), channel_quant=ChannelQuant((0.5, 0.25, 1.0), 0))
    weights = graph.constant(type_, lambda: np.zeros((3, 1, 1, 2)))
    bias = graph.constant(I32.with_dimensions((3,)), lambda: np.zeros(3))
    source = graph.input(Q8.with_dimensions((1, 2, 2, 2)))
    before = len(budget.charged)
    graph.emit(Op.CONV_2D, [source, weights, bias, 2, 1, 1, NONE], [Q8])
    assert budget.charged[before] == PART_COST + 3 * SCALE_COST + 6


def test_an_operand_is_added_with_its_first_use(graph: Graph, budget: RecordedBudget) -> None:
    x, y = floats(graph, 2), constant(graph, 1, 2)
    graph.emit(Op.MAXIMUM, [x, y], [F32])
    before = len(budget.charged)
    graph.emit(Op.MAXIMUM, [x, y], [F32])
    assert budget.charged[before:] == [PART_COST, PART_COST]  # the result and the operation


FOLDED: dict[str, tuple[bool, bool, str]] = {
    "constants": (True, True, ""),
    "constants that are not to be folded": (True, False, "ADD"),
    "an input": (False, True, "ADD"),
}


@pytest.mark.parametrize("what", FOLDED)
def test_folding(what: str, graph: Graph, budget: RecordedBudget) -> None:
    is_constant, fold, code = FOLDED[what]
    x = constant(graph, 1, 2) if is_constant else floats(graph, 2)
    before = len(budget.charged)
    (value,) = graph.emit(Op.ADD, [x, constant(graph, 3, 4), NONE], [F32], fold=fold)
    assert value.is_constant is not bool(code)
    assert [operation.code.name for operation in graph._operations] == [code] * bool(code)
    if not code:
        assert value.array.tolist() == [4, 6]
        assert budget.charged[before:] == [8, 8]  # the second constant, and the result


@pytest.mark.parametrize("more", [0, 1])
def test_the_largest_result_that_is_folded(more: int, graph: Graph) -> None:
    """4 Mi elements, of all results together."""
    count = (1 << 22) + 2 * more
    source = graph.constant(F32.with_dimensions((count,)), lambda: np.zeros(count))
    parts = graph.emit(Op.SPLIT, [source, 0, 2], [F32, F32])
    assert [part.is_constant for part in parts] == [not more] * 2


def test_a_random_number_is_not_folded(graph: Graph) -> None:
    logits = graph.constant(F32.with_dimensions((1, 3)), lambda: np.zeros((1, 3)))
    (value,) = graph.emit(Op.RANDOM_MULTINOMIAL, [logits, 5, constant(graph, 1, 2, type_=I32)], [I32])
    assert not value.is_constant


@pytest.mark.parametrize(
    ("source", "number", "code"),
    [
        (F32, 0.5, OperandCode.FLOAT32),
        (F16, 0.5, OperandCode.FLOAT16),
        (F32, 1, OperandCode.INT32),
        (F32, True, OperandCode.BOOL),
        (F16, False, OperandCode.BOOL),
    ],
)
def test_numbers_as_operands(source: OperandType, number: float, code: OperandCode) -> None:
    operand = graph_builder._operand(number, OperandCode.FLOAT16 if source is F16 else OperandCode.FLOAT32)
    assert operand.type == OperandType(code)
    assert isinstance(operand.constant, np.ndarray) and operand.constant.item() == number


@pytest.mark.parametrize(("type_", "code"), [(F32, OperandCode.FLOAT32), (F16, OperandCode.FLOAT16)])
def test_real_numbers_beside_halves_are_halves(type_: OperandType, code: OperandCode, graph: Graph) -> None:
    value = graph.input(type_.with_dimensions((2, 3)))
    (result,) = graph.emit(Op.SOFTMAX, [value, 1e9], [type_])
    operation = finished(graph, result).frozen.operations[0]
    beta = finished(graph, result).frozen.operands[operation.inputs[1]]
    assert beta.type.code is code
    assert np.isinf(np.asarray(beta.constant)) == (type_ is F16)


def test_arrays_as_operands(graph: Graph) -> None:
    x = floats(graph, 2, 3)
    for numbers in (np.array([1, 0]), np.array([1.0, 0.0])):
        (value,) = graph.emit(Op.TRANSPOSE, [x, numbers], [F32])
        assert value.shape == (3, 2)
    for numbers, shown in ((np.array([0.5, 0]), "[0.5, 0.0]"), (np.array([1 << 32, 0]), "[4294967296, 0]")):
        with pytest.raises(Unmapped) as caught:
            graph.emit(Op.TRANSPOSE, [x, numbers], [F32])
        assert str(caught.value) == f"parameters must be whole numbers of 32 bits, got {shown}"


REFUSED: dict[str, tuple[Op, Callable[[Graph], Sequence[Argument]], str]] = {
    "operands that the operation does not take": (
        Op.ADD,
        lambda graph: [floats(graph, 2), floats(graph, 3), NONE],
        "shape",
    ),
    "a shape that only the model knows": (
        Op.TILE,
        lambda graph: [floats(graph, 2), graph.input(I32.with_dimensions((1,)))],
        "TILE: .*, and the file does not say its output's shape$",
    ),
    "a result without elements": (
        Op.SLICE,
        lambda graph: [floats(graph, 2), np.array([0]), np.array([0])],
        r"SLICE: ",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str, graph: Graph) -> None:
    code, arguments, reason = REFUSED[what]
    with pytest.raises(Unmapped, match=reason):
        graph.emit(code, arguments(graph), [F32])


@pytest.mark.parametrize(
    ("declared", "shape"), [(None, None), ([()], None), ([(4,)], (4,))], ids=["nothing", "no sizes", "a size"]
)
def test_declared_shapes(
    declared: Sequence[tuple[int, ...]] | None, shape: tuple[int, ...] | None, graph: Graph
) -> None:
    arguments = [floats(graph, 2), graph.input(I32.with_dimensions((1,)))]
    if shape is None:
        with pytest.raises(Unmapped, match="the file does not say its output's shape"):
            graph.emit(Op.TILE, arguments, [F32], declared=declared)
    else:
        assert graph.emit(Op.TILE, arguments, [F32], declared=declared)[0].shape == shape


@pytest.mark.parametrize("open_", [False, True])
def test_sizes_that_data_decide(open_: bool, graph: Graph) -> None:
    arguments = [floats(graph, 2), graph.input(I32.with_dimensions((1,)))]
    if open_:
        (value,) = graph.emit(Op.TILE, arguments, [F32], declared=[(0,)], open_=True)
        assert value.shape == (0,)
        with pytest.raises(Unmapped, match="a tensor whose size data decide is an output twice"):
            graph.copy(value)
    else:
        with pytest.raises(Unmapped, match=r"TILE: an output of shape \[0\] has no elements"):
            graph.emit(Op.TILE, arguments, [F32], declared=[(0,)])


def test_a_result_that_is_too_large(graph: Graph) -> None:
    with pytest.raises(Unmapped, match="a dimension is a number of 32 bits"):
        graph.emit(Op.TILE, [floats(graph, 1 << 20), np.array([1 << 20])], [F32])


# --- whole numbers that may need 64 bits ---------------------------------------------------------------------

WIDE: dict[str, tuple[Op, list[tuple[int, int]], str]] = {
    "a sum that fits": (Op.ADD, [(0, 2**30), (0, 2**30 - 1)], "ADD"),
    "a sum that may not": (Op.ADD, [(0, 2**30), (0, 2**30)], "ADD_INT64 INT64_TO_INT32"),
    "a difference that fits": (Op.SUB, [(-(2**30), 0), (0, 2**30)], "SUB"),
    "a difference that may not": (Op.SUB, [(-(2**30) - 1, 0), (0, 2**30)], "SUB_INT64 INT64_TO_INT32"),
    "a product that fits": (Op.MUL, [(-(2**16), 0), (0, 2**15)], "MUL"),
    "a product that may not": (Op.MUL, [(0, 2**16), (0, 2**15)], "MUL_INT64 INT64_TO_INT32"),
    "a negation that fits": (Op.NEG, [(-(2**31) + 1, 0)], "NEG"),
    "a negation that may not": (Op.NEG, [(-(2**31), 0)], "SUB_INT64 INT64_TO_INT32"),
    "a magnitude that fits": (Op.ABS, [(-(2**31) + 1, 0)], "ABS"),
    "a magnitude that may not": (Op.ABS, [(-(2**31), 0)], "SUB_INT64 INT64_TO_INT32 MAXIMUM INT64_TO_INT32"),
    "the larger": (Op.MAXIMUM, [(-(2**31), 0), (-(2**31), 0)], "MAXIMUM"),
}


@pytest.mark.parametrize("is_checked", [True, False])
@pytest.mark.parametrize("what", WIDE)
def test_checked_whole_numbers(what: str, is_checked: bool, graph: Graph) -> None:
    code, known, wanted = WIDE[what]
    graph.is_checked = is_checked
    inputs = [graph.input(I32.with_dimensions((2,)), one) for one in known]
    more = [NONE] if code in (Op.ADD, Op.SUB, Op.MUL) else []
    (value,) = graph.emit(code, [*inputs, *more], [I32])
    assert " ".join(codes(graph, value)) == (wanted if is_checked else code.name)


@pytest.mark.parametrize("source", [F32, I32])
@pytest.mark.parametrize("is_checked", [True, False])
def test_checked_casts(is_checked: bool, source: OperandType, graph: Graph) -> None:
    graph.is_checked = is_checked
    (value,) = graph.emit(Op.CAST, [graph.input(source.with_dimensions((2,)))], [I32])
    is_wide = is_checked and source is F32
    assert codes(graph, value) == (["FLOAT_TO_INT64", "INT64_TO_INT32"] if is_wide else ["CAST"])


def test_real_numbers_are_not_checked(graph: Graph) -> None:
    graph.is_checked = True
    x = floats(graph, 2)
    assert codes(graph, *graph.emit(Op.ADD, [x, x, NONE], [F32])) == ["ADD"]


def test_bounds(graph: Graph) -> None:
    known = graph.input(I32.with_dimensions((2,)), (-3, 5))
    assert (known.bounds, graph.reshape(known, (2, 1)).bounds) == ((-3, 5), (-3, 5))
    assert graph.input(I32.with_dimensions((2,))).bounds == (-(2**31), 2**31 - 1)
    assert constant(graph, 4, -7, type_=I32).bounds == (-7, 4)
    (total,) = graph.emit(Op.ADD, [known, known, NONE], [I32])
    assert total.bounds == (-6, 10)
    (kept,) = graph.emit(Op.CAST, [known], [F32])
    assert kept.known is None


# --- shapes and edges ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "found"), [((), (1,)), ((1,), (1,)), ((2, 3), (2, 3))])
def test_a_single_element_has_rank_1(shape: tuple[int, ...], found: tuple[int, ...]) -> None:
    assert at_least_1d(shape) == found


@pytest.mark.parametrize(
    ("shape", "found"),
    [((2,), (2,)), ((2, 3, 4, 5), (2, 3, 4, 5)), ((2, 3, 4, 5, 6), (6, 4, 5, 6)), ((2, 3, 1, 2, 3, 4), (6, 2, 3, 4))],
)
def test_edges_have_four_dimensions(shape: tuple[int, ...], found: tuple[int, ...], graph: Graph) -> None:
    assert edge_shape(shape) == found
    value = floats(graph, *shape)
    assert (value.shape, value.index, value.origin is None) == (shape, 0 if shape == found else -1, shape == found)
    frozen = finished(graph, value).frozen
    assert [type_.dimensions for type_ in (*frozen.input_types(), *frozen.output_types())] == [found] * 2


def test_reshapes_cost_nothing_until_they_are_used(graph: Graph) -> None:
    x = floats(graph, 2, 3)
    row, column = graph.reshape(x, (6,)), graph.reshape(x, (3, 2))
    assert graph.reshape(x, (2, 3)) is x and graph.reshape(row, (2, 3)) is x
    assert graph.reshape(x, (6,)) is row and graph.reshape(column, (6,)) is row
    assert not graph._operations
    graph.expose(row)
    graph.expose(row)
    assert [operation.code for operation in graph._operations] == [Op.RESHAPE]
    y = constant(graph, 1, 2, 3, 4)
    square = graph.reshape(y, (2, 2))
    assert square.array.tolist() == [[1, 2], [3, 4]] and graph.reshape(y, (2, 2)) is square


def test_booleans_are_reshaped_as_numbers(graph: Graph) -> None:
    x = graph.input(BOOL8.with_dimensions((2, 3)))
    assert codes(graph, graph.reshape(x, (6,))) == ["SELECT", "RESHAPE", "NOT_EQUAL"]


# --- the finished model --------------------------------------------------------------------------------------


def test_outputs_are_written_once_each(graph: Graph) -> None:
    """An input, a constant, and a tensor that is an output twice are copied."""
    x = floats(graph, 2)
    (y,) = graph.emit(Op.TANH, [x], [F32])
    assert codes(graph, y, y, x, constant(graph, 1, 2)) == ["TANH", "RESHAPE", "RESHAPE", "RESHAPE"]


def test_booleans_are_copied_by_logic(graph: Graph) -> None:
    x = graph.input(BOOL8.with_dimensions((2,)))
    known = graph.constant(BOOL8.with_dimensions((2,)), lambda: np.array([True, False]))
    assert codes(graph, x, known) == ["LOGICAL_OR", "LOGICAL_OR"]


def test_operations_that_no_output_needs_are_dropped(graph: Graph) -> None:
    x, unused = floats(graph, 2), floats(graph, 3)
    graph.emit(Op.EXP, [x], [F32])
    (y,) = graph.emit(Op.TANH, [x], [F32])
    graph.emit(Op.ABS, [unused], [F32])
    (z,) = graph.emit(Op.NEG, [y], [F32])
    frozen = finished(graph, z).frozen
    assert [operation.code.name for operation in frozen.operations] == ["TANH", "NEG"]
    assert [type_.dimensions for type_ in frozen.input_types()] == [(2,), (3,)]
    assert len(frozen.operands) == 4


def test_sources_and_places(graph: Graph) -> None:
    x = floats(graph, 2)
    graph.source = Source(3, "TANH", "a")
    (y,) = graph.emit(Op.TANH, [x], [F32])
    graph.source = Source(4, "EXP", "b")
    (dead,) = graph.emit(Op.EXP, [x], [F32])
    graph.source = None
    model = finished(graph, y, y)
    assert graph.sources(model) == (Source(3, "TANH", "a"), None)
    frozen = model.frozen
    assert graph.place(x) == frozen.inputs[0] and graph.place(y) == frozen.outputs[0]
    assert graph.place(graph.reshape(x, (2, 1))) == frozen.inputs[0]
    assert (graph.place(dead), graph.place(constant(graph, 1))) == (None, None)


@pytest.mark.parametrize("relaxed", [False, True])
def test_relaxed(relaxed: bool, budget: RecordedBudget) -> None:
    graph = Graph(budget, relaxed)
    assert finished(graph, floats(graph, 2)).frozen.relaxed is relaxed
