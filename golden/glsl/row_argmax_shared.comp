// argmax over [7], folding 32000
// Fuses: argmax.
// Schedule: row_group wg=1024 lanes=1024 cache=0 vec=4.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 1024) in;

layout(set = 0, binding = 0, std430) readonly buffer Logits_vec4_buffer { f16vec4 logits_vec4[]; }; // f16
layout(set = 0, binding = 1, std430) writeonly buffer Result_buffer { int result[]; };

shared float lanes[1024];
shared int place_lanes[1024];

#define INF uintBitsToFloat(0x7f800000u)

// Whether a at place i comes before b at place j. NaN is largest; the first of equal numbers comes first.
bool argmax_beats(float a, int i, float b, int j) {
    if (isnan(a)) return !isnan(b) || i < j;
    return a > b || a == b && i < j;
}

void main() {
    uint local = gl_LocalInvocationID.x;
    uint row = gl_WorkGroupID.x;

    // row_argmax: place of the maximum over the row.
    float row_argmax_value = -INF;
    int row_argmax = 0x7fffffff;
    for (uint j4 = local; j4 < 8000u; j4 += 1024u) {
        vec4 logits4 = vec4(logits_vec4[row * 8000u + j4]);
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            uint j = j4 * 4u + lane;
            float candidate = logits4[lane];
            if (argmax_beats(candidate, int(j), row_argmax_value, row_argmax)) {
                row_argmax_value = candidate;
                row_argmax = int(j);
            }
        }
    }
    lanes[local] = row_argmax_value;
    place_lanes[local] = row_argmax;
    barrier();
    for (uint half_row = 512u; half_row > 0u; half_row >>= 1u) {
        if (local < half_row) {
            if (argmax_beats(lanes[local + half_row], place_lanes[local + half_row], row_argmax_value, row_argmax)) {
                row_argmax_value = lanes[local + half_row];
                row_argmax = place_lanes[local + half_row];
            }
            place_lanes[local] = row_argmax;
            lanes[local] = row_argmax_value;
        }
        barrier();
    }
    row_argmax_value = lanes[0u];
    row_argmax = place_lanes[0u];
    if (local == 0u) {
        result[row] = row_argmax;
    }
}
