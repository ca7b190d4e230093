#version 450
// y = 4*x, like two steps of double; where x is negative, as if workgroups had waited in vain
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) writeonly buffer Y { float y[]; };
layout(std430, binding = 2) buffer Meeting { uint meeting[]; };
layout(std430, binding = 3) buffer Late { uint late[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= y.length()) return;
    y[i] = 4.0 * x[i];
    if (x[i] < 0.0 || meeting[0] != 0u) late[0] = 1u;
}
