"""TFLite's metadata, field by field: what each says, which are left out, the limits, and what is charged for them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import flatbuffers
import pytest
from recorded_budget import RecordedBudget
from tflite_metadata import _floats, _offsets, _table

from nnvk.importers.metadata import Metadata, TensorMetadata
from nnvk.importers.tflite import metadata
from nnvk.importers.tflite.metadata import read_metadata

Builder = flatbuffers.Builder
Fields = Mapping[int, tuple[str, Any]]
Make = Callable[[Builder], Fields]
"""Makes the fields of a table."""
AXIS_LABELS, NORMALIZATION = ("byte", 2), ("byte", 1)


def texts(*fields: int) -> Make:
    """Texts that say which fields they are."""
    return lambda b: {field: ("offset", b.CreateString(f"text {field}")) for field in fields}


def nothing(b: Builder) -> Fields:
    return {}


def finished(b: Builder, fields: Fields) -> bytes:
    b.Finish(_table(b, fields) if fields else _empty(b), b"M001")
    return bytes(b.Output())


def _empty(b: Builder) -> int:
    b.StartObject(0)
    return b.EndObject()


def of_tensor(make: Make, *, is_input: bool = False) -> bytes:
    """Metadata of one input or output."""
    b = Builder(1024)
    fields = make(b)
    edge = _offsets(b, [_table(b, fields) if fields else _empty(b)])
    subgraphs = _offsets(b, [_table(b, {2 if is_input else 3: ("offset", edge)})])
    return finished(b, {3: ("offset", subgraphs)})


def tensor(make: Make, data: bytes = b"") -> TensorMetadata:
    """The metadata of an output."""
    (found,) = read_metadata(of_tensor(make), data).outputs
    return found


def labels(*files: tuple[str, tuple[str, int] | None]) -> Make:
    """Associated files: names and types; a type of None is left out."""

    def make(b: Builder) -> Fields:
        tables = [
            _table(b, {0: ("offset", b.CreateString(name)), **({} if type_ is None else {2: type_})})
            for name, type_ in files
        ]
        return {6: ("offset", _offsets(b, tables))}

    return make


def units(*given: tuple[tuple[str, int] | None, list[float], list[float]]) -> Make:
    """Process units: the kind of options, means and standard deviations."""

    def make(b: Builder) -> Fields:
        tables = []
        for kind, mean, std in given:
            options = _table(b, {0: ("offset", _floats(b, mean)), 1: ("offset", _floats(b, std))})
            tables.append(_table(b, {1: ("offset", options), **({} if kind is None else {0: kind})}))
        return {4: ("offset", _offsets(b, tables))}

    return make


def archive(files: Mapping[str, str], comment: bytes = b"") -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as out:
        out.comment = comment
        for name, text in files.items():
            out.writestr(name, text)
    return made.getvalue()


# --- fields --------------------------------------------------------------------------------------------------

MODEL_TEXTS = {0: "name", 1: "description", 2: "version", 4: "author", 5: "license"}


@pytest.mark.parametrize("field", MODEL_TEXTS)
def test_texts_of_a_model(field: int) -> None:
    b = Builder(64)
    found = read_metadata(finished(b, texts(field)(b)), b"")
    assert found == Metadata(**{MODEL_TEXTS[field]: f"text {field}"})


def test_a_model_of_which_nothing_is_said() -> None:
    assert read_metadata(finished(Builder(64), {}), b"") == Metadata()


@pytest.mark.parametrize("is_input", [True, False])
@pytest.mark.parametrize(("field", "name"), [(0, "name"), (1, "description")])
def test_texts_of_a_tensor(field: int, name: str, is_input: bool) -> None:
    found = read_metadata(of_tensor(texts(field), is_input=is_input), b"")
    wanted = (TensorMetadata(**{name: f"text {field}"}),)
    assert (found.inputs, found.outputs) == ((wanted, ()) if is_input else ((), wanted))


def test_the_first_subgraph_counts() -> None:
    b = Builder(64)
    tables = []
    for name in ("first", "second"):
        edge = _offsets(b, [_table(b, {0: ("offset", b.CreateString(name))})])
        tables.append(_table(b, {2: ("offset", edge)}))
    found = read_metadata(finished(b, {3: ("offset", _offsets(b, tables))}), b"")
    assert [one.name for one in found.inputs] == ["first"]


def test_a_text_that_is_no_utf_8() -> None:
    assert tensor(lambda b: {0: ("offset", b.CreateByteVector(b"a\xff"))}).name == "a\ufffd"


NORMAL = (NORMALIZATION, [1.0], [2.0])


@pytest.mark.parametrize(
    ("given", "mean", "std"),
    [
        ([NORMAL], (1.0,), (2.0,)),
        ([(NORMALIZATION, [1.0, 0.0], [2.0, 4.0])], (1.0, 0.0), (2.0, 4.0)),
        ([(None, [1.0], [2.0])], (), ()),
        ([(("byte", 2), [1.0], [2.0])], (), ()),
        ([NORMAL, (("byte", 2), [3.0], [4.0])], (1.0,), (2.0,)),
        ([NORMAL, (NORMALIZATION, [3.0], [4.0])], (3.0,), (4.0,)),
        ([(NORMALIZATION, [1.0], [])], (), ()),
        ([(NORMALIZATION, [], [2.0])], (), ()),
        ([(NORMALIZATION, [1.0], [2.0, 0.0])], (), ()),
        ([(NORMALIZATION, [1.0, float("inf")], [2.0])], (), ()),
        ([(NORMALIZATION, [1.0], [float("nan")])], (), ()),
    ],
)
def test_normalisation(given: Any, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    found = tensor(units(*given))
    assert (found.mean, found.std) == (mean, std)


def test_a_unit_without_options() -> None:
    assert tensor(lambda b: {4: ("offset", _offsets(b, [_table(b, {0: NORMALIZATION})]))}) == TensorMetadata()


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ([("a.txt", AXIS_LABELS)], ("cat", "dog")),
        ([("a.txt", None)], ()),
        ([("a.txt", ("byte", 1))], ()),
        ([("a.txt", ("byte", 3))], ()),
        ([("absent.txt", ("byte", 1)), ("b.txt", AXIS_LABELS), ("a.txt", AXIS_LABELS)], ("one", "", "two")),
    ],
)
def test_labels(files: Any, wanted: tuple[str, ...]) -> None:
    data = b"a model" + archive({"a.txt": "cat\r\ndog\r\n\r\n", "b.txt": "one\n\ntwo"})
    assert tensor(labels(*files), data).labels == wanted


# --- what is left out ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 1, 0xFFFF])
def test_an_archive_with_a_comment(length: int) -> None:
    data = bytes(100) + archive({"a.txt": "cat"}, b"c" * length)
    assert tensor(labels(("a.txt", AXIS_LABELS)), data).labels == ("cat",)


LEFT_OUT: dict[str, tuple[bytes, str]] = {
    "no archive": (b"a model", "there is no archive behind the model"),
    "no such file": (archive({"b.txt": "cat"}), "There is no item named 'a.txt' in the archive"),
    "an end that is cut": (archive({"a.txt": "cat"})[:-4], "unpack_from requires a buffer of at least"),
    "no text": (archive({"a.txt": "cat"}).replace(b"PK\1\2", b"PK\1\0"), "Bad magic number for central directory"),
}


@pytest.mark.parametrize("what", LEFT_OUT)
def test_labels_that_can_not_be_read(what: str, caplog: pytest.LogCaptureFixture) -> None:
    data, reason = LEFT_OUT[what]
    assert read_metadata(of_tensor(labels(("a.txt", AXIS_LABELS))), data) == Metadata()
    assert "the metadata can't be read and is left out: " in caplog.text
    assert reason in caplog.text


# --- limits and charges --------------------------------------------------------------------------------------


def directory(data: bytes) -> int:
    return metadata._END_OF_DIRECTORY.unpack_from(data, data.rfind(b"PK\5\6"))[5]


@pytest.mark.parametrize("more", [0, 1])
def test_the_longest_directory(more: int, caplog: pytest.LogCaptureFixture) -> None:
    """1 MiB. An entry has 46 bytes and the name, of at most 65535."""
    names = ["a.txt", *(f"{number:065000}" for number in range(16))]
    names.append("b" * ((1 << 20) - 46 - sum(46 + len(name) for name in names) + more))
    data = archive(dict.fromkeys(names, "cat"))
    nbytes = directory(data)
    assert nbytes == (1 << 20) + more
    found = read_metadata(of_tensor(labels(("a.txt", AXIS_LABELS))), data)
    assert (found == Metadata()) is bool(more)
    assert (f"the list of the files behind the model has {nbytes} bytes" in caplog.text) is bool(more)


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("kind", ["numbers", "records"])
def test_the_longest_vector(kind: str, more: int, caplog: pytest.LogCaptureFixture) -> None:
    count = 4096 + more
    make = units((NORMALIZATION, [1.0] * count, [2.0])) if kind == "numbers" else units(*[NORMAL] * count)
    assert (read_metadata(of_tensor(make), b"") == Metadata()) is bool(more)
    assert ("a vector has 4097 entries" in caplog.text) is bool(more)


@pytest.mark.parametrize("more", [0, 1])
def test_the_longest_labels(more: int, caplog: pytest.LogCaptureFixture) -> None:
    """4 MiB."""
    text = "x" * ((4 << 20) + more)
    found = read_metadata(of_tensor(labels(("a.txt", AXIS_LABELS))), archive({"a.txt": text}))
    assert (found == Metadata()) is bool(more)
    assert ("the labels are more than 4194304 bytes" in caplog.text) is bool(more)


@pytest.fixture
def budgets(monkeypatch: pytest.MonkeyPatch) -> list[RecordedBudget]:
    """The budgets that are made."""
    made: list[RecordedBudget] = []

    def make(size: int) -> RecordedBudget:
        made.append(RecordedBudget(size))
        return made[-1]

    monkeypatch.setattr(metadata, "Budget", make)
    return made


def test_texts_are_charged_once(budgets: list[RecordedBudget]) -> None:
    """Each takes 64 bytes, and 4 for each of its own; one that several fields refer to is read once."""

    def make(b: Builder) -> Fields:
        text = b.CreateString("12345")
        return {0: ("offset", text), 1: ("offset", text)}

    given = of_tensor(make)
    assert read_metadata(given, b"").outputs == (TensorMetadata("12345", "12345"),)
    (budget,) = budgets
    assert (budget.size, budget.charged) == (len(given), [64 + 4 * 5])


def test_labels_are_charged(budgets: list[RecordedBudget]) -> None:
    name, text = "a.txt", "cat\ndog\n"
    read_metadata(of_tensor(labels((name, AXIS_LABELS), (name, AXIS_LABELS))), archive({name: text}))
    assert budgets[0].charged == [64 + 4 * len(name), 2 * 64 + 4 * len(text)]


@pytest.mark.parametrize(("make", "fields", "entries"), [(nothing, 12, 2), (units(NORMAL, NORMAL), 20, 8)])
def test_fields_and_entries_are_work(make: Make, fields: int, entries: int, budgets: list[RecordedBudget]) -> None:
    """Five texts, subgraphs, two edges, four fields of a tensor; units have two, and their options as many."""
    read_metadata(of_tensor(make), b"")
    assert budgets[0].worked == 256 * fields + entries
