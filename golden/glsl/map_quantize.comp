// div_round_cast over [1001]
// Fuses: div, round, cast.
// Schedule: map wg=64 vec=1.
#version 430
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_8bit_storage : require

// Keep signed zeros, infinities and NaN: SignedZeroInfNanPreserve.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);

layout(local_size_x = 64) in;

layout(set = 0, binding = 0, std430) readonly buffer X_buffer { float x[]; };
layout(set = 0, binding = 1, std430) readonly buffer Scale_buffer { float scale[]; };
layout(set = 0, binding = 2, std430) writeonly buffer Result_buffer { int8_t result[]; }; // i8

// a / b for all divisors. Vulkan defines division for divisors up to 2^126; beyond that, some devices multiply by a
// reciprocal that is flushed to 0.
float div_full(float a, float b) {
    float scale = abs(b) > 8.507059e37 ? 0.25 : 1.0;
    precise float quotient = a * scale / (b * scale);
    return quotient;
}

// The float nearest to a / b. Vulkan allows a quotient to be off by 2.5 units in the last place. So this function
// corrects the quotient of the significands, which is from 1 to 2, by up to two units. Its remainder fits 32 bits,
// although the parts do not, and twice the remainder never equals the divisor. div_full divides zeros, infinities, NaN
// and subnormal numbers, and all numbers with a subnormal quotient.
float div_nearest(float a, float b) {
    uint size_a = floatBitsToUint(a) & 0x7fffffffu, size_b = floatBitsToUint(b) & 0x7fffffffu;
    uint x = size_a & 0x7fffffu | 0x800000u, y = size_b & 0x7fffffu | 0x800000u;
    int exponent = int(size_a >> 23) - int(size_b >> 23) + 127;
    if (x < y) {
        x <<= 1;
        --exponent;
    }
    if (max(size_a - 0x800000u, size_b - 0x800000u) >= 0x7f000000u || exponent < 1) return div_full(a, b);
    uint quotient = uint(max(float(x) / float(y), 1.0) * 8388608.0);
    int twice = int((x << 23) - quotient * y) * 2, by = int(y);
    quotient += uint(twice > by) + uint(twice > 3 * by) - uint(twice < -by) - uint(twice < -3 * by);
    uint bits = min((uint(exponent - 1) << 23) + quotient, 0x7f800000u);
    return uintBitsToFloat((floatBitsToUint(a) ^ floatBitsToUint(b)) & 0x80000000u | bits);
}

// Truncates and saturates; NaN gives 0.
int float_to_i8(float x) {
    return isnan(x) ? 0 : int(clamp(x, -128.0, 127.0));
}

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= 1001u) return;
    result[i] = int8_t(float_to_i8(roundEven(div_nearest(x[i], scale[0u]))));
}
