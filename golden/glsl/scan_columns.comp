// cumsum over [1000], along 100
// Fuses: cumsum.
// Schedule: scan_serial wg=64 vec=1.
#version 430
#extension GL_EXT_spirv_intrinsics : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer X_buffer { float x[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Result_buffer { float result[]; };

void main() {
    uint row = gl_GlobalInvocationID.x;
    if (row >= 1000u) return;

    // running_sum: the sum up to each element.
    float running_sum = 0.0;
    for (uint j = 0u; j < 100u; ++j) {
        running_sum += x[row + j * 1000u];
        result[row + j * 1000u] = running_sum;
    }
}
