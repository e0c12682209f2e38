// The units of a time step of a quantised cell: the cell state in 16 bits and the output in 8 bits. A workgroup
// computes eight units of a batch, one per invocation along x.
//
// This file declares bindings 4 to 7. Include it after byte_sums.glsl and the push constants (the tensors' offsets,
// units).

#ifndef NNVK_LSTM_UNITS_GLSL
#define NNVK_LSTM_UNITS_GLSL

// No word of the cell state or the output has units of two batches.
layout(constant_id = 5) const bool WHOLE_WORDS = false;

READ_VIEW(4, Bias, bias, ivec4)
READ_VIEW(5, Before, before, uint)
layout(set = 0, binding = 6) buffer After { uint after[]; };
layout(set = 0, binding = 7) buffer Dst { uint dst[]; };

// A unit's cell state and output, both shifted to the unsigned range.
struct Unit {
    int cell;
    int result;
};

#ifdef TILE_SUBGROUP
#define OF_LANE(member, lane) subgroupShuffle(unit.member, (lane) % LANES)
#else
shared Unit neighbours[LANES];
#define OF_LANE(member, lane) neighbours[(lane) % LANES].member
#endif

// The cell state of a unit before the time step; `at` counts the units of all batches.
int cell_before(uint at) { return short_of(before_at(before_offset + (at >> 1)) ^ 0x80008000u, at) - 32768; }

// Store the units of a row from `first` on; each lane has one unit. Invocations along y have nothing to store.
void give(Unit unit, uint row, uint first, uint result_mask) {
    uint lane = gl_LocalInvocationID.x, at = row * units + first;
    bool gives = gl_LocalInvocationID.y == 0u;
    if (WHOLE_WORDS) {
#ifndef TILE_SUBGROUP
        if (gives) neighbours[lane] = unit;
        barrier();
#endif
        uint cells = uint(OF_LANE(cell, 2u * lane) | OF_LANE(cell, 2u * lane + 1u) << 16) ^ 0x80008000u;
        uint results = pack_bytes(ivec4(OF_LANE(result, 4u * lane), OF_LANE(result, 4u * lane + 1u),
                                        OF_LANE(result, 4u * lane + 2u), OF_LANE(result, 4u * lane + 3u)), result_mask);
        if (gives && lane < LANES / 2u && first + 2u * lane < units) after[after_offset + (at >> 1) + lane] = cells;
        if (gives && lane < LANES / 4u && first + 4u * lane < units) dst[dst_offset + (at >> 2) + lane] = results;
    } else if (gives && first + lane < units) {
        at += lane;
        REPLACE(after[after_offset + (at >> 1)], (at & 1u) << 4, 0xffffu, uint(unit.cell) ^ 0x8000u)
        REPLACE(dst[dst_offset + (at >> 2)], (at & 3u) << 3, 0xffu, uint(unit.result) ^ (result_mask & 0xffu))
    }
}

#endif
