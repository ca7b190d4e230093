// sum over [65536], folding 100
// Fuses: sum.
// Schedule: row_serial wg=64.
#version 450
#extension GL_EXT_spirv_intrinsics : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer X_buffer { float x[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Result_buffer { float result[]; };

void main() {
    uint row = gl_GlobalInvocationID.x;

    // row_sum: sum over the row.
    float row_sum = 0.0;
    for (uint j = 0u; j < 100u; ++j) {
        row_sum += x[row + j * 65536u];
    }
    result[row] = row_sum;
}
