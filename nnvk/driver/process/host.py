"""The driver's own process: answers requests with the driver's devices and what they have made."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from nnvk.base import lanes
from nnvk.base.errors import NnapiError, ResultCode, UnfitData, VerificationError
from nnvk.base.fields import NEW, Keep, encoded
from nnvk.base.lanes import SUCCESS, Handler, Reply, Session, answering, failure, keeping
from nnvk.driver.process import protocol
from nnvk.driver.process.protocol import ROWS, UNFIT, UNVERIFIED, Bound, Row, fingerprint
from nnvk.hal import IBurst, IDevice, IFencedExecution, IPreparedModel
from nnvk.types.request import ExecuteOptions, InputArgument, OutputArgument, Request


def serve(
    devices: Sequence[IDevice], problems: str, control: socket.socket, longest_call_s: Callable[[], float]
) -> None:
    """Serve the process at the other end of ``control`` until it has gone; ``longest_call_s`` as of a `Session`."""
    session = new_session(devices, problems)
    session.longest_call_s = longest_call_s
    lanes.serve(control, session, fingerprint())


def new_session(devices: Sequence[IDevice], problems: str) -> Session:
    """A session that answers requests; ``problems`` say why devices are missing."""
    by_hand: dict[Row[Any], Callable[..., Any]] = {
        protocol.DEVICES: lambda: (problems, devices),
        protocol.BIND: keeping(_bind),
        protocol.EXECUTE: _execute,
        protocol.EXECUTE_FENCED: _execute_fenced,
        protocol.EXPORT: _export,
    }
    handlers = {row.number: _handler(row, by_hand.get(row)) for row in ROWS}
    return _Session(handlers, devices={device.name: device for device in devices})


def _handler(row: Row[Any], by_hand: Callable[..., Any] | None) -> Handler:
    if by_hand is None:
        by_hand = partial(_call, row.method)
        if NEW in row.parameters:
            by_hand = keeping(by_hand)
    return answering(by_hand, *[each.read for each in row.parameters], result=row.result.write)


def _call(method: str, target: object, *arguments: Any) -> Any:
    return getattr(target, method)(*arguments)


@dataclass
class _Session(Session):
    """Objects of the driver. An error says whether another device may do better."""

    devices: Mapping[str, IDevice] = field(default_factory=dict)

    def device(self, name: str) -> IDevice:
        """A device by its name."""
        if name not in self.devices:
            raise NnapiError(ResultCode.UNAVAILABLE_DEVICE, f"{name} is not there any more")
        return self.devices[name]

    def failure(self, error: Exception) -> bytes:
        kinds: dict[type[Exception], bytes] = {UnfitData: UNFIT, VerificationError: UNVERIFIED}
        return failure(error, kinds.get(type(error), b""))


def _bind(prepared: IPreparedModel, inputs: Sequence[InputArgument], outputs: Sequence[OutputArgument]) -> Bound:
    return Bound(prepared.create_reusable_execution(Request(inputs, outputs)))


def _execute(given: tuple[Bound, IBurst | None, ExecuteOptions]) -> Reply:
    bound, burst, options = given
    execution = bound.execution
    return Reply(bound.reply(execution.execute(options) if burst is None else burst.execute(execution, options)))


def _execute_fenced(
    given: tuple[Bound, None, ExecuteOptions], wait_for: Sequence[IFencedExecution], keep: Keep
) -> Reply:
    bound, _, options = given
    fenced = keep(bound.execution.execute_fenced(wait_for, options))
    return Reply(SUCCESS, then=lambda: encoded(protocol.RESULT.write, fenced.result()))


def _export(fenced: IFencedExecution) -> Reply:
    exported = fenced.export_sync_fd()
    is_there = exported is not None and exported >= 0
    content = SUCCESS + bytes([is_there])
    return Reply(content, descriptors=(exported,) if is_there and exported is not None else ())
