"""Tables of mappers, and handlers that are imported with the first request."""

from __future__ import annotations

from typing import Any

import pytest

from nnvk.base.packets import Reader
from nnvk.importers import late_provider
from nnvk.importers.registry import Mappers
from nnvk.serve.protocol import Request


def test_an_operator_has_one_mapper() -> None:
    mappers = Mappers[int]()
    assert mappers.of("ADD", "SUB")(1) == 1
    assert (mappers.find("ADD"), mappers.find("SUB"), mappers.find("MUL")) == (1, 1, None)
    assert mappers.names() == {"ADD", "SUB"}
    with pytest.raises(ValueError, match="SUB has two mappers"):
        mappers.of("MUL", "SUB")(2)


def test_requests_of_onnxruntime_go_to_its_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    provider: Any = pytest.importorskip("nnvk.importers.onnx.provider")
    wanted = {request for request in Request if request.name.startswith("ONNX_")}
    assert set(late_provider.HANDLERS) == set(provider.HANDLERS) == wanted
    reader = Reader(memoryview(b""))
    for request in wanted:
        seen: list[object] = []
        monkeypatch.setitem(provider.HANDLERS, request, seen.append)
        late_provider.HANDLERS[request](reader)
        assert seen == [reader]
