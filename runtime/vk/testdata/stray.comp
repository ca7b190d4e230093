#version 450
// dst[i] = 2 * src[i] for the 100 elements there are, and dst[src[0]] = 0, wherever that is
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Src { float src[]; };
layout(std430, binding = 1) writeonly buffer Dst { float dst[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < 100u) dst[i] = 2.0 * src[i];
    if (i == 0u) dst[uint(src[0])] = 0.0;
}
