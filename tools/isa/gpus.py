"""GPUs that RADV compiles for without being there, and what the model of `estimate` takes them to be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """Constants of the model: public data of the cards, rounded. None was measured."""

    name: str
    """What RADV_FORCE_FAMILY calls it."""
    units: int
    """Compute units."""
    ghz: float
    simds: int = 2
    """In a compute unit."""
    lanes: int = 32
    """Of a SIMD, in a cycle."""
    waves: int = 16
    """That a SIMD keeps at most."""
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
    lds_latency: int = 56
    scalar_latency: int = 50
    barrier: int = 30
    launch_us: float = 3.0
    """A dispatch behind a barrier: drain, caches, launch."""
    discrete: bool = True
    """It has memory of its own."""

    @property
    def flops(self) -> float:
        """Multiplications and additions of float32 in a second."""
        return self.units * self.simds * self.lanes * 2 * self.ghz * 1e9


_GCN = {"simds": 4, "lanes": 16, "waves": 10, "l0_bytes": 64}
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
        "gfx1036", units=2, ghz=2.2, memory_rate=60e9, cache=256 << 10, cache_rate=60e9, l2_bytes=128, discrete=False
    ),  # in desktop Ryzens
)  # fmt: skip
GPUS = {gpu.name: gpu for gpu in _LIST}
