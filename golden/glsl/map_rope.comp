// rope over [T,3,48]
// Fuses: rope.
// Schedule: map wg=256 vec=4 coarsen=2.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer Q_buffer { float16_t q[]; }; // f16
layout(set = 0, binding = 0, std430) readonly buffer Q_vec4_buffer { f16vec4 q_vec4[]; }; // f16
layout(set = 0, binding = 1, std430) readonly buffer Positions_buffer { int positions[]; };
layout(set = 0, binding = 2, std430) readonly buffer Const_data_buffer { uint const_data[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_vec4_buffer { f16vec4 result_vec4[]; }; // f16
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

// Ops of the graph are rounded one by one, so no compiler may fuse a precise one with others. A precise variable at the
// call would also make the computation of the operands precise, such as long sums.
float fadd(const float a, const float b) {
    precise float c = a + b;
    return c;
}

float fmul(const float a, const float b) {
    precise float c = a * b;
    return c;
}

// The sine on [-pi/4, pi/4] (Moshier, Cephes sinf.c).
float sin_reduced(float x) {
    float z = x * x;
    return ((-1.9515296e-4 * z + 8.332161e-3) * z - 0.16666655) * z * x + x;
}

// The cosine on [-pi/4, pi/4] (Moshier, Cephes sinf.c).
float cos_reduced(float x) {
    float z = x * x;
    return ((2.4433157e-5 * z - 1.3887316e-3) * z + 4.1666646e-2) * z * z - 0.5 * z + 1.0;
}

// A number that a conversion has rounded. Some drivers remove a conversion and the conversion back, but they do not
// remove halving and doubling. For the smallest numbers halving would lose a digit.
float converted(const float x) {
    precise float by_half = x * 0.5;
    precise float doubled = by_half * 2.0;
    return abs(x) < 4.7019774e-38 ? x : doubled;
}

// Truncates and saturates; NaN gives 0. It has no branches, so that a compiler recognizes two equal calls.
int float_to_i32(float x) {
    int whole = int(abs(x) < 2147483648.0 ? x : 0.0);
    int limited = x >= 2147483648.0 ? 0x7fffffff : whole;
    return x <= -2147483648.0 ? -0x7fffffff - 1 : limited;
}

void main() {
    const uint T = params[0];
    uint id = gl_GlobalInvocationID.x;
    if (id >= T * 36u) return;
    uint col4 = id % 12u;
    uint row = id / 12u % 3u;
    uint batch = id / 36u;
    float kept_turn_cos[4];
    float kept_partner_sin[4];
    int positions_batch = positions[batch];
    uint positions_u32 = uint(positions_batch);
    float positions_f32 = converted(float(positions_batch));
    [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
        uint col_quotient = col4 * 2u + lane / 2u;
        float product = fmul(positions_f32, converted(float(const_data[col_quotient * 2u + 1u])));
        uint turn = positions_u32 * const_data[col_quotient * 2u] + uint(float_to_i32(fmul(product, 2.3283064e-10)));
        uint quadrant = turn + 536870912u >> 30u;
        bool odd_quadrant = (quadrant & 1u) != 0u;
        float angle = fmul(converted(float(int(turn << 2u))), 3.6572953e-10);
        float sine = sin_reduced(angle);
        float cosine = cos_reduced(angle);
        float cos_size = odd_quadrant ? sine : cosine;
        float sin_size = odd_quadrant ? cosine : sine;
        float turn_sin = (quadrant & 2u) != 0u ? -sin_size : sin_size;
        kept_turn_cos[lane] = (quadrant + 1u & 2u) != 0u ? -cos_size : cos_size;
        kept_partner_sin[lane] = int(lane % 2u) != 0 ? turn_sin : -turn_sin;
    }
    [[unroll]] for (uint point = 0u; point < 2u; ++point) {
        vec4 q4 = vec4(q_vec4[batch * 72u + row * 24u + col4 + point * 12u]);
        vec4 result4;
        [[unroll]] for (uint lane = 0u; lane < 4u; ++lane) {
            float q_point = float(q[(col4 * 2u + lane / 2u) * 2u + batch * 288u + row * 96u + point * 48u + 1u - lane % 2u]);
            result4[lane] = fadd(fmul(q4[lane], kept_turn_cos[lane]), fmul(q_point, kept_partner_sin[lane]));
        }
        result_vec4[batch * 72u + row * 24u + col4 + point * 12u] = f16vec4(result4);
    }
}
