"""Array files as inputs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from nnvk import OperandCode, OperandType
from nnvk.importers.ports import Port
from nnvk.inputs.arrays import load_array, load_array_rows

PORT = Port("x", OperandType(OperandCode.TENSOR_FLOAT32, (2, 3)), "FLOAT32", (2, 3))


class Garbage:
    """Only the collector frees this object, by code in Python, wherever something is allocated."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        pass


@pytest.fixture
def switching() -> Iterator[None]:
    """Threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_threads_read_at_once(tmp_path: Path, switching: None) -> None:
    """Where one parses a header while another does, CPython 3.11 takes the depth of one stack for the other's."""
    rows = np.arange(30, dtype=np.float32).reshape(5, 2, 3)
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "row.npy", rows[4])

    def read(depth: int) -> bool:
        if depth:
            return read(depth - 1)
        found = True
        for turn in range(1000):
            Garbage()
            one, some = load_array(tmp_path / "row.npy", PORT), load_array_rows(tmp_path / "rows.npy", PORT, turn % 5)
            found &= bool((one == rows[4]).all() and (some == rows[turn % 5]).all())
        return found

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(read, range(3)))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("endian", "<>")
def test_any_order_of_elements_and_bytes(tmp_path: Path, order: str, endian: str) -> None:
    rows = np.arange(30, dtype=np.float32).reshape(5, 2, 3)
    for name, array in {"rows.npy": rows, "row.npy": rows[3]}.items():
        np.save(tmp_path / name, np.array(array, f"{endian}f4", order=order))
    for found in (load_array(tmp_path / "row.npy", PORT), load_array_rows(tmp_path / "rows.npy", PORT, 3)):
        assert found.flags.c_contiguous
        assert found.flags.writeable
        np.testing.assert_array_equal(found, rows[3])


def test_what_ends_too_early(tmp_path: Path) -> None:
    rows = tmp_path / "rows.npy"
    np.save(rows, np.ones((5, 2, 3), np.float32))
    rows.write_bytes(rows.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"not an array file of NumPy: .*rows\.npy"):
        load_array_rows(rows, PORT, 0)
    np.save(rows, np.ones((2, 3), np.float32))
    rows.write_bytes(rows.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"not an array file of NumPy: .*rows\.npy \(24 bytes of .* are 23\)"):
        load_array(rows, PORT)
