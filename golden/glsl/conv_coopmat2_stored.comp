// conv_relu over [25934,256], folding 2304
// Fuses: conv, relu.
// Schedule: coopmat2 wg=256 tile=128x256x32 unroll=36.
#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer X_stored_buffer { float16_t x_stored[]; }; // f16
layout(set = 0, binding = 1, std430) readonly buffer W_stored_buffer { float16_t w_stored[]; }; // f16
layout(set = 0, binding = 2, std430) writeonly buffer Result_buffer { float16_t result[]; }; // f16

// The larger number; NaN if either is NaN.
float nan_max(float a, float b) {
    return isnan(b) || a <= b ? b : a;
}

// Rounds to the nearest f16, ties to even. It is computed in integers, because compilers replace unpackHalf2x16 of
// packHalf2x16 by its argument.
float round_f16(float x) {
    uint bits = floatBitsToUint(x), size = bits & 0x7fffffffu;
    // Below 2^-14 an f16 is a multiple of 2^-24, as an f32 near 0.5 is.
    precise float small = (uintBitsToFloat(size) + 0.5) - 0.5;
    uint rounded = size + 0xfffu + (size >> 13 & 1u) & 0xffffe000u;
    rounded = mix(rounded, floatBitsToUint(small), size < 0x38800000u);
    rounded = mix(rounded, max(size, 0x7f800000u), rounded >= 0x47800000u); // 2^16: infinite, or NaN as it is
    return uintBitsToFloat(bits & 0x80000000u | rounded);
}

float store_elements(const in uint tile_row, const in uint tile_col, const in float acc, const in uint row0) {
    uint row = row0 + tile_row;
    if (!(row < 25934u)) return acc;
    if (!(int(row / 57u % 57u) < 56 && int(row % 57u) < 56)) return acc;
    uint row_quotient = row / 57u;
    result[row_quotient / 57u * 802816u + tile_col * 3136u + min(row_quotient % 57u, 55u) * 56u + min(row % 57u, 55u)] = float16_t(nan_max(round_f16(acc), 0.0));
    return acc;
}

void main() {
    uint row0 = gl_WorkGroupID.y * 128u;
    tensorLayoutNV<2, gl_CooperativeMatrixClampModeUndefinedNV> layout_a = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeUndefinedNV);
    layout_a = setTensorLayoutDimensionNV(layout_a, 25984u, 32u);
    layout_a = setTensorLayoutStrideNV(layout_a, 256u, 1u);
    tensorLayoutNV<2, gl_CooperativeMatrixClampModeUndefinedNV> layout_b = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeUndefinedNV);
    layout_b = setTensorLayoutDimensionNV(layout_b, 2304u, 256u);
    coopmat<float, gl_ScopeWorkgroup, 128, 256, gl_MatrixUseAccumulator> acc = coopmat<float, gl_ScopeWorkgroup, 128, 256, gl_MatrixUseAccumulator>(0.0);

    [[dont_unroll]] for (uint first = 0u; first < 2304u; first += 1152u) {
        [[unroll]] for (uint n = 0u; n < 36u; ++n) {
            uint k0 = first + n * 32u;
            coopmat<float16_t, gl_ScopeWorkgroup, 128, 32, gl_MatrixUseA> tile_a;
            coopMatLoadTensorNV(tile_a, x_stored, k0 % 768u + k0 / 768u * 14592u, sliceTensorLayoutNV(layout_a, row0, 128u, 0u, 32u));
            coopmat<float16_t, gl_ScopeWorkgroup, 32, 256, gl_MatrixUseB> tile_b;
            coopMatLoadTensorNV(tile_b, w_stored, 0u, sliceTensorLayoutNV(layout_b, k0, 32u, 0u, 256u));
            acc = coopMatMulAdd(tile_a, tile_b, acc);
        }
    }

    // Store element by element.
    coopmat<float, gl_ScopeWorkgroup, 128, 256, gl_MatrixUseAccumulator> stored;
    coopMatPerElementNV(stored, acc, store_elements, row0);
}
