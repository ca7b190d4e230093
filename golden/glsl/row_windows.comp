// conv_relu over [16,240,1,80], folding 25
// Fuses: conv, relu.
// Schedule: row_windows wg=128 windows=12.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_control_flow_attributes : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer X_buffer { float x[]; };
layout(set = 0, binding = 1, std430) readonly buffer Weight_buffer { float weight[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Result_buffer { float result[]; };

// The larger number; NaN if either is NaN.
float nan_max(float a, float b) {
    return isnan(b) || a <= b ? b : a;
}

void main() {
    uint id = gl_GlobalInvocationID.x;
    uint row = id % 80u;
    uint axis1 = id / 80u % 240u;
    uint axis0 = id / 19200u;

    // window_sum: sum over the row, of 12 rows that overlap.
    float window_sum[12];
    [[unroll]] for (uint row_of_block = 0u; row_of_block < 12u; ++row_of_block) {
        window_sum[row_of_block] = 0.0;
    }
    for (uint rest = 0u; rest < 5u; ++rest) {
        float kept_choice[16];
        bool both = int(row + rest - 2u) >= 0 && int(row + rest - 2u) < 80;
        [[unroll]] for (uint place = 0u; place < 16u; ++place) {
            float x_row = x[axis0 * 230400u + axis1 * 960u + uint(clamp(int(row) + int(rest) - 2, 0, 79)) + uint(clamp(int(place) - 2, 0, 11)) * 80u];
            kept_choice[place] = int(place - 2u) >= 0 && int(place - 2u) < 12 && both ? x_row : 0.0;
        }
        [[unroll]] for (uint tap = 0u; tap < 5u; ++tap) {
            float weight_tap = weight[axis1 * 25u + tap * 5u + rest];
            [[unroll]] for (uint row_of_block = 0u; row_of_block < 12u; ++row_of_block) {
                window_sum[row_of_block] += kept_choice[row_of_block + tap] * weight_tap;
            }
        }
    }

    [[unroll]] for (uint row_of_block = 0u; row_of_block < 12u; ++row_of_block) {
        result[axis0 * 230400u + axis1 * 960u + row + row_of_block * 80u] = nan_max(window_sum[row_of_block], 0.0);
    }
}
