// sum over [65536], folding 100
// Fuses: sum.
// Schedule: row_serial wg=64 vec=1 cache=0.
#version 430
#extension GL_EXT_spirv_intrinsics : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer X_buffer { float x[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Result_buffer { float result[]; };

// Adds x to a sum, and the rounding error of the addition to lost (Knuth, TwoSum).
void sum_exactly(inout float sum, inout float lost, float x) {
    precise float total = sum + x;
    precise float part = total - sum;
    precise float error = (sum - (total - part)) + (x - part);
    sum = total;
    lost += error;
}

// A sum plus its rounding error lost. lost is NaN if the sum is infinite.
float sum_with(float sum, float lost) {
    return isinf(sum) ? sum : sum + lost;
}

void main() {
    uint row = gl_GlobalInvocationID.x;

    // row_sum: sum over the row.
    float row_sum = 0.0;
    float row_sum_lost = 0.0;
    for (uint j = 0u; j < 100u; ++j) {
        sum_exactly(row_sum, row_sum_lost, x[row + j * 65536u]);
    }
    row_sum = sum_with(row_sum, row_sum_lost);
    result[row] = row_sum;
}
