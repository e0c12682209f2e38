"""Executions that a device gets wrong: an error, or another try, or the CPU's result; and what is counted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from decorators import Failing
from samples import add_model, compiled, execution, raises

import nnvk
from nnvk import ResultCode, VerificationError
from nnvk.base.settings import override
from nnvk.driver.cpu import CpuDevice
from nnvk.hal import IDevice
from nnvk.runtime.verification import Verified
from nnvk.types.model import Model
from nnvk.types.request import PrepareOptions

Use = Callable[[Sequence[IDevice]], list[nnvk.Device]]
ONES = np.ones((2, 2), np.float32)


class Wrong(Failing):
    """Computes as many executions wrong as it is told, and notices."""

    def __init__(self, times: int) -> None:
        super().__init__(CpuDevice(), "wrong")
        self.times = times
        self.options: list[PrepareOptions] = []

    def prepare_model(self, model: Model, options: PrepareOptions):
        self.options.append(options)
        return super().prepare_model(model, options)

    def before_execution(self) -> None:
        super().before_execution()
        if self.executions <= self.times:
            raise VerificationError("ADD: element [0, 1] of sum is 2.0 by one computation and 3.0 by another one")


def run(driver: Wrong, use_devices: Use, verified: Verified, *, named: bool = True) -> np.ndarray:
    devices = use_devices([driver, CpuDevice()])
    compilation = nnvk.Compilation(add_model(), devices[:1] if named else None)
    compilation.set_verified(verified)
    compilation.finish()
    output = np.zeros((2, 2), np.float32)
    execution(compilation, [ONES, ONES], [output]).compute()
    return output


def counted(before: nnvk.Stats) -> tuple[int, int, int]:
    now = nnvk.stats()
    return (
        now.failed_verifications - before.failed_verifications,
        now.repaired_by_device - before.repaired_by_device,
        now.repaired_by_cpu - before.repaired_by_cpu,
    )


def test_a_wrong_result_is_an_error(use_devices: Use) -> None:
    before = nnvk.stats()
    with pytest.raises(VerificationError, match=r"element \[0, 1\] of sum is 2\.0") as error:
        run(Wrong(1), use_devices, True)
    assert error.value.code is ResultCode.OP_FAILED
    assert counted(before) == (1, 0, 0)


def test_the_cpu_takes_over_where_nnvk_chooses(use_devices: Use) -> None:
    before = nnvk.stats()
    assert (run(Wrong(1), use_devices, True, named=False) == 2).all()
    assert counted(before) == (1, 0, 0)


@pytest.mark.parametrize("named", [True, False], ids=["named", "chosen"])
@pytest.mark.parametrize(("times", "counts"), [(0, (0, 0, 0)), (1, (1, 1, 0)), (2, (2, 0, 1))])
def test_a_wrong_result_is_repaired(
    use_devices: Use, caplog: pytest.LogCaptureFixture, times: int, counts: tuple[int, int, int], named: bool
) -> None:
    before, driver = nnvk.stats(), Wrong(times)
    with caplog.at_level(logging.WARNING, "nnvk"):
        assert (run(driver, use_devices, "repair", named=named) == 2).all()
    assert counted(before) == counts
    assert driver.executions == min(times + 1, 2)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == times
    assert all("wrong has computed a wrong result" in message and "element [0, 1]" in message for message in said)


def test_a_device_repairs_when_the_compilation_is_over(use_devices: Use) -> None:
    """The plan by other strategies has neither the deadline nor the progress of the compilation."""
    driver, calls = Wrong(1), list[tuple[int, int]]()
    devices = use_devices([driver, CpuDevice()])
    compilation = nnvk.Compilation(add_model(), devices[:1])
    compilation.set_verified("repair")
    compilation.set_timeout(10**9)
    compilation.set_progress(lambda done, total: calls.append((done, total)))
    compilation.finish()
    output = np.zeros((2, 2), np.float32)
    execution(compilation, [ONES, ONES], [output]).compute()
    first, second = driver.options
    assert (first.other_strategies, second.other_strategies) == (False, True)
    assert first.deadline_ns is not None
    assert first.progress is not None
    assert second.deadline_ns is None
    assert second.progress is None
    assert second.redundancy is first.redundancy


def test_other_errors_of_a_named_device_stay_the_caller_s(use_devices: Use) -> None:
    driver = Wrong(0)
    driver.fail["execute"] = lambda: nnvk.NnapiError(ResultCode.OP_FAILED, "it fails")
    with raises(ResultCode.OP_FAILED, "it fails"):
        run(driver, use_devices, "repair")
    assert driver.executions == 1


@pytest.mark.parametrize(
    ("setting", "redundancy"),
    [("", "NONE"), ("0", "NONE"), ("1", "CHECKSUMS"), ("all", "DUPLICATION"), ("repair", "CHECKSUMS")],
)
def test_the_environment_gives_the_default(use_devices: Use, setting: str, redundancy: str) -> None:
    driver = Wrong(0)
    use_devices([driver, CpuDevice()])
    with override(verified=setting):
        compiled(add_model())
    assert [options.redundancy.name for options in driver.options] == [redundancy]


@pytest.mark.parametrize("wrong", ["yes", 2, None])
def test_a_wrong_option_is_refused(wrong: object) -> None:
    with pytest.raises((TypeError, nnvk.NnapiError), match="verified"):
        nnvk.Compilation(add_model()).set_verified(wrong)
