"""The rows of the table of C functions: a prototype, a description, the errors, and the side that implements it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from nnvk.base.forks import cached_property

_PROTOTYPE = re.compile(r"(?P<returns>\w+) (?P<name>\w+)\((?P<parameters>.*)\)")
_PARAMETER = re.compile(r"(?P<type>.*[ *])(?P<name>\w+)")
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
PREFIX = "ANeuralNetworks"
OBJECTS = ("Burst", "Compilation", "Device", "Event", "Execution", "Memory", "MemoryDesc", "Model")
"""Opaque types, without the prefix."""


class By(Enum):
    """The side that implements a function."""

    SERVER = "server"
    """The server. The row has all that the library needs to ask it."""
    LIBRARY = "library"
    """The library, alone or with requests that a row cannot describe. The function is written by hand in C++."""
    FREE = "free"
    """The function destroys its object."""


class Kind(Enum):
    """The role of a parameter in a stub and in a request."""

    OBJECT = "object"
    """A pointer to an opaque object."""
    NEW_OBJECT = "new object"
    """A pointer to the place of a new object; NULL after a failure."""
    OBJECTS = "objects"
    """An array of pointers to objects, whose length is another parameter."""
    NUMBERS = "numbers"
    """An array of uint32_t, whose length is another parameter."""
    BYTES = "bytes"
    """Data, whose length is another parameter."""
    COUNT = "count"
    """The length of such an array, or data."""
    NUMBER = "number"
    """A number, by value."""
    RESULT = "result"
    """A pointer to the place of a number."""
    RESULTS = "results"
    """A pointer to the place of several numbers, as many as there are."""
    TEXT = "text"
    """A string."""
    POINTER = "pointer"
    """A pointer to anything else: structures, buffers of executions."""


_RESULTS = ("supportedOps", "dimensions")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a C function."""

    name: str
    type: str
    """The type in C."""
    kind: Kind
    nullable: bool
    """NULL is a value like others, and no ANEURALNETWORKS_UNEXPECTED_NULL."""
    count: str = ""
    """The parameter that has the length of an array."""

    @property
    def object(self) -> str:
        """The type of an object, without the prefix."""
        return self.type.replace("const", "").strip(" *").removeprefix(PREFIX)


@dataclass(frozen=True)
class Function:
    """A row: one function of the C interface."""

    prototype: str
    """As in C; a NULL for a pointer is an error unless `nullable` names it."""
    level: int
    """The feature level that brought it."""
    does: str
    """The description, for people: the effect of the function, and the duties of the caller."""
    errors: Mapping[str, str] = field(default_factory=dict)
    """Result codes, and when they come. Those that every function may have are not repeated."""
    by: By = By.SERVER
    nullable: tuple[str, ...] = ()
    arrays: Mapping[str, str] = field(default_factory=dict)
    """Arrays, and the parameters that have their lengths."""
    counterpart: str | None = None
    """`python` where the name does not follow from the C function's; empty if Python needs none."""

    @classmethod
    def destroying(cls, type: str, level: int, note: str = "") -> Function:
        """The row of the function that destroys the objects of a type. ``note`` is added to the description."""
        name = "desc" if type == "MemoryDesc" else type.lower()
        return cls(
            f"void {PREFIX}{type}_free({PREFIX}{type}* {name})",
            level,
            "Destroys the object; NULL has no effect. Objects may be freed in any order: an object stays alive while it"
            f" is in use.{note}",
            by=By.FREE,
            nullable=(name,),
            counterpart="",
        )

    @cached_property
    def _parts(self) -> re.Match[str]:
        parts = _PROTOTYPE.fullmatch(self.prototype)
        if parts is None:
            raise ValueError(f"{self.prototype!r} is no prototype")
        return parts

    @property
    def name(self) -> str:
        """The function's name."""
        return self._parts["name"]

    @property
    def python(self) -> str:
        """The counterpart in Python, as in docs/api.md; empty if Python needs none."""
        if self.counterpart is not None:
            return self.counterpart
        owner, _, does = self.name.removeprefix(PREFIX).rpartition("_")
        names = ["nnvk", owner, "" if does == "create" else _CAPITAL.sub("_", does).lower()]
        return ".".join(filter(None, names))

    @property
    def returns(self) -> str:
        """``int``: a result code; ``void``; or the type of what it returns."""
        return self._parts["returns"]

    @property
    def owner(self) -> str:
        """The type that it belongs to, without the prefix; empty for those of the runtime."""
        return self.name.removeprefix(PREFIX).rpartition("_")[0]

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Its parameters, in order."""
        texts = self._parts["parameters"]
        return tuple(self._parameter(text.strip()) for text in texts.split(",")) if texts not in ("", "void") else ()

    def _parameter(self, text: str) -> Parameter:
        parts = _PARAMETER.fullmatch(text)
        if parts is None:
            raise ValueError(f"{text!r} is no parameter")
        name, type_ = parts["name"], parts["type"].strip()
        return Parameter(name, type_, self._kind(name, type_), name in self.nullable, self.arrays.get(name, ""))

    def _kind(self, name: str, type_: str) -> Kind:
        is_object = type_.replace("const", "").strip(" *").removeprefix(PREFIX) in OBJECTS
        stars = type_.count("*")
        if name in self.arrays.values():
            return Kind.COUNT
        if is_object and stars == 1:
            return Kind.OBJECT
        if is_object:
            return Kind.OBJECTS if name in self.arrays else Kind.NEW_OBJECT
        if not stars:
            return Kind.NUMBER
        if name in self.arrays:
            return Kind.NUMBERS if type_ == "const uint32_t*" else Kind.BYTES
        if type_ == "const char*":
            return Kind.TEXT
        if stars == 1 and not type_.startswith(("const ", "void")):
            return Kind.RESULTS if name in _RESULTS else Kind.RESULT
        return Kind.POINTER
