"""Rows: requests as one process writes them, and the other one reads them."""

from __future__ import annotations

import numpy as np
import pytest

from nnvk.base.fields import NEW, STRING, U32, many, optional, parts
from nnvk.base.lanes import Session, answering, keeping, read_head
from nnvk.base.packets import Descriptors, Malformed, Reader, Writer
from nnvk.driver.process.protocol import BIND, ROWS, Row


def test_bytes_after_a_result_are_refused() -> None:
    row = Row(1, "", (), U32)
    assert row.read(Reader(memoryview(bytes(4)))) == 0
    with pytest.raises(Malformed, match="1 bytes too many"):
        row.read(Reader(memoryview(bytes(5))))


def test_names_tell_encodings_apart() -> None:
    described = {repr(Row(1, "", (each,), U32)) for each in (U32, many(U32), optional(U32), parts(U32, U32))}
    assert len(described) == 4 and not any("0x" in each for each in described)


def test_a_row_is_asked_and_answered() -> None:
    row = Row(7, "", (U32, STRING, NEW), U32)
    made = keeping(lambda number, text: number + len(text))
    session = Session({7: answering(made, *[each.read for each in row.parameters], result=row.result.write)})

    def ask(writer: Writer) -> Reader:
        code, _, reader = read_head(
            memoryview(session.answer(memoryview(b"".join(writer.parts)), Descriptors()).content)
        )
        assert code == 0
        return reader

    assert row.read(ask(row.request(5, "abc", 9))) == 8
    assert session.get(9, int) == 8


def test_rows_have_numbers_of_their_own() -> None:
    assert len({row.number for row in ROWS}) == len(ROWS) >= 16


def test_a_place_that_does_not_fit_its_array_is_malformed() -> None:
    session = Session({})
    session.segments[3] = memoryview(bytearray(64))
    inputs = BIND.parameters[1]
    for nbytes, fits in ((24, True), (20, False), (28, False)):
        writer = Writer()
        inputs.write(writer, [((np.zeros((2, 3), np.float32), (3, 8, nbytes)), 0, ())])
        reader = Reader(memoryview(b"".join(writer.parts)))
        reader.session = session
        if fits:
            assert inputs.read(reader)[0].array.shape == (2, 3)
        else:
            with pytest.raises(Malformed, match=f"an input of 24 bytes has a place of {nbytes}"):
                inputs.read(reader)
