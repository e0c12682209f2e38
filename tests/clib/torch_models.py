"""PyTorch's NNAPI client on models of its own conversion: prints a line for each, its name and what is wrong or "ok".

Run with a Python that has torch, and LIBNEURALNETWORKS_PATH as PyTorch's own tests take it; arguments are names.
"""

from __future__ import annotations

import ctypes
import os
import sys
import traceback
from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.backends._nnapi.prepare import convert_model_to_nnapi

CASES: dict[str, Callable[[], tuple]] = {}


def case(name: str) -> Callable:
    def keep(make: Callable[[], tuple]) -> Callable[[], tuple]:
        CASES[name] = make
        return make

    return keep


def nhwc(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor in the order of dimensions that NNAPI has."""
    tensor = tensor.contiguous(memory_format=torch.channels_last)
    tensor.nnapi_nhwc = True
    return tensor


def quantised(tensor: torch.Tensor, scale: float, zero_point: int) -> torch.Tensor:
    return torch.quantize_per_tensor(tensor, scale, zero_point, torch.quint8)


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> object:
        return self.function(*inputs)


def simple(name: str, module: nn.Module, *inputs: torch.Tensor, flexible: object = None, limit: float = 1e-5) -> None:
    CASES[name] = lambda: (module, list(inputs), flexible, limit)


torch.manual_seed(1)
IMAGE = torch.randn(1, 3, 8, 8)
simple("prelu", nn.PReLU(), torch.randn(1, 3, 5))
simple("prelu, channels", nn.PReLU(3), nhwc(torch.randn(1, 3, 4, 4)))
simple("relu", nn.ReLU(), torch.randn(7))
simple("sigmoid", nn.Sigmoid(), torch.randn(7))
simple("hardtanh", nn.Hardtanh(0.0, 6.0), torch.randn(7) * 5)
simple("softmax", nn.Softmax(dim=-1), torch.randn(2, 7))
simple("log_softmax", nn.LogSoftmax(dim=-1), torch.randn(2, 7))
simple("reshape", Function(lambda x: x.reshape(2, -1)), torch.randn(2, 3, 5))
simple("flatten", nn.Flatten(), torch.randn(2, 3, 5))
simple("slice", Function(lambda x: x[:, 1:3]), torch.randn(2, 5))
simple("mean", Function(lambda x: x.mean((2, 3))), nhwc(torch.randn(2, 3, 5, 7)))
simple("linear", nn.Linear(16, 32), torch.randn(3, 16))
for operator in ("add", "sub", "mul", "div"):
    simple(operator, Function(getattr(torch, operator)), torch.rand(2, 3) + 1, torch.rand(2, 3) + 1)
    simple(f"{operator}, broadcast", Function(getattr(torch, operator)), torch.rand(2, 1) + 1, torch.rand(1, 3) + 1)
for axis in (0, 1):
    simple(
        f"cat, axis {axis}", Function(lambda *x, axis=axis: torch.cat(x, axis)), torch.randn(2, 3), torch.randn(2, 3)
    )
simple(
    "cat, images", Function(lambda *x: torch.cat(x, 1)), nhwc(torch.randn(1, 3, 4, 4)), nhwc(torch.randn(1, 2, 4, 4))
)
simple("max_pool2d", nn.MaxPool2d(3, 2, 1), nhwc(IMAGE))
simple("avg_pool2d", nn.AvgPool2d(2, 2), nhwc(IMAGE))
simple("adaptive_avg_pool2d", nn.AdaptiveAvgPool2d((1, 1)), nhwc(IMAGE))
simple("upsample", nn.UpsamplingNearest2d(scale_factor=2.0), nhwc(IMAGE))
simple("conv2d", nn.Conv2d(3, 8, 3, padding=1), nhwc(IMAGE), limit=1e-4)
simple("conv2d, depthwise", nn.Conv2d(6, 6, 3, padding=1, groups=6), nhwc(torch.randn(1, 6, 9, 9)), limit=1e-4)
simple("conv2d, relu", nn.Sequential(nn.Conv2d(3, 5, (3, 2)), nn.ReLU()), nhwc(IMAGE), limit=1e-4)
simple("conv_transpose2d", nn.ConvTranspose2d(3, 4, 3, 2, 1), nhwc(IMAGE), limit=1e-4)
simple("many outputs", Function(lambda x, y: (x + y, x * y)), torch.rand(2, 3), torch.rand(2, 3))
simple(
    "a network",
    nn.Sequential(
        *(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.PReLU(8), nn.MaxPool2d(2, 2)),
        *(nn.Conv2d(8, 12, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(12, 5)),
    ),
    nhwc(torch.randn(1, 3, 33, 33)),
    limit=1e-4,
)
simple("flexible batch", nn.Linear(8, 4), torch.randn(3, 8), flexible=([torch.zeros(0, 8)], [(1, 8), (5, 8)]))
simple(
    "flexible size",
    nn.Conv2d(3, 4, 3, padding=1),
    nhwc(IMAGE),
    flexible=([nhwc(torch.zeros(1, 3, 0, 0))], [(1, 3, 5, 9), (1, 3, 12, 7)]),
    limit=1e-4,
)
simple("quantize", torch.ao.nn.quantized.Quantize(1.0 / 8, 2, torch.quint8), nhwc(torch.randn(1, 2, 3, 5)))
simple("dequantize", torch.ao.nn.quantized.DeQuantize(), quantised(torch.randn(2, 7), 1.0 / 16, 120))


@case("quantised add")
def _() -> tuple:
    func = torch.ao.nn.quantized.QFunctional()
    func.scale, func.zero_point = 0.25, 128

    class Add(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.func = func

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.func.add(x, y)

    return Add(), [quantised(torch.randn(2, 7), 0.125, 128), quantised(torch.randn(2, 7), 0.25, 130)], None, 1


def quantised_network(layers: list[nn.Module], example: torch.Tensor) -> nn.Module:
    torch.backends.quantized.engine = "qnnpack"
    model = nn.Sequential(torch.ao.quantization.QuantStub(), *layers, torch.ao.quantization.DeQuantStub()).eval()
    model.qconfig = torch.ao.quantization.get_default_qconfig("qnnpack")
    torch.ao.quantization.prepare(model, inplace=True)
    model(example)
    torch.ao.quantization.convert(model, inplace=True)
    return model


@case("quantised conv2d")
def _() -> tuple:
    example = nhwc(torch.randn(1, 3, 8, 8))
    return quantised_network([nn.Conv2d(3, 8, 3, padding=1), nn.ReLU()], example), [example], None, 0.1


@case("quantised network")
def _() -> tuple:
    example = nhwc(torch.randn(1, 3, 8, 8))
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(8, 4)]
    return quantised_network(layers, example), [example], None, 0.1


def differences(name: str) -> Iterator[str]:
    module, inputs, flexible, limit = CASES[name]()
    module.eval()
    with torch.no_grad():
        traced = torch.jit.trace(module, inputs)
        given, sizes = flexible or (inputs, [])
        trials = [inputs]
        for size in sizes:
            trial = torch.randn(size)
            trials.append([nhwc(trial) if len(size) == 4 else trial])
        for index, trial in enumerate([trial for trial in trials for _ in range(2)]):
            if index % 2 == 0:  # its first inputs give a converted model its sizes
                converted = convert_model_to_nnapi(traced, given)
            expected, found = module(*trial), converted(*trial)
            many = isinstance(expected, (list, tuple))
            for one, other in zip(expected if many else [expected], found if many else [found], strict=True):
                if one.is_quantized:
                    one, other = one.int_repr().float(), other.int_repr().float()
                if one.shape != other.shape:
                    yield f"shape {list(other.shape)} in the place of {list(one.shape)}"
                elif not (one - other).abs().max() <= limit:
                    yield f"off by {(one - other).abs().max():g}"


def main(names: list[str]) -> int:
    ctypes.cdll.LoadLibrary(os.environ["LIBNEURALNETWORKS_PATH"])  # torch opens what is loaded by this name
    failures = 0
    for name in names or CASES:
        try:
            wrong = "; ".join(differences(name)) or "ok"
        except Exception:
            wrong = " | ".join(traceback.format_exc().strip().splitlines()[-3:])
        failures += wrong != "ok"
        print(f"{name}\t{wrong}", flush=True)
    return failures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
