"""The requests to a driver's process, besides those that every such process answers (`nnvk.base.lanes`)."""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum

from nnvk.base.lanes import LaneRequest


class Request(IntEnum):
    """Requests by their numbers. Devices go by their names, objects by numbers."""

    DEVICES = 2000
    """Why there are none, or not all; and all about each device that does not change."""
    SUPPORT = 2001
    """Takes a device and a model; gives the reason against each operation, empty where it is supported."""
    DESCRIBE = 2002
    """Takes a device and a model; says how each operation is done."""
    PREPARE = 2003
    """A number for the prepared model, a device, options, a model: alignment and padding."""
    WAIT = 2004
    """Until a device is alive again."""
    ALLOCATE = 2005
    """A number for the buffer, a device, a type, dimensions: its token."""
    COPY_TO = 2006
    """From a buffer to a part of a segment."""
    COPY_FROM = 2007
    BIND = 2008
    """A number for the execution, a prepared model, a request."""
    BURST = 2009
    """A number for the burst, a prepared model."""
    EXECUTE = 2010
    """An execution, a burst or 0, options: the result."""
    EXECUTE_FENCED = 2011
    """An execution, a number for the fenced execution, options, those that it waits for. A first reply that it is under
    way, a second one with the result."""
    EXPORT = 2012
    """A fenced execution: whether there is a sync file, which comes along."""
    MEMORY = 2013
    """A prepared model: what its memory is for, and how many bytes."""
    DESCRIBE_MEMORY = 2014
    """Takes a device and a model; gives the memory of an execution's activations, where it is known."""


EXECUTE = struct.Struct("<IQQBqQQ")
"""A request of that number, or `EXECUTE_FENCED`: the request; two objects; what is measured; the deadline, -1 for none;
the loop timeout; the duration."""
UNFIT = b"\1"
"""Belongs to an error that is the data's fault, `UnfitData`."""
UNVERIFIED = b"\2"
"""Belongs to a `VerificationError`."""


def fingerprint() -> int:
    """A number of everything that both processes must agree on."""
    described = [repr(request) for request in (*LaneRequest, *Request)]
    return zlib.crc32("\n".join([*described, EXECUTE.format]).encode())
