"""Functions of 16-bit levels by tables with interpolation, bit for bit as TensorFlow Lite's reference kernels.

LOGISTIC and TANH go by a table of 256 numbers, `sigmoid_table_uint16` there, SOFTMAX by two of 513. Outputs are of
scale 1/32768.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nnvk.ops.call import Call
from nnvk.ops.quant import INT32_MAX, float32, multiply_by_quantized_multiplier, quantize_multiplier, round_half_away

UNIT = 1 / 32768
"""The scale of results in [-1, 1]."""
# fmt: off
_SIGMOID = np.array([
    32768, 33451, 34133, 34813, 35493, 36169, 36843, 37513, 38180, 38841, 39498, 40149, 40794, 41432, 42064, 42688,
    43304, 43912, 44511, 45102, 45683, 46255, 46817, 47369, 47911, 48443, 48964, 49475, 49975, 50464, 50942, 51409,
    51865, 52311, 52745, 53169, 53581, 53983, 54374, 54755, 55125, 55485, 55834, 56174, 56503, 56823, 57133, 57433,
    57724, 58007, 58280, 58544, 58800, 59048, 59288, 59519, 59743, 59959, 60168, 60370, 60565, 60753, 60935, 61110,
    61279, 61441, 61599, 61750, 61896, 62036, 62172, 62302, 62428, 62549, 62666, 62778, 62886, 62990, 63090, 63186,
    63279, 63368, 63454, 63536, 63615, 63691, 63765, 63835, 63903, 63968, 64030, 64090, 64148, 64204, 64257, 64308,
    64357, 64405, 64450, 64494, 64536, 64576, 64614, 64652, 64687, 64721, 64754, 64786, 64816, 64845, 64873, 64900,
    64926, 64950, 64974, 64997, 65019, 65039, 65060, 65079, 65097, 65115, 65132, 65149, 65164, 65179, 65194, 65208,
    65221, 65234, 65246, 65258, 65269, 65280, 65291, 65301, 65310, 65319, 65328, 65337, 65345, 65352, 65360, 65367,
    65374, 65381, 65387, 65393, 65399, 65404, 65410, 65415, 65420, 65425, 65429, 65433, 65438, 65442, 65445, 65449,
    65453, 65456, 65459, 65462, 65465, 65468, 65471, 65474, 65476, 65479, 65481, 65483, 65485, 65488, 65489, 65491,
    65493, 65495, 65497, 65498, 65500, 65501, 65503, 65504, 65505, 65507, 65508, 65509, 65510, 65511, 65512, 65513,
    65514, 65515, 65516, 65517, 65517, 65518, 65519, 65520, 65520, 65521, 65522, 65522, 65523, 65523, 65524, 65524,
    65525, 65525, 65526, 65526, 65526, 65527, 65527, 65528, 65528, 65528, 65529, 65529, 65529, 65529, 65530, 65530,
    65530, 65530, 65531, 65531, 65531, 65531, 65531, 65532, 65532, 65532, 65532, 65532, 65532, 65533, 65533, 65533,
    65533, 65533, 65533, 65533, 65533, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65535
])
# fmt: on
"""65,536 times the logistic function of a number of 24ths."""
_LARGEST = 2**15 - 1


def _on_table(call: Call, most_pot_shift: int) -> np.ndarray:
    """Inputs as whole numbers, of 1 / (3 * 4096), int64.

    Scales that are powers of two from 1/4096 up to 2^``most_pot_shift`` times that are exact, others have 15 bits.
    """
    scale = float32(call.input.scale)
    fraction, exponent = math.frexp(scale)
    levels = call.input.data.astype(np.int64)
    if fraction == 0.5 and 0 <= exponent + 11 <= most_pot_shift:
        return levels * (3 << (exponent + 11))
    multiplier, shift = scale * 4096 * 3, 0
    while multiplier <= _LARGEST / 2 and shift <= 30:
        multiplier, shift = multiplier * 2, shift + 1
    half = 1 << shift >> 1
    rescaled: np.ndarray = (levels * min(int(multiplier), _LARGEST) + half) >> shift
    return rescaled


def _interpolated(magnitudes: np.ndarray, bits: int, largest: int) -> np.ndarray:
    """The table at whole numbers of ``bits`` behind the point, with as many more; ``largest`` behind its end."""
    at, rest = magnitudes >> bits, magnitudes & ((1 << bits) - 1)
    low, high = _SIGMOID[np.minimum(at, 255)], _SIGMOID[np.minimum(at + 1, 255)]
    return np.where(at >= 255, largest, (low << bits) + rest * (high - low))


def logistic(call: Call) -> np.ndarray:
    """LOGISTIC of 16-bit levels."""
    numbers = _on_table(call, 0)
    found = _interpolated(np.abs(numbers), 9, _LARGEST << 10)
    result: np.ndarray = np.where(numbers >= 0, found + (1 << 9), (1 << 25) - found + (1 << 9) - 1) >> 10
    return result.astype(np.int16)


def tanh(call: Call) -> np.ndarray:
    """TANH of 16-bit levels."""
    numbers = _on_table(call, 1)
    found = _interpolated(np.abs(numbers), 8, 0xFFFF << 8) - (1 << 23)
    result: np.ndarray = np.where(numbers >= 0, found + (1 << 7), -found + (1 << 7) - 1) >> 8
    return result.astype(np.int16)


# --- tables of 513 numbers -----------------------------------------------------------------------------------


def interpolation_table(
    function: Callable[[np.ndarray], np.ndarray], low: np.floating, high: np.floating, factor: np.floating
) -> np.ndarray:
    """``factor`` times a function at 513 places from ``low`` to ``high``, for `interpolated`; int32.

    Each is moved by half of what interpolation is off in the middle of the next two. All is computed in ``low``'s type.
    """
    type_ = low.dtype.type
    numbers, spacing = np.arange(512).astype(low.dtype), (high - low) / type_(512)
    places, following = low + numbers * spacing, low + (numbers + type_(1)) * spacing
    samples, there = _rounded(function(places) * factor), function(following) * factor
    between = _rounded((there + samples) / type_(2))
    error = between - _rounded(function(places + spacing / type_(2)) * factor)
    entries = np.append(samples - _rounded(error / type_(2)), _rounded(function(np.array([high])) * factor))
    return np.clip(entries, -32768, _LARGEST).astype(np.int32)


def _rounded(numbers: np.ndarray) -> np.ndarray:
    """Halves away from zero, in the same type. Half of the last place is no half in single precision."""
    return round_half_away(numbers.astype(np.float64)).astype(numbers.dtype)


def interpolated(numbers: np.ndarray, table: np.ndarray) -> np.ndarray:
    """An `interpolation_table` at 16-bit numbers, the lowest at its begin. Slopes of more than 16 bits wrap round."""
    table, entry, rest = table.astype(np.int64), 256 + (numbers >> 7), numbers & 127
    slope = (table[entry + 1] - table[entry]).astype(np.int16).astype(np.int64)
    found: np.ndarray = (table[entry] + ((slope * rest + 64) >> 7)).astype(np.int16).astype(np.int64)
    return found


_ONE = np.float64(32768)
EXPONENTIALS = interpolation_table(np.exp, np.float64(-10), np.float64(0), _ONE)
"""The table of exp from -10 to 0, indexed by 16-bit numbers."""
RECIPROCALS = interpolation_table(lambda x: 1 / (1 + x), np.float64(0), np.float64(1), _ONE)
"""The table of 1 / (1 + x) from 0 to 1, indexed by 16-bit numbers."""


def softmax(call: Call) -> np.ndarray:
    """SOFTMAX of 16-bit levels."""
    levels, axis = call.input.data.astype(np.int64), call.axis
    largest = levels.max(axis=axis, keepdims=True)
    scaled = multiply_by_quantized_multiplier(levels - largest, *softmax_multiplier(call))
    powers = interpolated(np.clip(scaled + _LARGEST, -32768, _LARGEST), EXPONENTIALS)
    sums = np.minimum(powers.sum(axis=axis, keepdims=True), INT32_MAX)
    headroom = 32 - np.frexp(sums.astype(np.float64))[1].astype(np.int64)  # zeros before the highest bit
    fraction = ((sums << (headroom - 1)) + (1 << 13)) >> 14
    reciprocals = interpolated(np.clip(fraction - (1 << 15) - (1 << 16), -32768, _LARGEST), RECIPROCALS)
    right = 31 - headroom
    result = (powers * reciprocals + (np.int64(1) << (right - 1))) >> right
    return np.clip(result, 0, _LARGEST).astype(np.int16)


def softmax_multiplier(call: Call) -> tuple[int, int]:
    """Mantissa and shift that take differences of inputs to 1/6,553.5, of which a table of 16-bit numbers has 10."""
    return quantize_multiplier(float32(call.input.scale) * float32(call.beta) / (10.0 / 65535.0))
