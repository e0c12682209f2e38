#version 450
// Fused elementwise operations: intermediate values stay in registers. The inputs are up to SOURCES tensors, read one
// for one or repeated, and up to NUMBERS single numbers. Up to INSTRUCTIONS instructions compute with these inputs
// and earlier results, and up to two results are written. Specialisation constants select the operation
// (include/elementwise.glsl) and the operands of each instruction. Values are numbered from 1: tensors first, then
// numbers, then results. An invocation computes four elements.

#extension GL_GOOGLE_include_directive : require

#include "include/tensors.glsl"
#include "include/indexing.glsl"

layout(local_size_x_id = 0) in;

const uint SOURCES = 5, NUMBERS = 8;
#ifdef LENGTH_LONG
const uint INSTRUCTIONS = 16;
#else
const uint INSTRUCTIONS = 6;
#endif
const uint FIRST_NUMBER = 1 + SOURCES, FIRST_INSTRUCTION = FIRST_NUMBER + NUMBERS;

// The relation between elements of a source and elements of the results. ABSENT: the source or result does not exist.
const uint ABSENT = 1;
const uint EACH_ONE = 2;    // one for one
const uint SINGLE = 3;      // it has one element
const uint WITHIN = 4;      // it is repeated after `size` vec4s
const uint ACROSS = 5;      // each of its elements counts for `size` vec4s

layout(constant_id = 3) const uint SOURCE_0 = ABSENT;
layout(constant_id = 4) const uint SOURCE_1 = ABSENT;
layout(constant_id = 5) const uint SOURCE_2 = ABSENT;
layout(constant_id = 6) const uint SOURCE_3 = ABSENT;
layout(constant_id = 7) const uint SOURCE_4 = ABSENT;
layout(constant_id = 8) const uint RESULT_0 = FIRST_INSTRUCTION;
layout(constant_id = 9) const uint RESULT_1 = ABSENT;
layout(constant_id = 10) const uint PAST_NUMBERS = FIRST_NUMBER;    // values from here on are no numbers

// An instruction: its operation and its operands.
const uint NOTHING = 100;
#define DECLARE_INSTRUCTION(number)                                                  \
    layout(constant_id = 20 + 3 * number) const uint INSTRUCTION_##number = NOTHING; \
    layout(constant_id = 21 + 3 * number) const uint LEFT_##number = 1;              \
    layout(constant_id = 22 + 3 * number) const uint RIGHT_##number = 1;
DECLARE_INSTRUCTION(0)
DECLARE_INSTRUCTION(1)
DECLARE_INSTRUCTION(2)
DECLARE_INSTRUCTION(3)
DECLARE_INSTRUCTION(4)
DECLARE_INSTRUCTION(5)
#ifdef LENGTH_LONG
DECLARE_INSTRUCTION(6)
DECLARE_INSTRUCTION(7)
DECLARE_INSTRUCTION(8)
DECLARE_INSTRUCTION(9)
DECLARE_INSTRUCTION(10)
DECLARE_INSTRUCTION(11)
DECLARE_INSTRUCTION(12)
DECLARE_INSTRUCTION(13)
DECLARE_INSTRUCTION(14)
DECLARE_INSTRUCTION(15)
#endif

READS(0, In0, in0)
READS(1, In1, in1)
READS(2, In2, in2)
READS(3, In3, in3)
READS(4, In4, in4)
READ_VIEW(5, Numbers, numbers, float)
WRITES(6, Out0, out0)
WRITES(7, Out1, out1)

layout(push_constant) uniform Push {
    uint in0_offset;
    uint in1_offset;
    uint in2_offset;
    uint in3_offset;
    uint in4_offset;
    uint numbers_offset;
    uint out0_offset;
    uint out1_offset;
    uint count;     // of vec4s
    uint size_0;
    uint size_1;
    uint size_2;
    uint size_3;
    uint size_4;
    uint magic_0;
    uint magic_1;
    uint magic_2;
    uint magic_3;
    uint magic_4;
    uint row;        // vec4s of a row, where tensors are COLUMNS,
    uint magic_row;
    uint pitch_0;    // and from a row of a source to the next
    uint pitch_1;
    uint pitch_2;
    uint pitch_3;
    uint pitch_4;
    uint result_pitch_0;
    uint result_pitch_1;
};

ROUNDS(out0)

#include "include/strided_view.glsl"

#define FIRST_BITS                                                                                    \
    (BIT_OF(INSTRUCTION_0) | BIT_OF(INSTRUCTION_1) | BIT_OF(INSTRUCTION_2) | BIT_OF(INSTRUCTION_3) |  \
     BIT_OF(INSTRUCTION_4) | BIT_OF(INSTRUCTION_5))
#ifdef LENGTH_LONG
#define INSTRUCTION_BITS                                                                                           \
    (FIRST_BITS | BIT_OF(INSTRUCTION_6) | BIT_OF(INSTRUCTION_7) | BIT_OF(INSTRUCTION_8) | BIT_OF(INSTRUCTION_9) |  \
     BIT_OF(INSTRUCTION_10) | BIT_OF(INSTRUCTION_11) | BIT_OF(INSTRUCTION_12) | BIT_OF(INSTRUCTION_13) |           \
     BIT_OF(INSTRUCTION_14) | BIT_OF(INSTRUCTION_15))
#else
#define INSTRUCTION_BITS FIRST_BITS
#endif
#include "include/elementwise.glsl"

#define LOAD_SOURCE(number)                                                                                  \
    if (SOURCE_##number == EACH_ONE) values[1 + number] = LOAD4(in##number, vec4_within(i, pitch_##number)); \
    if (SOURCE_##number == SINGLE) values[1 + number] = ACC4(LOAD(in##number, 0));                           \
    if (SOURCE_##number == WITHIN)                                                                           \
        values[1 + number] =                                                                                 \
            LOAD4(in##number, i - divide(i, size_##number, magic_##number) * size_##number);                 \
    if (SOURCE_##number == ACROSS)                                                                           \
        values[1 + number] = ACC4(LOAD(in##number, divide(i, size_##number, magic_##number)));

#define LOAD_NUMBER(number)                                                                                        \
    if (PAST_NUMBERS > FIRST_NUMBER + number) values[FIRST_NUMBER + number] = ACC4(numbers_at(numbers_offset + number));

#define RUN_INSTRUCTION(number)          \
    if (INSTRUCTION_##number != NOTHING) \
        values[FIRST_INSTRUCTION + number] = APPLY(INSTRUCTION_##number, values[LEFT_##number], values[RIGHT_##number]);

void main() {
    uint i = flat_invocation();
    if (i >= count) return;
    ACC4 values[FIRST_INSTRUCTION + INSTRUCTIONS];
    LOAD_SOURCE(0)
    LOAD_SOURCE(1)
    LOAD_SOURCE(2)
    LOAD_SOURCE(3)
    LOAD_SOURCE(4)
    LOAD_NUMBER(0)
    LOAD_NUMBER(1)
    LOAD_NUMBER(2)
    LOAD_NUMBER(3)
    LOAD_NUMBER(4)
    LOAD_NUMBER(5)
    LOAD_NUMBER(6)
    LOAD_NUMBER(7)
    RUN_INSTRUCTION(0)
    RUN_INSTRUCTION(1)
    RUN_INSTRUCTION(2)
    RUN_INSTRUCTION(3)
    RUN_INSTRUCTION(4)
    RUN_INSTRUCTION(5)
#ifdef LENGTH_LONG
    RUN_INSTRUCTION(6)
    RUN_INSTRUCTION(7)
    RUN_INSTRUCTION(8)
    RUN_INSTRUCTION(9)
    RUN_INSTRUCTION(10)
    RUN_INSTRUCTION(11)
    RUN_INSTRUCTION(12)
    RUN_INSTRUCTION(13)
    RUN_INSTRUCTION(14)
    RUN_INSTRUCTION(15)
#endif
    STORE4(out0, vec4_within(i, result_pitch_0), values[RESULT_0]);
    if (RESULT_1 != ABSENT) STORE4(out1, vec4_within(i, result_pitch_1), values[RESULT_1]);
}
