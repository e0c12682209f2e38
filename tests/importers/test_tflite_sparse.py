"""Sparse constants, which are dense as soon as they are read, against TFLite's DENSIFY."""

from __future__ import annotations

import numpy as np
import pytest
from tflite_net import Layout, Net, T, write
from tflite_oracle import compare

from nnvk.importers.tflite import TfliteImportError, load


def compressed(blocks: np.ndarray, kind: str) -> tuple[tuple[list[int], list[int], str], np.ndarray]:
    """A level for the second axis of ``blocks`` [rows, columns, ...], and the blocks that are not zero."""
    kept = blocks.reshape(*blocks.shape[:2], -1).any(axis=2)
    segments = [0, *np.cumsum(kept.sum(axis=1)).tolist()]
    return (segments, np.nonzero(kept)[1].tolist(), kind), blocks[kept]


def matrix(rows: int, columns: int, block: tuple[int, int] = (1, 1)) -> np.ndarray:
    """Return a matrix of blocks, most of which are zero."""
    rng = np.random.default_rng(rows * columns)
    kept = np.kron(rng.random((rows // block[0], columns // block[1])) < 0.4, np.ones(block))
    return (np.round(rng.random((rows, columns)) * 60 - 30) * kept).astype(np.float32)


def network(constant: T, rows: int, columns: int) -> bytes:
    source, dense, result = T("FLOAT32", (2, columns)), T(constant.type, (rows, columns)), T("FLOAT32", (2, rows))
    net = Net([source], [result])
    net.op("DENSIFY", [constant], dense, "DensifyOptions")
    if constant.type == "FLOAT16":
        half, dense = dense, T("FLOAT32", (rows, columns))
        net.op("DEQUANTIZE", [half], dense)
    net.op("FULLY_CONNECTED", [source, dense, None], result, "FullyConnectedOptions")
    return write(net)


@pytest.mark.parametrize("kind", ["Int32Vector", "Uint16Vector", "Uint8Vector"])
@pytest.mark.parametrize("type", ["FLOAT32", "FLOAT16"])
def test_rows(type: str, kind: str) -> None:
    dense = matrix(5, 7)
    level, values = compressed(dense, kind)
    raw = values.astype(np.float16 if type == "FLOAT16" else np.float32).tobytes()
    constant = T(type, (5, 7), raw=raw, layout=Layout([0, 1], [], [5, level]))
    compare(network(constant, 5, 7), [np.eye(2, 7, dtype=np.float32)])


def test_columns() -> None:
    dense = matrix(6, 4)
    level, values = compressed(np.ascontiguousarray(dense.T), "Uint8Vector")
    constant = T("FLOAT32", (6, 4), raw=values.tobytes(), layout=Layout([1, 0], [], [4, level]))
    compare(network(constant, 6, 4), [np.eye(2, 4, dtype=np.float32)])


@pytest.mark.parametrize("block", [(1, 4), (2, 2), (3, 1)])
def test_blocks(block: tuple[int, int]) -> None:
    dense = matrix(6, 8, block)
    cut = dense.reshape(6 // block[0], block[0], 8 // block[1], block[1]).transpose(0, 2, 1, 3)
    level, values = compressed(cut, "Uint16Vector")
    layout = Layout([0, 1, 2, 3], [0, 1], [6 // block[0], level, *block])
    constant = T("FLOAT32", (6, 8), raw=values.tobytes(), layout=layout)
    compare(network(constant, 6, 8), [np.eye(2, 8, dtype=np.float32)])


ROWS = ([0, 1, 2], [0, 1], "Int32Vector")
REFUSED = {
    "levels that are no permutation": (Layout([0, 0], [], [2, ROWS]), r"has the levels \[0, 0\]"),
    "a level too few": (Layout([0, 1], [], [2]), r"has the levels \[0, 1\]"),
    "a dense level of another size": (Layout([0, 1], [], [3, ROWS]), "has 3 indices, its shape 2"),
    "blocks that do not divide": (Layout([0, 1, 2], [1], [2, ROWS, 2]), r"has blocks of \[1, 2\]"),
    "blocks along no axis": (Layout([0, 1, 2], [7], [2, ROWS, 1]), r"has blocks along \[7\]"),
    "segments that fall": (Layout([0, 1], [], [2, ([0, 2, 1], [0, 1], "Int32Vector")]), "segments .* do not fit"),
    "segments too few": (Layout([0, 1], [], [2, ([0, 2], [0, 1], "Int32Vector")]), "segments .* do not fit"),
    "segments beyond the indices": (Layout([0, 1], [], [2, ([0, 1, 3], [0, 1], "Int32Vector")]), "outside its shape"),
    "indices beyond the shape": (Layout([0, 1], [], [2, ([0, 1, 2], [0, 3], "Int32Vector")]), "outside its shape"),
    "negative indices": (Layout([0, 1], [], [2, ([0, 1, 2], [0, -1], "Int32Vector")]), "outside its shape"),
    "values too few": (Layout([0, 1], [], [2, ([0, 1, 3], [0, 1, 2], "Int32Vector")]), "names 3 elements and has 2"),
    "all dense": (Layout([0, 1], [], [2, 3]), "names 6 elements, its file has 2"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    layout, message = REFUSED[what]
    constant = T("FLOAT32", (2, 3), raw=np.ones(2, np.float32).tobytes(), layout=layout)
    with pytest.raises(TfliteImportError, match=f"operator 0 .DENSIFY.: .*{message}"):
        load(network(constant, 2, 3))
