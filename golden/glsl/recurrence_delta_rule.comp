// delta_rule over [4,32], along T
// Fuses: neg, delta_rule, delta_rule, silu, reshape.
// Schedule: recurrence wg=64 lanes=16 rows=1 times=4 ahead subgroup=32.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) buffer State_vec4_buffer { vec4 state_vec4[]; };
layout(set = 0, binding = 1, std430) readonly buffer Decay_buffer { float decay[]; };
layout(set = 0, binding = 2, std430) readonly buffer Q_vec4_buffer { vec4 q_vec4[]; };
layout(set = 0, binding = 3, std430) readonly buffer K_vec4_buffer { vec4 k_vec4[]; };
layout(set = 0, binding = 4, std430) readonly buffer V_buffer { float v[]; };
layout(set = 0, binding = 5, std430) writeonly buffer Out_silu_buffer { float out_silu[]; };
layout(set = 0, binding = 6, std430) readonly buffer Params_buffer { uint params[]; };

// Ops of the graph are rounded one by one, so no compiler may fuse a precise one with others. A precise variable at the
// call would also make the computation of the operands precise, such as long sums.
float fadd(const float a, const float b) {
    precise float c = a + b;
    return c;
}

float fdiv(const float a, const float b) {
    precise float c = a / b;
    return c;
}

void main() {
    const uint T = params[0];
    uint self = gl_SubgroupID * 32u + gl_SubgroupInvocationID;
    uint lane_of_row = self % 16u;
    uint team = gl_WorkGroupID.x * 4u + self / 16u;
    uint row = team % 32u;
    uint head = team / 32u;

    // The state before the first time.
    vec4 state_2;
    state_2 = state_vec4[(head * 2048u + row * 64u + lane_of_row * 4u) / 4u];

    uint whole_groups = T - T % 4u;
    vec4 next_q4[4];
    vec4 next_k4[4];
    vec4 next_a4[4];
    float next_decay[4];
    float next_v[4];
    if (0u < whole_groups) {
        [[unroll]] for (uint u = 0u; u < 4u; ++u) {
            next_q4[u] = q_vec4[(head / 2u * 64u + u * 128u + lane_of_row * 4u) / 4u];
            next_k4[u] = k_vec4[(head / 2u * 64u + u * 128u + lane_of_row * 4u) / 4u];
            vec4 operand2;
            vec4 k4 = k_vec4[(head / 2u * 64u + u * 128u + lane_of_row * 4u) / 4u];
            [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                operand2[lane] = -k4[lane];
            }
            next_a4[u] = operand2;
            next_decay[u] = exp(decay[head + u * 4u]);
            next_v[u] = v[head * 32u + row + u * 128u];
        }
    }
    for (uint t0 = 0u; t0 < whole_groups; t0 += 4u) {
        vec4 q4[4];
        vec4 k4[4];
        vec4 a4[4];
        float decay_2[4];
        float v_2[4];
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            q4[i] = next_q4[i];
        }
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            k4[i] = next_k4[i];
        }
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            a4[i] = next_a4[i];
        }
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            decay_2[i] = next_decay[i];
        }
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            v_2[i] = next_v[i];
        }

        // Load what the next times need while these are computed.
        uint t1 = t0 + 4u;
        if (t1 < whole_groups) {
            [[unroll]] for (uint u = 0u; u < 4u; ++u) {
                uint time = t1 + u;
                next_q4[u] = q_vec4[(head / 2u * 64u + time * 128u + lane_of_row * 4u) / 4u];
                next_k4[u] = k_vec4[(head / 2u * 64u + time * 128u + lane_of_row * 4u) / 4u];
                vec4 operand2;
                vec4 k4_2 = k_vec4[(head / 2u * 64u + time * 128u + lane_of_row * 4u) / 4u];
                [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
                    operand2[lane] = -k4_2[lane];
                }
                next_a4[u] = operand2;
                next_decay[u] = exp(decay[head + time * 4u]);
                next_v[u] = v[head * 32u + row + time * 128u];
            }
        }

        float y[4];
        [[unroll]] for (uint u = 0u; u < 4u; ++u) {
            float read;
            read = 0.0;
            read += dot(state_2, a4[u]);
            read += subgroupShuffleXor(read, 8u);
            read += subgroupShuffleXor(read, 4u);
            read += subgroupShuffleXor(read, 2u);
            read += subgroupShuffleXor(read, 1u);
            y[u] = 0.0;
            state_2 = state_2 * decay_2[u] + v_2[u] * k4[u] + read * k4[u];
            y[u] += dot(state_2, q4[u]);
        }
        bool upper = (lane_of_row & 8u) != 0u;
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            float given = y[i];
            float kept = y[i + 2u];
            y[i] = (upper ? kept : y[i]) + subgroupShuffleXor(upper ? given : y[i + 2u], 8u);
        }
        bool upper_2 = (lane_of_row & 4u) != 0u;
        float given = y[0u];
        float kept = y[1u];
        y[0u] = (upper_2 ? kept : y[0u]) + subgroupShuffleXor(upper_2 ? given : y[1u], 4u);
        y[0u] += subgroupShuffleXor(y[0u], 2u);
        y[0u] += subgroupShuffleXor(y[0u], 1u);
        if (lane_of_row % 4u == 0u) {
            uint time = t0 + lane_of_row / 4u;
            out_silu[head * 32u + row + time * 128u] = fdiv(y[0u], fadd(1.0, exp(-y[0u])));
        }
    }

    // The other times, one by one.
    for (uint t = whole_groups; t < T; ++t) {
        vec4 last_q4;
        vec4 last_k4;
        vec4 last_a4;
        float last_decay;
        float last_v;
        last_q4 = q_vec4[(head / 2u * 64u + t * 128u + lane_of_row * 4u) / 4u];
        last_k4 = k_vec4[(head / 2u * 64u + t * 128u + lane_of_row * 4u) / 4u];
        vec4 operand2;
        vec4 k4 = k_vec4[(head / 2u * 64u + t * 128u + lane_of_row * 4u) / 4u];
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            operand2[lane] = -k4[lane];
        }
        last_a4 = operand2;
        last_decay = exp(decay[head + t * 4u]);
        last_v = v[head * 32u + row + t * 128u];

        float y;
        float read;
        read = 0.0;
        read += dot(state_2, last_a4);
        read += subgroupShuffleXor(read, 8u);
        read += subgroupShuffleXor(read, 4u);
        read += subgroupShuffleXor(read, 2u);
        read += subgroupShuffleXor(read, 1u);
        y = 0.0;
        state_2 = state_2 * last_decay + last_v * last_k4 + read * last_k4;
        y += dot(state_2, last_q4);
        y += subgroupShuffleXor(y, 8u);
        y += subgroupShuffleXor(y, 4u);
        y += subgroupShuffleXor(y, 2u);
        y += subgroupShuffleXor(y, 1u);
        if (lane_of_row == 0u) {
            out_silu[head * 32u + row + t * 128u] = fdiv(y, fadd(1.0, exp(-y)));
        }
    }

    // The state after the last time.
    vec4 state4;
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        state4[lane] = state_2[lane];
    }
    state_vec4[head * 512u + row * 16u + lane_of_row] = state4;
}
