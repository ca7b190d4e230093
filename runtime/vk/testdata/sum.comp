#version 450
// Each workgroup writes the sum of its 256 inputs, times the constant 0 and without atomics.
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint factor = 1;
layout(std430, binding = 0) readonly buffer In { uint src[]; };
layout(std430, binding = 1) writeonly buffer Out { uint dst[]; };
shared uint part[256];
void main() {
    uint i = gl_GlobalInvocationID.x, t = gl_LocalInvocationID.x;
    part[t] = i < src.length() ? src[i] : 0;
    for (uint n = 128; n > 0; n /= 2) {
        barrier();
        if (t < n) part[t] += part[t + n];
    }
    if (t == 0) dst[gl_WorkGroupID.x] = factor * part[0];
}
