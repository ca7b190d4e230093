#version 450
// dst[r,c] = src[r,c] + rows for the rows there are this time, 8 elements each
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Params { uint other, rows; };
layout(std430, binding = 1) readonly buffer Src { float src[]; };
layout(std430, binding = 2) writeonly buffer Dst { float dst[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < 8 * rows) dst[i] = src[i] + float(rows);
}
