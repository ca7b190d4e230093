// matmul over [T,4096], folding 4096
// Fuses: matmul.
// Schedule: coopmat2 wg=128 tile=128x128x64.
#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_16bit_storage : require

layout(local_size_x = 128) in;

layout(set = 0, binding = 0, std430) readonly buffer A_buffer { float16_t a[]; }; // f16
layout(set = 0, binding = 1, std430) readonly buffer B_buffer { float16_t b[]; }; // f16
layout(set = 0, binding = 2, std430) readonly buffer Bias_buffer { float bias[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Result_buffer { float16_t result[]; }; // f16
layout(set = 0, binding = 4, std430) readonly buffer Params_buffer { uint params[]; };

// Ops of the graph are rounded one by one, so no compiler may fuse a precise one with others. A precise variable at the
// call would also make the computation of the operands precise, such as long sums.
float fadd(const float a, const float b) {
    precise float c = a + b;
    return c;
}

float finish_out(const in uint tile_row, const in uint tile_col, const in float acc, const in uint row0, const in uint col0) {
    const uint T = params[0];
    uint row = row0 + tile_row;
    uint col = col0 + tile_col;
    if (!(row < T)) return acc;
    return fadd(acc, bias[col]);
}

void main() {
    const uint T = params[0];
    uint col0 = gl_WorkGroupID.x * 128u;
    uint row0 = gl_WorkGroupID.y * 128u;
    tensorLayoutNV<2, gl_CooperativeMatrixClampModeUndefinedNV> layout_a = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeUndefinedNV);
    layout_a = setTensorLayoutDimensionNV(layout_a, 2048u, 4096u);
    tensorLayoutNV<2, gl_CooperativeMatrixClampModeUndefinedNV> layout_b = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeUndefinedNV);
    layout_b = setTensorLayoutDimensionNV(layout_b, 4096u, 4096u);
    coopmat<float, gl_ScopeWorkgroup, 128, 128, gl_MatrixUseAccumulator> acc = coopmat<float, gl_ScopeWorkgroup, 128, 128, gl_MatrixUseAccumulator>(0.0);

    for (uint k0 = 0u; k0 < 4096u; k0 += 64u) {
        coopmat<float16_t, gl_ScopeWorkgroup, 128, 64, gl_MatrixUseA> tile_a;
        coopMatLoadTensorNV(tile_a, a, 0u, sliceTensorLayoutNV(layout_a, row0, 128u, k0, 64u));
        coopmat<float16_t, gl_ScopeWorkgroup, 64, 128, gl_MatrixUseB> tile_b;
        coopMatLoadTensorNV(tile_b, b, 0u, sliceTensorLayoutNV(layout_b, col0, 128u, k0, 64u), createTensorViewNV(2, false, 1, 0));
        acc = coopMatMulAdd(tile_a, tile_b, acc);
    }

    // Store a tile of out.
    coopmat<float, gl_ScopeWorkgroup, 128, 128, gl_MatrixUseAccumulator> out_tile;
    coopMatPerElementNV(out_tile, acc, finish_out, row0, col0);
    tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV> layout_out = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
    layout_out = setTensorLayoutDimensionNV(layout_out, T, 4096u);
    coopMatStoreTensorNV(coopmat<float16_t, gl_ScopeWorkgroup, 128, 128, gl_MatrixUseAccumulator>(out_tile), result, 0u, sliceTensorLayoutNV(layout_out, row0, 128u, col0, 128u));
}
