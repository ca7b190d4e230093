#version 450
// out = in
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer In { uint src[]; };
layout(std430, binding = 1) writeonly buffer Out { uint dst[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < src.length() && i < dst.length()) dst[i] = src[i];
}
