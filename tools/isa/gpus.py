"""GPUs that RADV compiles for without being there, and what the model of `estimate` takes them to be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """Constants of the model: public data of the cards, rounded. None was measured."""

    name: str
    """Mesa's name for the GPU: AMDGPU_GPU_ID of the drm shim, and RADV_FORCE_FAMILY of most releases."""
    units: int
    """Compute units."""
    ghz: float
    simds: int = 2
    """SIMDs in a compute unit."""
    lanes: int = 32
    """Lanes that a SIMD computes in a cycle."""
    dual: bool = False
    """A SIMD does most float operations on twice its lanes: in dual instructions, or for a wave of 64 in one cycle."""
    waves: int = 16
    """The most waves that a SIMD holds."""
    stores_apart: bool = True
    """Waits tell stores from loads: there is a counter of stores."""
    lds: int = 65536
    """Bytes that the workgroups of a compute unit share."""
    lds_bytes: int = 128
    """In a cycle, of a compute unit."""
    l0_bytes: int = 128
    """In a cycle, of a compute unit."""
    l2_bytes: int = 1024
    """In a cycle, of all of them."""
    memory_rate: float = 512e9
    """Bytes in a second."""
    cache: int = 128 << 20
    """Bytes of the last cache before memory."""
    cache_rate: float = 1.6e12
    memory_latency: int = 250
    """Cycles until a load is there; between the second cache (150) and the last (260 to 500)."""
    wmma_iu8: int = 32
    """Cycles of a SIMD for a product of two 8-bit matrices of 16 x 16 by a wave of 32."""
    wmma_f16: int = 32
    """The same for matrices of 16-bit floats."""
    lds_latency: int = 56
    scalar_latency: int = 50
    barrier: int = 30
    launch_us: float = 3.0
    """A dispatch behind a barrier: drain, caches, launch."""
    discrete: bool = True
    """It has memory of its own."""
    other_name: str = ""
    """Its RADV_FORCE_FAMILY in other releases of Mesa."""
    mesa: str = "22.3"
    """This release of Mesa compiles for it, and so do later ones."""

    @property
    def names(self) -> tuple[str, ...]:
        """All of Mesa's names for it."""
        return (self.name, self.other_name) if self.other_name else (self.name,)

    @property
    def flops(self) -> float:
        """Multiplications and additions of float32 in a second."""
        return self.units * self.simds * self.lanes * (2 if self.dual else 1) * 2 * self.ghz * 1e9


_GCN = {"simds": 4, "lanes": 16, "waves": 10, "l0_bytes": 64, "stores_apart": False}
# Sources for RDNA 3 and 4:
# - Units, boost clock, memory and its rate, and the size of the last cache are from AMD's product pages. The peak rates
#   of float32 there, 61.4, 11.9 and 48.7 Tflop/s, count two operations a cycle (`dual`).
# - l2_bytes: 24, 4 and 32 slices (Mesa's amdgpu_devices.c, from the kernel's driver) of 64 bytes a cycle (AMD's white
#   paper "RDNA architecture"). The size of strix1's second cache is from amdgpu_devices.c, too.
# - cache_rate of navi31 is the "effective memory bandwidth" of AMD's page, as that of navi21 is. AMD gives none for
#   gfx1201. It has as many memory channels as navi21, so it gets navi21's rate.
# - wmma_*: the peak rates on AMD's product pages, for matrices without sparsity, are 512 operations in a cycle of a
#   compute unit on RDNA 3, for both types, and 1024 (float16) and 2048 (8 bits) on RDNA 4. A unit has two SIMDs.
# - memory_latency: navi31's last cache was measured at 150 ns, 375 cycles (Chips and Cheese, "Latency Testing is Hard",
#   June 2023). This is within the range of the default.
_LIST = (
    Gpu("navi21", units=80, ghz=2.25),  # Radeon RX 6900 XT
    Gpu("navi10", units=40, ghz=1.9, memory_rate=448e9, cache=4 << 20, cache_rate=448e9),  # RX 5700 XT
    Gpu("navi14", units=22, ghz=1.8, memory_rate=224e9, cache=2 << 20, cache_rate=224e9, l2_bytes=512),  # RX 5500 XT
    Gpu("vega10", units=64, ghz=1.5, memory_rate=484e9, cache=4 << 20, cache_rate=484e9, memory_latency=350, **_GCN),
    Gpu(
        "polaris10", units=36, ghz=1.25, memory_rate=256e9, cache=2 << 20, cache_rate=256e9, l2_bytes=512,
        memory_latency=320, **_GCN,
    ),  # RX 580
    Gpu(
        "vangogh", units=8, ghz=1.6, memory_rate=88e9, cache=1 << 20, cache_rate=88e9, l2_bytes=256, discrete=False
    ),  # Steam Deck
    Gpu(
        "gfx1036", units=2, ghz=2.2, memory_rate=60e9, cache=256 << 10, cache_rate=60e9, l2_bytes=128, discrete=False,
        other_name="raphael_mendocino",
    ),  # in desktop Ryzens
    Gpu(
        "navi31", units=96, ghz=2.5, dual=True, memory_rate=960e9, cache=96 << 20, cache_rate=3.5e12, l2_bytes=1536,
        other_name="gfx1100",
    ),  # RX 7900 XTX, RDNA 3
    Gpu(
        "strix1", units=16, ghz=2.9, dual=True, memory_rate=120e9, cache=2 << 20, cache_rate=120e9, l2_bytes=256,
        discrete=False, other_name="gfx1150", mesa="25.0",
    ),  # Radeon 890M with LPDDR5X-7500, RDNA 3.5
    Gpu(
        "gfx1201", units=64, ghz=2.97, dual=True, memory_rate=640e9, cache=64 << 20, l2_bytes=2048, mesa="25.0",
        wmma_iu8=8, wmma_f16=16
    ),  # RX 9070 XT, RDNA 4
)  # fmt: skip
GPUS = {name: gpu for gpu in _LIST for name in gpu.names}
"""The GPUs, by each of Mesa's names for them."""
