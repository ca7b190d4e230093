// matmul over [512,4096], folding 4100
// Fuses: matmul.
// Schedule: coopmat2 wg=256 tile=128x128x128 hidden.
#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_8bit_storage : require

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer A_buffer { uint8_t a[]; }; // u8
layout(set = 0, binding = 1, std430) readonly buffer B_buffer { uint8_t b[]; }; // u8
layout(set = 0, binding = 2, std430) writeonly buffer Result_buffer { int result[]; };

void main() {
    uint col0 = gl_WorkGroupID.x * 128u;
    uint row0 = gl_WorkGroupID.y * 128u;
    tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV> layout_a = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
    layout_a = setTensorLayoutDimensionNV(layout_a, 512u, 4100u);
    tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV> layout_b = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
    layout_b = setTensorLayoutDimensionNV(layout_b, 4096u, 4100u);
    coopmat<uint, gl_ScopeWorkgroup, 128, 128, gl_MatrixUseAccumulator> acc = coopmat<uint, gl_ScopeWorkgroup, 128, 128, gl_MatrixUseAccumulator>(0);

    // The number of steps is hidden from the compiler, which would unroll them by 8 and run out of registers.
    uint depth = gl_NumWorkGroups.x > 0u ? 4100u : 0u;
    for (uint k0 = 0u; k0 < depth; k0 += 128u) {
        coopmat<uint8_t, gl_ScopeWorkgroup, 128, 128, gl_MatrixUseA> tile_a;
        coopMatLoadTensorNV(tile_a, a, 0u, sliceTensorLayoutNV(layout_a, row0, 128u, k0, 128u));
        coopmat<uint8_t, gl_ScopeWorkgroup, 128, 128, gl_MatrixUseB> tile_b;
        coopMatLoadTensorNV(tile_b, b, 0u, sliceTensorLayoutNV(layout_b, col0, 128u, k0, 128u), createTensorViewNV(2, false, 1, 0));
        acc = coopMatMulAdd(tile_a, tile_b, acc);
    }

    // Store a tile of out.
    tensorLayoutNV<2, gl_CooperativeMatrixClampModeUndefinedNV> layout_out = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeUndefinedNV);
    layout_out = setTensorLayoutDimensionNV(layout_out, 512u, 4096u);
    coopMatStoreTensorNV(acc, result, 0u, sliceTensorLayoutNV(layout_out, row0, 128u, col0, 128u));
}
