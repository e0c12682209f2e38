"""The tile `vector`: a block of output channels of one row, whose weights are read once a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from nnvk.driver.vulkan.lowering.arguments import Arguments
from nnvk.driver.vulkan.lowering.costs import Costs, Run
from nnvk.driver.vulkan.lowering.gemm import epilogue as epilogues
from nnvk.driver.vulkan.lowering.gemm.problem import GemmProblem, Work
from nnvk.driver.vulkan.lowering.gemm.strategy import Strategy, Vectors, takes_texels
from nnvk.driver.vulkan.lowering.gemm.weights import BLOCK
from nnvk.driver.vulkan.lowering.lowering import Lowering
from nnvk.driver.vulkan.lowering.quantised.tensors import sign_push
from nnvk.driver.vulkan.lowering.strided_view import RowAccess, access_by
from nnvk.driver.vulkan.shaders.declaration import Shader, Variant
from nnvk.driver.vulkan.shaders.profile import DeviceProfile

VECTOR = Shader(
    "fully_connected",
    where=lambda choice: epilogues.exists(choice) and (choice["ARITHMETIC"] == "none" or choice["DTYPE"] == "f32"),
    DTYPE=("f32", "f16", "q8"),
    ARITHMETIC=("none", "int8"),
    EPILOGUE=epilogues.EPILOGUES,
)
_LOCAL = 8, 16
_MOST_ROWS = 16
"""Rows up to which the tile is thought of: it reads the weights once a row."""


@dataclass(frozen=True, slots=True)
class Vector(Strategy):
    """Workgroups of fully_connected.comp, whose invocations along y share K."""

    tile: ClassVar[str] = "vector"
    has_one_sum: ClassVar[bool] = False
    takes_floats: ClassVar[bool] = False
    splits_k: ClassVar[bool] = False

    @classmethod
    def candidates(cls, work: Work, device: DeviceProfile) -> Iterator[Strategy]:
        """See `Strategy`. There is one, for a few rows of a matrix."""
        if work.matrix and work.rows <= _MOST_ROWS and work.kind not in ("i32", "q16"):
            yield cls(work.rows, _LOCAL, arithmetic="int8" if work.int8_weights else "none")

    def variant(self, kind: str, epilogue: str = "plain", *, checked: bool = False) -> Variant:
        """See `Strategy`."""
        arithmetic = "int8" if self.arithmetic == "int8" else "none"
        return VECTOR.variant(DTYPE=kind, ARITHMETIC=arithmetic, EPILOGUE=epilogue)

    @property
    def size(self) -> tuple[int, int]:
        """See `Strategy`."""
        return self.rows, BLOCK

    def widest(self, work: Work, device: DeviceProfile) -> int:
        """See `Strategy`."""
        return 16 if takes_texels(work, device) else 4

    def run(self, work: Work, costs: Costs, vectors: Vectors, arithmetic: str, lanes: int) -> Run:
        """See `Strategy`."""
        local_x, local_y = self.local
        groups = work.rows * -(-work.columns // BLOCK)
        return Run(
            groups,
            groups * -(-local_x * local_y // lanes),
            rounds=-(-work.vec4s_of_k // local_y),
            step=(vectors.weights + 1) * costs.load + vectors.products + vectors.convert,
            end=costs.barrier + local_y * costs.staged,
            wait=costs.latency,
        )

    def arguments(self, g: Lowering, problem: GemmProblem) -> tuple[tuple[int, int, int], Arguments]:
        """See `Strategy`."""
        (local_x, local_y), gemm = self.local, problem.gemm
        spec = {"local_x": local_x, "local_y": local_y, "VECTOR_STORES": gemm.columns % 4 == 0}
        push = {"inputs": gemm.depth, "out_channels": gemm.columns, **sign_push(problem.operands.input)}
        return (gemm.rows, -(-gemm.columns // BLOCK), 1), Arguments(spec, push=push)

    def access_to_input(
        self, problem: GemmProblem, device: DeviceProfile, itemsize: int, interleaved: int = 1
    ) -> RowAccess:
        """See `Strategy`."""
        return access_by("src_pitch", "src", itemsize, problem.gemm.depth, 1)
