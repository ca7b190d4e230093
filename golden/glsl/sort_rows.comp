// argsort_gather over [300], along N
// Fuses: argsort, gather.
// Schedule: sort wg=512 lanes=512.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_16bit_storage : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 512) in;

layout(set = 0, binding = 0, std430) readonly buffer X_buffer { float16_t x[]; }; // f16
layout(set = 0, binding = 1, std430) writeonly buffer Result_buffer { float16_t result[]; }; // f16
layout(set = 0, binding = 2, std430) readonly buffer Params_buffer { uint params[]; };

shared uint keys[1024];
shared uint order[1024];

// An integer with the order of floats: -0 equals 0, and NaN is after all others.
uint float_order(float x) {
    uint bits = floatBitsToUint(x), magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return 0xffffffffu;
    return magnitude == 0u || bits == magnitude ? magnitude | 0x80000000u : ~bits;
}

void main() {
    const uint N = params[0];
    uint local = gl_LocalInvocationID.x;
    uint row = gl_WorkGroupID.x;

    // The keys of the row.
    for (uint j = local; j < 1024u; j += 512u) {
        uint key = 0xffffffffu;
        if (j < N) {
            key = ~float_order(float(x[row * N + j]));
        }
        keys[j] = key;
        order[j] = j;
    }
    barrier();

    // Sort runs of growing size.
    for (uint size = 2u; size <= 1024u; size <<= 1u) {
        for (uint distance = size >> 1u; distance > 0u; distance >>= 1u) {
            for (uint pair = local; pair < 512u; pair += 512u) {
                uint a = 2u * pair - (pair & distance - 1u), b = a + distance;
                uint key_a = keys[a], key_b = keys[b], from_a = order[a], from_b = order[b];
                bool later = key_a > key_b || key_a == key_b && from_a > from_b;
                if (later == ((a & size) == 0u)) {
                    keys[a] = key_b;
                    keys[b] = key_a;
                    order[a] = from_b;
                    order[b] = from_a;
                }
            }
            barrier();
        }
    }

    // Store each place of the order.
    for (uint place = local; place < N; place += 512u) {
        int from = int(order[place]);
        result[row * N + place] = float16_t(float(x[row * N + uint(max(min(from, int(N) - 1), 0))]));
    }
}
